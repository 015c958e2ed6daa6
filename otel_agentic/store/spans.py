"""Spans and log records into the store: each (trace id, span id) once."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from otel_agentic.spans.ports import Receipt
from otel_agentic.store.table import LAST_NS, Raw, Table, json_text, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.dialects.detect import Reader
    from otel_agentic.spans.model import LogRecord, Resource, Span, SpanBatch

#: Work is divided into this many parts by the stable hash of an id.
BUCKETS: Final = 1024
_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")
_PROMOTED: Final = {
    "operation": ("gen_ai.operation.name", "openinference.span.kind"),
    "conversation_id": ("gen_ai.conversation.id", "session.id"),
    "agent_name": ("gen_ai.agent.name", "agent.name"),
    "tool_name": ("gen_ai.tool.name", "tool.name"),
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name"),
}
#: Spans of the batch that the file holds already, looked for in the batch's own range of start times.
_STORED: Final = """
SELECT DISTINCT b.place
FROM wanted b
JOIN spans s ON s.trace_id = b.trace_id AND s.span_id = b.span_id
WHERE s.start_time BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
"""
_STORED_LOGS: Final = """
SELECT DISTINCT b.content_hash
FROM wanted b
JOIN log_records s ON s.content_hash = b.content_hash
WHERE s."time" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
"""
_NEWEST: Final = "SELECT trace_id, span_id FROM spans ORDER BY received_at DESC LIMIT ?"
_LAST_COMMIT: Final = """
SELECT coalesce(max(epoch_ns(received_at)), 0)
FROM (SELECT max(received_at) AS received_at FROM spans UNION ALL SELECT max(received_at) FROM log_records)
"""


def bucket_of(identity: str) -> int:
    """Return a stable number from 0 to 1023 for an id: the same in every process and release."""
    return zlib.crc32(identity.encode()) % BUCKETS


class RecentIds:
    """The newest span ids, to catch a resent span whose start time differs. Two generations bound the memory."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, key: int) -> bool:
        return key in self._young or key in self._old

    def add(self, keys: Iterable[int]) -> None:
        """Remember ids; the oldest half is forgotten when there are too many."""
        for key in keys:
            self._young.add(key)
            if len(self._young) >= self._half:
                self._old, self._young = self._young, set()


