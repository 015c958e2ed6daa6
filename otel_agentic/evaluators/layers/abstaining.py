"""Scores that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import MetricScore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.evaluators.base import Metric
    from otel_agentic.scoring.model import NotEvaluatedReason


def none_of(name: str, reason: NotEvaluatedReason, explanation: str) -> MetricScore:
    """Return that a metric says nothing, and why."""
    return MetricScore(name=name, reason=reason, explanation=explanation)


def none_of_all(metrics: Iterable[Metric], reason: NotEvaluatedReason, explanation: str) -> list[MetricScore]:
    """Return that no metric says anything, and why."""
    return [none_of(metric.name, reason, explanation) for metric in metrics]
