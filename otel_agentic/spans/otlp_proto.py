"""OTLP/protobuf -> `SpanBatch`, the hot path.

In attribute values, the string case comes first: nine of ten values are strings, and asking protobuf which member of
the oneof is set takes as long as reading the string.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.protobuf.message import DecodeError as ProtobufDecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agentic.errors import DecodeError
from otel_agentic.spans.model import (
    LOGS_ON_TRACES,
    OWN_SCOPE,
    OWN_TELEMETRY,
    SPANS_ON_LOGS,
    LogRecord,
    Resource,
    Scope,
    Span,
    SpanBatch,
    SpanEvent,
    SpanLink,
    Tally,
    build_log,
    build_span,
    shared,
    span_ids_of_log,
)
from otel_agentic.spans.sanitize import (
    CUT_ATTRIBUTES,
    CUT_DEPTH,
    CUT_EVENTS,
    DROPPED_LINK,
    MAX_DEPTH,
    SPAN_ID_HEX,
    TRACE_ID_HEX,
    Limits,
    clean_bytes,
    clean_float,
    clean_name,
    clean_text,
    clean_time,
    first_of,
    id_of_bytes,
    require_few_items,
    require_few_records,
)

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogRecordMessage
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage


def read_attributes(pairs: Sequence[KeyValue], limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return an attribute list as a dict; of equal keys the last wins, as in the SDKs."""
    longest_key, longest_text = limits.max_name_bytes, limits.max_value_bytes
    attributes: dict[str, Any] = {}
    for pair in first_of(pairs, limits.max_attributes, CUT_ATTRIBUTES, altered):
        key, value = pair.key, pair.value
        # The tests of `clean_text` are repeated inline: a call for each key and text made decoding 15 % slower.
        if len(key) > longest_key or not key.isascii() or "\0" in key:
            key = clean_name(key, limits, altered)
        text = value.string_value
        if not text:
            attributes[key] = read_value(value, limits, altered)
        elif len(text) > longest_text or not text.isascii() or "\0" in text:
            attributes[key] = clean_text(text, longest_text, altered)
        else:
            attributes[key] = text
    return attributes


def read_value(value: AnyValue, limits: Limits, altered: Counter[str], depth: int = 0) -> Any:
    """Return an AnyValue as a plain Python value, None for an empty one."""
    reader = _READERS.get(value.WhichOneof("value") or "")
    return None if reader is None else reader(value, limits, altered, depth)


def _string(value: AnyValue, limits: Limits, altered: Counter[str], _depth: int) -> str:
    return clean_text(value.string_value, limits.max_value_bytes, altered)


def _int(value: AnyValue, _limits: Limits, _altered: Counter[str], _depth: int) -> int:
    return value.int_value


def _bool(value: AnyValue, _limits: Limits, _altered: Counter[str], _depth: int) -> bool:
    return value.bool_value


def _double(value: AnyValue, _limits: Limits, altered: Counter[str], _depth: int) -> float | str:
    return clean_float(value.double_value, altered)


def _bytes(value: AnyValue, limits: Limits, altered: Counter[str], _depth: int) -> bytes:
    return clean_bytes(value.bytes_value, limits.max_value_bytes, altered)


