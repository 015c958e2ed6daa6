"""Runs evaluators over conversations that are not in a store, for `otel_agentic.evaluate`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_agentic.evaluators.registry import Chosen, chosen, of_files
from otel_agentic.evaluators.run import evaluate as run_evaluators
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.pipeline.asking import answers_to
from otel_agentic.pipeline.metrics import require_judge, subject_of, unasked_note
from otel_agentic.pipeline.sampling import position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.config import EvaluatorSettings, ScoringSettings
    from otel_agentic.evaluators.base import AnyEvaluator, MetricScore
    from otel_agentic.evaluators.run import Ask
    from otel_agentic.judges import Budget, Judge, JudgeCache
    from otel_agentic.pipeline.faults import ScoredAttempt
    from otel_agentic.pipeline.tally import Tally

    #: An evaluator; a function, which becomes one metric named after it; or `path.py:name`.
    EvaluatorLike = AnyEvaluator | Callable[..., Any] | str


def chosen_for(
    judge: Judge,
    settings: EvaluatorSettings,
    metrics: Sequence[str] | None,
    provided: Sequence[EvaluatorLike] | EvaluatorLike,
) -> Chosen:
    """Return the evaluators of the named metrics, and all provided ones.

    Raises:
        UsageError: a name is unknown or ambiguous, a file cannot be loaded, or a metric needs an LLM judge and none is set.
        PluginError: an evaluator does not load or breaks the contract.
    """
    evaluators: list[Any] = list(provided) if isinstance(provided, (list, tuple)) else [provided]
    selected = chosen(settings, metrics, [_evaluator(item, settings) for item in evaluators])
    return require_judge(selected, judge)


def _evaluator(provided: EvaluatorLike, settings: EvaluatorSettings) -> Any:
    """Return the evaluator that a name, class or function describes; its contract is checked later, with all others."""
    if isinstance(provided, str):
        (selected,) = of_files([provided], settings)
        return selected
    if isinstance(provided, type) or not callable(provided) or hasattr(provided, "metrics"):
        return provided
    from otel_agentic.evaluators.custom import evaluator  # noqa: PLC0415 — few callers pass functions

    return evaluator()(provided)


def with_metrics(
    attempts: Sequence[ScoredAttempt],
    selected: Chosen,
    settings: ScoringSettings,
    *,
    judge: Judge,
    cache: JudgeCache | None,
    budget: Budget,
    tally: Tally,
) -> tuple[list[ScoredAttempt], tuple[str, ...]]:
    """Return the scored conversations with their metric scores, and messages about skipped metrics and failures."""
    # The order in which the judge's budget is spent.
    order = sorted(range(len(attempts)), key=lambda index: position_of(attempts[index].conversation.key))
    ordered = [attempts[index] for index in order]
    subjects = [subject_of(attempt.conversation, attempt.match, attempt.score, settings) for attempt in ordered]
    scores_of: list[dict[str, tuple[MetricScore, ...]]] = [{} for _ in attempts]
    faults: Counter[str] = Counter()
    for ran in run_evaluators(selected.evaluators, subjects, _ask(judge, cache, budget, tally)):
        scores_of[order[ran.place]][ran.evaluator.name] = ran.scores
        faults.update(ran.faults)
    names = [evaluator.name for evaluator in selected.evaluators]
    scored = [
        replace(attempt, evaluator_scores={name: scores[name] for name in names if name in scores})
        for attempt, scores in zip(attempts, scores_of, strict=True)
    ]
    notes = [unasked_note(selected.unasked)] if selected.unasked else []
    return scored, (*notes, *(f"{fault} (conversations: {count:,})" for fault, count in faults.most_common()))


def _ask(judge: Judge, cache: JudgeCache | None, budget: Budget, tally: Tally) -> Ask | None:
    if isinstance(judge, ExactJudge):
        return None
    return partial(answers_to, judge=AskingJudge(judge, cache=cache, budget=budget), tally=tally)
