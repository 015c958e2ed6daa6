"""Evaluators over conversations that stand in no store: what `otel_agentic.evaluate` runs beside scoring."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from otel_agentic.evaluators.registry import Chosen, chosen, of_files
from otel_agentic.evaluators.run import evaluate
from otel_agentic.judges import ExactJudge
from otel_agentic.judges.asking import AskingJudge
from otel_agentic.pipeline.asking import answers_to
from otel_agentic.pipeline.metrics import require_judge, subject_of, unasked_note
from otel_agentic.pipeline.sampling import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.config import EvaluatorSettings, ScoringSettings
    from otel_agentic.evaluators.base import AnyEvaluator, MetricScore
    from otel_agentic.evaluators.run import Ask
    from otel_agentic.judges import Budget, Judge, JudgeCache
    from otel_agentic.pipeline.evaluation import ScoredAttempt
    from otel_agentic.pipeline.tally import Tally

    #: An evaluator; a function, which gets one metric of its name; or `path.py:name`.
    EvaluatorLike = AnyEvaluator | Callable[..., Any] | str


def chosen_for(
    judge: Judge,
    settings: EvaluatorSettings,
    metrics: Sequence[str] | None,
    given: Sequence[EvaluatorLike] | EvaluatorLike,
) -> Chosen:
    """Return the evaluators of some metrics, and all given ones.

    Raises:
        UsageError: a name is unknown or ambiguous, a file cannot be loaded, or a model is needed and the judge asks none.
        PluginError: an evaluator does not load or breaks the contract.
    """
    every: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    found = chosen(settings, metrics, [_evaluator(one, settings) for one in every])
    return require_judge(found, judge)


def _evaluator(given: EvaluatorLike, settings: EvaluatorSettings) -> Any:
    """Return what is given as an evaluator; whether it is one is checked with all others."""
    if isinstance(given, str):
        (found,) = of_files([given], settings)
        return found
    if isinstance(given, type) or not callable(given) or hasattr(given, "metrics"):
        return given
    from otel_agentic.evaluators.custom import evaluator  # noqa: PLC0415 — few give functions

    return evaluator()(given)


def with_metrics(
    attempts: Sequence[ScoredAttempt],
    found: Chosen,
    settings: ScoringSettings,
    *,
    judge: Judge,
    cache: JudgeCache | None,
    budget: Budget,
    tally: Tally,
) -> tuple[list[ScoredAttempt], tuple[str, ...]]:
    """Return scored conversations with what evaluators say of them, and what was left out or went wrong in sentences."""
    # The order in which the judge's budget is spent.
    places = sorted(range(len(attempts)), key=lambda place: place_of(attempts[place].conversation.key))
    given = [attempts[place] for place in places]
    subjects = [subject_of(one.conversation, one.match, one.score, settings) for one in given]
    said: list[dict[str, tuple[MetricScore, ...]]] = [{} for _ in attempts]
    faults: Counter[str] = Counter()
    for ran in evaluate(found.evaluators, subjects, _ask(judge, cache, budget, tally)):
        said[places[ran.place]][ran.evaluator.name] = ran.scores
        faults.update(ran.faults)
    order = [one.name for one in found.evaluators]
    told = [
        replace(one, said={name: scores[name] for name in order if name in scores})
        for one, scores in zip(attempts, said, strict=True)
    ]
    notes = [unasked_note(found.unasked)] if found.unasked else []
    return told, (*notes, *(f"{fault} (conversations: {count:,})" for fault, count in faults.most_common()))


def _ask(judge: Judge, cache: JudgeCache | None, budget: Budget, tally: Tally) -> Ask | None:
    if isinstance(judge, ExactJudge):
        return None
    return partial(answers_to, judge=AskingJudge(judge, cache=cache, budget=budget), tally=tally)
