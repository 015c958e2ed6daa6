"""The ledger: everything in an accepted request is stored, duplicate, rejected or ignored, and the sums agree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.builders import rows
from tests.live.running_collector import OPEN, ask, live_settings, running

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.net.server_file import LiveServer

NOON = 1_700_000_000_000_000_000
Kind = Literal["span", "bad trace id", "bad span id", "own"]
KINDS: tuple[Kind, ...] = ("span", "bad trace id", "bad span id", "own")
#: A span of a request: its kind and a small number. Equal numbers make equal ids: these are resent.
items = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 12)), max_size=12)
requests = st.lists(st.tuples(items, st.sampled_from(["http", "grpc", "logs"])), min_size=1, max_size=6)


class Sent:
    """Sends requests to a collector and counts their content."""

    def __init__(self, settings_: Settings, live: LiveCollector, addresses: LiveServer) -> None:
        self.settings, self.live, self.addresses = settings_, live, addresses
        self.sent_ids: set[bytes] = set()
        self.expected: Counter[str] = Counter()

    def send(self, parts: list[tuple[Kind, int]], way: str) -> None:
        for kind, number in parts:
            self.expected[self._fate(kind, number)] += 1
        request = _request(parts)
        if way == "logs":
            self._misdirect()
        if way == "grpc":
            with grpc.insecure_channel(str(self.addresses.grpc).removeprefix("http://")) as channel:
                path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
                channel.unary_unary(path)(request.SerializeToString(), timeout=30)
            return
        self._post(request)

    def _misdirect(self) -> None:
        """Send a log record to the address of spans: it is unreadable there and counted as rejected."""
        logs = ExportLogsServiceRequest()
        record = logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=NOON)
        record.body.string_value = "hello"
        self.expected["rejected"] += 1
        self._post(logs)

    def _post(self, request: Any) -> None:
        answer = httpx.post(
            f"{self.addresses.http}/v1/traces",
            content=request.SerializeToString(),
            headers={"content-type": "application/x-protobuf"},
            trust_env=False,
        )
        assert httpx.codes.OK == answer.status_code, answer.content

    def _fate(self, kind: Kind, number: int) -> str:
        if kind != "span":
            return "ignored" if kind == "own" else "rejected"
        key = number.to_bytes(8, "big")
        if key in self.sent_ids:
            return "duplicate"
        self.sent_ids.add(key)
        return "stored"


def _request(parts: list[tuple[Kind, int]]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    for kind, number in parts:
        scope = block.scope_spans.add()
        scope.scope.name = "otel_agentic" if kind == "own" else "shop"
        scope.spans.add(
            trace_id=b"\0" * 16 if kind == "bad trace id" else number.to_bytes(16, "big"),
            span_id=b"short" if kind == "bad span id" else number.to_bytes(8, "big"),
            name="chat",
            start_time_unix_nano=NOON + number,
            end_time_unix_nano=NOON + number + 1,
        )
    return request


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sent]:
    """A collector, and the ledger of its requests; shared by all examples, because the ledger continues."""
    db: Path = tmp_path_factory.mktemp("ledger") / "t.duckdb"
    settings_ = live_settings(db, **OPEN)
    with running(settings_) as (live, addresses):
        yield Sent(settings_, live, addresses)


@settings(max_examples=12)
@given(requests)
def test_what_was_received_is_what_was_stored_and_duplicate_and_rejected_and_ignored(
    sent: Sent, sends: list[tuple[list[tuple[Kind, int]], str]]
) -> None:
    for parts, way in sends:
        sent.send(parts, way)

    names = ("stored", "duplicate", "rejected", "ignored")
    received = ask(sent.settings, "live")["collector"]["received"]
    assert {name: sent.expected[name] for name in names} == {name: received[name] for name in names}
    assert [(sent.expected["stored"],)] == rows(sent.live.engine, "SELECT count(*) FROM spans")
    metrics = httpx.get(f"{sent.addresses.admin}/metrics", trust_env=False).text
    assert {"accepted": sent.expected["stored"], "duplicate": sent.expected["duplicate"]} == {
        name: _metric(metrics, name) for name in ("accepted", "duplicate")
    }
    assert sent.expected["rejected"] == _metric(metrics, "rejected")


def _metric(text: str, result: str) -> int:
    actual = re.findall(
        rf'^agentic_ingest_spans_total\{{[^}}]*result="{result}"[^}}]*\}} ([0-9.e+]+)', text, re.MULTILINE
    )
    return int(sum(float(value) for value in actual))
