"""Commands that evaluate: scoring, calibration of judges, and backfills of past time ranges."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, get_args

from pydantic import Field

from otel_agentic.commands.registry import Context, command
from otel_agentic.errors import OverloadedError, UsageError
from otel_agentic.evaluation.batch import ScoredBatch
from otel_agentic.evaluation.forecast import forecast_evaluation
from otel_agentic.evaluation.run import EvaluationRequest, EvaluationRunner, judge_json
from otel_agentic.evaluation.scope import Truth, TruthFile, check_labels, unknown_labels
from otel_agentic.evaluators.base import asks
from otel_agentic.evaluators.registry import Chosen, metric_named
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.sanity import check_judge
from otel_agentic.reports.calibration import calibrate_judge
from otel_agentic.reports.corrections import kept_corrections
from otel_agentic.reports.judge_drift import freeze_anchors, measure_drift
from otel_agentic.reports.suites import of_suite, require_suite
from otel_agentic.results.evaluation import (
    BackfillEnd,
    BackfillStep,
    BackfillText,
    Cleared,
    Drift,
    FrozenAnchors,
    JudgeQuestions,
)
from otel_agentic.scoring.scope import Outcome
from otel_agentic.store.connection import DEFAULT, to_json_value
from otel_agentic.store.judges import clear_verdicts, judge_summary
from otel_agentic.store.table import Measured, Selection
from otel_agentic.truth.annotations import ANSWER

if TYPE_CHECKING:
    from otel_agentic.backfill.plan import BackfillRequest
    from otel_agentic.backfill.run import BackfillContext
    from otel_agentic.engine.engine import Progress

_log = logging.getLogger(__name__)


@contextmanager
def stop_on_interrupt(stop: threading.Event) -> Iterator[None]:
    """Set `stop` at the first SIGINT while the block runs; a second SIGINT interrupts as usual.

    Only the main thread receives signals; on other threads (a command on a running collector) this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGINT, previous_handler)
        _log.warning(
            "stopping: pending answers of the judge are awaited and stored; press Ctrl-C again to stop at once"
        )
        stop.set()

    previous_handler = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateArguments(Selection):
    """The conversations to evaluate, and how; the arguments of `evaluate` and of its forecast.

    Attributes:
        cases: files of cases, as (name, text).
        labels: files of labels, as (name, text).
        force: evaluate conversations again that already have a score.
        metrics: run the evaluators of exactly these metrics; None for those of the settings.
        suite: only conversations that are matched to a case with this tag.
        evaluation: the name under which scores are stored.
        close_open: first close the conversations that are open because no collector runs.
    """

    cases: Sequence[tuple[str, str]] = ()
    labels: Sequence[tuple[str, str]] = ()
    force: bool = False
    metrics: list[str] | None = None
    suite: str | None = None
    evaluation: str = DEFAULT
    close_open: bool = False

    @property
    def files(self) -> tuple[list[TruthFile], list[TruthFile]]:
        """The files of cases and of labels."""
        cases, labels = (
            [TruthFile(name=name, text=text) for name, text in texts] for texts in (self.cases, self.labels)
        )
        return cases, labels

    def chosen(self, runner: EvaluationRunner) -> Chosen:
        """Return the evaluators of the metrics."""
        return runner.chosen if self.metrics is None else runner.choose(self.metrics)

    def conversations(self, runner: EvaluationRunner, truth: Truth) -> EvaluationRequest:
        """Return the conversations to score under a truth."""
        selected = runner.select(truth, self, again=self.force, chosen=self.chosen(runner))
        return selected if self.suite is None else of_suite(runner, truth, selected, self.suite)


