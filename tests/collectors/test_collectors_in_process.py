from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from inline_snapshot import snapshot
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from collectors.in_process import AgenticSpanProcessor
from otel_agentic.errors import OverloadedError
from tests.snapshots import passage

if TYPE_CHECKING:
    import pytest

    from collectors.otlp_http import OtlpHttpCollector
    from otel_agentic.spans import Receipt, SpanBatch
    from tests.collectors.conftest import RecordingSink


def provide(processor: AgenticSpanProcessor) -> TracerProvider:
    provider = TracerProvider(resource=Resource({"service.name": "desk"}, "https://schema"))
    provider.add_span_processor(processor)
    return provider


def test_a_flush_returns_when_the_sink_holds_every_ended_span(sink: RecordingSink) -> None:
    provider = provide(AgenticSpanProcessor(sink))
    tracer = provider.get_tracer("agent-lib")
    for index in range(1500):
        tracer.start_span(str(index)).end()
    assert provider.force_flush()
    assert sorted(sink.names, key=int) == [str(index) for index in range(1500)]
    provider.shutdown()


def test_spans_arrive_by_themselves_within_a_moment(sink: RecordingSink) -> None:
    provider = provide(AgenticSpanProcessor(sink))
    provider.get_tracer("agent-lib").start_span("chat").end()
    deadline = threading.Event()
    for _ in range(100):
        if sink.names or deadline.wait(0.05):
            break
    assert sink.names == ["chat"]
    provider.shutdown()


def test_a_span_is_the_same_as_over_otlp(sink: RecordingSink, serve_http: Callable[..., OtlpHttpCollector]) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 — one test's

    collector = serve_http()
    processor = AgenticSpanProcessor(sink)
    provider = provide(processor)
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.endpoint}/v1/traces")))
    tracer = provider.get_tracer("agent-lib", "1.2", "https://scope", {"x": 1})
    with tracer.start_as_current_span("root") as root:
        link = trace.Link(root.get_span_context(), {"why": "test"})
        with tracer.start_as_current_span("chat", kind=trace.SpanKind.CLIENT, links=[link]) as span:
            span.set_attributes({"text": "ü", "list": ["a", "b"], "int": 7, "nan": math.nan, "flag": True})
            span.add_event("token", {"n": 1})
            span.set_status(trace.StatusCode.ERROR, "boom")
    assert provider.force_flush()
    spans = [span for batch in sink.batches for span in batch.spans]
    by_name = [[span for span in spans if span.name == name] for name in ("root", "chat")]
    assert [len(group) for group in by_name] == [2, 2]
    assert [first for first, _ in by_name] == [second for _, second in by_name]
    provider.shutdown()


def test_our_own_telemetry_and_unsampled_spans_are_left_out(sink: RecordingSink) -> None:
    provider = provide(AgenticSpanProcessor(sink))
    provider.get_tracer("otel_agentic").start_span("own").end()
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    unsampled.add_span_processor(AgenticSpanProcessor(sink))
    unsampled.get_tracer("agent-lib").start_span("unsampled").end()
    assert provider.force_flush()
    provider.shutdown()
    unsampled.shutdown()
    assert sink.names == []
    assert [batch.ignored for batch in sink.batches] == [{"own telemetry": 1}]


def test_shutting_down_delivers_what_waits(sink: RecordingSink) -> None:
    provider = provide(AgenticSpanProcessor(sink))
    provider.get_tracer("agent-lib").start_span("chat").end()
    provider.shutdown()
    assert sink.names == ["chat"]


class _SlowSink:
    """Accepts nothing until it is released."""

    def __init__(self, inner: RecordingSink) -> None:
        self.go = threading.Event()
        self._inner = inner

    def accept(self, batch: SpanBatch) -> Receipt:
        assert self.go.wait(20)
        return self._inner.accept(batch)


def test_a_full_queue_drops_loudly_and_counts(sink: RecordingSink, caplog: pytest.LogCaptureFixture) -> None:
    slow = _SlowSink(sink)
    processor = AgenticSpanProcessor(slow, queue_spans=2)
    provider = provide(processor)
    tracer = provider.get_tracer("agent-lib")
    for index in range(8):
        tracer.start_span(str(index)).end()
    assert not provider.force_flush(100)
    slow.go.set()
    provider.shutdown()
    assert processor.dropped > 0
    assert processor.dropped + len(sink.names) == 8
    assert caplog.text.count("the queue is full") == 1


def test_a_batch_is_offered_again_to_an_overloaded_sink(sink: RecordingSink) -> None:
    sink.error = OverloadedError("full")
    provider = provide(AgenticSpanProcessor(sink))
    provider.get_tracer("agent-lib").start_span("chat").end()
    assert not provider.force_flush(300)
    sink.error = None
    assert provider.force_flush()
    assert sink.names == ["chat"]
    provider.shutdown()


def test_a_sink_that_fails_costs_the_traced_program_nothing_but_the_count(
    sink: RecordingSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.error = KeyError("unforeseen")
    processor = AgenticSpanProcessor(sink)
    provider = provide(processor)
    provider.get_tracer("agent-lib").start_span("chat").end()
    assert not provider.force_flush()
    assert processor.dropped == 1
    assert passage(caplog.text) == snapshot("the sink failed: KeyError")
    provider.shutdown()


def test_a_span_that_ends_after_the_shutdown_is_counted(sink: RecordingSink) -> None:
    processor = AgenticSpanProcessor(sink)
    provider = provide(processor)
    late = provider.get_tracer("agent-lib").start_span("late")
    provider.shutdown()
    late.end()
    assert processor.dropped == 1
