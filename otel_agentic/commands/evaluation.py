"""Commands that score, and that tell what the scores say."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Annotated, Any

from pydantic import Field

from otel_agentic.commands.interrupt import stop_on_interrupt
from otel_agentic.commands.registry import Context, command
from otel_agentic.evaluation.run import judge_json
from otel_agentic.evaluation.truth import TruthFile, unknown_labels
from otel_agentic.evaluators.registry import asks
from otel_agentic.reports.calibration import calibrate_judge
from otel_agentic.reports.suites import of_suite, require_suite
from otel_agentic.store.judges import clear_verdicts, judge_summary
from otel_agentic.store.scores import Measured
from otel_agentic.store.selection import DEFAULT, Scored, Selection, to_json_value


@command("evaluate")
def evaluate(
    context: Context,
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
) -> dict[str, Any]:
    """Match and score closed conversations; cases and labels are (name, text) and are remembered.

    Scores stand under the name of the evaluation: those of other names stay. Windows, monitors and telemetry follow the
    default one alone.

    Evaluators of exactly these metrics run beside; without any, those of the settings. With a suite, only conversations
    that are matched to a case with this tag are scored.
    """
    evaluating = context.engine.evaluating
    chosen = evaluating.chosen if metrics is None else evaluating.choose(metrics)
    labels_given = [TruthFile(name=n, text=t) for n, t in labels]
    fresh = evaluating.remember([TruthFile(name=n, text=t) for n, t in cases], labels_given)
    truth = evaluating.truth().named(evaluation)
    selection = Selection(since_ns=since_ns, until_ns=until_ns, agent=agent)
    wanted = evaluating.select(truth, selection, again=force, chosen=chosen)
    if suite is not None:
        with context.engine.store.read() as con:
            require_suite(con, suite)
        wanted = of_suite(evaluating, truth, wanted, suite)
    done = 0

    def step(scored: Sequence[Scored], restated: AbstractSet[tuple[str, str]]) -> None:
        nonlocal done
        done += len(scored)
        context.progress("scoring", done, len(wanted.keys))
        if evaluation == DEFAULT:
            context.on_scored(scored, restated)

    said = 0

    def measured(some: Sequence[Measured]) -> None:
        nonlocal said
        said += sum(asks(one.evaluator) for one in some)
        if said:  # what computes is done at once
            total = len(chosen.judged) * (len(wanted.keys) + len(wanted.lacking))
            context.progress("asking for metrics", said, total)

    stopping = context.engine.stopping
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
        "warnings": [*found.warnings, *unknown_labels(context.engine.store, labels_given)],
        "judge": judge_json(context.engine.evaluating, found.tally, [*wanted.keys, *wanted.lacking]),
        "evaluators": {**found.metrics.to_json(chosen.metrics), "left_out": list(chosen.unasked)},
    }


@command("judge_calibrate")
def judge_calibrate(
    context: Context,
    *,
    labels: Sequence[tuple[str, str]],
    random_sample: bool = False,
    examples: Annotated[int, Field(ge=0)] = 5,
) -> dict[str, Any]:
    """Compare the judge with people, whose verdicts are given as (name, text) of CSV files; both are remembered."""
    files = [TruthFile(name=name, text=text) for name, text in labels]
    with stop_on_interrupt(context.engine.stopping):
        found = calibrate_judge(context.engine, files, random_sample=random_sample, examples=examples)
    told: dict[str, Any] = to_json_value(found)
    return told


@command("judge_cache", role="query")
def judge_cache(context: Context) -> dict[str, Any]:
    """Return what each judge said and cost, and what is spent of the budget."""
    with context.engine.store.read() as con:
        judges = judge_summary(con)
    budget = context.engine.evaluating.budget
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
def judge_clear(context: Context, *, judge: str | None = None, before_ns: int | None = None) -> dict[str, Any]:
    """Take verdicts out of the cache, those of one judge or before a time; what was spent stays spent."""
    counted_from_ns = context.engine.clock() - context.engine.evaluating.budget.width_ns
    cleared = context.engine.store.write(
        lambda con: clear_verdicts(con, judge=judge, before_ns=before_ns, counted_from_ns=counted_from_ns)
    )
    return {"cleared": cleared}
