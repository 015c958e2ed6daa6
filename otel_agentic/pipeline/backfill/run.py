"""A backfill from end to end: score, compute windows part by part, emit. What was done stays done."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from otel_agentic.pipeline.backfill.events import events_of
from otel_agentic.pipeline.backfill.identity import identity_of
from otel_agentic.pipeline.backfill.plan import Asked, Plan, parts_of, plan_of
from otel_agentic.pipeline.backfill.rolling import PART_ROWS, Rolling
from otel_agentic.pipeline.backfill.scoring import Scoring, score_missing
from otel_agentic.pipeline.backfill.sinks import sink_of
from otel_agentic.pipeline.backfill.step import Step
from otel_agentic.store.backfills import (
    Pass,
    begin_pass,
    changed_since,
    conversation_range,
    find_pass,
    finish_pass,
    rewritten_since,
)
from otel_agentic.store.kept import retention_state
from otel_agentic.telemetry import SentEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from otel_agentic.pipeline.backfill.sinks import PointSink
    from otel_agentic.pipeline.engine import Engine, Progress
    from otel_agentic.pipeline.evaluate import EvaluationRunner, OnScored
    from otel_agentic.store.database import Connection


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
