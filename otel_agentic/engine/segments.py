"""Reading the segments of traces, once: spans that arrive and their segments stay in memory until their conversations close."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations import read_segments
from otel_agentic.conversations.model import CLOCK_TOLERANCE_NS
from otel_agentic.spans.model import size_of
from otel_agentic.store.spans import Arrival, as_stored, load_rows, stored_counts

if TYPE_CHECKING:
    from otel_agentic.conversations import Segment
    from otel_agentic.dialects.base import Reader
    from otel_agentic.spans.model import LogRecord, Span
    from otel_agentic.store import Store
    from otel_agentic.store.spans import Inserted, StoredTraces, TraceRows

#: Estimated memory of the spans and segments in memory, of one process or of all workers.
MAX_BYTES: Final = 32 * 1024 * 1024
#: Memory of a span and its segment in addition to its text: measured 3 to 5 KB for small chats, recordings and long
#: histories. More than the largest, so that the limit holds.
_SPAN_BYTES: Final = 6 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTraces:
    """The segments of traces; more of the traces may have arrived since `read_ns`.

    `arrivals` contains, for each trace that was read just now, when its parts were committed.
    """

    segments: Sequence[Segment]
    read_ns: int
    arrivals: Mapping[str, Arrival]


@dataclass(slots=True, kw_only=True, eq=False)
class _Entry:
    """A trace in memory: its spans and log records, and their segments unless more has arrived since these were read.

    The store may hold earlier parts of the trace: only those that this process committed are in memory.
    """

    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    arrival: Arrival
    size_bytes: int = 0
    segments: Sequence[Segment] | None = None


class SegmentReader:
    """Reads the segments of traces, and keeps spans and segments until they are discarded. Thread-safe.

    A trace is read from memory if the store holds no other parts of it, else from the store.

    When the memory is used up, the traces whose conversations were rebuilt longest ago make room: only another turn needs
    them. Traces that wait for their first rebuild are never evicted, because rebuilds follow the order of arrival, so the
    oldest are needed next; further traces are then not kept.
    """

    def __init__(self, store: Store, reader: Reader, max_bytes: int = MAX_BYTES, *, keeps_spans: bool = True) -> None:
        """Create a reader without segments.

        Args:
            store: holds the spans; its commits discard the segments of the traces in them.
            reader: reads spans.
            max_bytes: the estimated memory of the spans and segments in memory.
            keeps_spans: whether spans stay in memory after their commit; otherwise all are read from the store.
        """
        self._store = store
        self._reader = reader
        self._max_bytes = max_bytes
        self._keeps_spans = keeps_spans
        self._size_bytes = 0
        self._entries: dict[str, _Entry] = {}
        #: The traces in memory whose conversations were rebuilt, the longest ago first.
        self._rebuilt: dict[str, None] = {}
        #: For each active reading, the traces that changed since it began.
        self._outdated: list[set[str]] = []
        self._lock = threading.Lock()
        store.listen_to_spans(self._add)

    def read_arrived(self, trace_ids: Collection[str]) -> ReadTraces:
        """Return the segments of traces of which more has arrived."""
        self.outdate(trace_ids)
        return self._read(trace_ids)

    def read_to_rebuild(self, trace_ids: Collection[str]) -> ReadTraces:
        """Return the segments of traces whose conversations are rebuilt with them."""
        traces = self._read(trace_ids)
        with self._lock:
            for trace_id in trace_ids:
                if trace_id in self._entries:
                    self._rebuilt.pop(trace_id, None)
                    self._rebuilt[trace_id] = None
        return traces

    def outdate(self, trace_ids: Iterable[str]) -> None:
        """Discard the segments of traces of which more was committed, perhaps without the writer's notice."""
        with self._lock:
            self._mark_outdated(trace_ids)

    def discard(self, trace_ids: Iterable[str]) -> None:
        """Discard the spans and segments of traces: their conversations are closed, or spans were removed."""
        with self._lock:
            for trace_id in self._mark_outdated(trace_ids):
                self._drop(trace_id)

    def clear(self) -> None:
        """Discard all spans and segments, because spans were removed."""
        self.discard(list(self._entries))

    def _mark_outdated(self, trace_ids: Iterable[str]) -> list[str]:
        changed = list(trace_ids)
        for trace_id in changed:
            entry = self._entries.get(trace_id)
            if entry is not None:
                entry.segments = None
        for outdated in self._outdated:
            outdated.update(changed)
        return changed

    def _add(self, inserted: Inserted) -> None:
        """Add the spans and log records of a commit."""
        if not self._keeps_spans:
            self.discard(inserted.traces)
            return
        spans: dict[str, list[Span]] = defaultdict(list)
        logs: dict[str, list[LogRecord]] = defaultdict(list)
        for span in inserted.spans:
            spans[span.trace_id].append(span)
        for log in inserted.logs:
            logs[log.trace_id].append(log)
        with self._lock:
            self._mark_outdated(inserted.traces)
            for trace_id in inserted.traces:
                known = self._entries.get(trace_id)
                more = _entry(spans.get(trace_id, []), logs.get(trace_id, []), inserted.at_ns)
                self._keep(trace_id, more if known is None else _merged(known, more))

    def _read(self, trace_ids: Collection[str]) -> ReadTraces:
        outdated: set[str] = set()
        read_ns = self._store.clock()  # segments in memory include all arrivals, too: more arrivals discard them
        with self._lock:
            entries = {trace_id: self._entries.get(trace_id) for trace_id in dict.fromkeys(trace_ids)}
            segments = {
                trace_id: entry.segments
                for trace_id, entry in entries.items()
                if entry is not None and entry.segments is not None
            }
            self._outdated.append(outdated)  # before the store is read: later commits are not in it
        try:
            unread = {trace_id: entry for trace_id, entry in entries.items() if trace_id not in segments}
            loaded = self._load(unread)
            by_trace: dict[str, list[Segment]] = {trace_id: [] for trace_id in loaded}
            spans = [span for entry in loaded.values() for span in entry.spans]
            logs = [log for entry in loaded.values() for log in entry.logs]
            for segment in read_segments(spans, logs, self._reader):
                by_trace[segment.trace_id].append(segment)
            with self._lock:
                for trace_id, entry in loaded.items():
                    if trace_id not in outdated and by_trace[trace_id]:
                        entry.segments = by_trace[trace_id]
                        self._keep(trace_id, entry)
        finally:
            with self._lock:
                self._outdated = [traces for traces in self._outdated if traces is not outdated]
        return ReadTraces(
            segments=[segment for own in (*segments.values(), *by_trace.values()) for segment in own],
            read_ns=read_ns,
            arrivals={trace_id: entry.arrival for trace_id, entry in loaded.items()},
        )

    def _load(self, unread: Mapping[str, _Entry | None]) -> dict[str, _Entry]:
        """Return traces as they are stored, without their segments; a trace that is not stored is omitted."""
        if not unread:
            return {}
        with self._store.read() as con:
            known = {trace_id: entry for trace_id, entry in unread.items() if entry is not None}
            counts = stored_counts(con, known)
            # As entries are replaced and never extended, this one cannot change meanwhile.
            complete = {
                trace_id: _stored(entry)
                for trace_id, entry in known.items()
                if counts.get(trace_id) == len(entry.spans) + len(entry.logs)
            }
            missing = unread.keys() - complete.keys()
            loaded = _loaded(load_rows(con, missing).read()) if missing else {}
        entries = {**complete, **loaded}
        return {trace_id: entries[trace_id] for trace_id in unread if trace_id in entries}

    def _keep(self, trace_id: str, entry: _Entry) -> None:
        """Keep a trace instead of its previous entry, or discard both if there is no room."""
        self._drop(trace_id)
        while self._rebuilt and self._size_bytes + entry.size_bytes > self._max_bytes:
            self._drop(next(iter(self._rebuilt)))
        if self._size_bytes + entry.size_bytes <= self._max_bytes:
            self._entries[trace_id] = entry
            self._size_bytes += entry.size_bytes

    def _drop(self, trace_id: str) -> None:
        entry = self._entries.pop(trace_id, None)
        self._rebuilt.pop(trace_id, None)
        self._size_bytes -= entry.size_bytes if entry is not None else 0


