"""Stored scores -> the records that telemetry emits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.evaluators.registry import asks
from otel_agentic.judges import ExactJudge
from otel_agentic.telemetry import Evaluator, MetricResult
from otel_agentic.telemetry.results import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.config import ScoringSettings
    from otel_agentic.evaluation.truth import Truth
    from otel_agentic.evaluators.failures import FailureRules
    from otel_agentic.store.scores import Measured
    from otel_agentic.store.selection import Scored


def evaluator_of(item: Scored, truth: Truth, settings: ScoringSettings) -> Evaluator:
    """Return the evaluator of a conversation and its thresholds; those of the case take precedence over the settings."""
    case = item.match.case
    answer = case.answer_threshold if case is not None else None
    tool = case.tool_threshold if case is not None else None
    return Evaluator(
        version=truth.evaluation.evaluation_id,
        answers="rule" if isinstance(truth.judge, ExactJudge) else "judge",
        answer_threshold=settings.answer_threshold if answer is None else answer,
        tool_threshold=settings.tool_threshold if tool is None else tool,
    )


def metric_results(measured: Measured, rules: FailureRules) -> Iterator[MetricResult]:
    """Yield the scores of one evaluator for a conversation, each with its pass or failure by the settings."""
    metrics = {metric.name: metric for metric in measured.evaluator.metrics}
    by_judge = asks(measured.evaluator)
    for score, score_id in zip(measured.scores, measured.score_ids, strict=True):
        yield MetricResult(
            metric=metrics[score.name],
            score=score,
            evaluator=measured.evaluator.name,
            evaluator_version=measured.evaluator.version,
            score_id=score_id,
            case_id=measured.case_id,
            by_judge=by_judge,
            **status_of(measured.conversation, score, rules)._asdict(),
        )
