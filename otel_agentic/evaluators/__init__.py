"""Evaluators: metrics of conversations beyond right or wrong. One plug-in point, many families."""

from otel_agentic.evaluators.base import (
    AnyEvaluator,
    Asking,
    AskingEvaluator,
    Evaluator,
    GroupEvaluator,
    Member,
    Metric,
    MetricScore,
    Need,
    Subject,
    Target,
)

__all__ = [
    "AnyEvaluator",
    "Asking",
    "AskingEvaluator",
    "Evaluator",
    "GroupEvaluator",
    "Member",
    "Metric",
    "MetricScore",
    "Need",
    "Subject",
    "Target",
]
