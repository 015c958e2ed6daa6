"""The real exporters for JavaScript against a collector with a store: all arrives, whole, and is stored once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collectors.otlp_http import OtlpHttpCollector
from otel_agentic.config import ReceiveSettings, Settings
from otel_agentic.errors import OverloadedError
from otel_agentic.spans import Receipt, SpanBatch
from tests.clients.installing import JsClient, stored_logs, stored_spans
from tests.live.running_collector import live_settings, running

if TYPE_CHECKING:
    from otel_agentic.net.server_file import LiveServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROTOCOLS = ("http/json", "http/protobuf", "grpc")
TURNS = 3


def endpoint(server: LiveServer, protocol: str) -> str:
    address = server.grpc if protocol == "grpc" else server.http
    assert address is not None
    return address


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_spans_and_log_records_are_stored_whole_and_once(
    js: JsClient, settings: Settings, protocol: str, compression: str
) -> None:
    with running(settings) as (live, server):
        assert js.send(protocol, endpoint(server, protocol), compression, turns=TURNS) == f"sent {TURNS}\n"
        spans, logs = stored_spans(live), stored_logs(live)
    roots = {span["span_id"]: span for span in spans if span["parent_span_id"] is None}
    chats = [span for span in spans if span["parent_span_id"] is not None]
    assert [0, 1, 2] == sorted(root["attributes"]["turn.number"] for root in roots.values())
    assert {"chat Grüße 🤖"} == {chat["name"] for chat in chats}
    assert [roots[chat["parent_span_id"]]["trace_id"] for chat in chats] == [chat["trace_id"] for chat in chats]
    expected = {"list": ["a", "b"], "tokens": 7, "t": 0.5, "ok": True, "text": "x" * 5000}
    assert [expected] * TURNS == [chat["attributes"] for chat in chats]
    assert {("js-agent", "agent-lib")} == {(span["service"], span["scope"]) for span in spans}
    assert [{"message": {"content": "hi", "n": number}} for number in range(TURNS)] == [body for _, _, body in logs]
    assert {chat["trace_id"] for chat in chats} == {trace_id for trace_id, _, _ in logs}


@pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
def test_spans_of_the_exporters_of_vercel_arrive(js: JsClient, settings: Settings, protocol: str) -> None:
    with running(settings) as (live, server):
        js.send_by_vercel(protocol, endpoint(server, protocol))
        spans = stored_spans(live)
    assert [("ai.generateText", "vercel-agent", "ai")] == [
        (span["name"], span["service"], span["scope"]) for span in spans
    ]
    assert ("m", 3) == (spans[0]["attributes"]["ai.model.id"], spans[0]["attributes"]["n"])


@pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
def test_a_restart_of_the_collector_loses_nothing(js: JsClient, tmp_path: Path, protocol: str) -> None:
    turns = 40
    first = live_settings(tmp_path / "spans.duckdb")
    with running(first) as (_, server):
        addresses = {"http": str(server.http).removeprefix("http://"), "grpc": "127.0.0.1:0"}
        sending = js.begin(protocol, endpoint(server, protocol), "gzip", turns=turns, pause_ms=200)
        time.sleep(3)
    with running(live_settings(tmp_path / "spans.duckdb", receive=addresses)) as (live, _):
        output, complaint = sending.communicate(timeout=120)
        numbers = [span["attributes"].get("turn.number") for span in stored_spans(live)]
        logs = stored_logs(live)
    assert (f"sent {turns}\n", "") == (output, complaint)
    assert list(range(turns)) == sorted(number for number in numbers if number is not None)
    assert (2 * turns, turns) == (len(numbers), len(logs))


class BusySink:
    """Refuses for two seconds from the first request on, then takes all."""

    def __init__(self) -> None:
        self.refusals = 0
        self.names: list[str] = []
        self._lock = threading.Lock()
        self._until_s = 0.0

    def accept(self, batch: SpanBatch) -> Receipt:
        with self._lock:
            self._until_s = self._until_s or time.monotonic() + 2
            if time.monotonic() < self._until_s:
                self.refusals += 1
                raise OverloadedError("the queue is full")
            self.names += [span.name for span in batch.spans]
        return Receipt(accepted=len(batch.spans) + len(batch.logs))


@pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
def test_a_request_refused_with_503_is_sent_again_and_stored_once(js: JsClient, protocol: str) -> None:
    sink = BusySink()
    collector = OtlpHttpCollector(ReceiveSettings(http="127.0.0.1:0"))
    collector.start(sink)
    try:
        assert js.send(protocol, collector.endpoint, "none", turns=2) == "sent 2\n"
    finally:
        collector.stop(5)
    assert sink.refusals > 0
    assert sorted(["invoke_agent desk", "chat Grüße 🤖"] * 2) == sorted(sink.names)