@dataclass(slots=True, kw_only=True, eq=False)
class _HeldTrace:
    """The segments of a trace at a worker, and the number of the reading that returned them."""

    reading: int
    segments: list[Segment] = field(default_factory=list)
    size_bytes: int = 0


class HeldSegments:
    """The segments of traces that a worker has read. Not thread-safe.

    Memory is limited as in `SegmentReader`: only traces whose conversations were rebuilt are evicted to make room.
    """

    def __init__(self, max_bytes: int) -> None:
        """Hold nothing yet; `max_bytes` limits the estimated memory of the segments and their spans."""
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._traces: dict[str, _HeldTrace] = {}
        #: The traces whose conversations were rebuilt, the longest ago first.
        self._rebuilt: dict[str, None] = {}

    def keep(self, reading: int, rows: TraceRows, segments: Iterable[Segment]) -> set[str]:
        """Keep the segments of a reading of rows; return the traces for which there is no room."""
        traces: dict[str, _HeldTrace] = defaultdict(lambda: _HeldTrace(reading=reading))
        for row in (*rows.spans, *rows.logs):
            traces[row[0]].size_bytes += _SPAN_BYTES + sum(len(value) for value in row if isinstance(value, str))
        for segment in segments:
            traces[segment.trace_id].segments.append(segment)
        refused = set()
        for trace_id, trace in traces.items():
            self._drop(trace_id)
            while self._rebuilt and self._size_bytes + trace.size_bytes > self._max_bytes:
                self._drop(next(iter(self._rebuilt)))
            if self._size_bytes + trace.size_bytes > self._max_bytes:
                refused.add(trace_id)
            else:
                self._traces[trace_id] = trace
                self._size_bytes += trace.size_bytes
        return refused

    def forget(self, readings: Iterable[tuple[str, int]]) -> None:
        """Discard the segments of readings, by trace id; a later reading of the same trace stays."""
        for trace_id, reading in readings:
            trace = self._traces.get(trace_id)
            if trace is not None and trace.reading == reading:
                self._drop(trace_id)

    def to_rebuild(self, readings: Mapping[str, int]) -> list[Segment] | None:
        """Return the segments of traces whose conversations are rebuilt with them.

        Args:
            readings: the number of the reading of each trace.

        Returns:
            None if one of them is not held.
        """
        held = [self._traces.get(trace_id) for trace_id in readings]
        traces = [
            trace for trace, reading in zip(held, readings.values(), strict=True) if trace and trace.reading == reading
        ]
        if len(traces) < len(readings):
            return None
        for trace_id in readings:
            self._rebuilt.pop(trace_id, None)
            self._rebuilt[trace_id] = None
        return [segment for trace in traces for segment in trace.segments]

    def _drop(self, trace_id: str) -> None:
        trace = self._traces.pop(trace_id, None)
        self._rebuilt.pop(trace_id, None)
        self._size_bytes -= trace.size_bytes if trace is not None else 0


