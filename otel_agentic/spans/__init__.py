"""OTLP bytes -> `Span` and `LogRecord`, and the Protocols between the collectors and the store."""

from otel_agentic.spans.model import (
    Collector,
    CountsRefusals,
    LogRecord,
    Receipt,
    Resource,
    Scope,
    Sink,
    Span,
    SpanBatch,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
    Submits,
    merge_batches,
)
from otel_agentic.spans.otlp_json import decode_document, decode_logs_json, decode_traces_json
from otel_agentic.spans.otlp_proto import decode_logs, decode_message, decode_traces
from otel_agentic.spans.sanitize import Limits

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
