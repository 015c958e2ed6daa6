"""A backfill: read files, score conversations without a score, compute and emit every window of a time range; resumable."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.backfill.plan import BackfillRequest, Plan, parts_of, plan_of
from otel_agentic.backfill.sinks import events_of, identity_of, sink_of
from otel_agentic.engine.engine import stored_estimators
from otel_agentic.evaluation.counts import Tally
from otel_agentic.evaluation.run import judge_json
from otel_agentic.store.maintenance.retention import retention_state
from otel_agentic.store.queries.windows import (
    Pass,
    advance_pass,
    begin_pass,
    changed_since,
    claims_at,
    computed_since,
    conversation_range,
    count_groups,
    count_rows,
    find_pass,
    finish_pass,
    rewritten_since,
)
from otel_agentic.store.results import results_for
from otel_agentic.store.selection import Selection
from otel_agentic.store.windows import save_windows
from otel_agentic.telemetry import SentEvents
from otel_agentic.windows import roll

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager
    from pathlib import Path

    from otel_agentic.backfill.sinks import PointSink
    from otel_agentic.engine.engine import Engine, Progress
    from otel_agentic.evaluation.counts import EvaluationSummary
    from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner, OnScored
    from otel_agentic.evaluation.truth import Truth
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.selection import Scored
    from otel_agentic.store.table import Key
    from otel_agentic.windows.columns import WindowTable

#: Conversations that are scored while the lock is held: between portions, a running collector scores newly closed ones.
#: It is the number that is sent to a judge together.
_PORTION: Final = 2000


@dataclass(slots=True, kw_only=True)
class Scoring:
    """The result of scoring; see `EvaluationSummary`. `to_score` conversations had no score, or an incomplete one."""

    to_score: int = 0
    scored: int = 0
    unchanged: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    def add(self, part: EvaluationSummary) -> None:
        """Add the counts of a part."""
        self.scored += part.scored
        self.unchanged += part.unchanged
        self.outcomes.update(part.outcomes)
        self.reasons.update(part.reasons)
        self.warnings.update(part.warnings)
        self.tally = total(self.tally, part.tally)


def selection_of(plan: Plan) -> Selection:
    """Return the selection of the conversations in any window of a plan."""
    since_ns = None if plan.reach_ns is None else plan.reach_ns + 1
    return Selection(since_ns=since_ns, until_ns=plan.last_ns + 1)


def unscored_in(evaluating: EvaluationRunner, truth: Truth, plan: Plan, *, live: bool) -> EvaluationRequest:
    """Return the conversations of a plan without a score under the active truth, or with an incomplete one.

    In a running collector, newly closed conversations are excluded: its own loop scores them, emits their events and restates
    windows.
    """
    request = evaluating.select(truth, selection_of(plan))
    if not live:
        return request
    new = set(evaluating.never_scored().keys)
    return replace(request, keys=[key for key in request.keys if key not in new])


def score_missing(
    engine: Engine,
    evaluating: EvaluationRunner,
    plan: Plan,
    *,
    live: bool,
    lock: AbstractContextManager[Any],
    on_scored: OnScored,
    progress: Progress,
    stop: Callable[[], bool],
) -> tuple[Scoring, Mapping[str, Any]]:
    """Match and score conversations without a score under the active truth; return the counts and the use of the judge.

    Args:
        engine: the opened store.
        evaluating: the runner: that of the engine, or one with worker processes.
        plan: the plan with the conversations.
        live: whether this is a running collector; see `unscored_in`.
        lock: held while a portion is scored.
        on_scored: called with scores after they are stored.
        progress: called with the progress.
        stop: as soon as it returns true, no new portion is started.
    """
    truth = evaluating.truth()
    request = unscored_in(evaluating, truth, plan, live=live)
    request = replace(request, keys=evaluating.in_order(request.keys, request.chosen))
    done = Scoring(to_score=len(request.keys))
    counted = 0

    def step(scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        nonlocal counted
        counted += len(scored)
        progress("scoring", counted, len(request.keys))
        on_scored(scored, restated)

    for start in range(0, len(request.keys), _PORTION):
        if stop():
            break
        with lock:
            part = replace(request, keys=request.keys[start : start + _PORTION])
            done.add(evaluating.evaluate(truth, part, step, stop))
        progress("scoring", min(start + _PORTION, len(request.keys)), len(request.keys))
    return done, judge_json(engine.evaluating, done.tally, request.keys)


def total(first: Tally, second: Tally) -> Tally:
    """Return the sum of the judge calls of two runs.

    >>> total(Tally(calls=2, cost_usd=0.5), Tally(calls=1, failure="timeout")).calls
    3
    """
    own: dict[str, Any] = {part.name: getattr(first, part.name) for part in fields(Tally)}
    for name, value in own.items():
        other = getattr(second, name)
        if isinstance(value, int):
            own[name] = value + other
    return Tally(
        **{
            **own,
            "models": first.models | second.models,
            "failure": second.failure or first.failure,
            "cost_usd": _sum(first.cost_usd, second.cost_usd),
        }
    )


def _sum(first: float | None, second: float | None) -> float | None:
    return second if first is None else first + (second or 0.0)


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
        sink: receives points.
        begun: the current pass. Its start is the computation time of all its rows, so a later pass knows which were sent.
        lock: held while windows are computed and stored.
    """

    engine: Engine
    rolling: Rolling
    sink: PointSink
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
        ends = self._to_send(part) if self.sink.wants_points else ()
        sent = 0
        if ends:
            sent = self.sink.send(table if len(ends) == len(part) else self.rolling.table(ends))
        run_id, now_ns = self.begun.run_id, self.engine.clock()
        self.engine.store.write(lambda con: advance_pass(con, run_id, part[-1], points=sent, now_ns=now_ns))

    def _to_send(self, part: range) -> Sequence[int]:
        """Return the ends whose points are sent: past ends with new or changed rows since the last pass."""
        now_ns, sent_ns = self.engine.clock(), self.begun.sent_ns
        past = [end_ns for end_ns in part if end_ns <= now_ns]
        if self.sink.needs_all_ends or sent_ns is None:
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

    `events` are the events of its scores; `resumed_ns` is the end after which an interrupted run was resumed; `repeated`
    means that an earlier run was complete.
    """

    plan: Plan | None = None
    scoring: Scoring = field(default_factory=Scoring)
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
    evaluating: EvaluationRunner | None = None,
    out: Path | None = None,
    context: BackfillContext | None = None,
) -> Backfilled:
    """Update scores, windows and emitted points for a past range.

    Args:
        engine: the opened store.
        request: the checked request.
        evaluating: the runner that scores; None for that of the engine.
        out: the file to write for OpenMetrics.
        context: locks, listeners and limits of the caller.

    Raises:
        UsageError: the range contains no window end, or too many.
        BackendError: the backend does not accept points; completed parts are kept, and the same call resumes.
        StoreError: the store cannot be written.
    """
    context, evaluating = context or BackfillContext(), evaluating or engine.evaluating
    with sink_of(request, engine.emit, out) as sink, events_of(engine, request, evaluating) as events:
        with engine.store.read() as con:
            stored, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
        if stored is None:
            return Backfilled()
        plan = plan_of(request, stored, engine.clock(), removed_until_ns)
        scoring, judge = score_missing(
            engine,
            evaluating,
            plan,
            live=context.live,
            lock=context.lock,
            on_scored=events.after(context.on_scored),
            progress=context.progress,
            stop=context.stop,
        )
        done = Backfilled(plan=plan, scoring=scoring, judge=judge, events=events.sent)
        if context.stop():
            return replace(done, stopped=True)
        return _computed(engine, done, plan, sink, context)


def _computed(engine: Engine, done: Backfilled, plan: Plan, sink: PointSink, context: BackfillContext) -> Backfilled:
    """Compute, store and emit the windows of a plan."""
    begun, before = _begin_or_resume(engine, plan, needs_all_ends=sink.needs_all_ends)
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
        if sink.wants_points:
            context.progress("emitting", finished, len(plan.ends))
    if not stopped:
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
