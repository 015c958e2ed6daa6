"""Spans and log records as received, independent of the transport, and how decoded fields become them.

Decoders pass the fields of each record to the functions at the end of this file, which return a `Span` or a
`LogRecord`, or count the record as unusable. The Protocols are those between collectors and store.

Times are nanoseconds since the Unix epoch, UTC. Ids are lower-case hex text: 32 characters for a trace, 16 for a span.
Attribute values are plain Python: str, bool, int, float, bytes, None, list and dict of these.

The attributes of a resource have a separate size limit: they are written to the row of each of its spans, so that a
single request could fill a disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from otel_agentic.spans.sanitize import (
    MENDED_PARENT,
    SPAN_ID_HEX,
    TIME_END_NS,
    TRACE_ID_HEX,
    Limits,
    clean_enum,
    clean_name,
    clean_text,
    clean_time,
    clean_times,
    id_of_text,
)

if TYPE_CHECKING:
    from concurrent.futures import Future


class StatusCode(IntEnum):
    """OTLP `Status.StatusCode`."""

    UNSET = 0
    OK = 1
    ERROR = 2


class SpanKind(IntEnum):
    """OTLP `Span.SpanKind`."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The service that emitted a span; shared by all spans of one OTLP block."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    schema_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The instrumentation library that created a span; shared by all spans of one OTLP block."""

    name: str = ""
    version: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    schema_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """A timed event on a span."""

    name: str
    time_ns: int
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLink:
    """A link to a span of the same or another trace."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One finished span."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...]
    links: tuple[SpanLink, ...]
    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One OTLP log record that belongs to a span.

    `time_ns` is the record's own time, or the observed time if the sender left it unset.
    `event_name` is the OTLP field, or the attribute `event.name` that older senders wrote.
    """

    trace_id: str
    span_id: str
    time_ns: int
    event_name: str
    body: Any
    attributes: Mapping[str, Any]
    resource: Resource
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch:
    """The decoded content of one request, file chunk or in-process export.

    `rejected` counts the spans or log records that cannot be stored, by reason. `ignored` counts those that are well-formed
    but not stored (a log line outside any span, our own telemetry), by reason. `altered` counts the details of stored spans
    and log records that were cut or corrected, by reason. `size_bytes` is the size of the decompressed request, 0 if unknown;
    it is ignored when batches are compared.
    """

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    rejected: Mapping[str, int] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    altered: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = field(default=0, compare=False)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store and nothing to count."""
        return not (self.spans or self.logs or self.rejected or self.ignored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The outcome of a batch: `accepted + duplicate + rejected + ignored` is the number of its items.

    `reasons` counts the rejected and ignored items by reason. `altered` counts the details of stored items that were
    corrected, cut or redacted, by reason.
    """

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    ignored: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    altered: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Receipt) -> Receipt:
        """Return the receipt of both batches combined."""
        return Receipt(
            accepted=self.accepted + other.accepted,
            duplicate=self.duplicate + other.duplicate,
            rejected=self.rejected + other.rejected,
            ignored=self.ignored + other.ignored,
            reasons=_sums(self.reasons, other.reasons),
            altered=_sums(self.altered, other.altered),
        )


def _sums(counts: Mapping[str, int], other_counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: counts.get(reason, 0) + other_counts.get(reason, 0) for reason in (*counts, *other_counts)}


@runtime_checkable
class Sink(Protocol):
    """The destination of every collector's batches."""

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch and return its receipt once it is durable. Thread-safe; blocks.

        Raises:
            OverloadedError: the queue is full; nothing of the batch was stored.
            StoreError: the store cannot be written; nothing of the batch was stored.
        """
        ...


@runtime_checkable
class Submits(Protocol):
    """A sink that stores batches asynchronously, so that no thread has to wait for it."""

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Begin to store a batch; return a future receipt, set once it is durable. Thread-safe; does not block.

        The future fails with a `StoreError` as `Sink.accept` does.

        Raises:
            OverloadedError: the queue is full; nothing of the batch was stored.
            StoreError: the store cannot be written; nothing of the batch was stored.
        """
        ...


@runtime_checkable
class CountsRefusals(Protocol):
    """A sink that also counts the requests that a collector refused, for any reason."""

    def refused(self, transport: str, status: str) -> None:
        """Count a refused request by transport and gRPC status, both in lower case. Thread-safe; does not block."""
        ...


@runtime_checkable
class Collector(Protocol):
    """A source of batches that listens until it is stopped. Built by `Plugin.from_settings(settings)`."""

    name: str

    def start(self, sink: Sink) -> None:
        """Start listening; return when the listener is ready.

        Raises:
            UsageError: the address is in use or not allowed; names the address.
        """
        ...

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, finish the running ones within `grace_s` seconds, and release the address."""
        ...

    @property
    def endpoint(self) -> str:
        """The address to send to, with the real port once started."""
        ...


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

#: The bytes that a resource may always take: more than any ordinary resource of SDKs and cloud providers that was
#: measured.
_ALWAYS_BYTES: Final = 8 * 1024
#: The bytes of the quotes, colon and comma around an attribute, and those of a number or boolean.
_FRAME_BYTES: Final = 6
_SCALAR_BYTES: Final = 24


def shared(attributes: dict[str, Any], records: int, limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return the attributes of a resource that `records` spans or log records share, without those that do not fit.

    All rows together may take as much as the largest request, and one row at least 8 KiB. Attributes are kept in order,
    as long as they fit.
    """
    room = max(_ALWAYS_BYTES, limits.max_request_bytes // max(records, 1))
    if size_of(attributes) <= room:
        return attributes
    kept_attributes: dict[str, Any] = {}
    for key, value in attributes.items():
        size = size_of({key: value})
        if size <= room:
            kept_attributes[key] = value
            room -= size
    altered[CUT_SHARED] += len(attributes) - len(kept_attributes)
    return kept_attributes


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

#: The attribute that contained event names before OTLP had a field for them.
EVENT_NAME_ATTRIBUTE: Final = "event.name"
GENAI_PREFIX: Final = "gen_ai."

_HIGHEST_KIND: Final = max(SpanKind).value
_HIGHEST_STATUS: Final = max(StatusCode).value
#: The slots of a `Span`, without its immutability: a frozen dataclass sets each field by a call, which takes twice as
#: long.
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
    """Return the span, or None if its ids are invalid (empty here); the span is then counted as rejected.

    An empty `parent_span_id` means that it is invalid: the span is stored as a root, and counted as altered.
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
    """Return the trace and span id of a log record, or None if the record is ignored or rejected, which is counted.

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