@command("evaluate")
def evaluate(context: Context, *, request: EvaluateArguments) -> dict[str, Any]:
    """Match and score closed conversations; cases and labels are remembered.

    Scores are stored under the name of the evaluation; those of other evaluations remain. Windows, monitors and telemetry
    follow the default evaluation only.
    """
    runner, evaluation = context.engine.runner, request.evaluation
    if request.close_open:
        if context.engine.collecting:
            raise UsageError(
                "evaluate --close-open: a running collector holds the store and closes conversations after "
                "conversations.idle_s; set a shorter time in its settings and restart it"
            )
        from otel_agentic.commands.ingest import close_open  # noqa: PLC0415 — few commands rebuild conversations

        close_open(context.engine, context.progress)
    metric_selection = request.chosen(runner)
    cases, labels = request.files
    check_labels(context.engine.store, labels)
    new_cases = runner.remember(cases, labels)
    truth = runner.truth().named(evaluation)
    if request.suite is not None:
        with context.engine.store.read() as con:
            require_suite(con, request.suite)
    selected = request.conversations(runner, truth)
    if selected.keys or (selected.lacking and metric_selection.judge_evaluators):
        check_judge(runner.judge, context.engine.settings.judge, runner.budget, waits=True)
    done = 0

    def step(scored: ScoredBatch, restated: AbstractSet[tuple[str, str]]) -> None:
        nonlocal done
        done += len(scored)
        context.progress("scoring", done, len(selected.keys))
        if evaluation == DEFAULT:
            context.on_scored(scored, restated)

    calls = 0

    def measured(some: Sequence[Measured]) -> None:
        nonlocal calls
        if metric_selection.judge_evaluators:  # what computes is done at once
            calls += sum(asks(measurement.evaluator) for measurement in some)
        if calls:
            total = len(metric_selection.judge_evaluators) * (len(selected.keys) + len(selected.lacking))
            context.progress("asking for metrics", calls, total)

    stop_event = context.engine.stopping
    with stop_on_interrupt(stop_event):
        summary = runner.evaluate(truth, selected, step, stop_event.is_set, on_metrics=measured)
    return {
        "evaluation": evaluation,
        "evaluation_id": summary.evaluation_id,
        "cases": len(truth.index),
        "new_case_versions": new_cases,
        "labels": len(truth.labels),
        "scored": summary.scored,
        "restated": summary.restated,
        "asked_again": len(selected.again),
        "unchanged": summary.unchanged,
        "stopped": stop_event.is_set(),
        "n": summary.n,
        "coverage": summary.n / summary.scored if summary.scored else None,
        "outcomes": dict(summary.outcomes),
        "reasons": dict(summary.reasons),
        "criteria": {
            name: {**_all_outcomes(tally.outcomes), "alone": tally.alone, "uncovered": tally.uncovered}
            for name, tally in summary.criteria.items()
        },
        "answers": _all_outcomes(summary.answers) if summary.answers else None,
        "partial_fails": summary.partial_fails,
        "known_failures": summary.known_failures,
        "compared": summary.compared,
        "disagreements": summary.disagreements,
        "warnings": [
            *sorted(summary.warnings),
            *unknown_labels(context.engine.store, labels),
            *kept_corrections(context.engine.store, cases),
        ],
        "judge": judge_json(context.engine.runner, summary.tally, [*selected.keys, *selected.lacking]),
        "evaluators": {
            **summary.metrics.to_json(metric_selection.metrics),
            "left_out": list(metric_selection.unasked),
        },
    }


def _all_outcomes(counts: Mapping[str, int]) -> dict[str, int]:
    return {outcome: counts.get(outcome, 0) for outcome in get_args(Outcome)}


@command("evaluate_forecast")
def evaluate_forecast(context: Context, *, request: EvaluateArguments) -> JudgeQuestions:
    """Return the questions that `evaluate` with the same arguments would ask the judge; nothing is asked or stored."""
    from otel_agentic.backfill.dry_run import truth_with  # noqa: PLC0415 — numpy is not needed to ask a server

    runner = context.engine.runner
    if isinstance(runner.judge, ExactJudge):
        return JudgeQuestions(judge=runner.judge.name, asks_a_model=False)
    truth = truth_with(context.engine, *request.files).named(request.evaluation)
    return forecast_evaluation(runner, context.engine.settings, truth, request.conversations(runner, truth))


@command("judge_calibrate")
def judge_calibrate(
    context: Context,
    *,
    labels: Sequence[tuple[str, str]] = (),
    random_sample: bool = False,
    examples: Annotated[int, Field(ge=0)] = 5,
    metrics: list[str] | None = None,
) -> dict[str, Any]:
    """Compare the judge with people, and remember the result.

    Verdicts on answers and outcomes are given as (name, text) of CSV files; without files, the stored annotations are
    used. `metrics` are `answer`, `correct` and names of metrics; None compares everything that has annotations.
    """
    files = [TruthFile(name=name, text=text) for name, text in labels]
    with stop_on_interrupt(context.engine.stopping):
        calibration = calibrate_judge(
            context.engine, files, random_sample=random_sample, examples=examples, metrics=metrics
        )
    payload: dict[str, Any] = to_json_value(calibration)
    return payload


