"""What an evaluator gave, held against what it promised: a score that breaks the contract is none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

import orjson

from otel_agentic.evaluators.base import MetricScore
from otel_agentic.evaluators.returned import FAULT
from otel_agentic.scoring.model import NotEvaluatedReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import AnyEvaluator, Metric

_REASONS: Final = frozenset(get_args(NotEvaluatedReason))
#: What the last bits of a sum may be beside a bound.
_SLACK: Final = 1e-9
_TEXTS: Final = ("explanation", "tool_name", "parameter")
#: Characters told of a value that is none.
_SHOWN: Final = 60


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
            scores.append(_written(one))
            if one.abstained and FAULT in one.details:  # the evaluator caught what went wrong in it, and says so
                faults[str(one.details[FAULT])] = None
    return scores, list(faults)


def _written(one: MetricScore) -> MetricScore:
    """Return a score whose texts UTF-8 can hold: one lone surrogate would make the store refuse all that is written with it."""
    told: dict[str, Any] = {name: text for name in _TEXTS if (text := getattr(one, name)) and not text.isascii()}
    fit = {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in told.items()}
    return one if fit == told else replace(one, **fit)


def _instead(
    one: object, metrics: Mapping[str, Metric], conversation: Conversation | None, told: str
) -> MetricScore | None:
    """Return an abstention in the place of a score that breaks the contract, None where nobody knows of what."""
    name: Any = getattr(one, "name", None)
    if isinstance(one, MetricScore) and isinstance(name, str) and name in metrics:
        there = conversation is None or next(_place_problems(one, conversation), None) is None
        place = (one.turn_index, one.position) if there else (None, None)
        return MetricScore(name=one.name, reason="no_data", explanation=told, turn_index=place[0], position=place[1])
    return None


def _problems(one: object, metrics: Mapping[str, Metric], conversation: Conversation | None) -> Iterator[str]:
    if not isinstance(one, MetricScore):
        yield f"gave a {type(one).__name__} instead of a MetricScore"
        return
    name: Any = one.name  # whatever a stranger put there; so with what follows
    metric = metrics.get(name) if isinstance(name, str) else None
    if metric is None:
        yield f"metric {one.name!r} is not among those that it names"
        return
    yield from _value_problems(one, metric)
    if one.abstained and not (isinstance(one.reason, str) and one.reason in _REASONS):
        yield f"metric {one.name!r} has neither a value nor a label, and no reason why"
    yield from _text_problems(one)
    if conversation is not None:
        yield from _place_problems(one, conversation)


def _value_problems(one: MetricScore, metric: Metric) -> Iterator[str]:
    value: Any = one.value  # whatever a stranger put there
    if value is not None:
        if not _finite(value):
            yield f"metric {one.name!r} has the value {_shown(value)}, which is no finite number"
            return
        low = -math.inf if metric.low is None else metric.low
        high = math.inf if metric.high is None else metric.high
        if not low - _SLACK <= value <= high + _SLACK:
            yield f"metric {one.name!r} has the value {value:g}, outside of {low:g} to {high:g}"
    if one.label is not None and one.label not in metric.labels:
        yield f"metric {one.name!r} has the label {one.label!r}; it names {', '.join(metric.labels) or 'none'}"


def _finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # an integer beyond what a float can be
        return False


def _shown(value: object) -> str:
    told = f"{value:x}" if isinstance(value, int) else repr(value)  # Python writes no more than 4,300 decimal digits
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"


def _text_problems(one: MetricScore) -> Iterator[str]:
    for name in _TEXTS:
        text: Any = getattr(one, name)
        if text is not None and not isinstance(text, str):
            yield f"metric {one.name!r} has {name} of type {type(text).__name__}; text is wanted"
    details: Any = one.details
    if not isinstance(details, Mapping):
        yield f"metric {one.name!r} has details of type {type(details).__name__}; a mapping is wanted"
        return
    try:
        if details:
            orjson.dumps(details, default=str, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError) as error:
        yield f"metric {one.name!r} has details that JSON cannot hold: {error}"


def _place_problems(one: MetricScore, conversation: Conversation) -> Iterator[str]:
    for name in ("turn_index", "position"):
        index: Any = getattr(one, name)
        if index is not None and (not isinstance(index, int) or isinstance(index, bool)):
            yield f"metric {one.name!r} has the {name} {index!r}, which is no whole number"
            return
    if one.turn_index is None:
        if one.position is not None:
            yield f"metric {one.name!r} names a call (position {one.position}) without its turn"
        return
    turn = next((turn for turn in conversation.turns if turn.index == one.turn_index), None)
    if turn is None:
        yield f"metric {one.name!r} is of turn {one.turn_index!r} (0-based), which the conversation has not"
    elif one.position is not None and all(call.position != one.position for call in turn.calls):
        yield f"metric {one.name!r} is of call {one.position!r} (0-based) of turn {one.turn_index}, which is not there"