def _entry(spans: list[Span], logs: list[LogRecord], at_ns: int) -> _Entry:
    """Return the part of a trace that was committed at a time."""
    return _Entry(
        spans=spans,
        logs=logs,
        arrival=Arrival(
            first_ns=at_ns,
            last_ns=at_ns,
            clock_ahead=any(span.end_ns > at_ns + CLOCK_TOLERANCE_NS for span in spans),
        ),
        size_bytes=sum(map(_size_of_span, spans)) + sum(size_of(log.body) + size_of(log.attributes) for log in logs),
    )


def _merged(known: _Entry, more: _Entry) -> _Entry:
    """Return the parts of a trace as one entry, to be read again."""
    return _Entry(
        spans=known.spans + more.spans,
        logs=known.logs + more.logs,
        arrival=Arrival(
            first_ns=min(known.arrival.first_ns, more.arrival.first_ns),
            last_ns=max(known.arrival.last_ns, more.arrival.last_ns),
            clock_ahead=known.arrival.clock_ahead or more.arrival.clock_ahead,
        ),
        size_bytes=known.size_bytes + more.size_bytes,
    )


def _stored(entry: _Entry) -> _Entry:
    """Return an entry with spans and log records as they are stored."""
    spans, logs = as_stored(entry.spans, entry.logs)
    return _Entry(spans=spans, logs=logs, arrival=entry.arrival, size_bytes=entry.size_bytes)


def _loaded(stored: StoredTraces) -> dict[str, _Entry]:
    """Return the traces that were loaded from the store."""
    entries = {trace_id: _Entry(arrival=arrival) for trace_id, arrival in stored.arrivals.items()}
    for span in stored.spans:
        entries[span.trace_id].spans.append(span)
        entries[span.trace_id].size_bytes += _size_of_span(span)
    for log in stored.logs:
        entries[log.trace_id].logs.append(log)
        entries[log.trace_id].size_bytes += size_of(log.body) + size_of(log.attributes)
    return entries


def _size_of_span(span: Span) -> int:
    """Return the estimated memory of a span and its events."""
    contents = [
        span.attributes,
        *(event.attributes for event in span.events),
        *(link.attributes for link in span.links),
    ]
    return _SPAN_BYTES + sum(
        len(value) if isinstance(value, str) else size_of(value) for content in contents for value in content.values()
    )
