"""Our spans through the real exporters of the OpenTelemetry SDK."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel_agentic.testing import SECOND_NS

if TYPE_CHECKING:
    from otel_agentic.net.server_file import LiveServer
    from otel_agentic.spans.model import Span


def just_now() -> int:
    """Return a moment a few seconds ago, ns: a conversation that began then is in every window."""
    return time.time_ns() - 5 * SECOND_NS


def export(live: LiveServer, spans: Iterable[Span], way: str = "http") -> None:
    """Send spans over OTLP; returns once they are acknowledged."""
    exporter: Any = (
        GrpcExporter(endpoint=live.grpc, insecure=True) if way == "grpc" else HttpExporter(f"{live.http}/v1/traces")
    )
    try:
        assert SpanExportResult.SUCCESS == exporter.export([readable(item) for item in spans])
    finally:
        exporter.shutdown()


def readable(span: Span) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
        resource=Resource(dict(span.resource.attributes)),
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode(span.status)),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope.name),
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))
