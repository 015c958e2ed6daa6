"""A resumable backfill: score conversations without a score, then compute and emit every window of a time range.

Points and events are sent over OTLP, written to an OpenMetrics file, or not emitted.
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
from otel_agentic.engine.observing import answer_evaluator
from otel_agentic.errors import UsageError
from otel_agentic.evaluation.batch import EvaluationSummary, ScoredBatch
from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner, OnScored, judge_json
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
from otel_agentic.store.table import Selection
from otel_agentic.store.windows import claims_at, save_windows
from otel_agentic.telemetry import EventHistory, OpenMetricsHistory, OtlpHistory, SentEvents
from otel_agentic.telemetry.delivery import loggable
from otel_agentic.windows import roll

if TYPE_CHECKING:
    from otel_agentic.config import EmitSettings
    from otel_agentic.evaluation.scope import Truth
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
    """Yield the sink of a backfill, and close it at the end; None if only rows of the store are written.

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

    Equal backfills have the same id, so that a later one resumes where an earlier one was stopped.
    """
    settings = engine.settings
    target = endpoint_of(request, settings.emit) if request.emit == "otlp" else ""
    # The id uses the last end instead of `until`, because an `until` passed as an age differs in every run.
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
    """Yield the sender of a backfill's events over OTLP; None without OTLP, or if the settings disable events."""
    emit = engine.emit
    if request.emit != "otlp" or emit.events == "none":
        yield None
        return
    run_id, _ = identity_of(engine, request)
    with closing(EventHistory(emit, endpoint_of(request, emit), run_id=run_id)) as history:
        yield history


#: Number of conversations that are scored while the lock is held; between portions, a running collector scores newly
#: closed conversations. It equals the number of conversations whose questions are sent to a judge together.
_PORTION: Final = 2000


def selection_of(plan: Plan) -> Selection:
    """Return the selection of the conversations that are in a window of a plan."""
    since_ns = None if plan.reach_ns is None else plan.reach_ns + 1
    return Selection(since_ns=since_ns, until_ns=plan.last_ns + 1)


def unscored_in(runner: EvaluationRunner, truth: Truth, plan: Plan, *, live: bool) -> EvaluationRequest:
    """Return the conversations of a plan without a score under the active truth, or with an incomplete one.

    In a running collector, newly closed conversations are excluded, because its scoring loop scores them, emits their
    events and restates windows.
    """
    request = runner.select(truth, selection_of(plan))
    if not live:
        return request
    newly_closed = set(runner.never_scored().keys)
    return replace(request, keys=[key for key in request.keys if key not in newly_closed])


def score_missing(
    engine: Engine, runner: EvaluationRunner, plan: Plan, context: BackfillContext, events: EventHistory | None
) -> Backfilled:
    """Match and score conversations without a score under the active truth; return the counts and the use of the judge.

    Args:
        engine: the opened store.
        runner: the runner of the engine, or one with worker processes.
        plan: the plan with the conversations.
        context: see `BackfillContext`.
        events: receives the scores after they are stored.
    """
    truth = runner.truth()
    request = unscored_in(runner, truth, plan, live=context.live)
    request = replace(request, keys=runner.in_order(request.keys, request.chosen))
    summary = EvaluationSummary(evaluation_id=truth.evaluation.evaluation_id)
    scored_count = 0

    def handle_scored(scored: ScoredBatch, restated: AbstractSet[Key]) -> None:
        nonlocal scored_count
        scored_count += len(scored)
        context.progress("scoring", scored_count, len(request.keys))
        context.on_scored(scored, restated)
        if events is not None:
            evaluation_id, settings = scored.summary.evaluation_id, engine.settings.scoring
            events.send(
                (row.conversation, row.score, answer_evaluator(row, evaluation_id, runner.judge, settings))
                for row in scored
            )

    for start in range(0, len(request.keys), _PORTION):
        if context.stop():
            break
        with context.lock:
            part = replace(request, keys=request.keys[start : start + _PORTION])
            summary.merge(runner.evaluate(truth, part, handle_scored, context.stop))
        context.progress("scoring", min(start + _PORTION, len(request.keys)), len(request.keys))
    return Backfilled(
        plan=plan,
        to_score=len(request.keys),
        scoring=summary,
        judge=judge_json(engine.runner, summary.tally, request.keys),
        events=SentEvents() if events is None else events.outcome,
    )


