"""Rebuilding and scoring in worker processes; only the parent process reads and writes the store.

The results are identical to those of a single process: conversations are assigned to workers by a stable hash, and
parts that share a trace are never processed at the same time. A part that fails in a worker is computed again in the
parent.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

from otel_agentic.conversations import Linked, assemble, link_segments, read_segments
from otel_agentic.conversations.model import ClosedBy, Conversation, ToolCall
from otel_agentic.dialects import Reader
from otel_agentic.engine.rebuild import AffectedItems, Rebuilder, RebuildResult, chunks, complete_in
from otel_agentic.evaluation.conversation import scorer_of
from otel_agentic.evaluation.judge_runs import JudgeRun
from otel_agentic.evaluation.run import EvaluationRunner
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.dialogue import ask_of, run_dialogues
from otel_agentic.judges.registry import judge_named
from otel_agentic.scoring.compile import CompiledCall, CompiledExpectation, compiled
from otel_agentic.scoring.model import ToolScore
from otel_agentic.store import links
from otel_agentic.store.links import NotRebuilt
from otel_agentic.store.spans import TraceRows, bucket_of, load_rows
from otel_agentic.store.table import Scored

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings, Settings
    from otel_agentic.conversations import Segment
    from otel_agentic.engine.engine import Engine
    from otel_agentic.judges import Budget, Judge
    from otel_agentic.judges.dialogue import Dialogue
    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.scoring.scope import ToolRules
    from otel_agentic.store import Store
    from otel_agentic.store.table import Key
    from otel_agentic.truth.model import ToolExpectation

    Part = Sequence[MatchedConversation]

_log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")
#: Conversations matched, scored and stored in one batch; the next batch is scored meanwhile.
_SCORING_BATCH: Final = 500
#: Parts of a batch per worker, so that a slow part does not keep the other workers waiting.
_PARTS_PER_WORKER: Final = 2
#: Traces, or conversations, sent to a worker together.
_REBUILD_PART: Final = 250
#: The end of the input closes all conversations.
_END_OF_INPUT: Final = "end_of_input"


class WorkerResources:
    """The span reader and the judge of a worker, created once per process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def reader(self) -> Reader:
        """The span reader."""
        return Reader.from_settings(self.settings.conversations, self.settings.dialects)

    @cached_property
    def judge(self) -> Judge:
        """The judge in the settings."""
        return judge_named(self.settings.scoring.judge, self.settings.judge)


