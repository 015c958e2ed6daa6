"""Rebuilding in worker processes at the end of the input, with the same results as in one process.

Parts that share a trace are never processed at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from otel_agentic.conversations import Linked, assemble, link_segments, read_segments
from otel_agentic.engine.rebuild import AffectedItems, Rebuilder, RebuildResult, chunks, complete_in
from otel_agentic.store.links import NotRebuilt
from otel_agentic.store.spans import TraceRows, load_rows

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_agentic.conversations import Segment
    from otel_agentic.conversations.model import ClosedBy, Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.engine.workers import WorkerPool, WorkerResources
    from otel_agentic.store.table import Key

#: Traces, or conversations, sent to a worker together.
_REBUILD_PART: Final = 250
#: The end of the input closes all conversations.
_END_OF_INPUT: Final = "end_of_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """Conversations assembled by a worker, with the segments that they were linked from, without their content."""

    linked: list[Linked]
    conversations: list[Conversation]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingPart:
    """A part at a worker: its items, the conversations and traces in view, their rows, and the pending result.

    `ids` and `reserved` are those of `rebuild_rows`.
    """

    items: Sequence[Any]
    keys: frozenset[Key]
    ids: frozenset[Key] = frozenset()
    reserved: frozenset[Key] = frozenset()
    traces: frozenset[str]
    rows: TraceRows
    future: Future[Any] | None


class PooledRebuilder(Rebuilder):
    """Keeps the conversation tables consistent with the spans at the end of the input; see `Rebuilder`."""

    def __init__(self, engine: Engine, pool: WorkerPool) -> None:
        super().__init__(engine.store, engine.segments, engine.settings.conversations)
        self._pool = pool
        self._ready: dict[Key, Conversation] = {}

    def read(self, trace_ids: Iterable[str], progress: Callable[[int], None] = lambda _: None) -> AffectedItems:
        """Read traces in workers; see `Rebuilder.read`."""
        touched, failures = AffectedItems(keys=frozenset(), loose_traces=frozenset()), list[NotRebuilt]()
        pending: deque[_PendingPart] = deque()
        for ids in chunks(list(dict.fromkeys(trace_ids)), _REBUILD_PART):
            pending.append(self._submit_read(ids))
            if len(pending) > self._pool.ahead:
                touched |= self._save_part(pending.popleft(), failures, progress)
        while pending:
            touched |= self._save_part(pending.popleft(), failures, progress)
        return replace(touched, left_out=self._record_failures(failures))

    def _submit_read(self, trace_ids: list[str]) -> _PendingPart:
        with self._store.read() as con:
            rows = load_rows(con, trace_ids)
        future = self._pool.submit(read_rows, rows)
        return _PendingPart(items=trace_ids, keys=frozenset(), traces=frozenset(trace_ids), rows=rows, future=future)

    def _save_part(
        self, part: _PendingPart, failures: list[NotRebuilt], progress: Callable[[int], None]
    ) -> AffectedItems:
        segments: list[Segment] | None = self._pool.result(part.future)
        total = AffectedItems(keys=frozenset(), loose_traces=frozenset())
        if segments is None:
            for affected in self._in_parts(part.items, self._read_chunk, failures):
                total |= affected
        else:
            total = self._save_read(part.items, segments, part.rows.arrivals)
        progress(len(part.items))
        return total

    def rebuild(
        self,
        touched: AffectedItems,
        closed_by: Callable[[Key], ClosedBy | None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> RebuildResult:
        """Rebuild items in workers; see `Rebuilder.rebuild`. All conversations close, because no more spans arrive."""
        failures: list[NotRebuilt] = []
        total = self._stage("trace", sorted(touched.loose_traces), closed_by, failures, progress)
        total += self._stage("conversation", self._by_arrival(touched.keys), closed_by, failures, progress)
        return replace(total, left_out=(*touched.left_out, *total.left_out, *self._record_failures(failures)))

    def _stage(
        self,
        what: str,
        items: Sequence[Any],
        closed_by: Callable[[Key], ClosedBy | None],
        failures: list[NotRebuilt],
        progress: Callable[[int], None],
    ) -> RebuildResult:
        """Rebuild loose traces, or conversations, in parts; a part that shares a trace with a pending part waits."""
        total, pending = RebuildResult(), deque[_PendingPart]()

        def finish() -> Iterator[RebuildResult]:
            part = pending.popleft()
            yield from self._save_rebuilt(what, part, closed_by, failures)
            progress(len(part.items))

        for chunk in chunks(items, _REBUILD_PART):
            named, loose = ((), chunk) if what == "trace" else (chunk, ())
            loaded = self._load(named, loose)
            if any(loaded.traces & other.traces for other in pending):
                while pending:
                    total = sum(finish(), total)
                loaded = self._load(named, loose)  # the parts just saved may affect it
            future = self._pool.submit(rebuild_rows, loaded.rows, loaded.ids, loaded.reserved)
            pending.append(replace(loaded, items=chunk, future=future))
            if len(pending) > self._pool.ahead:
                total = sum(finish(), total)
        while pending:
            total = sum(finish(), total)
        return total

    def _load(self, named: Sequence[Key], loose: Sequence[str]) -> _PendingPart:
        with self._store.read() as con:
            view, traces = self._in_view(con, named, loose)
            rows = load_rows(con, traces)
        return _PendingPart(
            items=(),
            keys=view.keys,
            ids=frozenset(view.ids),
            reserved=frozenset(self._removed_names(view)),
            traces=frozenset(traces),
            rows=rows,
            future=None,
        )

    def _save_rebuilt(
        self, what: str, part: _PendingPart, closed_by: Callable[[Key], ClosedBy | None], failures: list[NotRebuilt]
    ) -> Iterator[RebuildResult]:
        result: WorkerResult | None = self._pool.result(part.future)
        if result is None or self._clashes(result.linked):
            in_process = super()._rebuild_part
            yield from self._in_parts(
                part.items,
                lambda items: in_process(items if what != "trace" else [], items if what == "trace" else [], closed_by),
                failures,
            )
            return
        self._ready = {
            (conversation.environment, str(conversation.conversation_id)): conversation
            for conversation in result.conversations
        }
        try:
            yield self._save(result.linked, part.keys - self._ready.keys(), closed_by)
        finally:
            self._ready = {}

    def _assemble(self, linked: Linked, closed_by: ClosedBy | None) -> Conversation:
        ready = self._ready.get((linked.environment, str(linked.conversation_id)))
        return ready if ready is not None and closed_by == _END_OF_INPUT else super()._assemble(linked, closed_by)


def rebuilder_over(engine: Engine, pool: WorkerPool | None) -> Rebuilder:
    """Return the rebuilder of an engine, or one with worker processes, which closes every conversation it rebuilds."""
    return engine.rebuilder if pool is None else PooledRebuilder(engine, pool)


def read_rows(resources: WorkerResources, rows: TraceRows) -> list[Segment]:
    """Return the segments of traces without the content of their nodes: only the number of nodes is stored."""
    stored = rows.read()
    return [_light(segment) for segment in read_segments(stored.spans, stored.logs, resources.reader)]


def rebuild_rows(
    resources: WorkerResources, rows: TraceRows, ids: frozenset[Key], reserved: frozenset[Key]
) -> WorkerResult:
    """Return the closed conversations of traces.

    Args:
        resources: the resources of the worker.
        rows: the rows of the traces.
        ids: (environment, id) of which all traces are in view; conversations with other ids are omitted.
        reserved: names of removed conversations.
    """
    stored, settings = rows.read(), resources.settings.conversations
    segments = read_segments(stored.spans, stored.logs, resources.reader)
    conversations = complete_in(ids, link_segments(segments, settings, reserved))
    return WorkerResult(
        linked=[
            replace(linked, segments=tuple(map(_light, linked.segments)), echoes=tuple(map(_light, linked.echoes)))
            for linked in conversations
        ],
        conversations=[assemble(linked, settings, closed_by=_END_OF_INPUT) for linked in conversations],
    )


def _light(segment: Segment) -> Segment:
    return replace(segment, nodes=cast("Any", (None,) * len(segment.nodes)))
