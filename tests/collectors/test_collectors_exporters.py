"""The real exporters of the OpenTelemetry SDK against the real collectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from otel_agentic.spans import Collector, Sink

if TYPE_CHECKING:
    from collectors.otlp_grpc import OtlpGrpcCollector
    from collectors.otlp_http import OtlpHttpCollector
    from tests.collectors.conftest import RecordingSink


def trace_an_agent(exporter: SpanExporter) -> None:
    provider = TracerProvider(resource=Resource({"service.name": "desk"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("agent-lib", "1.2")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.agent.name": "desk"}) as root:
        root.add_event("begun", {"n": 1})
        with tracer.start_as_current_span("chat", attributes={"stop": ["a", "b"], "tokens": 7, "t": 0.5, "ok": True}):
            pass
    assert provider.force_flush()
    provider.shutdown()


def log_an_event(exporter: LogRecordExporter) -> None:
    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    tracer = TracerProvider().get_tracer("t")
    with tracer.start_as_current_span("chat"):
        record = LogRecord(
            timestamp=5,
            severity_number=SeverityNumber.INFO,
            event_name="gen_ai.choice",
            body={"message": {"content": "hi"}},
            attributes={"gen_ai.system": "openai"},
        )
        provider.get_logger("agent-lib").emit(record)
    assert provider.force_flush()
    provider.shutdown()


def assert_agent_arrived(sink: RecordingSink) -> None:
    spans = {span.name: span for batch in sink.batches for span in batch.spans}
    assert set(spans) == {"invoke_agent", "chat"}
    chat, root = spans["chat"], spans["invoke_agent"]
    assert (chat.parent_span_id, chat.trace_id) == (root.span_id, root.trace_id)
    assert chat.attributes == {"stop": ["a", "b"], "tokens": 7, "t": 0.5, "ok": True}
    assert [event.name for event in root.events] == ["begun"]
    assert (root.scope.name, root.scope.version) == ("agent-lib", "1.2")
    assert root.resource.attributes["service.name"] == "desk"


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_arrive_over_http(
    serve_http: Callable[..., OtlpHttpCollector], sink: RecordingSink, compression: Compression
) -> None:
    trace_an_agent(HttpSpanExporter(endpoint=f"{serve_http().endpoint}/v1/traces", compression=compression))
    assert_agent_arrived(sink)


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_arrive_over_grpc(
    serve_grpc: Callable[..., OtlpGrpcCollector], sink: RecordingSink, compression: Any
) -> None:
    trace_an_agent(GrpcSpanExporter(endpoint=serve_grpc().endpoint, insecure=True, compression=compression))
    assert_agent_arrived(sink)


def test_log_records_arrive_over_http(serve_http: Callable[..., OtlpHttpCollector], sink: RecordingSink) -> None:
    log_an_event(HttpLogExporter(endpoint=f"{serve_http().endpoint}/v1/logs"))
    assert sink.events == ["gen_ai.choice"]
    assert sink.batches[0].logs[0].body == {"message": {"content": "hi"}}


def test_log_records_arrive_over_grpc(serve_grpc: Callable[..., OtlpGrpcCollector], sink: RecordingSink) -> None:
    log_an_event(GrpcLogExporter(endpoint=serve_grpc().endpoint, insecure=True))
    assert sink.events == ["gen_ai.choice"]


def test_the_token_is_sent_as_a_header_by_both_exporters(
    serve_http: Callable[..., OtlpHttpCollector], serve_grpc: Callable[..., OtlpGrpcCollector], sink: RecordingSink
) -> None:
    headers = {"authorization": "Bearer s3cret"}
    http, over_grpc = serve_http(token="s3cret"), serve_grpc(token="s3cret")  # noqa: S106 — made up for this test
    trace_an_agent(HttpSpanExporter(endpoint=f"{http.endpoint}/v1/traces", headers=headers))
    trace_an_agent(GrpcSpanExporter(endpoint=over_grpc.endpoint, insecure=True, headers=headers))
    assert len(sink.names) == 4


def test_collectors_and_sinks_satisfy_their_protocols(
    serve_http: Callable[..., OtlpHttpCollector], serve_grpc: Callable[..., OtlpGrpcCollector], sink: RecordingSink
) -> None:
    assert isinstance(serve_http(), Collector)
    assert isinstance(serve_grpc(), Collector)
    assert isinstance(sink, Sink)