@command("judge_freeze")
def judge_freeze(context: Context, *, metrics: list[str] | None = None) -> FrozenAnchors:
    """Store the verdicts of the judge on annotated answers and scores as the anchors of `judge_drift`."""
    with stop_on_interrupt(context.engine.stopping):
        return freeze_anchors(context.engine, metrics)


@command("judge_drift")
def judge_drift(context: Context, *, metrics: list[str] | None = None) -> Drift:
    """Judge the anchors again and compare the verdicts with the frozen ones; `metrics` are `answer` and metrics."""
    installed = context.engine.runner.installed
    names = metrics and [name if name == ANSWER else metric_named(name, installed).name for name in metrics]
    with stop_on_interrupt(context.engine.stopping):
        return measure_drift(context.engine, names)


@command("judge_cache", role="query")
def judge_cache(context: Context) -> dict[str, Any]:
    """Return the verdicts and the cost of each judge, and the used part of the budget."""
    with context.engine.store.read() as con:
        judges = judge_summary(con)
    budget = context.engine.runner.budget
    spent = budget.spent()
    return {
        "judges": to_json_value(judges),
        "budget": {
            "window": context.engine.settings.judge.budget_window,
            "calls": spent.calls,
            "tokens": spent.tokens,
            "cost_usd": spent.cost_usd,
            **budget.limits,
        },
    }


@command("judge_clear")
def judge_clear(context: Context, *, judge: str | None = None, before_ns: int | None = None) -> Cleared:
    """Remove verdicts from the cache, those of one judge or before a time; the budget remains used."""
    counted_from_ns = context.engine.clock() - context.engine.runner.budget.width_ns
    removed_count = context.engine.store.write(
        lambda con: clear_verdicts(con, judge=judge, before_ns=before_ns, counted_from_ns=counted_from_ns)
    )
    return Cleared(cleared=removed_count)


#: The number of characters of a file that are sent at once.
_PIECE: Final = 256 * 1024
_NS_PER_S: Final = 1_000_000_000
#: The longest wait for the current part after the last client disconnected, seconds.
_GRACE_S: Final = 10.0
#: The longest wait for another backfill, seconds; a backfill without a client ends soon.
_TURN_S: Final = 2.0

#: The lock that a running collector holds while it scores and computes windows; None without a collector.
locks: tuple[AbstractContextManager[Any], AbstractContextManager[Any]] | None = None


@command("backfill")
def backfill(
    context: Context,
    *,
    cases: Sequence[tuple[str, str]] = (),
    labels: Sequence[tuple[str, str]] = (),
    since_ns: int | None = None,
    until_ns: int | None = None,
    windows: list[str] | None = None,
    step_ns: int | None = None,
    k: list[int] | None = None,
    emit: Literal["none", "otlp", "openmetrics"] = "none",
    endpoint: str | None = None,
    labels_of_series: dict[str, str] | None = None,
    dry_run: bool = False,
    workers: int | None = None,
) -> Iterator[Any]:
    """Score, compute windows and emit; cases and labels are (name, text) and are remembered, except in a dry run.

    Yields a `BackfillStep` for progress, a `BackfillText` for each piece of an OpenMetrics file, and a `BackfillEnd`. Closing the iterator stops the backfill after the current part. `workers` is the number of scoring processes;
    None scores in this process. `labels_of_series` are added to every series of an OpenMetrics file.
    """
    from otel_agentic.backfill.plan import BackfillRequest  # noqa: PLC0415 — numpy is not needed to ask a server

    settings = context.engine.settings
    request = BackfillRequest(
        since_ns=since_ns,
        until_ns=until_ns,
        windows=tuple(windows or settings.windows.widths),
        step_ns=int(settings.windows.step_s * _NS_PER_S) if step_ns is None else step_ns,
        k=tuple(k or settings.stats.k),
        emit=emit,
        endpoint=endpoint,
        labels=labels_of_series or {},
    ).checked()
    if workers is not None and context.locks is not None:
        raise UsageError("a running collector scores in its own process: leave out --executor, or stop it first")
    truth = ([TruthFile(name=n, text=t) for n, t in cases], [TruthFile(name=n, text=t) for n, t in labels])
    check_labels(context.engine.store, truth[1])
    if dry_run:
        return _in_background(lambda progress, _: iter([_estimate(context, request, truth, progress)]))
    return _in_background(lambda progress, stop: _run(context, request, truth, workers, _Listener(progress, stop)))


