"""Spans and log records from the store, as they were received."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS
from otel_agentic.spans.model import LogRecord, Resource, Scope, Span, SpanEvent, SpanLink
from otel_agentic.store.table import rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

#: By row id: the narrow column of trace ids is searched first, so that wide columns are read only for matching rows.
_SPANS: Final = """
SELECT
    trace_id, span_id, parent_span_id, name, kind, epoch_ns(start_time), epoch_ns(end_time), status, status_message,
    scope, scope_version, attributes, events, links, resource, epoch_ns(received_at)
FROM spans
WHERE rowid IN (SELECT rowid FROM spans WHERE trace_id IN (SELECT trace_id FROM requested))
"""
_LOGS: Final = """
SELECT
    trace_id, span_id, epoch_ns("time"), event_name, body, attributes, scope, resource, epoch_ns(received_at)
FROM log_records
WHERE rowid IN (SELECT rowid FROM log_records WHERE trace_id IN (SELECT trace_id FROM requested))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When the first and the last part of a trace were committed, ns.

    `clock_ahead`: a span ended more than five minutes after it was committed, which only a wrong clock can cause.
    """

    first_ns: int
    last_ns: int
    clock_ahead: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTraces:
    """The spans and log records of some traces.

    `arrivals` contains, for each trace, when its parts were committed.
    """

    spans: Sequence[Span]
    logs: Sequence[LogRecord]
    arrivals: dict[str, Arrival]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows:
    """The rows of some traces as the database returns them; another process may parse them."""

    spans: list[tuple[Any, ...]]
    logs: list[tuple[Any, ...]]

    @property
    def arrivals(self) -> dict[str, Arrival]:
        """When parts of each trace were committed."""
        received: dict[str, list[int]] = {}
        for row in (*self.spans, *self.logs):
            received.setdefault(row[0], []).append(row[-1])
        ahead = {row[0] for row in self.spans if row[6] > row[-1] + CLOCK_TOLERANCE_NS}
        return {
            trace_id: Arrival(first_ns=min(times), last_ns=max(times), clock_ahead=trace_id in ahead)
            for trace_id, times in received.items()
        }

    def read(self) -> StoredTraces:
        """Return the spans and log records."""
        resources = _ParsedResources()
        return StoredTraces(
            spans=[_span(row, resources) for row in self.spans],
            logs=[_log(row, resources) for row in self.logs],
            arrivals=self.arrivals,
        )


def load_rows(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> TraceRows:
    """Return the stored rows of the traces."""
    requested = {"trace_id": sorted(set(trace_ids))}
    return TraceRows(spans=rows_with(con, requested, _SPANS), logs=rows_with(con, requested, _LOGS))


def load_traces(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> StoredTraces:
    """Return the stored spans and log records of the traces."""
    return load_rows(con, trace_ids).read()


class _ParsedResources:
    """Parses each resource text once."""

    def __init__(self) -> None:
        self._parsed: dict[str, Resource] = {}

    def read(self, text: str) -> Resource:
        resource = self._parsed.get(text)
        if resource is None:
            resource = self._parsed[text] = Resource(attributes=_attributes(text))
        return resource


def _span(row: tuple[Any, ...], resources: _ParsedResources) -> Span:
    return Span(
        trace_id=row[0],
        span_id=row[1],
        parent_span_id=row[2],
        name=row[3],
        kind=row[4],
        start_ns=row[5],
        end_ns=row[6],
        status=row[7],
        status_message=row[8] or "",
        scope=Scope(name=row[9], version=row[10] or ""),
        attributes=_attributes(row[11]),
        events=tuple(
            SpanEvent(name=event["name"], time_ns=event["time_ns"], attributes=event["attributes"])
            for event in _value(row[12]) or ()
        ),
        links=tuple(
            SpanLink(trace_id=link["trace_id"], span_id=link["span_id"], attributes=link["attributes"])
            for link in _value(row[13]) or ()
        ),
        resource=resources.read(row[14]),
    )


def _log(row: tuple[Any, ...], resources: _ParsedResources) -> LogRecord:
    return LogRecord(
        trace_id=row[0],
        span_id=row[1],
        time_ns=row[2],
        event_name=row[3],
        body=_value(row[4]),
        attributes=_attributes(row[5]),
        scope=Scope(name=row[6]),
        resource=resources.read(row[7]),
    )


def _attributes(text: str) -> dict[str, Any]:
    attributes: dict[str, Any] = orjson.loads(text)
    if "$bytes" in text:
        return {key: _with_bytes(value) for key, value in attributes.items()}
    return attributes


def _value(text: str | None) -> Any:
    value = None if text is None else orjson.loads(text)
    return _with_bytes(value) if text is not None and "$bytes" in text else value


def _with_bytes(value: Any) -> Any:
    """Return a value with base64 text from `json_text` converted back to bytes."""
    if isinstance(value, dict):
        coded = value.get("$bytes") if len(value) == 1 else None
        if isinstance(coded, str):
            return _decoded(coded, value)
        return {key: _with_bytes(inner) for key, inner in value.items()}
    return [_with_bytes(inner) for inner in value] if isinstance(value, list) else value


def _decoded(coded: str, original: dict[str, Any]) -> bytes | dict[str, Any]:
    try:
        return base64.b64decode(coded, validate=True)
    except ValueError:
        return original  # a sender's own map with our key is left unchanged
