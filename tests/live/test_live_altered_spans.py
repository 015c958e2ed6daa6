"""Repairs, cuts and redactions inside kept spans are counted by reason and shown to the operator."""

from __future__ import annotations

from pathlib import Path

import httpx
from inline_snapshot import snapshot

from tests.cli.running import on_terminal
from tests.live.running_collector import OPEN, live_settings, running
from tests.snapshots import passage

BODY = (
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s","name":"x","attributes":['
    b'{"key":"odd","value":{"doubleValue":"NaN"}},'
    b'{"key":"text","value":{"stringValue":"my key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"}}]}]}]}]}'
) % (b"ab" * 16, b"cd" * 8)
NUMBER, KEY = "number that is NaN, infinite or beyond 64 bits kept as text", "credential redacted: openai_key"


def test_altered_spans_are_counted_by_reason(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with running(live_settings(db, **OPEN)) as (live, addresses):
        answer = httpx.post(f"{addresses.http}/v1/traces", content=BODY, headers={"content-type": "application/json"})
        assert httpx.codes.OK == answer.status_code
        altered = live.run("live", {})["collector"]["altered"]
        reported = " ".join(on_terminal(200, "doctor", "--live", "--db", str(db)))
    assert (1, 1) == (altered[NUMBER], altered[KEY])
    assert passage(reported, key=KEY, number=NUMBER) == snapshot(
        "repaired, truncated or redacted in received data: 1 x <key>, 1 x <number>"
    )
