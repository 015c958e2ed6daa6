"""Spans and log records in the store: each (trace id, span id) is stored once, and read back unchanged."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS
from otel_agentic.spans.model import LogRecord, Receipt, Resource, Scope, Span, SpanBatch, SpanEvent, SpanLink
from otel_agentic.store.table import LAST_NS, Array, Feed, Raw, Table, json_text, object_array, rows_with, time_array

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.dialects.base import Reader

#: Trace id and span id as bytes. Complete ids are compared, so that two different spans are never confused.
_ID: Final = np.dtype("S24")
#: New ids are kept as text in a set; from this many on they are sorted into the array, which needs a fifth of the
#: memory.
_WAITING: Final = 32_768

_Ids = np.ndarray[tuple[int], np.dtype[np.bytes_]]
_NO_IDS: Final[_Ids] = np.empty(0, _ID)


class RecentIds:
    """The newest ids of stored spans: trace id and span id concatenated, 48 hex characters.

    With these in memory, the file need not be searched for each received span. Two generations bound the memory: 24
    bytes per id, and as much again for half of the ids while new ones are sorted in. Every stored span that began after
    `forgotten_until_ns` is remembered.
    """

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._waiting: set[str] = set()
        self._young, self._old = _NO_IDS, _NO_IDS
        self._young_until_ns = self._old_until_ns = -1
        self.forgotten_until_ns = -1

    def known(self, ids: Sequence[str]) -> set[str]:
        """Return the remembered ids among `ids`."""
        remembered = self._waiting.intersection(ids)
        generations = [generation for generation in (self._young, self._old) if len(generation)]
        if generations and ids:
            packed = _packed(ids)
            for generation in generations:
                positions = np.minimum(np.searchsorted(generation, packed), len(generation) - 1)
                remembered.update(ids[index] for index in np.flatnonzero(generation[positions] == packed).tolist())
        return remembered

    def add(self, ids: Collection[str], latest_ns: int) -> None:
        """Remember ids of spans that began up to `latest_ns`; if there are too many, the oldest half is forgotten."""
        self._waiting.update(ids)
        self._young_until_ns = max(self._young_until_ns, latest_ns)
        if len(self._waiting) < min(_WAITING, self._half):
            return
        self._young = np.sort(np.concatenate([self._young, _packed(self._waiting)]), kind="stable")
        self._waiting = set()
        if len(self._young) >= self._half:
            self.forget(self._old_until_ns)
            self._old, self._old_until_ns = self._young, self._young_until_ns
            self._young, self._young_until_ns = _NO_IDS, -1

    def forget(self, until_ns: int) -> None:
        """Record that spans are stored that began up to this time and whose ids are not remembered."""
        self.forgotten_until_ns = max(self.forgotten_until_ns, until_ns)


def _packed(ids: Collection[str]) -> _Ids:
    return np.frombuffer(bytes.fromhex("".join(ids)), dtype=_ID)


#: Work is divided into this many parts by a stable hash of an id.
BUCKETS: Final = 1024
_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")
_PROMOTED: Final = {
    "operation": ("gen_ai.operation.name", "openinference.span.kind"),
    "conversation_id": ("gen_ai.conversation.id", "session.id"),
    "agent_name": ("gen_ai.agent.name", "agent.name"),
    "tool_name": ("gen_ai.tool.name", "tool.name"),
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
}
_IDENTITY: Final = attrgetter("trace_id", "span_id", "parent_span_id", "name", "status_message")
_NUMBERS: Final = attrgetter("kind", "status", "start_ns", "end_ns")
_CONTENT: Final = attrgetter("attributes", "events", "links", "resource", "scope")
_TEXT_OR_NONE: Final = {str, type(None)}


def span_columns(spans: Sequence[Span], reader: Reader, now_ns: int) -> dict[str, Array]:
    """Return the columns of the spans, at least one; null is None in an array of objects."""
    trace_ids, span_ids, parents, names, messages = zip(*map(_IDENTITY, spans), strict=True)
    kinds, statuses, starts_ns, ends_ns = zip(*map(_NUMBERS, spans), strict=True)
    attributes, events, links, resources, scopes = zip(*map(_CONTENT, spans), strict=True)
    services, environments, resource_texts = _columns_of(resources, _of_resource)
    scope_names, versions = _columns_of(scopes, _of_scope)
    texts: dict[str, Sequence[str | None]] = {
        "trace_id": trace_ids,
        "span_id": span_ids,
        "parent_span_id": parents,
        "name": names,
        "status_message": [message or None for message in messages],
        "service": services,
        "environment": environments,
        "scope": scope_names,
        "scope_version": versions,
        "dialect": [reader.dialect_of(span)[0].name for span in spans],
        **{column: _promoted(attributes, keys) for column, keys in _PROMOTED.items()},
        "attributes": [json_text(values) for values in attributes],
        "events": [json_text([_event(event) for event in of_span]) if of_span else None for of_span in events],
        "links": [json_text([_link(link) for link in of_span]) if of_span else None for of_span in links],
        "resource": resource_texts,
    }
    return {
        **{column: object_array(values) for column, values in texts.items()},
        "kind": np.array(kinds, dtype=np.uint8),
        "status": np.array(statuses, dtype=np.uint8),
        "start_time": time_array(starts_ns),
        "end_time": time_array(ends_ns),
        "bucket": np.array([bucket_of(trace_id) for trace_id in trace_ids], dtype=np.uint16),
        "received_at": time_array([now_ns] * len(spans)),
    }


def bucket_of(identity: str) -> int:
    """Return a stable number from 0 to 1023 for an id: the same in every process and release."""
    return zlib.crc32(identity.encode()) % BUCKETS


def environment_of(resource: Resource) -> str:
    """Return the deployment environment of a resource, empty if it has none."""
    return next((str(resource.attributes[key]) for key in _ENVIRONMENT_KEYS if resource.attributes.get(key)), "")


def _columns_of(
    entities: Sequence[Any], read: Callable[[Any], tuple[str | None, ...]]
) -> Iterator[tuple[str | None, ...]]:
    """Return the columns that `read` computes from resources or scopes; a batch shares few, so each is read once."""
    values = {key: read(entity) for key, entity in {id(entity): entity for entity in entities}.items()}
    return zip(*[values[id(entity)] for entity in entities], strict=True)


def _of_resource(resource: Resource) -> tuple[str | None, ...]:
    return _text(resource.attributes.get("service.name")), environment_of(resource), json_text(resource.attributes)


def _of_scope(scope: Scope) -> tuple[str | None, ...]:
    return scope.name, scope.version or None


def _promoted(attributes: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Sequence[str | None]:
    """Return a column that contains, for each span, the first attribute of `keys` that it has."""
    values = [of_span.get(keys[0]) for of_span in attributes]
    for key in keys[1:]:
        if None in values:
            values = [
                of_span.get(key) if value is None else value for of_span, value in zip(attributes, values, strict=True)
            ]
    return values if _TEXT_OR_NONE.issuperset(map(type, values)) else [_text(value) for value in values]


def _event(event: Any) -> dict[str, Any]:
    return {"name": event.name, "time_ns": event.time_ns, "attributes": event.attributes}


def _link(link: Any) -> dict[str, Any]:
    return {"trace_id": link.trace_id, "span_id": link.span_id, "attributes": link.attributes}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, default=str).decode()


#: Spans of the batch that are stored already, searched for in the batch's own range of start times.
_STORED: Final = """
SELECT DISTINCT b.trace_id || b.span_id
FROM requested b
JOIN spans s ON s.trace_id = b.trace_id AND s.span_id = b.span_id
WHERE s.start_time BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
"""
_STORED_LOGS: Final = """
SELECT DISTINCT b.content_hash
FROM requested b
JOIN log_records s ON s.content_hash = b.content_hash
WHERE s."time" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
"""
#: Rows are stored in the order in which they were added.
_FIRST_NEW: Final = "SELECT max(rowid) + 1 - $newest FROM spans"
_NEWEST: Final = "SELECT trace_id || span_id, epoch_ns(start_time) FROM spans WHERE rowid >= $first"
_OLDER: Final = "SELECT epoch_ns(max(start_time)) FROM spans WHERE rowid < $first"
_LAST_COMMIT: Final = """
SELECT coalesce(max(epoch_ns(received_at)), 0)
FROM (SELECT max(received_at) AS received_at FROM spans UNION ALL SELECT max(received_at) FROM log_records)
"""
#: Ids read at a time when the store opens.
_PORTION: Final = 32_768


class SpanTables:
    """The tables `spans` and `log_records`. Used by the writer thread only."""

    def __init__(self, con: DuckDBPyConnection, reader: Reader, recent_limit: int) -> None:
        """Prepare the tables; `con`, outside a transaction, is also the connection passed to `insert`."""
        self._con = con
        self._spans = Feed(con, "spans")
        self._logs = Table(con, "log_records")
        self._reader = reader
        self._recent_limit = recent_limit
        #: The time of the last commit, ns, 0 before the first.
        self.last_ns = last_commit_ns(con)

    @cached_property
    def _recent(self) -> RecentIds:
        """The newest ids of the file, read before the first insert, because most commands insert no spans."""
        return _newest_ids(self._con, self._recent_limit)

    def insert(
        self, con: DuckDBPyConnection, batches: Sequence[SpanBatch], now_ns: int
    ) -> tuple[list[Receipt], Inserted]:
        """Insert the new spans and log records of several batches; return their receipts, and a record of the new rows.

        Call `committed` with the second value once the transaction is durable. `received_at` increases from commit to
        commit even if the clock does not: it shows which traces were read before their newest span was received.
        """
        now_ns = max(now_ns, self.last_ns + 1)
        spans_by_batch = self._new_spans(con, batches)
        logs_by_batch = self._new_logs(con, batches)
        spans = list(chain.from_iterable(spans_by_batch))
        logs = list(chain.from_iterable(logs_by_batch))
        if spans:
            self._spans.insert(span_columns(spans, self._reader, now_ns))
        self._insert_logs(con, logs, now_ns)
        receipts = [
            receipt_of(batch, accepted=len(new_spans) + len(new_logs))
            for batch, new_spans, new_logs in zip(batches, spans_by_batch, logs_by_batch, strict=True)
        ]
        return receipts, Inserted(
            ids=_ids(spans),
            latest_ns=max((span.start_ns for span in spans), default=-1),
            traces=frozenset(span.trace_id for span in spans) | frozenset(log.trace_id for _, log in logs),
            at_ns=now_ns,
            spans=spans,
            logs=[log for _, log in logs],
        )

    def committed(self, inserted: Inserted) -> None:
        """Remember ids that are now durable."""
        self._recent.add(inserted.ids, inserted.latest_ns)
        self.last_ns = inserted.at_ns

    def forget_ids(self) -> None:
        """Look up the id of each span in the file from now on, because rows were added without `insert`."""
        self._recent.forget(LAST_NS)

    def _new_spans(self, con: DuckDBPyConnection, batches: Sequence[SpanBatch]) -> list[Sequence[Span]]:
        ids_by_batch = [_ids(batch.spans) for batch in batches]
        all_ids = list(chain.from_iterable(ids_by_batch))
        stored_ids = self._recent.known(all_ids)
        stored_ids |= self._forgotten_ids(con, [span for batch in batches for span in batch.spans], stored_ids)
        if not stored_ids and len(set(all_ids)) == len(all_ids):
            return [batch.spans for batch in batches]
        new_by_batch: list[Sequence[Span]] = []
        for batch, ids in zip(batches, ids_by_batch, strict=True):
            new_spans = []
            for span_id, span in zip(ids, batch.spans, strict=True):
                if span_id not in stored_ids:
                    stored_ids.add(span_id)
                    new_spans.append(span)
            new_by_batch.append(new_spans)
        return new_by_batch

    def _forgotten_ids(self, con: DuckDBPyConnection, spans: Sequence[Span], remembered: set[str]) -> set[str]:
        """Return the ids of the spans that are stored but not remembered."""
        until_ns = self._recent.forgotten_until_ns
        old = [span for span in spans if span.start_ns <= until_ns and span.trace_id + span.span_id not in remembered]
        if not old:
            return set()
        requested = {"trace_id": [span.trace_id for span in old], "span_id": [span.span_id for span in old]}
        rows = rows_with(con, requested, _STORED, _bounds([span.start_ns for span in old]))
        return {span_id for (span_id,) in rows}

    def _new_logs(self, con: DuckDBPyConnection, batches: Sequence[SpanBatch]) -> list[list[tuple[int, LogRecord]]]:
        hashed_by_batch = [[(log_hash(log), log) for log in batch.logs] for batch in batches]
        all_hashed = list(chain.from_iterable(hashed_by_batch))
        if not all_hashed:
            return [[] for _ in batches]
        requested = {"content_hash": np.array([content_hash for content_hash, _ in all_hashed], dtype="uint64")}
        rows = rows_with(con, requested, _STORED_LOGS, _bounds([log.time_ns for _, log in all_hashed]))
        stored_hashes = {int(content_hash) for (content_hash,) in rows}
        new_by_batch: list[list[tuple[int, LogRecord]]] = []
        for hashed_logs in hashed_by_batch:
            new_logs = []
            for content_hash, log in hashed_logs:
                if content_hash not in stored_hashes:
                    stored_hashes.add(content_hash)
                    new_logs.append((content_hash, log))
            new_by_batch.append(new_logs)
        return new_by_batch

    def _insert_logs(self, con: DuckDBPyConnection, hashed_logs: Sequence[tuple[int, LogRecord]], now_ns: int) -> None:
        resources = _ResourceTexts()
        logs = [log for _, log in hashed_logs]
        self._logs.insert(
            con,
            {
                "trace_id": [log.trace_id for log in logs],
                "span_id": [log.span_id for log in logs],
                "time": [log.time_ns for log in logs],
                "event_name": [log.event_name for log in logs],
                "body": [log.body for log in logs],
                "attributes": [log.attributes for log in logs],
                "scope": [log.scope.name for log in logs],
                "resource": [resources.text(log.resource) for log in logs],
                "content_hash": [content_hash for content_hash, _ in hashed_logs],
                "received_at": [now_ns] * len(logs),
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted:
    """The result of a transaction: the new spans and log records, and their commit time.

    `ids` are the ids of the spans, `latest_ns` is the latest start of these, `traces` the ids of the changed traces.
    """

    ids: Sequence[str]
    latest_ns: int
    traces: frozenset[str]
    at_ns: int
    spans: Sequence[Span]
    logs: Sequence[LogRecord]


class _ResourceTexts:
    """Serialises each resource once: a batch shares few of them."""

    def __init__(self) -> None:
        self._texts: dict[int, Raw] = {}

    def text(self, resource: Resource) -> Raw:
        text = self._texts.get(id(resource))
        if text is None:
            text = self._texts[id(resource)] = Raw(json_text(resource.attributes))
        return text


def last_commit_ns(con: DuckDBPyConnection) -> int:
    """Return the latest `received_at` of the store, ns, 0 if it is empty; new rows must have a later one."""
    return int(con.execute(_LAST_COMMIT).fetchall()[0][0])


def log_hash(log: LogRecord) -> int:
    """Return a 64-bit hash of the content of a log record."""
    text = json_text([log.trace_id, log.span_id, log.time_ns, log.event_name, log.body, log.attributes])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def receipt_of(batch: SpanBatch, *, accepted: int) -> Receipt:
    """Return the receipt of a batch with this many new spans and log records."""
    return Receipt(
        accepted=accepted,
        duplicate=len(batch.spans) + len(batch.logs) - accepted,
        rejected=sum(batch.rejected.values()),
        ignored=sum(batch.ignored.values()),
        reasons=dict(Counter(batch.rejected) + Counter(batch.ignored)),
        altered=dict(batch.altered),
    )


def _newest_ids(con: DuckDBPyConnection, limit: int) -> RecentIds:
    recent = RecentIds(limit)
    ((first,),) = con.execute(_FIRST_NEW, {"newest": limit}).fetchall()
    if first is None:
        return recent
    ((older_ns,),) = con.execute(_OLDER, {"first": first}).fetchall()
    recent.forget(-1 if older_ns is None else older_ns)
    newest = con.execute(_NEWEST, {"first": first})
    while portion := newest.fetchmany(_PORTION):
        recent.add([span_id for span_id, _ in portion], max(start_ns for _, start_ns in portion))
    return recent


def _ids(spans: Sequence[Span]) -> list[str]:
    return [span.trace_id + span.span_id for span in spans]


def _bounds(times_ns: Sequence[int]) -> dict[str, Any]:
    """Return the range of some times as query parameters, capped like stored times."""
    return {"first": min(*times_ns, LAST_NS), "last": min(max(times_ns), LAST_NS)}


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


_COUNTS: Final = """
SELECT trace_id, count(*)
FROM (
    SELECT trace_id FROM spans WHERE trace_id IN (SELECT trace_id FROM requested)
    UNION ALL
    SELECT trace_id FROM log_records WHERE trace_id IN (SELECT trace_id FROM requested)
)
GROUP BY trace_id
"""
#: Types of values that JSON returns unchanged.
_SAME_IN_JSON: Final = frozenset({str, bool, int, type(None)})


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


def stored_counts(con: DuckDBPyConnection, trace_ids: Iterable[str]) -> dict[str, int]:
    """Return the number of stored spans and log records of each trace."""
    return dict(rows_with(con, {"trace_id": sorted(set(trace_ids))}, _COUNTS))


def as_stored(spans: Iterable[Span], logs: Iterable[LogRecord]) -> tuple[list[Span], list[LogRecord]]:
    """Return accepted spans and log records as `load_traces` returns them."""
    resources: dict[int, Resource] = {}
    return [_stored_span(span, resources) for span in spans], [_stored_log(log, resources) for log in logs]


def _stored_span(span: Span, resources: dict[int, Resource]) -> Span:
    """Return a span without the fields that are not stored, its values as JSON returns them; mostly the span itself."""
    scope, resource = _stored_scope(span.scope), _stored_resource(span.resource, resources)
    attributes = _stored_attributes(span.attributes)
    is_same = scope is span.scope and resource is span.resource and attributes is span.attributes
    if not is_same or span.events or span.links or span.end_ns > LAST_NS:
        return replace(
            span,
            start_ns=min(span.start_ns, LAST_NS),
            end_ns=min(span.end_ns, LAST_NS),
            attributes=attributes,
            events=tuple(replace(event, attributes=_stored_attributes(event.attributes)) for event in span.events),
            links=tuple(replace(link, attributes=_stored_attributes(link.attributes)) for link in span.links),
            resource=resource,
            scope=scope,
        )
    return span


def _stored_log(log: LogRecord, resources: dict[int, Resource]) -> LogRecord:
    return replace(
        log,
        time_ns=min(log.time_ns, LAST_NS),
        body=_stored_value(log.body),
        attributes=_stored_attributes(log.attributes),
        resource=_stored_resource(log.resource, resources),
        scope=Scope(name=log.scope.name),
    )


def _stored_scope(scope: Scope) -> Scope:
    return Scope(name=scope.name, version=scope.version) if scope.attributes or scope.schema_url else scope


def _stored_resource(resource: Resource, known: dict[int, Resource]) -> Resource:
    stored = known.get(id(resource))
    if stored is None:
        attributes = _stored_attributes(resource.attributes)
        is_same = attributes is resource.attributes and not resource.schema_url
        stored = known[id(resource)] = resource if is_same else Resource(attributes=attributes)
    return stored


def _stored_attributes(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    if _SAME_IN_JSON.issuperset(map(type, attributes.values())):
        return attributes
    return {key: _stored_value(value) for key, value in attributes.items()}


def _stored_value(value: Any) -> Any:
    return value if type(value) in _SAME_IN_JSON else _value(json_text(value))


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
    """Return a value in which the base64 texts of `json_text` are bytes again."""
    if isinstance(value, dict):
        encoded = value.get("$bytes") if len(value) == 1 else None
        if isinstance(encoded, str):
            return _decoded(encoded, value)
        return {key: _with_bytes(inner) for key, inner in value.items()}
    return [_with_bytes(inner) for inner in value] if isinstance(value, list) else value


def _decoded(encoded: str, original: dict[str, Any]) -> bytes | dict[str, Any]:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        return original  # a sender's own map with our key is left unchanged
