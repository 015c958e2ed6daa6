"""Rebuilding over processes of this machine: the parent reads rows and writes, workers read spans and put turns together.

What one process would make comes out: parts that could touch one another's traces are never under way together.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from otel_agentic.conversations import assemble, link_segments, read_segments
from otel_agentic.pipeline.rebuild import Rebuilder, Rebuilt, Touched, chunks
from otel_agentic.store import links
from otel_agentic.store.not_rebuilt import NotRebuilt
from otel_agentic.store.reader import load_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from otel_agentic.config import Settings
    from otel_agentic.conversations import Linked
    from otel_agentic.conversations.model import ClosedBy, Conversation
    from otel_agentic.conversations.segments import Segment
    from otel_agentic.dialects import Reader
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.parallel import Tools, Workers
    from otel_agentic.pipeline.rebuild import Key
    from otel_agentic.store import Store
    from otel_agentic.store.reader import TraceRows

#: Traces, or conversations, that go to a worker together.
_PART: Final = 250
#: Files close what they hold.
_CLOSED: Final = "end_of_input"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """Conversations that a worker put together, with what they were linked of, without its content."""

    linked: list[Linked]
    conversations: list[Conversation]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A part at a worker: what it concerns, the traces that it reads, and what is to be done where that fails."""

    items: Sequence[Any]
    keys: frozenset[Key]
    traces: frozenset[str]
    rows: TraceRows
    future: Future[Any] | None


