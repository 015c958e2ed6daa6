"""Agentest's averages of scores, and which of them lie below their threshold."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_agentic.compat.javascript import type_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: The one score that a conversation has, beside those of its turns.
GOAL_COMPLETION = "goal_completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An average below its threshold."""

    metric: str
    average: float
    threshold: float


def metric_averages(evaluations: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the average of each metric over all turns of all conversations: a long conversation weighs more.

    Args:
        evaluations: a conversation each: `turnEvaluations` with `metrics` of `{name: {"value"}}`, and `goalCompletion`.
            A value that is no number, such as the message of a judge that failed, is left out.

    >>> turns = [{"metrics": {"helpfulness": {"value": value}}} for value in (5, 4, "error: no reply")]
    >>> metric_averages([{"turnEvaluations": turns, "goalCompletion": {"value": 1}}])
    {'helpfulness': 4.5, 'goal_completion': 1.0}
    """
    totals: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for name, value in _scores(evaluations):
        totals[name] += value
        counts[name] += 1
    return {name: total / counts[name] for name, total in totals.items()}


def violations(averages: Mapping[str, float], thresholds: Mapping[str, float]) -> list[Violation]:
    """Return the averages below their threshold, in the order of the thresholds; a metric without scores has none.

    >>> violations({"helpfulness": 3.2}, {"coherence": 5.0, "helpfulness": 3.5})
    [Violation(metric='helpfulness', average=3.2, threshold=3.5)]
    """
    return [
        Violation(metric=metric, average=averages[metric], threshold=threshold)
        for metric, threshold in thresholds.items()
        if metric in averages and averages[metric] < threshold
    ]


def _scores(evaluations: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for evaluation in evaluations:
        for turn in evaluation["turnEvaluations"]:
            for name, result in turn["metrics"].items():
                if type_of(result["value"]) == "number":
                    yield name, result["value"]
        goal = evaluation.get("goalCompletion")
        if goal:
            yield GOAL_COMPLETION, goal["value"]
