"""Evaluators: metrics of conversations beyond right or wrong. One plug-in point, many families."""

from otel_agentic.evaluators.base import (
    AnyEvaluator,
    AskingEvaluator,
    Evaluator,
    GroupEvaluator,
    JudgeDialogue,
    Member,
    Metric,
    MetricScore,
    Need,
    Subject,
    Target,
)

__all__ = [
    "AnyEvaluator",
    "AskingEvaluator",
    "Evaluator",
    "GroupEvaluator",
    "JudgeDialogue",
    "Member",
    "Metric",
    "MetricScore",
    "Need",
    "Subject",
    "Target",
]