#: Approximate number of rows of `windows` in one write; a running collector stores spans between two writes.
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
        """Return the windows at these ends, which are ascending."""
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

    Rows are written first, then points are sent, then the position is stored. If the process is killed, the part is
    repeated without duplicates, because points that are sent again have the same timestamps and values.

    Attributes:
        engine: the opened store.
        rolling: computes windows.
        sink: receives points; None if points are not emitted.
        begun: the current pass. Its start is recorded as the computation time of all its rows, so that a later pass can
            determine which rows were sent.
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
        # The last pass may not have sent ends after its start.
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
        stop: once it returns True, the run ends after the current part.
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

    `to_score` conversations had no score or an incomplete one; `scoring` is the result of scoring them. `newest` is the
    pass, `events` are the sent events of the scores. `resumed_ns` is the end after which an interrupted run was
    resumed. `repeated` is True if an earlier run of the same backfill was complete, `stopped` if this run was stopped
    early.
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
        runner: the runner that scores; None for the runner of the engine.
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
            stored_range, removed_until_ns = conversation_range(con), retention_state(con).results_from_ns
        if stored_range is None:
            return Backfilled()
        plan = plan_of(request, stored_range, engine.clock(), removed_until_ns)
        backfilled = score_missing(engine, runner, plan, context, events)
        if context.stop():
            return replace(backfilled, stopped=True)
        return _compute_windows(engine, backfilled, plan, sink, context)


def _compute_windows(
    engine: Engine, backfilled: Backfilled, plan: Plan, sink: PointSink | None, context: BackfillContext
) -> Backfilled:
    """Compute, store and emit the windows of a plan."""
    current_pass, earlier_pass = _begin_or_resume(engine, plan, needs_all_ends=sink is not None and sink.needs_all_ends)
    rolling = Rolling(engine, plan)
    remaining = plan.ends if current_pass.position_ns is None else _ends_after(plan.ends, current_pass.position_ns)
    writer = PartWriter(engine=engine, rolling=rolling, sink=sink, begun=current_pass, lock=context.windows_lock)
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
        engine.store.write(lambda con: finish_pass(con, current_pass.run_id, now_ns))
    with engine.store.read() as con:
        newest = find_pass(con, current_pass.run_id)
    return replace(
        backfilled,
        newest=newest,
        resumed_ns=current_pass.position_ns,
        repeated=earlier_pass is not None and earlier_pass.finished,
        stopped=stopped,
    )


def _begin_or_resume(engine: Engine, plan: Plan, *, needs_all_ends: bool) -> tuple[Pass, Pass | None]:
    """Return the current pass and the stored one, which are the same if the stored pass can be resumed."""
    run_id, definition_json = identity_of(engine, plan.request)
    now_ns = engine.clock()
    with engine.store.read() as con:
        stored_pass = find_pass(con, run_id)
        # If the clock was set back, changes after the pass may have earlier times than the pass.
        is_consistent = stored_pass is not None and stored_pass.updated_ns <= now_ns
        if (
            stored_pass is not None
            and is_consistent
            and _can_resume(con, stored_pass, plan, needs_all_ends=needs_all_ends)
        ):
            return stored_pass, stored_pass
    new_pass = Pass(
        run_id=run_id,
        number=stored_pass.number + 1 if stored_pass is not None else 1,
        first_ns=plan.first_ns,
        last_ns=plan.last_ns,
        position_ns=None,
        sent_ns=stored_pass.sent_ns if stored_pass is not None and is_consistent else None,
        rows_changed=0,
        points_sent=0,
        started_ns=now_ns,
        updated_ns=now_ns,
    )
    engine.store.write(lambda con: begin_pass(con, new_pass, definition_json))
    return new_pass, stored_pass


def _can_resume(con: Connection, stored_pass: Pass, plan: Plan, *, needs_all_ends: bool) -> bool:
    """Return whether a stopped pass can be resumed: it has the same ends, and its input and rows have not changed."""
    same_range = (stored_pass.first_ns, stored_pass.last_ns) == (plan.first_ns, plan.last_ns)
    if not same_range or needs_all_ends or stored_pass.finished:
        return False
    if stored_pass.position_ns is None:
        return True
    input_changed = changed_since(con, stored_pass.position_ns, stored_pass.started_ns)
    # A backfill with other settings may have rewritten the rows.
    return not input_changed and not rewritten_since(con, stored_pass, plan.request.windows)


def _ends_after(ends: range, position_ns: int) -> range:
    """Return the ends that follow a position.

    >>> list(_ends_after(range(0, 50, 10), 20))
    [30, 40]
    """
    return ends[(position_ns - ends.start) // ends.step + 1 :]
