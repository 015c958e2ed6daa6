"""Spans and log records as received: decoded, independent of the transport.

Times are nanoseconds since the Unix epoch, UTC. Ids are lower-case hex text: 32 characters for a trace, 16 for a span.
Attribute values are plain Python: str, bool, int, float, bytes, None, list and dict of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


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
