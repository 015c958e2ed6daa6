"""The last step of all decoders: decoded fields become a `Span` or a `LogRecord`, or are counted.

The attributes of a resource have a size limit of their own: they are written to the row of each of its spans, so one request
could fill a disk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.spans.model import LogRecord, Span, SpanBatch, SpanKind, StatusCode
from otel_agentic.spans.sanitize import (
    MENDED_PARENT,
    SPAN_ID_HEX,
    TIME_END_NS,
    TRACE_ID_HEX,
    clean_enum,
    clean_name,
    clean_text,
    clean_time,
    clean_times,
    id_of_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.spans.limits import Limits
    from otel_agentic.spans.model import Resource, Scope, SpanEvent, SpanLink


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts by reason: items that cannot be stored, items that are ignored, and altered details of stored items.

    `size_bytes` is the size of the input.
    """

    rejected: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    altered: Counter[str] = field(default_factory=Counter)
    size_bytes: int = 0

    def batch(self, *, spans: Sequence[Span] = (), logs: Sequence[LogRecord] = ()) -> SpanBatch:
        """Return the decoded items with the counts."""
        return SpanBatch(
            spans=tuple(spans),
            logs=tuple(logs),
            rejected=dict(self.rejected),
            ignored=dict(self.ignored),
            altered=dict(self.altered),
            size_bytes=self.size_bytes,
        )


def merge_batches(batches: Iterable[SpanBatch]) -> SpanBatch:
    """Return one batch with the items of all batches, in order, and the sums of their counts."""
    tally = Tally()
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for batch in batches:
        spans += batch.spans
        logs += batch.logs
        tally.rejected.update(batch.rejected)
        tally.ignored.update(batch.ignored)
        tally.altered.update(batch.altered)
        tally.size_bytes += batch.size_bytes
    return tally.batch(spans=spans, logs=logs)


CUT_SHARED: Final = "resource attributes that its many spans have no room for cut"

#: Bytes that a resource may always take: more than any benign one, measured on the resources of SDKs and clouds.
_ALWAYS_BYTES: Final = 8 * 1024
#: Bytes of the quotes, colon and comma around an attribute, and of a number or boolean.
_FRAME_BYTES: Final = 6
_SCALAR_BYTES: Final = 24


