"""How the stored scores of one conversation stand by the settings: which are failures, and how bad."""

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


def standing(
    rows: Sequence[Mapping[str, Any]], conversation: Conversation, rules: FailureRules
) -> list[dict[str, Any]]:
    """Return rows of scores with what is known of their metric, and the severity of those that are failures.

    Args:
        rows: from the store.
        conversation: whose scores they are.
        rules: thresholds and severities.
    """
    place = Place.of(conversation)
    told = []
    for row in rows:
        failure = rules.failure(place, MetricScore(**{name: row[name] for name in _FIELDS}))
        severity = None if failure is None else failure.severity
        told.append({**row, **_known(rules.metrics.get(row["name"])), "severity": severity})
    return told


def _known(metric: Metric | None) -> dict[str, Any]:
    if metric is None:
        return {"title": None, "unit": None, "range": None}
    return {"title": metric.title, "unit": metric.unit, "range": [metric.low, metric.high]}
