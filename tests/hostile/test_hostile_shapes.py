"""Traces of unusual shapes: rings over several requests, very deep chains, log records of nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.config import ReceiveSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.spans import Limits, Receipt, SpanBatch, decode_logs, decode_logs_json, decode_traces
from otel_agentic.testing import NOON_NS
from tests.hostile.traces import Trace, nested, set_value, span_id
from tests.spans.test_spans_decoders_agree import to_otlp_json
from tests.stores import settings_for

LIMITS = Limits.from_settings(ReceiveSettings())


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True) as opened:
        yield opened


def accept(engine: Engine, batch: SpanBatch) -> Receipt:
    return engine.store.accept(batch)


def rebuilt(engine: Engine) -> list[tuple[int, int]]:
    """Return turns and calls of each conversation, once everything that arrived is rebuilt."""
    assert () == rebuild_pending(engine, lambda *_: None).left_out
    with engine.store.read() as con:
        return con.execute("SELECT turn_count, call_count FROM conversations WHERE NOT superseded").fetchall()


def test_a_ring_of_parents_over_several_requests_ends(engine: Engine) -> None:
    ring = Trace("ring")
    ring.add("step", parent=1)
    ring.root.parent_span_id = span_id(2)
    for number in range(3):
        alone = Trace("ring")
        alone.add("step", parent=1)
        del alone.part.spans[:]
        alone.part.spans.add().CopyFrom(ring.part.spans[number])
        accept(engine, decode_traces(alone.protobuf, LIMITS))
        assert len(rebuilt(engine)) <= 1
    assert [(1, 1)] == rebuilt(engine)


def test_a_trace_whose_spans_are_all_each_others_duplicates_is_stored_once(engine: Engine) -> None:
    trace = Trace("doubled")
    for _ in range(500):
        trace.part.spans.add().CopyFrom(trace.tool)
    receipt = accept(engine, decode_traces(trace.protobuf, LIMITS))
    assert (2, 500) == (receipt.accepted, receipt.duplicate)
    assert [(1, 1)] == rebuilt(engine)


@pytest.mark.slow
@pytest.mark.parametrize("length", [100_000])
def test_a_chain_of_a_hundred_thousand_spans_is_rebuilt_in_time_that_grows_with_it(engine: Engine, length: int) -> None:
    for name, size in (("half", length // 2), ("whole", length)):
        trace = Trace(name)
        for at in range(1, size - 1):
            trace.add("step", parent=at)
        for start in range(0, size, 20_000):
            part = Trace(name)
            del part.part.spans[:]
            part.part.spans.extend(trace.part.spans[start : start + 20_000])
            accept(engine, decode_traces(part.protobuf, LIMITS))
    assert [(1, 1), (1, 1)] == rebuilt(engine)


#: A body of every kind.
BODIES: Final = (
    "hello \0 world",
    2**63 - 1,
    float("nan"),
    False,
    b"\0\xff",
    [1, "a", nested(40)],
    {"": {"a": [1, "b"]}},
    "x" * 1_000_000,
)


def logs(*bodies: Any, trace_id: bytes = b"\1" * 16) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    part = request.resource_logs.add().scope_logs.add()
    for number, body in enumerate(bodies):
        record = part.log_records.add(trace_id=trace_id, span_id=span_id(number), time_unix_nano=NOON_NS + number)
        record.event_name = "gen_ai.choice"
        set_value(record.body, body)
    return request


def test_log_records_with_any_body_are_stored_without_their_spans_and_once(engine: Engine) -> None:
    request = logs(*BODIES)
    batch = decode_logs(request.SerializeToString(), LIMITS)
    assert batch == decode_logs_json(to_otlp_json(request), LIMITS)
    assert (len(BODIES), 0) == (accept(engine, batch).accepted, accept(engine, batch).accepted)
    assert [] == rebuilt(engine)
    with engine.store.read() as con:
        assert [(len(BODIES), 0)] == con.execute(
            "SELECT count(*), count(*) FILTER (body IS NULL) FROM log_records"
        ).fetchall()


@pytest.mark.slow
def test_a_million_log_records_of_spans_that_never_come_are_stored(engine: Engine) -> None:
    for block in range(10):
        bodies = [f"{block} {number}" for number in range(100_000)]
        batch = decode_logs(logs(*bodies, trace_id=bytes([block + 1]) * 16).SerializeToString(), LIMITS)
        assert 100_000 == accept(engine, batch).accepted
    assert [] == rebuilt(engine)