class WorkerPool:
    """A pool of worker processes. A context manager that terminates them.

    `problems` holds messages about failures. The caller recomputes a part that fails in a worker.
    """

    def __init__(self, settings: Settings, count: int) -> None:
        """Create the pool; the processes start with the first part."""
        self.problems: list[str] = []
        self.count = count
        #: Number of parts that may be queued at the workers while others are read and written.
        self.ahead = 2 * count
        # "spawn": a forked process would inherit locks whose owning threads it does not have.
        context = multiprocessing.get_context("spawn")
        self._pool: ProcessPoolExecutor | None = ProcessPoolExecutor(
            count, mp_context=context, initializer=_initialize, initargs=(settings,)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def submit(
        self, work: Callable[Concatenate[WorkerResources, P], R], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R] | None:
        """Submit work to a worker; None if the pool is broken."""
        try:
            with _children_ignore_sigint():
                return None if self._pool is None else self._pool.submit(_run, work, *arguments, **keywords)
        except BrokenProcessPool as error:
            self._broken(error)
            return None

    def result(self, future: Future[R] | None) -> R | None:
        """Return the result of a worker, or None if it failed."""
        if future is None:
            return None
        try:
            return future.result()
        except BrokenProcessPool as error:
            self._broken(error)
        except Exception as error:  # noqa: BLE001 — the caller computes the part again and then sees the failure
            _log.debug("a part failed in a worker: %r", error)
        return None

    def _broken(self, error: BrokenProcessPool) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
            self.problems.append(f"a worker process died ({error}); this process did the rest")


@contextmanager
def _children_ignore_sigint() -> Iterator[None]:
    """Block SIGINT for processes started in the block: a terminal sends Ctrl-C to all, and the parent ends the others.

    A signal mask is inherited; a handler installed in the process itself would come too late for its imports.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def open_workers(settings: Settings, count: int | None) -> Iterator[WorkerPool | None]:
    """Provide a pool with `count` processes, or None if `count` is None."""
    if count is None:
        yield None
        return
    with WorkerPool(settings, count) as pool:
        yield pool


def processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_resources: WorkerResources


def _initialize(settings: Settings) -> None:
    """Initialize a worker."""
    global _resources  # noqa: PLW0603 — state that a pool process keeps between tasks
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems without signal masks
    _resources = WorkerResources(settings)


def _run(work: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    return work(_resources, *arguments, **keywords)


def packed(scores: Sequence[ConversationScore], part: Part) -> bytes:
    """Return scores of conversations as bytes that `unpacked` reads with the same conversations."""
    file = BytesIO()
    _Packer(file, part).dump(list(scores))
    return file.getvalue()


def unpacked(content: bytes, part: Part) -> list[ConversationScore]:
    """Return the scores of conversations from bytes that a process started by this one sent."""
    token = _in_view.set(_View(part))
    try:
        scores: list[ConversationScore] = pickle.loads(content)  # noqa: S301 — from a worker that this process started
    finally:
        _in_view.reset(token)
    return scores


class _View:
    """Calls and expectations of conversations, by index."""

    def __init__(self, part: Part) -> None:
        self.calls = [call for item in part for turn in item.conversation.turns for call in turn.calls]
        self.expectations = list(_expectations_of(part))


def _expectations_of(part: Part) -> Iterator[ToolExpectation]:
    """Yield the expectations of the cases with their alternatives, each case once."""
    cases = {id(item.match.case): item.match.case for item in part if item.match.case is not None}
    for case in cases.values():
        for tools in (case.tools, *(turn.tools for turn in case.turns)):
            if tools is not None:
                yield tools
                yield from tools.alternatives


class _Packer(pickle.Pickler):
    def __init__(self, file: BytesIO, part: Part) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        view = _View(part)
        self._calls = {id(call): index for index, call in enumerate(view.calls)}
        self._expectations = {id(expectation): index for index, expectation in enumerate(view.expectations)}
        self._expected: dict[int, tuple[int, ToolRules, int]] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild a value that is not pickled in the regular way."""
        match value:
            case ToolScore():
                return ToolScore, tuple(value)
            case ToolCall():
                return (_call, (self._calls[id(value)],)) if id(value) in self._calls else NotImplemented
            case CompiledExpectation():
                return self._compiled(value)
            case CompiledCall():
                position = self._expected.get(id(value))
                return (_expected, position) if position is not None else NotImplemented
            case _:
                return NotImplemented

    def _compiled(self, value: CompiledExpectation) -> Any:
        index = self._expectations.get(id(value.expectation))
        if index is None:
            return compiled, (value.expectation, value.rules)
        self._expected |= {id(call): (index, value.rules, number) for number, call in enumerate(value.calls)}
        return _expectation, (index, value.rules)


#: The conversations for which `unpacked` runs: the functions that rebuild a value receive only its index.
_in_view: ContextVar[_View] = ContextVar("conversations whose scores are unpacked")


def _call(index: int) -> ToolCall:
    return _in_view.get().calls[index]


def _expectation(index: int, rules: ToolRules) -> CompiledExpectation:
    return compiled(_in_view.get().expectations[index], rules)


def _expected(index: int, rules: ToolRules, number: int) -> CompiledCall:
    return _expectation(index, rules).calls[number]


def scoring_over(engine: Engine, pool: WorkerPool | None) -> EvaluationRunner:
    """Return the evaluation runner of an engine, with worker processes if there are any.

    An LLM judge is always called from this process: waiting for it needs no processor. Evaluators also run here.
    """
    runner = engine.runner
    if pool is None or not isinstance(runner.judge, ExactJudge) or runner.truth().deciding.evaluators:
        return runner
    return PooledEvaluationRunner(engine, pool)


class PooledEvaluationRunner(EvaluationRunner):
    """Matches and stores in this process, and scores in workers."""

    def __init__(self, engine: Engine, pool: WorkerPool) -> None:
        settings = engine.settings
        super().__init__(engine.store, settings.scoring, settings.judge, settings.sampling, matching=settings.matching)
        self.judge = engine.runner.judge
        self._all_settings = settings
        self._pool = pool

    def judge_run(self, stop: Callable[[], bool] = lambda: False, *, waits: bool = False) -> JudgeRun:  # noqa: ARG002 — the exact judge is always available
        """Return a run that scores in workers, to be used as a context manager."""
        return PooledJudgeRun(
            self.store,
            self.judge,
            self.budget,
            settings=self._judge_settings,
            stop=stop,
            over=(self._pool, self._all_settings),
        )


class PooledJudgeRun(JudgeRun):
    """Scores in workers, in the order of the conversations."""

    def __init__(
        self,
        store: Store,
        judge: Judge,
        budget: Budget,
        *,
        settings: JudgeSettings,
        stop: Callable[[], bool],
        over: tuple[WorkerPool, Settings],
    ) -> None:
        """Start a run; see `JudgeRun`."""
        super().__init__(store, judge, budget, settings=settings, stop=stop)
        self._pool, self._all_settings = over

    def evaluated(
        self,
        keys: Sequence[Key],
        match: Callable[[Sequence[Key]], list[MatchedConversation]],
        dialogue_of: Callable[[MatchedConversation], Dialogue[Scored]],  # noqa: ARG002 — workers score by the settings
    ) -> Iterator[list[Scored]]:
        """Yield scores in batches; see `JudgeRun.evaluated`."""
        pending: deque[Iterator[Scored]] = deque()
        for start in range(0, len(keys), _SCORING_BATCH):
            if self._stop():
                break
            pending.append(self._submit(match(keys[start : start + _SCORING_BATCH])))
            if len(pending) > 1:
                yield list(pending.popleft())
        while pending:
            yield list(pending.popleft())

    def _submit(self, matched: Part) -> Iterator[Scored]:
        """Submit conversations to the workers; return an iterator that waits for their scores, in the same order."""
        parts = by_bucket(matched, self._pool.count * _PARTS_PER_WORKER)
        parts_at_workers = [
            (indices, self._pool.submit(score_packed, [matched[index] for index in indices])) for indices in parts
        ]
        return self._collect(matched, parts_at_workers)

    def _collect(
        self, matched: Part, parts_at_workers: Sequence[tuple[list[int], Future[bytes] | None]]
    ) -> Iterator[Scored]:
        scores: dict[int, ConversationScore] = {}
        for indices, future in parts_at_workers:
            content = self._pool.result(future)
            if content is None:
                scores |= {index: score for index in indices for score in self._score_locally(matched[index])}
            else:
                scores |= dict(zip(indices, unpacked(content, [matched[index] for index in indices]), strict=True))
        for index in sorted(scores):
            item = matched[index]
            yield Scored(conversation=item.conversation, match=item.match, score=scores[index])

    def _score_locally(self, item: MatchedConversation) -> list[ConversationScore]:
        """Score one conversation in this process; if that fails, return nothing and record a problem."""
        try:
            return score_part(WorkerResources(self._all_settings), [item])
        except Exception as error:  # noqa: BLE001 — recorded; one conversation must not hold up the others
            name = item.conversation.conversation_id
            self._pool.problems.append(
                f"conversation {name!r} cannot be scored ({type(error).__name__}: {error}); please report it"
            )
            return []


def score_packed(resources: WorkerResources, part: Part) -> bytes:
    """Return the scores of a part, in its order, packed for the parent process."""
    return packed(score_part(resources, part), part)


def score_part(resources: WorkerResources, part: Part) -> list[ConversationScore]:
    """Return the scores of a part, in its order."""
    settings, judge = resources.settings.scoring, resources.judge
    scores = dict(run_dialogues((scorer_of(settings)(item, judge, settings) for item in part), ask_of(judge)))
    return [scores[index] for index in range(len(part))]


def by_bucket(matched: Part, parts: int) -> list[list[int]]:
    """Return the indices of conversations in at most `parts` lists, by bucket."""
    buckets: dict[int, list[int]] = {}
    for index, item in enumerate(matched):
        buckets.setdefault(bucket_of("\0".join(item.conversation.key)) % parts, []).append(index)
    return [buckets[number] for number in sorted(buckets)]


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
            before = links.conversations_of(con, trace_ids)
            rows = load_rows(con, trace_ids)
        future = self._pool.submit(read_rows, rows)
        return _PendingPart(
            items=trace_ids, keys=frozenset(before), traces=frozenset(trace_ids), rows=rows, future=future
        )

    def _save_part(
        self, part: _PendingPart, failures: list[NotRebuilt], progress: Callable[[int], None]
    ) -> AffectedItems:
        segments: list[Segment] | None = self._pool.result(part.future)
        total = AffectedItems(keys=frozenset(), loose_traces=frozenset())
        if segments is None:
            for affected in self._in_parts(part.items, self._read_chunk, failures):
                total |= affected
        else:
            total = self._save_read(part.items, part.keys, segments, part.rows.arrivals)
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
