"""What was mended, cut or redacted inside spans that are kept is counted by reason, and an operator is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
from inline_snapshot import snapshot

from tests.cli.running import on_terminal
from tests.pipeline.running import OPEN, live_settings, running
from tests.snapshots import passage

if TYPE_CHECKING:
    from pathlib import Path

BODY = (
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s","name":"x","attributes":['
    b'{"key":"odd","value":{"doubleValue":"NaN"}},'
    b'{"key":"text","value":{"stringValue":"my key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"}}]}]}]}]}'
) % (b"ab" * 16, b"cd" * 8)
NUMBER, KEY = "number that is NaN, infinite or beyond 64 bits kept as text", "credential redacted: openai_key"


def test_what_was_altered_is_told_by_reason(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with running(live_settings(db, **OPEN)) as (live, found):
        answer = httpx.post(f"{found.http}/v1/traces", content=BODY, headers={"content-type": "application/json"})
        assert httpx.codes.OK == answer.status_code
        altered = live.run("live", {})["collector"]["altered"]
        told = " ".join(on_terminal(200, "doctor", "--live", "--db", str(db)))
    assert (1, 1) == (altered[NUMBER], altered[KEY])
    assert passage(told, key=KEY, number=NUMBER) == snapshot("mended, cut or redacted: 1 x <key>, 1 x <number>")
