"""Every secret in every place, every way in: none of them on the disk, in logs, metrics, events or a judge's prompts."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.builders import rows
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.live.secrets_everywhere import CASE, RecordedQuestions, files_under, secrets_shown, tell
from tests.spans.secrets_made_up import ALL
from tests.telemetry.receiver.over_http import http_receiver

SCORED = "SELECT count(*) FROM conversation_scores WHERE NOT superseded AND case_id IS NOT NULL"


def outputs_of(folder: Path, caplog: pytest.LogCaptureFixture, redaction: dict[str, Any]) -> dict[str, str]:
    """Return everything that a collector stored, sent, asked and logged, by destination."""
    questions = RecordedQuestions()
    with http_receiver() as backend, caplog.at_level(logging.DEBUG):
        settings = live_settings(
            folder / "t.duckdb",
            redaction=redaction,
            emit={"endpoint": backend.endpoint, "interval_s": 0.2, "explanations": True},
            retention={"export": True, "every_s": 600},
        )
        with running(settings, cases=[("cases.jsonl", json.dumps(CASE))]) as (live, addresses):
            live.engine.runner.judge = questions.judge()
            refused = tell(live, addresses)
            eventually(lambda: rows(live.engine, SCORED), [(2,)])
            live.retention_loop.round()
            reply = {
                "conversations": json.dumps(ask(settings, "conversations_list")),
                "cases": json.dumps(ask(settings, "truth_export")),
                "metrics": live.metrics()[1].decode(),
                "refusals": refused,
                "wal": (folder / "t.duckdb.wal").read_bytes().decode("latin-1"),
            }
    return {
        **reply,
        **dict(files_under(folder)),
        # Not those of the test's own HTTP client, which logs its requests.
        "logs": "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http")),
        "judge": repr(questions.questions),
        "sent": repr(backend.received.metrics) + repr(backend.received.logs),
    }


def test_no_secret_is_stored_sent_asked_or_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reply = outputs_of(tmp_path, caplog, ALL)
    assert {} == secrets_shown(reply)
    assert "[redacted:openai_key:" in reply["judge"]
    assert any(name.endswith("unpacked") and "[redacted:" in text for name, text in reply.items())
    assert "[redacted:" in reply["t.duckdb: spans"]


@pytest.mark.slow
def test_without_redaction_the_same_search_finds_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    displayed = secrets_shown(outputs_of(tmp_path, caplog, {"credentials": False}))
    assert {"judge", "sent", "cases", "conversations", "wal", "t.duckdb: spans", "t.duckdb: cases"} <= displayed.keys()
    assert any(name.endswith("unpacked") for name in displayed)
