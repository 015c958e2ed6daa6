"""A backfill: read files, score conversations without a score, compute and emit every window of a time range; resumable.

Destinations of points and events are OTLP, an OpenMetrics file, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from otel_agentic.backfill.plan import BackfillRequest, Plan, parts_of, plan_of, run_id_of
from otel_agentic.engine.engine import Engine, Progress, stored_estimator_names, stored_estimators
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.judge_runs import evaluator_of
from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner, OnScored, judge_json
from otel_agentic.evaluation.scope import EvaluationSummary, Truth
from otel_agentic.store.backfills import (
    Pass,
    advance_pass,
    begin_pass,
    changed_since,
    computed_since,
    conversation_range,
    count_groups,
    count_rows,
    find_pass,
    finish_pass,
    rewritten_since,
)
from otel_agentic.store.conversations import retention_state
from otel_agentic.store.results import results_for
from otel_agentic.store.table import Scored, Selection
from otel_agentic.store.windows import claims_at, save_windows
from otel_agentic.telemetry import EventHistory, OpenMetricsHistory, OtlpHistory, SentEvents
from otel_agentic.telemetry.delivery import loggable
from otel_agentic.windows import roll

if TYPE_CHECKING:
    from otel_agentic.config import EmitSettings
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.table import Key
    from otel_agentic.windows.columns import WindowTable


class PointSink(Protocol):
    """Receives the points of window ends, in order of time."""

    @property
    def needs_all_ends(self) -> bool:
        """Whether every run must send every end, as for a file; a backend keeps the points of earlier runs."""
        ...

    def send(self, points: WindowTable, /) -> int:
        """Send points and return how many were accepted.

        Raises:
            BackendError: the backend did not accept them.
        """
        ...

    def finish(self) -> object:
        """Finish after the last points."""
        ...


@contextmanager
def sink_of(request: BackfillRequest, emit: EmitSettings, out: Path | None) -> Iterator[PointSink | None]:
    """Yield the sink of a backfill, and close it at the end; None if only the rows of the store are computed.

    Raises:
        UsageError: the endpoint or file is missing.
        ConfigError: the endpoint is not http(s)://host:port.
    """
    if request.emit == "none":
        yield None
    elif request.emit == "otlp":
        with closing(OtlpHistory(emit, endpoint_of(request, emit))) as history:
            yield history
    else:
        if out is None:
            raise UsageError("emit openmetrics: name the file to write")
        with closing(OpenMetricsHistory(out, emit, labels=request.labels)) as file:
            yield file


def endpoint_of(request: BackfillRequest, emit: EmitSettings) -> str:
    """Return the OTLP endpoint of a backfill.

    Raises:
        UsageError: no endpoint is configured.
    """
    endpoint = request.endpoint or emit.endpoint
    if endpoint is None:
        raise UsageError("--emit otlp: pass --endpoint http(s)://host:port, or set emit.endpoint")
    return endpoint


def identity_of(engine: Engine, request: BackfillRequest) -> tuple[str, str]:
    """Return the id of a backfill of a store, and everything that determines its rows, as JSON.

    Equal backfills have the same id, so that one continues where another was stopped.
    """
    settings = engine.settings
    target = endpoint_of(request, settings.emit) if request.emit == "otlp" else ""
    # Equal backends have equal ids, and so have equal last ends: `until` given as an age differs in every run.
    normalised = replace(request, endpoint=loggable(target) if target else None, until_ns=request.last_end_ns)
    return run_id_of(
        normalised,
        {
            "target": hashlib.blake2b(target.encode(), digest_size=8).hexdigest(),
            "estimators": stored_estimator_names(settings),
            "stats": settings.stats.model_dump(mode="json"),
            "since": settings.slo.since_ns,
            "tags": settings.windows.tags,
            "evaluation_id": engine.runner.truth().evaluation.evaluation_id,
        },
    )


@contextmanager
def events_of(engine: Engine, request: BackfillRequest) -> Iterator[EventHistory | None]:
    """Yield the sender of a backfill's events: over OTLP; None if the settings turn events off."""
    emit = engine.emit
    if request.emit != "otlp" or emit.events == "none":
        yield None
        return
    run_id, _ = identity_of(engine, request)
    with closing(EventHistory(emit, endpoint_of(request, emit), run_id=run_id)) as history:
        yield history


