"""OTLP/JSON -> `SpanBatch`.

We use our own reader because `google.protobuf.json_format` decodes the hex ids as base64 and returns wrong bytes without an
error. Ids are hex of either case, enumerations are integers or names, 64-bit integers are numbers or text, unknown fields
are ignored, and field names may be camelCase or snake_case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from otel_agentic.errors import DecodeError
from otel_agentic.spans.items import require_few_records
from otel_agentic.spans.json_values import (
    enum_of,
    int_of,
    load_json,
    message,
    objects,
    pick,
    read_attributes,
    read_value,
    text_of,
)
from otel_agentic.spans.model import Resource, Scope, SpanBatch, SpanEvent, SpanKind, SpanLink, StatusCode
from otel_agentic.spans.records import (
    LOGS_ON_TRACES,
    OWN_SCOPE,
    OWN_TELEMETRY,
    SPANS_ON_LOGS,
    build_log,
    build_span,
    span_ids_of_log,
)
from otel_agentic.spans.sanitize import (
    CUT_EVENTS,
    DROPPED_LINK,
    SPAN_ID_HEX,
    TRACE_ID_HEX,
    clean_name,
    clean_time,
    first_of,
    id_of_text,
)
from otel_agentic.spans.shared import shared
from otel_agentic.spans.tally import Tally, merge_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.spans.limits import Limits
    from otel_agentic.spans.model import LogRecord, Span

#: A JSON object that holds neither spans nor log records, such as a metrics export or a file of another tool.
NOT_OTLP: Final = "JSON without resourceSpans or resourceLogs"


class _Keys(NamedTuple):
    """The field names of one signal, from the request down to its records, each in both spellings."""

    blocks: tuple[str, str]
    scopes: tuple[str, str]
    records: tuple[str, str]


_SPAN_KEYS: Final = _Keys(("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans", "spans"))
_LOG_KEYS: Final = _Keys(("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records"))
_REQUEST_FIELDS: Final = frozenset({*_SPAN_KEYS.blocks, *_LOG_KEYS.blocks})
_KINDS: Final = {kind.name: kind.value for kind in SpanKind}
_STATUSES: Final = {code.name: code.value for code in StatusCode}


def decode_traces_json(data: bytes, limits: Limits) -> SpanBatch:
    """Return the content of an `ExportTraceServiceRequest` in JSON.

    A logs request is recognised: its records are rejected with a reason that names the right path.

    Raises:
        DecodeError: the bytes are not JSON, or not such a request; names the field.
        TooLargeError: they hold more than `max_items`.
    """
    document = _document(data, limits)
    blocks = objects(document, *_SPAN_KEYS.blocks)
    strays = 0 if blocks else _count(document, _LOG_KEYS)
    return (
        SpanBatch(rejected={LOGS_ON_TRACES: strays}) if strays else _traces(blocks, limits, Tally(size_bytes=len(data)))
    )


def decode_logs_json(data: bytes, limits: Limits) -> SpanBatch:
    """Return the content of an `ExportLogsServiceRequest` in JSON.

    A traces request is recognised: its spans are rejected with a reason that names the right path.

    Raises:
        DecodeError: the bytes are not JSON, or not such a request; names the field.
        TooLargeError: they hold more than `max_items`.
    """
    document = _document(data, limits)
    blocks = objects(document, *_LOG_KEYS.blocks)
    strays = 0 if blocks else _count(document, _SPAN_KEYS)
    return SpanBatch(rejected={SPANS_ON_LOGS: strays}) if strays else _logs(blocks, limits, Tally(size_bytes=len(data)))


def decode_document(data: bytes, limits: Limits) -> SpanBatch:
    """Return the spans and log records of a JSON document or of a line of a file.

    Raises:
        DecodeError: the bytes are not JSON, or not a request; names the field.
        TooLargeError: they hold more than `max_items`.
    """
    document = _document(data, limits)
    traces = objects(document, *_SPAN_KEYS.blocks)
    logs = objects(document, *_LOG_KEYS.blocks)
    if document and not traces and not logs and document.keys().isdisjoint(_REQUEST_FIELDS):
        return SpanBatch(ignored={NOT_OTLP: 1})
    return merge_batches([_traces(traces, limits, Tally(size_bytes=len(data))), _logs(logs, limits, Tally())])


def _document(data: bytes, limits: Limits) -> dict[str, Any]:
    document = load_json(data, limits)
    if not isinstance(document, dict):
        raise DecodeError(f"not OTLP/JSON: an object was expected, not {type(document).__name__}")
    return document


def _count(document: dict[str, Any], keys: _Keys) -> int:
    """Return how many records of a signal a document holds."""
    scopes = [part for block in objects(document, *keys.blocks) for part in objects(block, *keys.scopes)]
    return sum(len(objects(part, *keys.records)) for part in scopes)


def _traces(blocks: list[dict[str, Any]], limits: Limits, tally: Tally) -> SpanBatch:
    spans = [
        span
        for raw, resource, scope in _records(blocks, _SPAN_KEYS, limits, tally)
        if (span := _span(raw, resource, scope, limits, tally)) is not None
    ]
    return tally.batch(spans=spans)


def _logs(blocks: list[dict[str, Any]], limits: Limits, tally: Tally) -> SpanBatch:
    logs = [
        record
        for raw, resource, scope in _records(blocks, _LOG_KEYS, limits, tally)
        if (record := _log(raw, resource, scope, limits, tally)) is not None
    ]
    return tally.batch(logs=logs)


def _records(
    blocks: list[dict[str, Any]], keys: _Keys, limits: Limits, tally: Tally
) -> Iterator[tuple[dict[str, Any], Resource, Scope]]:
    """Yield each span or log record that is not our own telemetry, with its resource and scope."""
    count = 0
    for block in blocks:
        parts = [(part, objects(part, *keys.records)) for part in objects(block, *keys.scopes)]
        resource = _resource(block, sum(len(raws) for _, raws in parts), limits, tally)
        for part, raws in parts:
            if not raws:
                continue
            count += len(raws)
            require_few_records(count, limits)
            if _is_own(part):
                tally.ignored[OWN_TELEMETRY] += len(raws)
                continue
            scope = _scope(part, limits, tally)
            for raw in raws:
                yield raw, resource, scope


def _is_own(part: dict[str, Any]) -> bool:
    return bool(message(part, "scope", "scope").get("name") == OWN_SCOPE)


def _resource(block: dict[str, Any], records: int, limits: Limits, tally: Tally) -> Resource:
    attributes = read_attributes(message(block, "resource", "resource"), limits, tally.altered)
    return Resource(
        attributes=shared(attributes, records, limits, tally.altered),
        schema_url=_name(block, "schemaUrl", "schema_url", limits, tally),
    )


def _scope(part: dict[str, Any], limits: Limits, tally: Tally) -> Scope:
    raw = message(part, "scope", "scope")
    return Scope(
        name=_name(raw, "name", "name", limits, tally),
        version=_name(raw, "version", "version", limits, tally),
        attributes=read_attributes(raw, limits, tally.altered),
        schema_url=_name(part, "schemaUrl", "schema_url", limits, tally),
    )


def _span(raw: dict[str, Any], resource: Resource, scope: Scope, limits: Limits, tally: Tally) -> Span | None:
    status = message(raw, "status", "status")
    start_ns = int_of(pick(raw, "startTimeUnixNano", "start_time_unix_nano"))
    return build_span(
        trace_id=id_of_text(pick(raw, "traceId", "trace_id"), TRACE_ID_HEX),
        span_id=id_of_text(pick(raw, "spanId", "span_id"), SPAN_ID_HEX),
        parent_span_id=_parent(raw),
        name=text_of(raw.get("name")),
        kind=enum_of(raw.get("kind"), "SPAN_KIND_", _KINDS),
        start_ns=start_ns,
        end_ns=int_of(pick(raw, "endTimeUnixNano", "end_time_unix_nano")),
        status=enum_of(status.get("code"), "STATUS_CODE_", _STATUSES),
        status_message=text_of(status.get("message")),
        attributes=read_attributes(raw, limits, tally.altered),
        events=_events(raw, start_ns, limits, tally),
        links=_links(raw, limits, tally),
        resource=resource,
        scope=scope,
        limits=limits,
        tally=tally,
    )


def _parent(raw: dict[str, Any]) -> str | None:
    parent = text_of(pick(raw, "parentSpanId", "parent_span_id"))
    return id_of_text(parent, SPAN_ID_HEX) if parent.strip("0") else None


def _events(raw: dict[str, Any], start_ns: int, limits: Limits, tally: Tally) -> tuple[SpanEvent, ...]:
    events = objects(raw, "events", "events")
    return tuple(
        SpanEvent(
            name=_name(event, "name", "name", limits, tally),
            time_ns=clean_time(int_of(pick(event, "timeUnixNano", "time_unix_nano")), start_ns, tally.altered),
            attributes=read_attributes(event, limits, tally.altered),
        )
        for event in first_of(events, limits.max_events, CUT_EVENTS, tally.altered)
    )


def _links(raw: dict[str, Any], limits: Limits, tally: Tally) -> tuple[SpanLink, ...]:
    links = []
    for link in first_of(objects(raw, "links", "links"), limits.max_events, CUT_EVENTS, tally.altered):
        trace_id = id_of_text(pick(link, "traceId", "trace_id"), TRACE_ID_HEX)
        span_id = id_of_text(pick(link, "spanId", "span_id"), SPAN_ID_HEX)
        if trace_id and span_id:
            attributes = read_attributes(link, limits, tally.altered)
            links.append(SpanLink(trace_id=trace_id, span_id=span_id, attributes=attributes))
        else:
            tally.altered[DROPPED_LINK] += 1
    return tuple(links)


def _log(raw: dict[str, Any], resource: Resource, scope: Scope, limits: Limits, tally: Tally) -> LogRecord | None:
    trace_id, span_id = text_of(pick(raw, "traceId", "trace_id")), text_of(pick(raw, "spanId", "span_id"))
    span_ids = span_ids_of_log(trace_id, span_id, tally)
    if span_ids is None:
        return None
    return build_log(
        span_ids=span_ids,
        time_ns=int_of(pick(raw, "timeUnixNano", "time_unix_nano")),
        observed_ns=int_of(pick(raw, "observedTimeUnixNano", "observed_time_unix_nano")),
        event_name=text_of(pick(raw, "eventName", "event_name")),
        body=read_value(raw.get("body"), limits, tally.altered),
        attributes=read_attributes(raw, limits, tally.altered),
        resource=resource,
        scope=scope,
        limits=limits,
        tally=tally,
    )


def _name(holder: dict[str, Any], camel: str, snake: str, limits: Limits, tally: Tally) -> str:
    return clean_name(text_of(pick(holder, camel, snake)), limits, tally.altered)
