"""Every secret in every place, every way in: none of them on the disk, in logs, metrics, events or a judge's prompts."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from tests.builders import rows
from tests.pipeline.redacting import CASE, Heard, files_under, hits, tell
from tests.pipeline.running import ask, eventually, live_settings, running
from tests.spans.secrets_made_up import ALL
from tests.telemetry.receiver.over_http import http_receiver

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SCORED = "SELECT count(*) FROM conversation_scores WHERE NOT superseded AND case_id IS NOT NULL"


def everything_said(folder: Path, caplog: pytest.LogCaptureFixture, redaction: dict[str, Any]) -> dict[str, str]:
    """Return what a collector wrote, sent, asked and said, by where."""
    heard = Heard()
    with http_receiver() as backend, caplog.at_level(logging.DEBUG):
        settings = live_settings(
            folder / "t.duckdb",
            redaction=redaction,
            emit={"endpoint": backend.endpoint, "interval_s": 0.2, "explanations": True},
            retention={"export": True, "every_s": 600},
        )
        with running(settings, cases=[("cases.jsonl", json.dumps(CASE))]) as (live, found):
            live.engine.evaluating.judge = heard.judge()
            refused = tell(live, found)
            eventually(lambda: rows(live.engine, SCORED), [(2,)])
            live.retention_loop.round()
            said = {
                "conversations": json.dumps(ask(settings, "conversations_list")),
                "cases": json.dumps(ask(settings, "truth_export")),
                "metrics": live.metrics()[1].decode(),
                "refusals": refused,
                "wal": (folder / "t.duckdb.wal").read_bytes().decode("latin-1"),
            }
    return {
        **said,
        **dict(files_under(folder)),
        # Not those of the test's own HTTP client, which tells what it fetches.
        "logs": "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http")),
        "judge": repr(heard.questions),
        "sent": repr(backend.received.metrics) + repr(backend.received.logs),
    }


def test_no_secret_is_written_sent_asked_or_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = everything_said(tmp_path, caplog, ALL)
    assert {} == hits(said)
    assert "[redacted:openai_key:" in said["judge"]
    assert any(name.endswith("unpacked") and "[redacted:" in text for name, text in said.items())
    assert "[redacted:" in said["t.duckdb: spans"]


def test_without_redaction_the_same_search_finds_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = hits(everything_said(tmp_path, caplog, {"credentials": False}))
    assert {"judge", "sent", "cases", "conversations", "wal", "t.duckdb: spans", "t.duckdb: cases"} <= shown.keys()
    assert any(name.endswith("unpacked") for name in shown)
