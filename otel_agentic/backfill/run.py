"""A backfill: read files, score conversations without a score, compute and emit every window of a time range; resumable."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.backfill.plan import Asked, Plan, parts_of, plan_of
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

#: Conversations scored before others may: a running collector scores what closes meanwhile in between. As many as go to
#: a judge together.
_PORTION: Final = 2000


@dataclass(slots=True, kw_only=True)
class Scoring:
    """What the scoring of a backfill did; see `EvaluationSummary`. `wanted` conversations had no score, or one left open."""

    wanted: int = 0
    scored: int = 0
    unchanged: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    warnings: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)

    def add(self, part: EvaluationSummary) -> None:
        """Count a part."""
        self.scored += part.scored
        self.unchanged += part.unchanged
        self.outcomes.update(part.outcomes)
        self.reasons.update(part.reasons)
        self.warnings.update(part.warnings)
        self.tally = total(self.tally, part.tally)


def selection_of(plan: Plan) -> Selection:
    """Return which conversations are in some window of a plan."""
    since_ns = None if plan.reach_ns is None else plan.reach_ns + 1
    return Selection(since_ns=since_ns, until_ns=plan.last_ns + 1)


def wanted_of(evaluating: EvaluationRunner, truth: Truth, plan: Plan, *, live: bool) -> EvaluationRequest:
    """Return the conversations of a plan that have no score under the truth in force, or one that the judge left open.

    In a running collector, those that just closed are left to it: it counts them, emits their events, and restates windows.
    """
    wanted = evaluating.select(truth, selection_of(plan))
    if not live:
        return wanted
    own = set(evaluating.never_scored().keys)
    return replace(wanted, keys=[key for key in wanted.keys if key not in own])


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
    """Match and score what has no score under the truth in force; return what that did, and what the judge was asked.

    Args:
        engine: the opened store.
        evaluating: scores; that of the engine, or one over processes.
        plan: which conversations.
        live: in a running collector; see `wanted_of`.
        lock: held while a portion is scored.
        on_scored: told of scores once they are stored.
        progress: told how far it is.
        stop: once it says so, nothing new is begun.
    """
    truth = evaluating.truth()
    wanted = wanted_of(evaluating, truth, plan, live=live)
    wanted = replace(wanted, keys=evaluating.in_order(wanted.keys, wanted.chosen))
    done = Scoring(wanted=len(wanted.keys))
    counted = 0

    def step(scored: Sequence[Scored], restated: AbstractSet[Key]) -> None:
        nonlocal counted
        counted += len(scored)
        progress("scoring", counted, len(wanted.keys))
        on_scored(scored, restated)

    for start in range(0, len(wanted.keys), _PORTION):
        if stop():
            break
        with lock:
            part = replace(wanted, keys=wanted.keys[start : start + _PORTION])
            done.add(evaluating.evaluate(truth, part, step, stop))
        progress("scoring", min(start + _PORTION, len(wanted.keys)), len(wanted.keys))
    return done, judge_json(engine.evaluating, done.tally, wanted.keys)


def total(first: Tally, second: Tally) -> Tally:
    """Return what two runs asked of a judge together.

    >>> total(Tally(calls=2, cost_usd=0.5), Tally(calls=1, failure="timeout")).calls
    3
    """
    own: dict[str, Any] = {each.name: getattr(first, each.name) for each in fields(Tally)}
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


#: Rows of `windows` that are written at once, about: a running collector stores spans between two such writes.
PART_ROWS: Final = 20_000


class Rolling:
    """Computes the window table of some ends of a plan."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self._engine = engine
        self._asked = plan.asked
        self._windows = plan.windows
        self._estimators = stored_estimators(engine)

    def part_size(self, rows: int) -> int:
        """Return how many ends make about so many rows."""
        with self._engine.store.read() as con:
            groups = count_groups(con) * (1 + len(self._engine.settings.windows.tags))
        rows_an_end = groups * len(self._asked.windows) * len(self._asked.k) * len(self._estimators)
        return max(1, rows // max(1, rows_an_end))

    def table(self, ends: Sequence[int]) -> WindowTable:
        """Return the windows of some ends, ascending."""
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
            self._asked.windows,
            ends,
            estimators=self._estimators,
            settings=settings.stats,
            k=self._asked.k,
            claims=claims,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Does one part after the other.

    The rows come first, then the points, then the note that the part is done: a kill on the way repeats the part, and
    doubles nothing. Points that are sent a second time have the timestamps and values of the first.

    Attributes:
        engine: the opened store.
        rolling: computes windows.
        sink: takes points.
        begun: the pass. All of its rows say that they were computed when it began: so a later pass knows what was sent.
        lock: held while windows are computed and stored.
    """

    engine: Engine
    rolling: Rolling
    sink: PointSink
    begun: Pass
    lock: AbstractContextManager[Any]

    def store(self, part: range) -> WindowTable:
        """Compute the windows of a part, and write what is new or differs."""
        begun = self.begun
        with self.lock:
            table, now_ns = self.rolling.table(part), self.engine.clock()

            def save(con: Connection) -> None:
                count_rows(con, begun.run_id, save_windows(con, table, part, begun.started_ns), now_ns)

            self.engine.store.write(save)
        return table

    def emit(self, part: range, table: WindowTable) -> None:
        """Send the points of a part that was stored, and note that it is done."""
        ends = self._to_send(part) if self.sink.wants_points else ()
        sent = 0
        if ends:
            sent = self.sink.send(table if len(ends) == len(part) else self.rolling.table(ends))
        run_id, now_ns = self.begun.run_id, self.engine.clock()
        self.engine.store.write(lambda con: advance_pass(con, run_id, part[-1], points=sent, now_ns=now_ns))

    def _to_send(self, part: range) -> Sequence[int]:
        """Return the ends whose points go out: of those that have come, those that say something new since they last did."""
        now_ns, sent_ns = self.engine.clock(), self.begun.sent_ns
        past = [end_ns for end_ns in part if end_ns <= now_ns]
        if self.sink.whole or sent_ns is None:
            return past
        with self.engine.store.read() as con:
            restated = computed_since(con, past, sent_ns)
        # What had not come yet when the last pass began may not have been sent by it.
        return sorted({*restated, *(end_ns for end_ns in past if end_ns > sent_ns)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a backfill runs in.

    Attributes:
        live: in a running collector, which counts and scores what just closed itself.
        lock: held while some conversations are scored.
        windows_lock: held while windows are computed and stored: whoever computes the same ones waits.
        on_scored: told of scores once they are stored.
        progress: told how far it is.
        stop: once it says so, the run ends after the part that is under way.
        part_rows: how many rows a part has, about: what is computed, written and sent at once.
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
    """What a backfill did. `plan` is None where no conversation is closed; `judge` is what the judge was asked.

    `events` are those of its scores; `resumed_ns` is the end after which it went on; `again` tells that an earlier run had
    come to its end.
    """

    plan: Plan | None = None
    scoring: Scoring = field(default_factory=Scoring)
    judge: Mapping[str, Any] | None = None
    newest: Pass | None = None
    events: SentEvents = field(default_factory=SentEvents)
    resumed_ns: int | None = None
    again: bool = False
    stopped: bool = False


def backfill(
    engine: Engine,
    asked: Asked,
    *,
    evaluating: EvaluationRunner | None = None,
    out: Path | None = None,
    around: Surroundings | None = None,
) -> Backfilled:
    """Bring scores, windows and their emission up to date over a range of the past.

    Args:
        engine: the opened store.
        asked: what to do, checked.
        evaluating: scores; None takes the engine's.
        out: the file to write, of an emission to OpenMetrics.
        around: what it runs in.

    Raises:
        UsageError: the range holds no window end, or too many.
        BackendError: the backend does not take points; what was done is kept, the same call goes on.
        StoreError: the store cannot be written.
    """
    around, evaluating = around or Surroundings(), evaluating or engine.evaluating
    with sink_of(asked, engine.emit, out) as sink, events_of(engine, asked, evaluating) as events:
        with engine.store.read() as con:
            held, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
        if held is None:
            return Backfilled()
        plan = plan_of(asked, held, engine.clock(), removed_until_ns)
        scoring, judge = score_missing(
            engine,
            evaluating,
            plan,
            live=around.live,
            lock=around.lock,
            on_scored=events.after(around.on_scored),
            progress=around.progress,
            stop=around.stop,
        )
        done = Backfilled(plan=plan, scoring=scoring, judge=judge, events=events.told)
        if around.stop():
            return replace(done, stopped=True)
        return _computed(engine, done, plan, sink, around)


def _computed(engine: Engine, done: Backfilled, plan: Plan, sink: PointSink, around: Surroundings) -> Backfilled:
    """Compute, store and emit the windows of a plan."""
    begun, before = _begun(engine, plan, whole=sink.whole)
    rolling = Rolling(engine, plan)
    left = plan.ends if begun.position_ns is None else _after(plan.ends, begun.position_ns)
    step = Step(engine=engine, rolling=rolling, sink=sink, begun=begun, lock=around.windows_lock)
    finished, stopped = len(plan.ends) - len(left), False
    for part in parts_of(left, rolling.part_size(around.part_rows)):
        if around.stop():
            stopped = True
            break
        table = step.store(part)
        finished += len(part)
        around.progress("windows", finished, len(plan.ends))
        step.emit(part, table)
        if sink.wants_points:
            around.progress("emitting", finished, len(plan.ends))
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
        again=before is not None and before.finished,
        stopped=stopped,
    )


def _begun(engine: Engine, plan: Plan, *, whole: bool) -> tuple[Pass, Pass | None]:
    """Return the pass to go on with, and the one that was there: a new pass unless that can be resumed."""
    run_id, asked_json = identity_of(engine, plan.asked)
    now_ns = engine.clock()
    with engine.store.read() as con:
        before = find_pass(con, run_id)
        # Where the clock was set back, the times of what happened since are no later than those of the pass.
        known = before is not None and before.updated_ns <= now_ns
        if before is not None and known and _can_go_on(con, before, plan, whole=whole):
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


def _can_go_on(con: Connection, before: Pass, plan: Plan, *, whole: bool) -> bool:
    """Return whether a pass goes on where it was stopped: it has the same ends, and nothing has changed under it."""
    same = (before.first_ns, before.last_ns) == (plan.first_ns, plan.last_ns)
    if not same or whole or before.finished:
        return False
    if before.position_ns is None:
        return True
    changed = changed_since(con, before.position_ns, before.started_ns)
    # Another backfill may have other settings: its rows are not those of this one.
    return not changed and not rewritten_since(con, before, plan.asked.windows)


def _after(ends: range, position_ns: int) -> range:
    """Return the ends after a position.

    >>> list(_after(range(0, 50, 10), 20))
    [30, 40]
    """
    return ends[(position_ns - ends.start) // ends.step + 1 :]
