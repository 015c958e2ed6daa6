"""Grades the stored scores of one conversation: which are failures by the settings, and how severe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.failures import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import Metric
    from otel_agentic.evaluators.failures import FailureRules

_FIELDS: Final = ("name", "value", "label", "explanation", "reason", "turn_index", "position", "tool_name", "parameter")


def with_severity(
    rows: Sequence[Mapping[str, Any]], conversation: Conversation, rules: FailureRules
) -> list[dict[str, Any]]:
    """Return rows of scores with the fields of their metric, and the severity of those that are failures.

    Args:
        rows: scores from the store.
        conversation: the conversation of the scores.
        rules: thresholds and severities.
    """
    location = Place.of(conversation)
    graded = []
    for row in rows:
        failure = rules.failure(location, MetricScore(**{name: row[name] for name in _FIELDS}))
        severity = None if failure is None else failure.severity
        graded.append({**row, **_metric_fields(rules.metrics.get(row["name"])), "severity": severity})
    return graded


def _metric_fields(metric: Metric | None) -> dict[str, Any]:
    if metric is None:
        return {"title": None, "unit": None, "range": None}
    return {"title": metric.title, "unit": metric.unit, "range": [metric.low, metric.high]}
