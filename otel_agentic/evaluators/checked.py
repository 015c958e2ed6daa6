"""What an evaluator gave, held against what it promised: a score that breaks the contract is none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, get_args

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.scoring.model import NotEvaluatedReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import AnyEvaluator, Metric

_REASONS: Final = frozenset(get_args(NotEvaluatedReason))
#: What the last bits of a sum may be beside a bound.
_SLACK: Final = 1e-9


def checked_scores(
    evaluator: AnyEvaluator, conversation: Conversation | None, found: Sequence[object]
) -> tuple[list[MetricScore], list[str]]:
    """Return the scores that can be stored, and what is wrong with others: these are abstentions, or left out.

    Args:
        evaluator: whose they are.
        conversation: what they are of, None for a group.
        found: what it gave.
    """
    metrics = {metric.name: metric for metric in evaluator.metrics}
    scores: list[MetricScore] = []
    faults: dict[str, None] = {}
    for one in found:
        problem = next(_problems(one, metrics, conversation), None)
        if problem is not None:
            told = f"evaluator {evaluator.name}: {problem}"
            faults[told] = None
            one = _instead(one, metrics, conversation, told)  # noqa: PLW2901 — of the same place, and the same metric
        if isinstance(one, MetricScore):
            scores.append(one)
            if "fault" in one.details:  # the evaluator caught what went wrong in it, and says so
                faults[str(one.details["fault"])] = None
    return scores, list(faults)


def _instead(
    one: object, metrics: Mapping[str, Metric], conversation: Conversation | None, told: str
) -> MetricScore | None:
    """Return an abstention in the place of a score that breaks the contract, None where nobody knows of what."""
    if isinstance(one, MetricScore) and one.name in metrics:
        there = conversation is None or next(_place_problems(one, conversation), None) is None
        place = (one.turn_index, one.position) if there else (None, None)
        return MetricScore(name=one.name, reason="no_data", explanation=told, turn_index=place[0], position=place[1])
    return None


def _problems(one: object, metrics: Mapping[str, Metric], conversation: Conversation | None) -> Iterator[str]:
    if not isinstance(one, MetricScore):
        yield f"gave a {type(one).__name__} instead of a MetricScore"
        return
    metric = metrics.get(one.name)
    if metric is None:
        yield f"metric {one.name!r} is not among those that it names"
        return
    yield from _value_problems(one, metric)
    if one.abstained and one.reason not in _REASONS:
        yield f"metric {one.name!r} has neither a value nor a label, and no reason why"
    if conversation is not None:
        yield from _place_problems(one, conversation)


def _value_problems(one: MetricScore, metric: Metric) -> Iterator[str]:
    value: Any = one.value  # whatever a stranger put there
    if value is not None:
        if not isinstance(value, int | float) or not math.isfinite(value):
            yield f"metric {one.name!r} has the value {value!r}, which is no finite number"
            return
        low = -math.inf if metric.low is None else metric.low
        high = math.inf if metric.high is None else metric.high
        if not low - _SLACK <= value <= high + _SLACK:
            yield f"metric {one.name!r} has the value {value:g}, outside of {low:g} to {high:g}"
    if one.label is not None and one.label not in metric.labels:
        yield f"metric {one.name!r} has the label {one.label!r}; it names {', '.join(metric.labels) or 'none'}"


def _place_problems(one: MetricScore, conversation: Conversation) -> Iterator[str]:
    if one.turn_index is None:
        if one.position is not None:
            yield f"metric {one.name!r} names a call (position {one.position}) without its turn"
        return
    turn = next((turn for turn in conversation.turns if turn.index == one.turn_index), None)
    if turn is None:
        yield f"metric {one.name!r} is of turn {one.turn_index!r} (0-based), which the conversation has not"
    elif one.position is not None and all(call.position != one.position for call in turn.calls):
        yield f"metric {one.name!r} is of call {one.position!r} (0-based) of turn {one.turn_index}, which is not there"
