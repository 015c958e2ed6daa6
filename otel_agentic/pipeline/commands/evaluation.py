"""Commands that score, and that tell what the scores say."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from otel_agentic.evaluators.registry import asks
from otel_agentic.pipeline.commands.base import EngineCommands, Json
from otel_agentic.pipeline.evaluate import TruthFile
from otel_agentic.pipeline.interrupt import stop_on_interrupt
from otel_agentic.pipeline.judge_use import judge_json
from otel_agentic.pipeline.report import IntervalKind, report
from otel_agentic.pipeline.suites import of_suite, require_suite
from otel_agentic.pipeline.truth_in_force import unknown_labels
from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.metric_scores import Measured
from otel_agentic.store.selection import Scored, Selection
from otel_agentic.windows import GroupBy


class EvaluationCommands(EngineCommands):
    """Score conversations; report reliability."""

    def evaluate(
        self,
        *,
        cases: Sequence[tuple[str, str]] = (),
        labels: Sequence[tuple[str, str]] = (),
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        force: bool = False,
        metrics: list[str] | None = None,
        suite: str | None = None,
        evaluation: str = DEFAULT,
    ) -> dict[str, Json]:
        """Match and score closed conversations; cases and labels are (name, text) and are remembered.

        Scores stand under the name of the evaluation: those of other names stay. Windows, monitors and telemetry follow the
        default one alone.

        Evaluators of exactly these metrics run beside; without any, those of the settings. With a suite, only conversations
        that are matched to a case with this tag are scored.
        """
        evaluating = self._engine.evaluating
        chosen = evaluating.chosen if metrics is None else evaluating.choose(metrics)
        labels_given = [TruthFile(name=n, text=t) for n, t in labels]
        fresh = evaluating.remember([TruthFile(name=n, text=t) for n, t in cases], labels_given)
        truth = evaluating.truth().named(evaluation)
        selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
        wanted = evaluating.select(truth, selection, again=force, chosen=chosen)
        if suite is not None:
            with self._engine.store.read() as con:
                require_suite(con, suite)
            wanted = of_suite(evaluating, truth, wanted, suite)
        done = 0

        def step(scored: Sequence[Scored], restated: AbstractSet[tuple[str, str]]) -> None:
            nonlocal done
            done += len(scored)
            self._progress("scoring", done, len(wanted.keys))
            if evaluation == DEFAULT:
                self._on_scored(scored, restated)

        said = 0

        def measured(some: Sequence[Measured]) -> None:
            nonlocal said
            said += sum(asks(one.evaluator) for one in some)
            if said:  # what computes is done at once
                total = len(chosen.judged) * (len(wanted.keys) + len(wanted.lacking))
                self._progress("asking for metrics", said, total)

        stopping = self._engine.stopping
        with stop_on_interrupt(stopping):
            found = evaluating.evaluate(truth, wanted, step, stopping.is_set, on_metrics=measured)
        return {
            "evaluation": evaluation,
            "evaluation_id": found.evaluation_id,
            "cases": len(truth.index),
            "new_case_versions": fresh,
            "labels": len(truth.labels),
            "scored": found.scored,
            "restated": found.restated,
            "asked_again": len(wanted.again),
            "unchanged": found.unchanged,
            "stopped": stopping.is_set(),
            "n": found.n,
            "coverage": found.n / found.scored if found.scored else None,
            "outcomes": dict(found.outcomes),
            "reasons": dict(found.reasons),
            "partial_fails": found.partial_fails,
            "known_failures": found.known_failures,
            "compared": found.compared,
            "disagreements": found.disagreements,
            "warnings": [*found.warnings, *unknown_labels(self._engine.store, labels_given)],
            "judge": judge_json(self._engine.evaluating, found.tally, [*wanted.keys, *wanted.lacking]),
            "evaluators": {**found.metrics.to_json(chosen.metrics), "left_out": list(chosen.unasked)},
        }

    def report(
        self,
        *,
        k: list[int] | None = None,
        by: list[GroupBy] | None = None,
        window: str | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        agent: str | None = None,
        estimator: str | None = None,
        interval: IntervalKind = "default",
        compare: str | None = None,
        metrics: list[str] | None = None,
        evaluation: str = DEFAULT,
    ) -> dict[str, Json]:
        """Return the reliability of each group, and where it is asked for two groups against each other."""
        engine = self._showing(evaluation)
        found = report(
            engine,
            k=k,
            by=by or (),
            window=window,
            selection=Selection(since_ns=since_ns, until_ns=until_ns, agent=agent),
            estimator=estimator,
            interval=interval,
            compare=compare,
            metrics=metrics,
        )
        return {"evaluation": evaluation, **found}
