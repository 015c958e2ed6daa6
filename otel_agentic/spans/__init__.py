"""OTLP bytes -> `Span` and `LogRecord`, and the Protocols between the collectors and the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.spans.model import Collector as Collector
    from otel_agentic.spans.model import CountsRefusals as CountsRefusals
    from otel_agentic.spans.model import LogRecord as LogRecord
    from otel_agentic.spans.model import Receipt as Receipt
    from otel_agentic.spans.model import Resource as Resource
    from otel_agentic.spans.model import Scope as Scope
    from otel_agentic.spans.model import Sink as Sink
    from otel_agentic.spans.model import Span as Span
    from otel_agentic.spans.model import SpanBatch as SpanBatch
    from otel_agentic.spans.model import SpanEvent as SpanEvent
    from otel_agentic.spans.model import SpanKind as SpanKind
    from otel_agentic.spans.model import SpanLink as SpanLink
    from otel_agentic.spans.model import StatusCode as StatusCode
    from otel_agentic.spans.model import Submits as Submits
    from otel_agentic.spans.model import merge_batches as merge_batches
    from otel_agentic.spans.otlp_json import decode_document as decode_document
    from otel_agentic.spans.otlp_json import decode_logs_json as decode_logs_json
    from otel_agentic.spans.otlp_json import decode_traces_json as decode_traces_json
    from otel_agentic.spans.otlp_proto import decode_logs as decode_logs
    from otel_agentic.spans.otlp_proto import decode_message as decode_message
    from otel_agentic.spans.otlp_proto import decode_traces as decode_traces
    from otel_agentic.spans.sanitize import Limits as Limits

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "model": "Collector CountsRefusals LogRecord Receipt Resource Scope Sink Span "
        "SpanBatch SpanEvent SpanKind SpanLink StatusCode Submits merge_batches",
        "otlp_json": "decode_document decode_logs_json decode_traces_json",
        "otlp_proto": "decode_logs decode_message decode_traces",
        "sanitize": "Limits",
    },
)
