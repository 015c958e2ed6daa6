"""Rebuilding in worker processes, with the same results as in one process.

Workers read, link and assemble; this process loads rows, checks results and saves them. A worker keeps the segments that it
has read, so that a later rebuild sends only the rows that the worker lacks. Parts that share a trace are never processed at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from otel_agentic.conversations import EndMark, Linked, assemble_open, link_segments, read_segments
from otel_agentic.engine.rebuild import AffectedItems, Rebuilder, RebuildResult, chunks, complete_in
from otel_agentic.engine.segments import SegmentReader
from otel_agentic.store import links
from otel_agentic.store.links import Families, NotRebuilt
from otel_agentic.store.spans import TraceRows, load_rows

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations import Segment
    from otel_agentic.conversations.model import ClosedBy, Conversation
    from otel_agentic.dialects.base import Reader
    from otel_agentic.engine.workers import WorkerPool, WorkerResources
    from otel_agentic.store import Store
    from otel_agentic.store.spans import Arrival, Inserted
    from otel_agentic.store.table import Key

T = TypeVar("T")
#: Most traces, or conversations, sent to a worker together: each part costs a dozen queries.
_MOST_IN_PART: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A trace whose segments a worker holds, since the reading number `reading`."""

    worker: int
    reading: int


class WorkerSegments(SegmentReader):
    """Records which segments the workers hold, and keeps spans in this process until workers run. Thread-safe."""

    def __init__(self, store: Store, reader: Reader, pool: WorkerPool, *, keeps_spans: bool) -> None:
        self._pool = pool
        self._held: dict[str, Held] = {}  # by trace id
        #: For each worker, the traces that it may forget, with the number of their reading.
        self._forgettable: list[list[tuple[str, int]]] = [[] for _ in range(pool.count)]
        self._readings = count()
        super().__init__(store, reader, keeps_spans=keeps_spans)

    def hold(self, trace_ids: Iterable[str], worker: int) -> int:
        """Record that a worker will hold the segments of traces whose rows are loaded next; return the number of the reading.

        A commit of more spans after this call ends that, even if the rows already include these spans.
        """
        reading = next(self._readings)
        held = Held(worker=worker, reading=reading)
        with self._lock:
            self._held |= dict.fromkeys(trace_ids, held)
        return reading

    def held(self, trace_ids: Iterable[str]) -> dict[str, Held]:
        """Return the traces whose segments workers hold."""
        with self._lock:
            return {trace_id: held for trace_id in trace_ids if (held := self._held.get(trace_id)) is not None}

    def forgettable(self, worker: int) -> list[tuple[str, int]]:
        """Return the readings, by trace id, that a worker no longer needs to hold; each is returned once."""
        with self._lock:
            readings, self._forgettable[worker] = self._forgettable[worker], []
        return readings

    def clear(self) -> None:
        """Discard all spans and segments; see `SegmentReader.clear`."""
        super().clear()
        self.discard(list(self._held))

    def _mark_outdated(self, trace_ids: Iterable[str]) -> list[str]:
        changed = super()._mark_outdated(trace_ids)
        for trace_id in changed:
            if (held := self._held.pop(trace_id, None)) is not None:
                self._forgettable[held.worker].append((trace_id, held.reading))
        return changed

    def _add(self, inserted: Inserted) -> None:
        if self._pool.is_running:  # workers read rows of the store
            self.discard(inserted.traces)
        else:
            super()._add(inserted)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """Conversations as if they were open, with their end marks, and their segments without the content of the nodes."""

    linked: list[Linked]
    conversations: list[tuple[Conversation, EndMark | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Traces that a worker reads, and when their parts were committed."""

    traces: Sequence[str]
    arrivals: Mapping[str, Arrival]
    future: Future[tuple[list[Segment], set[str]]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rebuilding:
    """Conversations, or loose traces, that a worker rebuilds, and what they may affect.

    More of the traces may have arrived since `read_ns`.

    `needs_held`: the worker must still hold segments for this.
    """

    items: Sequence[Any]
    view: Families
    traces: frozenset[str]
    read_ns: int
    needs_held: bool
    future: Future[WorkerResult | None] | None


class PooledRebuilder(Rebuilder):
    """Keeps the conversation tables consistent with the spans; see `Rebuilder`."""

    def __init__(
        self,
        store: Store,
        segments: WorkerSegments,
        settings: ConversationSettings,
        pool: WorkerPool,
        on_late: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(store, segments, settings, on_late)
        self._pool = pool
        self._at_workers = segments

    def read(self, trace_ids: Iterable[str], progress: Callable[[int], None] = lambda _: None) -> AffectedItems:
        """Read traces in workers, or few of them in this process; see `Rebuilder.read`."""
        arrived = list(dict.fromkeys(trace_ids))
        if self._is_little(arrived):
            return super().read(arrived, progress)
        touched, failures = AffectedItems(keys=frozenset(), loose_traces=frozenset()), list[NotRebuilt]()
        pending: deque[_Reading] = deque()
        for ids in self._parts(arrived):
            pending.append(self._submit_read(ids))
            if len(pending) > self._pool.ahead:
                touched |= self._save_part(pending.popleft(), failures, progress)
        while pending:
            touched |= self._save_part(pending.popleft(), failures, progress)
        return replace(touched, left_out=self._record_failures(failures))

    def _is_little(self, *items: Collection[object]) -> bool:
        """Return whether there is too little work to start the workers for it."""
        return not self._pool.is_running and sum(map(len, items)) < self._pool.least_items

    def _parts(self, items: Sequence[T]) -> Iterator[list[T]]:
        """Yield the items in parts, at least one for each worker."""
        return chunks(items, max(1, min(_MOST_IN_PART, ceil(len(items) / self._pool.count))))

    def _submit_read(self, trace_ids: Sequence[str]) -> _Reading:
        worker = self._pool.least_busy()
        self._segments.discard(trace_ids)
        reading = self._at_workers.hold(trace_ids, worker)
        with self._store.read() as con:
            rows = load_rows(con, trace_ids)
        forgettable = self._at_workers.forgettable(worker)
        future = self._pool.submit_to(worker, read_rows, rows, reading, forgettable)
        return _Reading(traces=trace_ids, arrivals=rows.arrivals, future=future)

    def _save_part(self, part: _Reading, failures: list[NotRebuilt], progress: Callable[[int], None]) -> AffectedItems:
        result = self._pool.result(part.future)
        total = AffectedItems(keys=frozenset(), loose_traces=frozenset())
        if result is None:
            for affected in self._in_parts(part.traces, self._read_chunk, failures):
                total |= affected
        else:
            segments, refused = result
            self._segments.discard(refused | set(part.traces) - {segment.trace_id for segment in segments})
            total = self._save_read(part.traces, segments, part.arrivals)
        progress(len(part.traces))
        return total

    def rebuild(
        self,
        touched: AffectedItems,
        closed_by: Callable[[Key], ClosedBy | None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> RebuildResult:
        """Rebuild items in workers, or few of them in this process; see `Rebuilder.rebuild`."""
        if self._is_little(touched.keys, touched.loose_traces):
            return super().rebuild(touched, closed_by, progress)
        failures: list[NotRebuilt] = []
        total = self._stage("trace", sorted(touched.loose_traces), closed_by, failures, progress)
        total += self._stage("conversation", self._by_worker(touched.keys), closed_by, failures, progress)
        return replace(total, left_out=(*touched.left_out, *total.left_out, *self._record_failures(failures)))

    def _by_worker(self, keys: AbstractSet[Key]) -> list[Key]:
        """Return conversations in order of arrival, grouped by worker if there are several workers."""
        by_arrival = self._by_arrival(keys)
        if self._pool.count == 1:
            return by_arrival
        with self._store.read() as con:
            traces = links.traces_of(con, keys, self._known)
        workers = {key: self._worker_of(self._at_workers.held(own)) for key, own in traces.items()}
        return sorted(by_arrival, key=lambda key: workers.get(key, 0))

    def _worker_of(self, held: Mapping[str, Held]) -> int:
        """Return the worker that holds the most of some traces, the least busy one if none holds any."""
        numbers = [item.worker for item in held.values()]
        return max(set(numbers), key=numbers.count) if numbers else self._pool.least_busy()

    def _stage(
        self,
        what: str,
        items: Sequence[Any],
        closed_by: Callable[[Key], ClosedBy | None],
        failures: list[NotRebuilt],
        progress: Callable[[int], None],
    ) -> RebuildResult:
        """Rebuild loose traces, or conversations, in parts; a part that shares a trace with a pending part waits."""
        total, pending = RebuildResult(), deque[_Rebuilding]()

        def finish() -> Iterator[RebuildResult]:
            part = pending.popleft()
            yield from self._save_rebuilt(what, part, closed_by, failures)
            progress(len(part.items))

        for chunk in self._parts(items):
            view, traces = self._view_of(what, chunk)
            if any(traces & other.traces for other in pending):
                while pending:
                    total = sum(finish(), total)
                view, traces = self._view_of(what, chunk)  # the parts just saved may affect it
            pending.append(self._submit_rebuild(chunk, view, traces))
            if len(pending) > self._pool.ahead:
                total = sum(finish(), total)
        while pending:
            total = sum(finish(), total)
        return total

    def _view_of(self, what: str, items: Sequence[Any]) -> tuple[Families, frozenset[str]]:
        """Return the conversations and traces that loose traces, or conversations, may affect."""
        named, loose = ((), items) if what == "trace" else (items, ())
        with self._store.read() as con:
            view, traces = self._in_view(con, named, loose)
        return view, frozenset(traces)

    def _submit_rebuild(self, items: Sequence[Any], view: Families, traces: frozenset[str]) -> _Rebuilding:
        read_ns = self._store.clock()
        held = self._at_workers.held(traces)
        worker = self._worker_of(held)
        readings = {trace_id: item.reading for trace_id, item in held.items() if item.worker == worker}
        with self._store.read() as con:
            rows = load_rows(con, traces - readings.keys())
        task = RebuildTask(
            readings=readings,
            forgettable=self._at_workers.forgettable(worker),
            ids=frozenset(view.ids),
            reserved=frozenset(self._removed_names(view)),
        )
        return _Rebuilding(
            items=items,
            view=view,
            traces=traces,
            read_ns=read_ns,
            needs_held=bool(readings),
            future=self._pool.submit_to(worker, rebuild_rows, rows, task),
        )

    def _save_rebuilt(
        self, what: str, part: _Rebuilding, closed_by: Callable[[Key], ClosedBy | None], failures: list[NotRebuilt]
    ) -> Iterator[RebuildResult]:
        result = self._pool.result(part.future)
        if result is None and part.needs_held:
            self._segments.outdate(part.traces)
            part = self._submit_rebuild(part.items, part.view, part.traces)
            result = self._pool.result(part.future)
        if result is None or self._clashes(result.linked):
            in_process = super()._rebuild_part
            yield from self._in_parts(
                part.items,
                lambda items: in_process(items if what != "trace" else [], items if what == "trace" else [], closed_by),
                failures,
            )
            return
        assembled = dict(zip(map(id, result.linked), result.conversations, strict=True))
        dissolved = part.view.keys - {(item.environment, str(item.conversation_id)) for item in result.linked}
        yield self._save(result.linked, dissolved, closed_by, part.read_ns, lambda linked: assembled[id(linked)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildTask:
    """What a worker needs to rebuild conversations in addition to rows.

    `readings` are the traces whose segments it holds, with the number of their reading; it may forget those of `forgettable`.
    `ids` are the pairs (environment, id) of which all traces are in view; conversations with other ids are omitted.
    `reserved` are the names of removed conversations.
    """

    readings: Mapping[str, int]
    forgettable: Sequence[tuple[str, int]]
    ids: frozenset[Key]
    reserved: frozenset[Key]


def read_rows(
    resources: WorkerResources, rows: TraceRows, reading: int, forgettable: Sequence[tuple[str, int]]
) -> tuple[list[Segment], set[str]]:
    """Hold the segments of traces, and return them without the content of their nodes.

    Also return the traces that are not held because there is no room for them.

    Args:
        resources: the resources of the worker.
        rows: the rows of the traces.
        reading: the number of this reading.
        forgettable: earlier readings, by trace id, that no longer need to be held.
    """
    resources.segments.forget(forgettable)
    stored = rows.read()
    segments = read_segments(stored.spans, stored.logs, resources.reader)
    refused = resources.segments.keep(reading, rows, segments)
    return [_light(segment) for segment in segments], refused


def rebuild_rows(resources: WorkerResources, rows: TraceRows, task: RebuildTask) -> WorkerResult | None:
    """Return the conversations of traces; None if this worker does not hold a segment that it should.

    Args:
        resources: the resources of the worker.
        rows: the rows of traces whose segments this worker does not hold.
        task: the other traces, and how to link.
    """
    resources.segments.forget(task.forgettable)
    held = resources.segments.to_rebuild(task.readings)
    if held is None:
        return None
    stored, settings = rows.read(), resources.settings.conversations
    segments = [*held, *read_segments(stored.spans, stored.logs, resources.reader)]
    conversations = complete_in(task.ids, link_segments(segments, settings, task.reserved))
    return WorkerResult(
        linked=[
            replace(linked, segments=tuple(map(_light, linked.segments)), echoes=tuple(map(_light, linked.echoes)))
            for linked in conversations
        ],
        conversations=[assemble_open(linked, settings) for linked in conversations],
    )


def _light(segment: Segment) -> Segment:
    return replace(segment, nodes=cast("Any", (None,) * len(segment.nodes)))
