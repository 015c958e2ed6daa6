"""Stored scores as telemetry: the results that an observer collects, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import asks
from otel_agentic.evaluators.registry import metrics_by_name
from otel_agentic.judges import ExactJudge
from otel_agentic.telemetry.events import (
    ConversationResult,
    ConversationResults,
    Evaluator,
    MetricResult,
)

if TYPE_CHECKING:
    from otel_agentic.config import ScoringSettings
    from otel_agentic.evaluators.run import FailureRules
    from otel_agentic.judges import Judge
    from otel_agentic.store.table import Key, Measured, Scored
    from otel_agentic.telemetry import Observer
    from otel_agentic.telemetry.observations import Observations


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreObserver:
    """Collects observations of scores.

    Attributes:
        observer: its options decide which observations are collected.
        rules: decide which scores of evaluators are failures.
        judge: the judge of the answers.
        settings: the thresholds of cases that set none.
    """

    observer: Observer
    rules: FailureRules
    judge: Judge
    settings: ScoringSettings

    def scores(self, scored: Iterable[Scored], evaluation_id: str, restated: Container[Key]) -> Observations:
        """Return the observations of conversations; those in `restated` had a score before."""
        return self.observer.scores(
            ConversationResult(
                item.conversation,
                item.score,
                restated=(item.score.environment, item.score.conversation_id) in restated,
                evaluator=answer_evaluator(item, evaluation_id, self.judge, self.settings),
            )
            for item in scored
        )

    def metrics(self, measured: Iterable[Measured]) -> Observations:
        """Return the observations of the scores of evaluators."""
        return self.observer.metrics(
            [ConversationResults(item.conversation, self._results(item), item.restated) for item in measured]
        )

    def _results(self, measured: Measured) -> list[MetricResult]:
        """Return the scores of one evaluator for a conversation, each with its status according to the settings."""
        metrics, by_judge = metrics_by_name([measured.evaluator]), asks(measured.evaluator)
        return [
            MetricResult(
                metric=metrics[score.name],
                score=score,
                evaluator=measured.evaluator.name,
                evaluator_version=measured.evaluator.version,
                score_id=score_id,
                case_id=measured.case_id,
                by_judge=by_judge,
                outcome=status.outcome,
                severity=status.severity,
                threshold=status.threshold,
            )
            for score, score_id in zip(measured.scores, measured.score_ids, strict=True)
            for status in (self.rules.status(score),)
        ]


def answer_evaluator(item: Scored, evaluation_id: str, judge: Judge, settings: ScoringSettings) -> Evaluator:
    """Return the evaluator of a conversation with its thresholds; the case takes precedence over the settings."""
    case = item.match.case
    answer = case.answer_threshold if case is not None else None
    tool = case.tool_threshold if case is not None else None
    return Evaluator(
        version=evaluation_id,
        answers="rule" if isinstance(judge, ExactJudge) else "judge",
        answer_threshold=settings.answer_threshold if answer is None else answer,
        tool_threshold=settings.tool_threshold if tool is None else tool,
    )