def _estimate(
    context: Context, request: BackfillRequest, truth: tuple[list[TruthFile], list[TruthFile]], progress: Progress
) -> BackfillEnd:
    from otel_agentic.backfill.dry_run import estimate_backfill, truth_with  # noqa: PLC0415 — same

    active, live = truth_with(context.engine, *truth), context.locks is not None
    return BackfillEnd(result=estimate_backfill(context.engine, request, truth=active, live=live, progress=progress))


class _Listener(NamedTuple):
    """The callbacks of the caller of a backfill: one receives its progress, the other one can stop it."""

    progress: Progress
    stop: Callable[[], bool]


def _run(
    context: Context,
    request: BackfillRequest,
    truth: tuple[list[TruthFile], list[TruthFile]],
    workers: int | None,
    listener: _Listener,
) -> Iterator[Any]:
    from otel_agentic.backfill.dry_run import backfill_result  # noqa: PLC0415 — same
    from otel_agentic.backfill.run import backfill  # noqa: PLC0415 — same
    from otel_agentic.engine.pooled_scoring import scoring_over  # noqa: PLC0415 — same
    from otel_agentic.engine.workers import open_workers  # noqa: PLC0415 — same

    backfill_context = _context_of(context, listener)
    engine = context.engine
    with _exclusively(context), open_workers(engine.settings, workers) as pool, TemporaryDirectory() as folder:
        if any(truth):
            with backfill_context.lock:
                engine.runner.remember(*truth)
        out = Path(folder) / "history.txt" if request.emit == "openmetrics" else None
        runner = scoring_over(engine.runner, engine.settings, pool)
        done = backfill(engine, request, runner=runner, out=out, context=backfill_context)
        if out is not None and out.exists():
            yield from _pieces(out)
        problems = pool.problems if pool is not None else []
    yield BackfillEnd(result=backfill_result(done, request, problems))


@contextmanager
def _exclusively(context: Context) -> Iterator[None]:
    """Admit one backfill at a time, because two would write the same rows with different computation times."""
    if not context.engine.backfill_lock.acquire(timeout=_TURN_S):
        raise OverloadedError("another backfill is running in this collector; try again when it is done")
    try:
        yield
    finally:
        context.engine.backfill_lock.release()


def _context_of(context: Context, listener: _Listener) -> BackfillContext:
    from otel_agentic.backfill.run import BackfillContext  # noqa: PLC0415 — same

    stopping = context.engine.stopping
    return BackfillContext(
        live=context.locks is not None,
        lock=context.scoring_lock,
        windows_lock=context.windows_lock,
        on_scored=context.on_scored,
        progress=listener.progress,
        stop=lambda: listener.stop() or stopping.is_set(),
    )


def _pieces(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8", newline="") as file:
        while text := file.read(_PIECE):
            yield BackfillText(text=text)


def _in_background(work: Callable[[Progress, Callable[[], bool]], Iterator[Any]]) -> Iterator[Any]:
    """Run `work` on a separate thread, because a step may take long.

    Yield its progress and the objects that it yields.
    """
    stop = threading.Event()
    messages: SimpleQueue[Any | BaseException | None] = SimpleQueue()

    def run() -> None:
        try:
            for message in work(
                lambda stage, done, total: messages.put(BackfillStep(stage=stage, done=done, total=total)), stop.is_set
            ):
                messages.put(message)
            messages.put(None)
        except BaseException as error:  # noqa: BLE001 — raised in the thread that listens
            messages.put(error)

    thread = threading.Thread(target=run, name="otel-agentic-backfill", daemon=True)
    thread.start()
    try:
        with stop_on_interrupt(stop):
            while (message := messages.get()) is not None:
                if isinstance(message, BaseException):
                    raise message
                yield message
    finally:
        stop.set()
        thread.join(_GRACE_S)
