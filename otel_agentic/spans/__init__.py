"""OTLP bytes -> `Span` and `LogRecord`, and the Protocols between the collectors and the store."""

from otel_agentic.spans.limits import Limits
from otel_agentic.spans.model import (
    LogRecord,
    Resource,
    Scope,
    Span,
    SpanBatch,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)
from otel_agentic.spans.otlp_json import decode_document, decode_logs_json, decode_traces_json
from otel_agentic.spans.otlp_proto import decode_logs, decode_message, decode_traces
from otel_agentic.spans.ports import Collector, CountsRefusals, Receipt, Sink, Submits
from otel_agentic.spans.records import merge_batches

__all__ = [
    "Collector",
    "CountsRefusals",
    "Limits",
    "LogRecord",
    "Receipt",
    "Resource",
    "Scope",
    "Sink",
    "Span",
    "SpanBatch",
    "SpanEvent",
    "SpanKind",
    "SpanLink",
    "StatusCode",
    "Submits",
    "decode_document",
    "decode_logs",
    "decode_logs_json",
    "decode_message",
    "decode_traces",
    "decode_traces_json",
    "merge_batches",
]
