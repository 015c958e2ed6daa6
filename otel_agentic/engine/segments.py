"""Reading the segments of traces from the store, once: they stay in memory until their conversations close."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations import read_segments
from otel_agentic.store.spans import Arrival, TraceRows, load_rows

if TYPE_CHECKING:
    from otel_agentic.conversations import Segment
    from otel_agentic.dialects.base import Reader
    from otel_agentic.store import Store

#: Estimated memory of the segments that are kept.
_MAX_BYTES: Final = 128 * 1024 * 1024
#: Memory of a span in addition to its text: 3 to 11 KB, measured for small chats, recordings and long histories.
_SPAN_BYTES: Final = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTraces:
    """The segments of traces, by trace id; `read_ns` is a time before any of them was read.

    `arrivals` contains, for each trace that was read from the store just now, when its parts were committed.
    """

    segments: Sequence[Segment]
    read_ns: int
    arrivals: Mapping[str, Arrival]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    segments: Sequence[Segment]
    read_ns: int
    size_bytes: int


class SegmentReader:
    """Reads the segments of traces, and keeps them until more of their trace arrives or they are discarded. Thread-safe.

    When the memory is used up, the traces whose conversations were rebuilt longest ago make room: only another turn needs
    them. Traces that wait for their first rebuild are never evicted, because rebuilds follow the order of arrival, so the
    oldest are needed next; further traces are then not kept.
    """

    def __init__(self, store: Store, reader: Reader, max_bytes: int = _MAX_BYTES) -> None:
        """Create a reader without segments.

        Args:
            store: holds the spans; its commits discard the segments of the traces in them.
            reader: reads spans.
            max_bytes: the estimated memory of the segments that are kept.
        """
        self._store = store
        self._reader = reader
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._entries: dict[str, _Entry] = {}
        #: The kept traces whose conversations were rebuilt, the longest ago first.
        self._rebuilt: dict[str, None] = {}
        #: For each active reading, the traces that changed since it began.
        self._outdated: list[set[str]] = []
        self._lock = threading.Lock()
        store.listen(self.discard)

    def read_arrived(self, trace_ids: Collection[str]) -> ReadTraces:
        """Return the segments of traces of which more has arrived."""
        self.discard(trace_ids)
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

    def _read(self, trace_ids: Collection[str]) -> ReadTraces:
        outdated: set[str] = set()
        with self._lock:
            known = [self._entries[trace_id] for trace_id in trace_ids if trace_id in self._entries]
            missing = [trace_id for trace_id in trace_ids if trace_id not in self._entries]
            self._outdated.append(outdated)  # before the store is read: later commits are not in it
        try:
            read_ns = self._store.clock()
            loaded, arrivals = self._load(missing, read_ns)
            with self._lock:
                self._keep({trace_id: entry for trace_id, entry in loaded.items() if trace_id not in outdated})
        finally:
            with self._lock:
                self._outdated = [traces for traces in self._outdated if traces is not outdated]
        entries = [*known, *loaded.values()]
        return ReadTraces(
            segments=[segment for entry in entries for segment in entry.segments],
            read_ns=min((entry.read_ns for entry in entries), default=read_ns),
            arrivals=arrivals,
        )

    def discard(self, trace_ids: Iterable[str]) -> None:
        """Discard the segments of traces: more of them was committed, or their conversations are closed."""
        with self._lock:
            for trace_id in trace_ids:
                self._drop(trace_id)
                for outdated in self._outdated:
                    outdated.add(trace_id)

    def clear(self) -> None:
        """Discard all segments, because spans were removed."""
        self.discard(list(self._entries))

    def _load(self, trace_ids: Collection[str], read_ns: int) -> tuple[dict[str, _Entry], Mapping[str, Arrival]]:
        if not trace_ids:
            return {}, {}
        with self._store.read() as con:
            rows = load_rows(con, trace_ids)
        stored, sizes = rows.read(), _sizes(rows)
        by_trace: dict[str, list[Segment]] = defaultdict(list)
        for segment in read_segments(stored.spans, stored.logs, self._reader):
            by_trace[segment.trace_id].append(segment)
        entries = {
            trace_id: _Entry(segments=segments, read_ns=read_ns, size_bytes=sizes[trace_id])
            for trace_id, segments in by_trace.items()
        }
        return entries, stored.arrivals

    def _keep(self, entries: Mapping[str, _Entry]) -> None:
        for trace_id, entry in entries.items():
            while self._rebuilt and self._size_bytes + entry.size_bytes > self._max_bytes:
                self._drop(next(iter(self._rebuilt)))
            if self._size_bytes + entry.size_bytes <= self._max_bytes:
                self._drop(trace_id)
                self._entries[trace_id] = entry
                self._size_bytes += entry.size_bytes

    def _drop(self, trace_id: str) -> None:
        entry = self._entries.pop(trace_id, None)
        self._rebuilt.pop(trace_id, None)
        self._size_bytes -= entry.size_bytes if entry is not None else 0


def _sizes(rows: TraceRows) -> dict[str, int]:
    """Return the estimated memory of the segments of each trace."""
    sizes: dict[str, int] = defaultdict(int)
    for trace_id, *_, attributes, events, links, _resource, _received in rows.spans:
        sizes[trace_id] += _SPAN_BYTES + len(attributes) + len(events or "") + len(links or "")
    for trace_id, _, _, _, body, attributes, *_ in rows.logs:
        sizes[trace_id] += len(body or "") + len(attributes)
    return sizes
