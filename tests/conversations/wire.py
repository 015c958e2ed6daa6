"""Spans and log records as OTLP requests, protobuf and JSON, to be read back by our own decoders."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ProtoScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoLog
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ProtoResource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from otel_agentic.spans.model import LogRecord, Span, SpanBatch

_ID_FIELDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})


def requests_of(batch: SpanBatch) -> tuple[ExportTraceServiceRequest, ExportLogsServiceRequest]:
    """Return the spans, and the log records, each as one request with a block a span, as unbatched senders do."""
    traces = ExportTraceServiceRequest(resource_spans=[_span_block(span) for span in batch.spans])
    return traces, ExportLogsServiceRequest(resource_logs=[_log_block(log) for log in batch.logs])


def json_of(request: Message) -> bytes:
    """Return a request as OTLP/JSON: the JSON of protobuf, but ids in hex."""
    document = _with_hex_ids(MessageToDict(request, use_integers_for_enums=True))
    return json.dumps(document, ensure_ascii=False).encode()


def _span_block(span: Span) -> ResourceSpans:
    written = ProtoSpan(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id or ""),
        name=span.name,
        kind=ProtoSpan.SpanKind.ValueType(span.kind),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_pairs(span.attributes),
        events=[
            ProtoSpan.Event(name=event.name, time_unix_nano=event.time_ns, attributes=_pairs(event.attributes))
            for event in span.events
        ],
        status=Status(code=Status.StatusCode.ValueType(span.status), message=span.status_message),
    )
    scopes = [ScopeSpans(scope=ProtoScope(name=span.scope.name), spans=[written])]
    return ResourceSpans(resource=ProtoResource(attributes=_pairs(span.resource.attributes)), scope_spans=scopes)


def _log_block(log: LogRecord) -> ResourceLogs:
    written = ProtoLog(
        trace_id=bytes.fromhex(log.trace_id),
        span_id=bytes.fromhex(log.span_id),
        time_unix_nano=log.time_ns,
        event_name=log.event_name,
        body=_any(log.body),
        attributes=_pairs(log.attributes),
    )
    scopes = [ScopeLogs(scope=ProtoScope(name=log.scope.name), log_records=[written])]
    return ResourceLogs(resource=ProtoResource(attributes=_pairs(log.resource.attributes)), scope_logs=scopes)


def _pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in attributes.items()]


def _any(value: Any) -> AnyValue:  # noqa: PLR0911 — one return a kind of value
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case str():
            return AnyValue(string_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=_pairs(value)))
        case list():
            return AnyValue(array_value=ArrayValue(values=[_any(item) for item in value]))
        case _:
            return AnyValue()


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64decode(item).hex() if key in _ID_FIELDS and isinstance(item, str) else _with_hex_ids(item)
        for key, item in value.items()
    }