#: Conversations that are scored while the lock is held: between portions, a running collector scores newly closed ones.
#: It is the number that is sent to a judge together.
_PORTION: Final = 2000


def selection_of(plan: Plan) -> Selection:
    """Return the selection of the conversations in any window of a plan."""
    since_ns = None if plan.reach_ns is None else plan.reach_ns + 1
    return Selection(since_ns=since_ns, until_ns=plan.last_ns + 1)


def unscored_in(runner: EvaluationRunner, truth: Truth, plan: Plan, *, live: bool) -> EvaluationRequest:
    """Return the conversations of a plan without a score under the active truth, or with an incomplete one.

    In a running collector, newly closed conversations are excluded: its own loop scores them, emits their events and restates
    windows.
    """
    request = runner.select(truth, selection_of(plan))
    if not live:
        return request
    new = set(runner.never_scored().keys)
    return replace(request, keys=[key for key in request.keys if key not in new])


def score_missing(
    engine: Engine, runner: EvaluationRunner, plan: Plan, context: BackfillContext, events: EventHistory | None
) -> Backfilled:
    """Match and score conversations without a score under the active truth; return the counts and the use of the judge.

    Args:
        engine: the opened store.
        runner: the runner: that of the engine, or one with worker processes.
        plan: the plan with the conversations.
        context: see `BackfillContext`.
        events: receives the scores after they are stored.
    """
    truth = runner.truth()
    request = unscored_in(runner, truth, plan, live=context.live)
    request = replace(request, keys=runner.in_order(request.keys, request.chosen))
    summary = EvaluationSummary(evaluation_id=truth.evaluation.evaluation_id)
    counted = 0

    def step(scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        nonlocal counted
        counted += len(scored)
        context.progress("scoring", counted, len(request.keys))
        context.on_scored(scored, restated)
        if events is not None:
            now = runner.current_truth or runner.truth()
            settings = engine.settings.scoring
            events.send((row.conversation, row.score, evaluator_of(row, now, settings)) for row in scored)

    for start in range(0, len(request.keys), _PORTION):
        if context.stop():
            break
        with context.lock:
            part = replace(request, keys=request.keys[start : start + _PORTION])
            summary.merge(runner.evaluate(truth, part, step, context.stop))
        context.progress("scoring", min(start + _PORTION, len(request.keys)), len(request.keys))
    return Backfilled(
        plan=plan,
        to_score=len(request.keys),
        scoring=summary,
        judge=judge_json(engine.runner, summary.tally, request.keys),
        events=SentEvents() if events is None else events.outcome,
    )


#: Approximate rows of `windows` in one write: a running collector stores spans between two of these writes.
PART_ROWS: Final = 20_000


class Rolling:
    """Computes the window table for ends of a plan."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._request = plan.request
        self._windows = plan.windows
        self._estimators = stored_estimators(engine)

    def part_size(self, rows: int) -> int:
        """Return the number of ends that result in about `rows` rows."""
        with self._engine.store.read() as con:
            groups = count_groups(con) * (1 + len(self._engine.settings.windows.tags))
        rows_per_end = groups * len(self._request.windows) * len(self._request.k) * len(self._estimators)
        return max(1, rows // max(1, rows_per_end))

    def table(self, ends: Sequence[int]) -> WindowTable:
        """Return the windows of ends, ascending."""
        settings = self._engine.settings
        with self._engine.store.read() as con:
            results = results_for(con, self._windows, ends, tags=settings.windows.tags)
            claims = claims_at(
                con,
                ends,
                tags=settings.windows.tags,
                since_ns=settings.slo.since_ns,
                settings=settings.stats,
                estimators=self._estimators,
            )
        return roll(
            results,
            self._request.windows,
            ends,
            estimators=self._estimators,
            settings=settings.stats,
            k=self._request.k,
            claims=claims,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWriter:
    """Stores and emits the parts of a backfill.

    Rows are written first, then points are sent, then the position is stored: if the process is killed, the part is repeated
    without duplicates. Points that are sent again have the same timestamps and values.

    Attributes:
        engine: the opened store.
        rolling: computes windows.
        sink: receives points; None if nothing does.
        begun: the current pass. Its start is the computation time of all its rows, so a later pass knows which were sent.
        lock: held while windows are computed and stored.
    """

    engine: Engine
    rolling: Rolling
    sink: PointSink | None
    begun: Pass
    lock: AbstractContextManager[Any]

    def store(self, part: range) -> WindowTable:
        """Compute the windows of a part, and write new and changed rows."""
        begun = self.begun
        with self.lock:
            table, now_ns = self.rolling.table(part), self.engine.clock()

            def save(con: Connection) -> None:
                count_rows(con, begun.run_id, save_windows(con, table, part, begun.started_ns), now_ns)

            self.engine.store.write(save)
        return table

    def emit(self, part: range, table: WindowTable) -> None:
        """Send the points of a stored part, and store its position."""
        sink, sent = self.sink, 0
        ends = () if sink is None else self._to_send(part, all_ends=sink.needs_all_ends)
        if sink is not None and ends:
            sent = sink.send(table if len(ends) == len(part) else self.rolling.table(ends))
        run_id, now_ns = self.begun.run_id, self.engine.clock()
        self.engine.store.write(lambda con: advance_pass(con, run_id, part[-1], points=sent, now_ns=now_ns))

    def _to_send(self, part: range, *, all_ends: bool) -> Sequence[int]:
        """Return the ends whose points are sent: past ends with new or changed rows since the last pass."""
        now_ns, sent_ns = self.engine.clock(), self.begun.sent_ns
        past = [end_ns for end_ns in part if end_ns <= now_ns]
        if all_ends or sent_ns is None:
            return past
        with self.engine.store.read() as con:
            restated = computed_since(con, past, sent_ns)
        # Ends after the start of the last pass may not have been sent by it.
        return sorted({*restated, *(end_ns for end_ns in past if end_ns > sent_ns)})


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillContext:
    """The environment of a backfill.

    Attributes:
        live: whether this is a running collector, which scores newly closed conversations itself.
        lock: held while a portion of conversations is scored.
        windows_lock: held while windows are computed and stored, so that no other thread computes the same ones.
        on_scored: called with scores after they are stored.
        progress: called with the progress.
        stop: as soon as it returns true, the run ends after the current part.
        part_rows: approximate number of rows that are computed, written and sent together.
    """

    live: bool = False
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    windows_lock: AbstractContextManager[Any] = field(default_factory=nullcontext)
    on_scored: OnScored = lambda *_: None
    progress: Progress = lambda *_: None
    stop: Callable[[], bool] = lambda: False
    part_rows: int = PART_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """The result of a backfill. `plan` is None if no conversation is closed; `judge` is the use of the judge.

    `to_score` conversations had no score, or an incomplete one; `scoring` is the result of scoring them.
    `events` are the events of its scores; `resumed_ns` is the end after which an interrupted run was resumed; `repeated`
    means that an earlier run was complete.
    """

    plan: Plan | None = None
    to_score: int = 0
    scoring: EvaluationSummary = field(default_factory=lambda: EvaluationSummary(evaluation_id=""))
    judge: Mapping[str, Any] | None = None
    newest: Pass | None = None
    events: SentEvents = field(default_factory=SentEvents)
    resumed_ns: int | None = None
    repeated: bool = False
    stopped: bool = False


def backfill(
    engine: Engine,
    request: BackfillRequest,
    *,
    runner: EvaluationRunner | None = None,
    out: Path | None = None,
    context: BackfillContext | None = None,
) -> Backfilled:
    """Update scores, windows and emitted points for a past range.

    Args:
        engine: the opened store.
        request: the checked request.
        runner: the runner that scores; None for that of the engine.
        out: the file to write for OpenMetrics.
        context: locks, listeners and limits of the caller.

    Raises:
        UsageError: the range contains no window end, or too many.
        BackendError: the backend does not accept points; completed parts are kept, and the same call resumes.
        StoreError: the store cannot be written.
    """
    context, runner = context or BackfillContext(), runner or engine.runner
    with sink_of(request, engine.emit, out) as sink, events_of(engine, request) as events:
        with engine.store.read() as con:
            stored, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
        if stored is None:
            return Backfilled()
        plan = plan_of(request, stored, engine.clock(), removed_until_ns)
        done = score_missing(engine, runner, plan, context, events)
        if context.stop():
            return replace(done, stopped=True)
        return _computed(engine, done, plan, sink, context)


def _computed(
    engine: Engine, done: Backfilled, plan: Plan, sink: PointSink | None, context: BackfillContext
) -> Backfilled:
    """Compute, store and emit the windows of a plan."""
    begun, before = _begin_or_resume(engine, plan, needs_all_ends=sink is not None and sink.needs_all_ends)
    rolling = Rolling(engine, plan)
    remaining = plan.ends if begun.position_ns is None else _after(plan.ends, begun.position_ns)
    writer = PartWriter(engine=engine, rolling=rolling, sink=sink, begun=begun, lock=context.windows_lock)
    finished, stopped = len(plan.ends) - len(remaining), False
    for part in parts_of(remaining, rolling.part_size(context.part_rows)):
        if context.stop():
            stopped = True
            break
        table = writer.store(part)
        finished += len(part)
        context.progress("windows", finished, len(plan.ends))
        writer.emit(part, table)
        if sink is not None:
            context.progress("emitting", finished, len(plan.ends))
    if not stopped:
        if sink is not None:
            sink.finish()
        now_ns = engine.clock()
        engine.store.write(lambda con: finish_pass(con, begun.run_id, now_ns))
    with engine.store.read() as con:
        newest = find_pass(con, begun.run_id)
    return replace(
        done,
        newest=newest,
        resumed_ns=begun.position_ns,
        repeated=before is not None and before.finished,
        stopped=stopped,
    )


def _begin_or_resume(engine: Engine, plan: Plan, *, needs_all_ends: bool) -> tuple[Pass, Pass | None]:
    """Return the pass to continue and the stored one: a new pass unless the stored one can be resumed."""
    run_id, asked_json = identity_of(engine, plan.request)
    now_ns = engine.clock()
    with engine.store.read() as con:
        before = find_pass(con, run_id)
        # If the clock was set back, later changes may have earlier times than the pass.
        known = before is not None and before.updated_ns <= now_ns
        if before is not None and known and _can_resume(con, before, plan, needs_all_ends=needs_all_ends):
            return before, before
    fresh = Pass(
        run_id=run_id,
        number=before.number + 1 if before is not None else 1,
        first_ns=plan.first_ns,
        last_ns=plan.last_ns,
        position_ns=None,
        sent_ns=before.sent_ns if before is not None and known else None,
        rows_changed=0,
        points_sent=0,
        started_ns=now_ns,
        updated_ns=now_ns,
    )
    engine.store.write(lambda con: begin_pass(con, fresh, asked_json))
    return fresh, before


def _can_resume(con: Connection, before: Pass, plan: Plan, *, needs_all_ends: bool) -> bool:
    """Return whether a stopped pass can be resumed: it has the same ends, and its rows have not changed since."""
    same = (before.first_ns, before.last_ns) == (plan.first_ns, plan.last_ns)
    if not same or needs_all_ends or before.finished:
        return False
    if before.position_ns is None:
        return True
    changed = changed_since(con, before.position_ns, before.started_ns)
    # Another backfill with other settings may have written other rows.
    return not changed and not rewritten_since(con, before, plan.request.windows)


def _after(ends: range, position_ns: int) -> range:
    """Return the ends after a position.

    >>> list(_after(range(0, 50, 10), 20))
    [30, 40]
    """
    return ends[(position_ns - ends.start) // ends.step + 1 :]