class PooledRebuilder(Rebuilder):
    """Keeps the conversation tables true to the spans at the end of the input; see `Rebuilder`."""

    def __init__(self, store: Store, reader: Reader, settings: Settings, pool: Workers) -> None:
        super().__init__(store, reader, settings.conversations)
        self._pool = pool
        self._made: dict[Key, Conversation] = {}

    def read(self, trace_ids: Iterable[str], progress: Callable[[int], None] = lambda _: None) -> Touched:
        """Read traces over workers; see `Rebuilder.read`."""
        touched, failures = Touched(keys=frozenset(), loose_traces=frozenset()), list[NotRebuilt]()
        under_way: deque[_Given] = deque()
        for ids in chunks(list(dict.fromkeys(trace_ids)), _PART):
            under_way.append(self._reading(ids))
            if len(under_way) > self._pool.ahead:
                touched |= self._noted(under_way.popleft(), failures, progress)
        while under_way:
            touched |= self._noted(under_way.popleft(), failures, progress)
        return replace(touched, left_out=self._recorded(failures))

    def _reading(self, trace_ids: list[str]) -> _Given:
        with self._store.read() as con:
            before = links.conversations_of(con, trace_ids)
            rows = load_rows(con, trace_ids)
        future = self._pool.submit(read_rows, rows)
        return _Given(items=trace_ids, keys=frozenset(before), traces=frozenset(trace_ids), rows=rows, future=future)

    def _noted(self, given: _Given, failures: list[NotRebuilt], progress: Callable[[int], None]) -> Touched:
        segments: list[Segment] | None = self._pool.result(given.future)
        touched = Touched(keys=frozenset(), loose_traces=frozenset())
        if segments is None:
            for part in self._in_parts(given.items, self._read_chunk, failures):
                touched |= part
        else:
            touched = self._save_read(given.items, given.keys, segments, given.rows.arrivals)
        progress(len(given.items))
        return touched

    def rebuild(
        self,
        touched: Touched,
        closed_by: Callable[[Key], ClosedBy | None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> Rebuilt:
        """Rebuild what is touched over workers; see `Rebuilder.rebuild`. Everything closes: nothing more will come."""
        failures: list[NotRebuilt] = []
        total = self._stage("trace", sorted(touched.loose_traces), closed_by, failures, progress)
        total += self._stage("conversation", self._by_arrival(touched.keys), closed_by, failures, progress)
        return replace(total, left_out=(*touched.left_out, *total.left_out, *self._recorded(failures)))

    def _stage(
        self,
        what: str,
        items: Sequence[Any],
        closed_by: Callable[[Key], ClosedBy | None],
        failures: list[NotRebuilt],
        progress: Callable[[int], None],
    ) -> Rebuilt:
        """Rebuild loose traces, or conversations, a part after the other; parts that share a trace wait for one another."""
        total, under_way = Rebuilt(), deque[_Given]()

        def finish() -> Iterator[Rebuilt]:
            given = under_way.popleft()
            yield from self._finished(what, given, closed_by, failures)
            progress(len(given.items))

        for part in chunks(items, _PART):
            named, loose = ((), part) if what == "trace" else (part, ())
            given = self._loaded(named, loose)
            if any(given.traces & other.traces for other in under_way):
                while under_way:
                    total = sum(finish(), total)
                given = self._loaded(named, loose)  # what these wrote may concern it
            under_way.append(replace(given, items=part, future=self._pool.submit(rebuild_rows, given.rows, given.keys)))
            if len(under_way) > self._pool.ahead:
                total = sum(finish(), total)
        while under_way:
            total = sum(finish(), total)
        return total

    def _loaded(self, named: Sequence[Key], loose: Sequence[str]) -> _Given:
        with self._store.read() as con:
            keys, traces = self._in_view(con, named, loose)
            return _Given(items=(), keys=keys, traces=frozenset(traces), rows=load_rows(con, traces), future=None)

    def _finished(
        self, what: str, given: _Given, closed_by: Callable[[Key], ClosedBy | None], failures: list[NotRebuilt]
    ) -> Iterator[Rebuilt]:
        made: Made | None = self._pool.result(given.future)
        if made is None:
            in_process = super()._rebuild_part
            yield from self._in_parts(
                given.items,
                lambda some: in_process(some if what != "trace" else [], some if what == "trace" else [], closed_by),
                failures,
            )
            return
        self._made = {(one.environment, str(one.conversation_id)): one for one in made.conversations}
        try:
            yield self._save(made.linked, given.keys - self._made.keys(), closed_by)
        finally:
            self._made = {}

    def _assembled(self, linked: Linked, closed_by: ClosedBy | None) -> Conversation:
        ready = self._made.get((linked.environment, str(linked.conversation_id)))
        return ready if ready is not None and closed_by == _CLOSED else super()._assembled(linked, closed_by)


def rebuilding_over(engine: Engine, pool: Workers | None) -> None:
    """Have an engine rebuild over workers, where there are some. What it rebuilds ends: nothing more will come."""
    if pool is not None:
        engine.rebuilder = PooledRebuilder(engine.store, engine.reader, engine.settings, pool)


def read_rows(tools: Tools, rows: TraceRows) -> list[Segment]:
    """Return the segments of some traces, without what they hold: of that only the number is written down."""
    stored = rows.read()
    return [_light(segment) for segment in read_segments(stored.spans, stored.logs, tools.reader)]


def rebuild_rows(tools: Tools, rows: TraceRows, keys: frozenset[Key]) -> Made:
    """Return the conversations of some traces, ended.

    Args:
        tools: of the worker.
        rows: the traces.
        keys: conversations that are wholly in view; others that name themselves are left out.
    """
    stored, settings = rows.read(), tools.settings.conversations
    found = [
        linked
        for linked in link_segments(read_segments(stored.spans, stored.logs, tools.reader), settings)
        if linked.method != "explicit" or (linked.environment, str(linked.conversation_id)) in keys
    ]
    return Made(
        linked=[
            replace(linked, segments=tuple(map(_light, linked.segments)), echoes=tuple(map(_light, linked.echoes)))
            for linked in found
        ],
        conversations=[assemble(linked, settings, closed_by=_CLOSED) for linked in found],
    )


def _light(segment: Segment) -> Segment:
    return replace(segment, nodes=cast("Any", (None,) * len(segment.nodes)))