class SpanTables:
    """The tables `spans` and `log_records`. Used by the writer thread alone."""

    def __init__(self, con: DuckDBPyConnection, reader: Reader, recent_limit: int) -> None:
        self._spans = Table(con, "spans")
        self._logs = Table(con, "log_records")
        self._reader = reader
        self._recent = RecentIds(recent_limit)
        rows = con.execute(_NEWEST, [recent_limit]).fetchall()
        self._recent.add(_key(trace_id, span_id) for trace_id, span_id in reversed(rows))
        self._last_ns = int(con.execute(_LAST_COMMIT).fetchall()[0][0])

    def insert(
        self, con: DuckDBPyConnection, batches: Sequence[SpanBatch], now_ns: int
    ) -> tuple[list[Receipt], Inserted]:
        """Insert the new spans and log records of several batches; return a receipt for each, and what was new.

        Call `committed` with the second value once the transaction is durable. `received_at` counts up from commit to
        commit even where the clock does not: it tells which traces were read before the newest of their spans came.
        """
        now_ns = max(now_ns, self._last_ns + 1)
        fresh = self._new_spans(con, batches)
        fresh_logs = self._new_logs(con, batches)
        spans = [span for group in fresh for span in group]
        logs = [log for group in fresh_logs for log in group]
        self._insert_spans(con, spans, now_ns)
        self._insert_logs(con, logs, now_ns)
        receipts = [
            receipt_of(batch, accepted=len(new) + len(new_logs))
            for batch, new, new_logs in zip(batches, fresh, fresh_logs, strict=True)
        ]
        traces = frozenset(span.trace_id for span in spans) | frozenset(log.trace_id for log in logs)
        keys = [_key(span.trace_id, span.span_id) for span in spans]
        return receipts, Inserted(keys=keys, traces=traces, at_ns=now_ns)

    def committed(self, inserted: Inserted) -> None:
        """Remember ids that are durable now."""
        self._recent.add(inserted.keys)
        self._last_ns = inserted.at_ns

    def _new_spans(self, con: DuckDBPyConnection, batches: Sequence[SpanBatch]) -> list[list[Span]]:
        seen: set[int] = set()
        fresh: list[list[tuple[int, Span]]] = []
        for batch in batches:
            new = []
            for span in batch.spans:
                key = _key(span.trace_id, span.span_id)
                if key not in seen and key not in self._recent:
                    seen.add(key)
                    new.append((key, span))
            fresh.append(new)
        stored = self._stored(con, [item for group in fresh for item in group])
        return [[span for key, span in group if key not in stored] for group in fresh]

    def _stored(self, con: DuckDBPyConnection, keyed: Sequence[tuple[int, Span]]) -> set[int]:
        if not keyed:
            return set()
        spans = [span for _, span in keyed]
        wanted: dict[str, Sequence[Any]] = {
            "place": range(len(keyed)),
            "trace_id": [span.trace_id for span in spans],
            "span_id": [span.span_id for span in spans],
        }
        bounds = _bounds([span.start_ns for span in spans])
        return {keyed[place][0] for (place,) in rows_with(con, wanted, _STORED, bounds)}

    def _new_logs(self, con: DuckDBPyConnection, batches: Sequence[SpanBatch]) -> list[list[LogRecord]]:
        hashed = [[(log_hash(log), log) for log in batch.logs] for batch in batches]
        flat = [item for group in hashed for item in group]
        if not flat:
            return [[] for _ in batches]
        wanted = {"content_hash": np.array([value for value, _ in flat], dtype="uint64")}
        found = rows_with(con, wanted, _STORED_LOGS, _bounds([log.time_ns for _, log in flat]))
        seen = {int(value) for (value,) in found}
        fresh: list[list[LogRecord]] = []
        for group in hashed:
            new = []
            for value, log in group:
                if value not in seen:
                    seen.add(value)
                    new.append(log)
            fresh.append(new)
        return fresh

    def _insert_spans(self, con: DuckDBPyConnection, spans: Sequence[Span], now_ns: int) -> None:
        if not spans:
            return
        resources = _Resources()
        columns: dict[str, list[Any]] = {
            "trace_id": [span.trace_id for span in spans],
            "span_id": [span.span_id for span in spans],
            "parent_span_id": [span.parent_span_id for span in spans],
            "name": [span.name for span in spans],
            "kind": [span.kind for span in spans],
            "start_time": [span.start_ns for span in spans],
            "end_time": [span.end_ns for span in spans],
            "status": [span.status for span in spans],
            "status_message": [span.status_message or None for span in spans],
            "service": [_text(span.resource.attributes.get("service.name")) for span in spans],
            "environment": [environment_of(span.resource) for span in spans],
            "scope": [span.scope.name for span in spans],
            "scope_version": [span.scope.version or None for span in spans],
            "dialect": [self._reader.dialect_of(span)[0].name for span in spans],
            "attributes": [span.attributes for span in spans],
            "events": [_events(span) for span in spans],
            "links": [_links(span) for span in spans],
            "resource": [resources.text(span.resource) for span in spans],
            "bucket": [bucket_of(span.trace_id) for span in spans],
            "received_at": [now_ns] * len(spans),
        }
        for column, keys in _PROMOTED.items():
            columns[column] = [_first_text(span.attributes, keys) for span in spans]
        self._spans.insert(con, columns)

    def _insert_logs(self, con: DuckDBPyConnection, logs: Sequence[LogRecord], now_ns: int) -> None:
        resources = _Resources()
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
                "content_hash": [log_hash(log) for log in logs],
                "received_at": [now_ns] * len(logs),
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted:
    """What a transaction added: span keys, the traces touched, and the time of the commit, ns."""

    keys: Sequence[int]
    traces: frozenset[str]
    at_ns: int


class _Resources:
    """Serialises each resource once: a batch shares few of them."""

    def __init__(self) -> None:
        self._texts: dict[int, Raw] = {}

    def text(self, resource: Resource) -> Raw:
        found = self._texts.get(id(resource))
        if found is None:
            found = self._texts[id(resource)] = Raw(json_text(resource.attributes))
        return found


def log_hash(log: LogRecord) -> int:
    """Return a 64-bit hash of everything that a log record says."""
    text = json_text([log.trace_id, log.span_id, log.time_ns, log.event_name, log.body, log.attributes])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def environment_of(resource: Resource) -> str:
    """Return the deployment environment of a resource, empty when it names none."""
    return next((str(resource.attributes[key]) for key in _ENVIRONMENT_KEYS if resource.attributes.get(key)), "")


def receipt_of(batch: SpanBatch, *, accepted: int) -> Receipt:
    """Return the receipt of a batch of which so many spans and log records were new."""
    return Receipt(
        accepted=accepted,
        duplicate=len(batch.spans) + len(batch.logs) - accepted,
        rejected=sum(batch.rejected.values()),
        ignored=sum(batch.ignored.values()),
        reasons=dict(Counter(batch.rejected) + Counter(batch.ignored)),
    )


def _bounds(times_ns: Sequence[int]) -> dict[str, int]:
    """Return the range of some times as the store keeps them."""
    return {"first": min(*times_ns, LAST_NS), "last": min(max(times_ns), LAST_NS)}


def _key(trace_id: str, span_id: str) -> int:
    return int(trace_id + span_id, 16)


def _events(span: Span) -> list[dict[str, Any]] | None:
    return [
        {"name": event.name, "time_ns": event.time_ns, "attributes": event.attributes} for event in span.events
    ] or None


def _links(span: Span) -> list[dict[str, Any]] | None:
    return [
        {"trace_id": link.trace_id, "span_id": link.span_id, "attributes": link.attributes} for link in span.links
    ] or None


def _first_text(attributes: Any, keys: Sequence[str]) -> str | None:
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return _text(value)
    return None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, default=str).decode()
