"""A collector under load whose metrics backend is broken in each way: spans are taken as before, memory stays bounded."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from inline_snapshot import snapshot

from otel_agentic.testing import speak_genai
from tests.builders import CASE, ask_hotel, rows
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import eventually, live_settings, running
from tests.snapshots import passage
from tests.telemetry.receiver.over_http import http_receiver

_CONVERSATIONS = 6
_MOST_GROWN_BYTES = 150_000_000
_OTHERS = ("endless", "down", "error", "huge", "redirect", "nonsense")
SCORED = "SELECT count(*) FROM conversation_scores WHERE NOT superseded"


#: How a backend is broken; the exporter meets each of these in `test_telemetry_faults.py`, so most are slow tests here.
_BROKEN = ["hang", *(pytest.param(way, marks=pytest.mark.slow) for way in _OTHERS)]


@pytest.fixture(params=_BROKEN)
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a backend that is broken."""
    if request.param == "down":
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        yield f"http://127.0.0.1:{port}"
        return
    with http_receiver(request.param) as server:
        yield server.endpoint


def test_a_broken_backend_holds_up_no_span_and_takes_no_memory(tmp_path: Path, endpoint: str) -> None:
    emit = {"endpoint": endpoint, "interval_s": 0.1, "timeout_s": 0.5}
    with running(live_settings(tmp_path / "t.duckdb", emit=emit), cases=[("cases.jsonl", CASE)]) as (live, server):
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sent = 0
        for number in range(_CONVERSATIONS):
            spans = speak_genai(ask_hotel(f"c{number}"), start_ns=just_now()).spans
            export(server, spans)  # which fails unless it is acknowledged
            sent += len(spans)

        eventually(lambda: rows(live.engine, SCORED), [(_CONVERSATIONS,)])
        metrics = httpx.get(f"{server.admin}/metrics").text
        grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) * 1024

        assert [(sent,)] == rows(live.engine, "SELECT count(*) FROM spans")
        assert passage(metrics, sent=f"{sent:.1f}") == snapshot(
            'agentic_ingest_spans_total{agentic_result="accepted"} <sent>'
        )
        assert grown_bytes < _MOST_GROWN_BYTES