def _nested(value: AnyValue, limits: Limits, altered: Counter[str], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        altered[CUT_DEPTH] += 1
        return None
    if value.HasField("array_value"):
        return [read_value(item, limits, altered, depth + 1) for item in value.array_value.values]
    pairs = value.kvlist_value.values
    return {clean_name(pair.key, limits, altered): read_value(pair.value, limits, altered, depth + 1) for pair in pairs}


#: Members that a later version of OTLP adds are read as empty.
_READERS: Final[dict[str, Callable[[AnyValue, Limits, Counter[str], int], Any]]] = {
    "string_value": _string,
    "int_value": _int,
    "bool_value": _bool,
    "double_value": _double,
    "bytes_value": _bytes,
    "array_value": _nested,
    "kvlist_value": _nested,
}


_Request = TypeVar("_Request", ExportTraceServiceRequest, ExportLogsServiceRequest)


def decode_traces(data: bytes, limits: Limits) -> SpanBatch:
    """Return the content of an `ExportTraceServiceRequest`.

    A logs request is recognised by its content: its records are rejected with a reason that names the right path.

    Raises:
        DecodeError: the bytes are not such a message (also: text in them that is not UTF-8).
        TooLargeError: it holds more than `max_items`.
    """
    require_few_items(data, limits)
    request = _parse(ExportTraceServiceRequest, data)
    if request is not None:
        require_few_records(_spans_in(request), limits)
    if request is None or not _has_spans(request):
        log_count = _log_count(data)
        if log_count:
            return SpanBatch(rejected={LOGS_ON_TRACES: log_count})
    if request is None:
        raise _undecodable("ExportTraceServiceRequest")
    return _read_traces(request, limits, Tally(size_bytes=len(data)))


def decode_logs(data: bytes, limits: Limits) -> SpanBatch:
    """Return the content of an `ExportLogsServiceRequest`.

    A traces request is recognised by its content: its spans are rejected with a reason that names the right path.

    Raises:
        DecodeError: the bytes are not such a message (also: text in them that is not UTF-8).
        TooLargeError: it holds more than `max_items`.
    """
    require_few_items(data, limits)
    request = _parse(ExportLogsServiceRequest, data)
    if request is not None:
        require_few_records(_logs_in(request), limits)
    if request is None or not _has_logs(request):
        span_count = _span_count(data)
        if span_count:
            return SpanBatch(rejected={SPANS_ON_LOGS: span_count})
    if request is None:
        raise _undecodable("ExportLogsServiceRequest")
    return _read_logs(request, limits, Tally(size_bytes=len(data)))


def decode_message(data: bytes, limits: Limits) -> SpanBatch:
    """Return the content of a traces or a logs request, distinguished by content, as in a file.

    Raises:
        DecodeError: the bytes are neither.
        TooLargeError: they hold more than `max_items`.
    """
    require_few_items(data, limits)
    return decode_logs(data, limits) if _log_count(data) else decode_traces(data, limits)


def _parse(kind: type[_Request], data: bytes) -> _Request | None:
    try:
        return kind.FromString(data)
    except ProtobufDecodeError:
        return None


def _undecodable(expected: str) -> DecodeError:
    return DecodeError(
        f"the body is not an {expected} in protobuf: damaged or truncated bytes, text that is not UTF-8, "
        f"or values nested deeper than {MAX_DEPTH} levels; send it again as the exporter made it"
    )


def _has_spans(request: ExportTraceServiceRequest) -> bool:
    # Both requests share their outer fields. Read as the other kind, the inner fields are unknown: no ids, no times.
    blocks = (part for block in request.resource_spans for part in block.scope_spans)
    return any(raw.trace_id or raw.span_id for part in blocks for raw in part.spans)


def _has_logs(request: ExportLogsServiceRequest) -> bool:
    blocks = (part for block in request.resource_logs for part in block.scope_logs)
    return any(_is_log(raw) for part in blocks for raw in part.log_records)


def _is_log(raw: LogRecordMessage) -> bool:
    return bool(raw.time_unix_nano or raw.observed_time_unix_nano or len(raw.trace_id) * 2 == TRACE_ID_HEX)


def _log_count(data: bytes) -> int:
    request = _parse(ExportLogsServiceRequest, data)
    if request is None or not _has_logs(request):
        return 0
    return _logs_in(request)


def _span_count(data: bytes) -> int:
    request = _parse(ExportTraceServiceRequest, data)
    if request is None or not _has_spans(request):
        return 0
    return _spans_in(request)


def _spans_in(request: ExportTraceServiceRequest) -> int:
    return sum(len(part.spans) for block in request.resource_spans for part in block.scope_spans)


def _logs_in(request: ExportLogsServiceRequest) -> int:
    return sum(len(part.log_records) for block in request.resource_logs for part in block.scope_logs)


def _read_traces(request: ExportTraceServiceRequest, limits: Limits, tally: Tally) -> SpanBatch:
    spans: list[Span] = []
    for block in request.resource_spans:
        records = sum(len(scope_block.spans) for scope_block in block.scope_spans)
        resource = _resource(block.resource, block.schema_url, records, limits, tally)
        for scope_block in block.scope_spans:
            if not scope_block.spans:
                continue
            if scope_block.scope.name == OWN_SCOPE:
                tally.ignored[OWN_TELEMETRY] += len(scope_block.spans)
                continue
            scope = _scope(scope_block.scope, scope_block.schema_url, limits, tally)
            decoded_spans = (_span(raw, resource, scope, limits, tally) for raw in scope_block.spans)
            spans += [span for span in decoded_spans if span is not None]
    return tally.batch(spans=spans)


def _read_logs(request: ExportLogsServiceRequest, limits: Limits, tally: Tally) -> SpanBatch:
    logs: list[LogRecord] = []
    for block in request.resource_logs:
        records = sum(len(scope_block.log_records) for scope_block in block.scope_logs)
        resource = _resource(block.resource, block.schema_url, records, limits, tally)
        for scope_block in block.scope_logs:
            if not scope_block.log_records:
                continue
            if scope_block.scope.name == OWN_SCOPE:
                tally.ignored[OWN_TELEMETRY] += len(scope_block.log_records)
                continue
            scope = _scope(scope_block.scope, scope_block.schema_url, limits, tally)
            decoded_records = (_log(raw, resource, scope, limits, tally) for raw in scope_block.log_records)
            logs += [record for record in decoded_records if record is not None]
    return tally.batch(logs=logs)


def _resource(raw: ResourceMessage, schema_url: str, records: int, limits: Limits, tally: Tally) -> Resource:
    attributes = shared(read_attributes(raw.attributes, limits, tally.altered), records, limits, tally.altered)
    return Resource(attributes=attributes, schema_url=clean_name(schema_url, limits, tally.altered))


def _scope(raw: InstrumentationScope, schema_url: str, limits: Limits, tally: Tally) -> Scope:
    return Scope(
        name=clean_name(raw.name, limits, tally.altered),
        version=clean_name(raw.version, limits, tally.altered),
        attributes=read_attributes(raw.attributes, limits, tally.altered),
        schema_url=clean_name(schema_url, limits, tally.altered),
    )


def _span(raw: SpanMessage, resource: Resource, scope: Scope, limits: Limits, tally: Tally) -> Span | None:
    parent = raw.parent_span_id
    start_ns = raw.start_time_unix_nano
    status = raw.status
    return build_span(
        trace_id=id_of_bytes(raw.trace_id, TRACE_ID_HEX),
        span_id=id_of_bytes(raw.span_id, SPAN_ID_HEX),
        parent_span_id=id_of_bytes(parent, SPAN_ID_HEX) if any(parent) else None,
        name=raw.name,
        kind=raw.kind,
        start_ns=start_ns,
        end_ns=raw.end_time_unix_nano,
        status=status.code,
        status_message=status.message,
        attributes=read_attributes(raw.attributes, limits, tally.altered),
        events=_events(raw.events, start_ns, limits, tally) if raw.events else (),
        links=_links(raw.links, limits, tally) if raw.links else (),
        resource=resource,
        scope=scope,
        limits=limits,
        tally=tally,
    )


def _events(raws: Sequence[SpanMessage.Event], start_ns: int, limits: Limits, tally: Tally) -> tuple[SpanEvent, ...]:
    return tuple(
        SpanEvent(
            name=clean_name(raw.name, limits, tally.altered),
            time_ns=clean_time(raw.time_unix_nano, start_ns, tally.altered),
            attributes=read_attributes(raw.attributes, limits, tally.altered),
        )
        for raw in first_of(raws, limits.max_events, CUT_EVENTS, tally.altered)
    )


def _links(raws: Sequence[SpanMessage.Link], limits: Limits, tally: Tally) -> tuple[SpanLink, ...]:
    links = []
    for raw in first_of(raws, limits.max_events, CUT_EVENTS, tally.altered):
        trace_id, span_id = id_of_bytes(raw.trace_id, TRACE_ID_HEX), id_of_bytes(raw.span_id, SPAN_ID_HEX)
        if trace_id and span_id:
            attributes = read_attributes(raw.attributes, limits, tally.altered)
            links.append(SpanLink(trace_id=trace_id, span_id=span_id, attributes=attributes))
        else:
            tally.altered[DROPPED_LINK] += 1
    return tuple(links)


def _log(raw: LogRecordMessage, resource: Resource, scope: Scope, limits: Limits, tally: Tally) -> LogRecord | None:
    span_ids = span_ids_of_log(raw.trace_id.hex(), raw.span_id.hex(), tally)
    if span_ids is None:
        return None
    return build_log(
        span_ids=span_ids,
        time_ns=raw.time_unix_nano,
        observed_ns=raw.observed_time_unix_nano,
        event_name=raw.event_name,
        body=read_value(raw.body, limits, tally.altered),
        attributes=read_attributes(raw.attributes, limits, tally.altered),
        resource=resource,
        scope=scope,
        limits=limits,
        tally=tally,
    )