def shared(attributes: dict[str, Any], records: int, limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return the attributes of a resource that `records` spans or log records share, without those that do not fit.

    Together, all rows may take as much as the largest request, and one row at least 8 KiB. Attributes are kept in their order
    as far as they fit.
    """
    room = max(_ALWAYS_BYTES, limits.max_request_bytes // max(records, 1))
    if size_of(attributes) <= room:
        return attributes
    fitting: dict[str, Any] = {}
    for key, value in attributes.items():
        size = size_of({key: value})
        if size <= room:
            fitting[key] = value
            room -= size
    altered[CUT_SHARED] += len(attributes) - len(fitting)
    return fitting


def size_of(value: object) -> int:
    """Return the approximate size of a plain value as JSON, in bytes."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    if isinstance(value, bytes):
        return len(value) * 4 // 3
    if isinstance(value, dict):
        return sum(size_of(key) + size_of(item) + _FRAME_BYTES for key, item in value.items())
    if isinstance(value, list):
        return sum(map(size_of, value), len(value))
    return _SCALAR_BYTES


#: The scope of the telemetry that this project emits; it is ignored, so that the project does not evaluate itself.
OWN_SCOPE: Final = "otel_agentic"

BAD_TRACE_ID: Final = "trace_id is not 16 bytes or is all zero"
BAD_SPAN_ID: Final = "span_id is not 8 bytes or is all zero"
LOGS_ON_TRACES: Final = "log record sent to the traces path; send logs to /v1/logs"
SPANS_ON_LOGS: Final = "span sent to the logs path; send spans to /v1/traces"
OWN_TELEMETRY: Final = "own telemetry"
OUTSIDE_SPAN: Final = "log record outside any span"
NOT_AN_EVENT: Final = "log record is not an event"

#: The attribute for event names from before OTLP had a field for them.
EVENT_NAME_ATTRIBUTE: Final = "event.name"
GENAI_PREFIX: Final = "gen_ai."

_HIGHEST_KIND: Final = max(SpanKind).value
_HIGHEST_STATUS: Final = max(StatusCode).value
#: The slots of a `Span`, not frozen: a frozen dataclass sets each field by a call, which takes twice as long.
_Draft: Final = make_dataclass("_Draft", [attribute.name for attribute in fields(Span)], slots=True, kw_only=True)


def build_span(
    *,
    trace_id: str,
    span_id: str,
    parent_span_id: str | None,
    name: str,
    kind: int,
    start_ns: int,
    end_ns: int,
    status: int,
    status_message: str,
    attributes: Mapping[str, Any],
    events: tuple[SpanEvent, ...],
    links: tuple[SpanLink, ...],
    resource: Resource,
    scope: Scope,
    limits: Limits,
    tally: Tally,
) -> Span | None:
    """Return the span, or None if its ids are invalid (empty here); it is then counted as rejected.

    An empty `parent_span_id` means an invalid one: the span is stored as a root, and counted.
    """
    if not trace_id or not span_id:
        tally.rejected[BAD_SPAN_ID if trace_id else BAD_TRACE_ID] += 1
        return None
    if parent_span_id == "":
        tally.altered[MENDED_PARENT] += 1
        parent_span_id = None
    if not 0 < start_ns <= end_ns < TIME_END_NS:
        start_ns, end_ns = clean_times(start_ns, end_ns, tally.altered)
    draft = _Draft(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent_span_id,
        name=clean_name(name, limits, tally.altered),
        kind=clean_enum(kind, _HIGHEST_KIND),
        start_ns=start_ns,
        end_ns=end_ns,
        status=clean_enum(status, _HIGHEST_STATUS),
        status_message=clean_text(status_message, limits.max_value_bytes, tally.altered) if status_message else "",
        attributes=attributes,
        events=events,
        links=links,
        resource=resource,
        scope=scope,
    )
    draft.__class__ = Span
    span: Span = draft
    return span


def span_ids_of_log(trace_id: str, span_id: str, tally: Tally) -> tuple[str, str] | None:
    """Return the trace and span id of a log record, or None if it is ignored or rejected, and counted.

    Unset ids (empty or all zero) mean a record outside any span, which is ignored; malformed ids are rejected.
    """
    if not trace_id.strip("0") or not span_id.strip("0"):
        tally.ignored[OUTSIDE_SPAN] += 1
        return None
    trace, span = id_of_text(trace_id, TRACE_ID_HEX), id_of_text(span_id, SPAN_ID_HEX)
    if not trace or not span:
        tally.rejected[BAD_SPAN_ID if trace else BAD_TRACE_ID] += 1
        return None
    return trace, span


def build_log(
    *,
    span_ids: tuple[str, str],
    time_ns: int,
    observed_ns: int,
    event_name: str,
    body: Any,
    attributes: Mapping[str, Any],
    resource: Resource,
    scope: Scope,
    limits: Limits,
    tally: Tally,
) -> LogRecord | None:
    """Return the log record, or None if it contains nothing about an agent; it is then counted as ignored."""
    name = event_name or attributes.get(EVENT_NAME_ATTRIBUTE) or ""
    if not name and not any(key.startswith(GENAI_PREFIX) for key in attributes):
        tally.ignored[NOT_AN_EVENT] += 1
        return None
    # A record without its own time is valid OTLP, so only an unusable observed time counts as altered.
    own_time = 0 < time_ns < TIME_END_NS
    return LogRecord(
        trace_id=span_ids[0],
        span_id=span_ids[1],
        time_ns=time_ns if own_time else clean_time(observed_ns, 0, tally.altered),
        event_name=clean_name(str(name), limits, tally.altered),
        body=body,
        attributes=attributes,
        resource=resource,
        scope=scope,
    )
