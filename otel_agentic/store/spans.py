"""Spans and log records into the store, each (trace id, span id) once."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.spans.ports import Receipt
from otel_agentic.store.recent import RecentIds
from otel_agentic.store.span_columns import span_columns
from otel_agentic.store.table import LAST_NS, Feed, Raw, Table, json_text, rows_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.dialects.detect import Reader
    from otel_agentic.spans.model import LogRecord, Resource, Span, SpanBatch

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
        """Read the newest ids of the file; the connection, outside a transaction, is the one passed to `insert` later."""
        self._spans = Feed(con, "spans")
        self._logs = Table(con, "log_records")
        self._reader = reader
        self._recent = _newest_ids(con, recent_limit)
        self._last_ns = last_commit_ns(con)

    def insert(
        self, con: DuckDBPyConnection, batches: Sequence[SpanBatch], now_ns: int
    ) -> tuple[list[Receipt], Inserted]:
        """Insert the new spans and log records of several batches; return a receipt for each, and a record of the new rows.

        Call `committed` with the second value once the transaction is durable. `received_at` increases from commit to commit even
        if the clock does not: it shows which traces were read before their newest span was received.
        """
        now_ns = max(now_ns, self._last_ns + 1)
        fresh = self._new_spans(con, batches)
        fresh_logs = self._new_logs(con, batches)
        spans = list(chain.from_iterable(fresh))
        logs = list(chain.from_iterable(fresh_logs))
        if spans:
            self._spans.insert(span_columns(spans, self._reader, now_ns))
        self._insert_logs(con, logs, now_ns)
        receipts = [
            receipt_of(batch, accepted=len(new) + len(new_logs))
            for batch, new, new_logs in zip(batches, fresh, fresh_logs, strict=True)
        ]
        return receipts, Inserted(
            ids=_ids(spans),
            latest_ns=max((span.start_ns for span in spans), default=-1),
            traces=frozenset(span.trace_id for span in spans) | frozenset(log.trace_id for _, log in logs),
            at_ns=now_ns,
        )

    def committed(self, inserted: Inserted) -> None:
        """Remember ids that are now durable."""
        self._recent.add(inserted.ids, inserted.latest_ns)
        self._last_ns = inserted.at_ns

    def forget_ids(self) -> None:
        """Search the file for the id of each span from now on, because rows were added without `insert`."""
        self._recent.forget(LAST_NS)

    def _new_spans(self, con: DuckDBPyConnection, batches: Sequence[SpanBatch]) -> list[Sequence[Span]]:
        ids = [_ids(batch.spans) for batch in batches]
        flat = list(chain.from_iterable(ids))
        known = self._recent.known(flat)
        known |= self._stored(con, [span for batch in batches for span in batch.spans], known)
        if not known and len(set(flat)) == len(flat):
            return [batch.spans for batch in batches]
        fresh: list[Sequence[Span]] = []
        for batch, names in zip(batches, ids, strict=True):
            new = []
            for name, span in zip(names, batch.spans, strict=True):
                if name not in known:
                    known.add(name)
                    new.append(span)
            fresh.append(new)
        return fresh

    def _stored(self, con: DuckDBPyConnection, spans: Sequence[Span], known: set[str]) -> set[str]:
        """Return the ids of the spans that are stored but no longer remembered."""
        until_ns = self._recent.forgotten_until_ns
        old = [span for span in spans if span.start_ns <= until_ns and span.trace_id + span.span_id not in known]
        if not old:
            return set()
        requested = {"trace_id": [span.trace_id for span in old], "span_id": [span.span_id for span in old]}
        return {name for (name,) in rows_with(con, requested, _STORED, _bounds([span.start_ns for span in old]))}

    def _new_logs(self, con: DuckDBPyConnection, batches: Sequence[SpanBatch]) -> list[list[tuple[int, LogRecord]]]:
        hashed = [[(log_hash(log), log) for log in batch.logs] for batch in batches]
        flat = [item for group in hashed for item in group]
        if not flat:
            return [[] for _ in batches]
        requested = {"content_hash": np.array([value for value, _ in flat], dtype="uint64")}
        rows = rows_with(con, requested, _STORED_LOGS, _bounds([log.time_ns for _, log in flat]))
        known = {int(value) for (value,) in rows}
        fresh: list[list[tuple[int, LogRecord]]] = []
        for group in hashed:
            new = []
            for value, log in group:
                if value not in known:
                    known.add(value)
                    new.append((value, log))
            fresh.append(new)
        return fresh

    def _insert_logs(self, con: DuckDBPyConnection, hashed: Sequence[tuple[int, LogRecord]], now_ns: int) -> None:
        resources = _ResourceTexts()
        logs = [log for _, log in hashed]
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
                "content_hash": [value for value, _ in hashed],
                "received_at": [now_ns] * len(logs),
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inserted:
    """The result of a transaction: new span ids, when the last of these spans began, traces touched, and commit time, ns."""

    ids: Sequence[str]
    latest_ns: int
    traces: frozenset[str]
    at_ns: int


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
    """Return when something was last received, ns; 0 if nothing was. Anything added must be received later."""
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
        recent.add([name for name, _ in portion], max(start_ns for _, start_ns in portion))
    return recent


def _ids(spans: Sequence[Span]) -> list[str]:
    return [span.trace_id + span.span_id for span in spans]


def _bounds(times_ns: Sequence[int]) -> dict[str, Any]:
    """Return the range of some times, capped as the store does."""
    return {"first": min(*times_ns, LAST_NS), "last": min(max(times_ns), LAST_NS)}
