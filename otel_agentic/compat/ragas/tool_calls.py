"""RAGAS's tool call accuracy and F1. Calls are in the order in which they were made, whatever message held them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from otel_agentic.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class RagasCall:
    """A call by name and arguments."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


def tool_call_accuracy(
    predicted: Sequence[RagasCall], reference: Sequence[RagasCall], *, strict_order: bool = True
) -> float:
    """Return the mean agreement of arguments over the reference calls, 0 unless the names are the same, one by one.

    So one extra, missing or misplaced call makes it 0. Without `strict_order` both sides are sorted first. Values compare
    by their Python text: 5 and 5.0 differ, None and "None" do not; arguments that only the prediction has are free.

    >>> made = [RagasCall(name="book", args={"time": "20:00", "table": 4})]
    >>> tool_call_accuracy(made, [RagasCall(name="book", args={"time": "20:00"})])
    1.0
    >>> tool_call_accuracy(made * 2, [RagasCall(name="book", args={"time": "20:00"})])
    0.0
    """
    if not (predicted and reference):
        return 1.0 if not (predicted or reference) else 0.0
    made, expected = list(predicted), list(reference)
    if not strict_order:
        made.sort(key=_sorting_key)
        expected.sort(key=_sorting_key)
    if [call.name for call in made] != [call.name for call in expected]:
        return 0.0
    return sum(_argument_score(one, other) for one, other in zip(made, expected, strict=True)) / len(expected)


def legacy_tool_call_accuracy(predicted: Sequence[RagasCall], reference: Sequence[RagasCall]) -> float:
    """Return the accuracy of RAGAS 0.2: can exceed 1, for every pair of calls with one name is added up.

    It is 0 unless the reference names occur among the predicted ones in order.

    Raises:
        BadInputError: calls were predicted and the reference is empty; RAGAS 0.2 divides by zero.

    >>> call = RagasCall(name="search", args={"q": "hotels"})
    >>> legacy_tool_call_accuracy([call, call], [call])
    2.0
    """
    if not predicted:
        return 0.0
    if not reference:
        raise BadInputError("reference: no call; RAGAS 0.2 divides by the number of reference calls, give at least one")
    if not _in_order(predicted, reference):
        return 0.0
    score = 0.0
    for expected in reference:
        for made in predicted:
            if made.name == expected.name:
                score += _argument_score(made, expected)
    return score / len(reference)


def tool_call_f1(predicted: Sequence[RagasCall], reference: Sequence[RagasCall]) -> float:
    """Return F1 over calls as *sets* of name and arguments, rounded to four places: a repeated call counts once.

    Raises:
        BadInputError: an argument is a list or an object, which RAGAS cannot put into a set.

    >>> call, other = RagasCall(name="search", args={"q": 1}), RagasCall(name="search", args={"q": 2})
    >>> tool_call_f1([call, call, other], [call])
    0.6667
    """
    expected, made = _call_set(reference, "reference"), _call_set(predicted, "predicted")
    common = len(made & expected)
    precision = common / len(made) if made else 0.0
    recall = common / len(expected) if expected else 0.0
    return round(2 * precision * recall / (precision + recall), 4) if common else 0.0


def _argument_score(made: RagasCall, expected: RagasCall) -> float:
    """Return the share of expected arguments that were made alike; any argument is wrong where none is expected."""
    if not expected.args:
        return 0.0 if made.args else 1.0
    alike = sum(key in made.args and str(made.args[key]) == str(value) for key, value in expected.args.items())
    return alike / len(expected.args)


def _sorting_key(call: RagasCall) -> tuple[str, ...]:
    return (call.name, *(text for key in sorted(call.args) for text in (key, str(call.args[key]))))


def _in_order(predicted: Sequence[RagasCall], reference: Sequence[RagasCall]) -> bool:
    wanted = deque(call.name for call in reference)
    for call in predicted:
        if wanted and call.name == wanted[0]:
            wanted.popleft()
    return not wanted


def _call_set(calls: Sequence[RagasCall], side: str) -> set[tuple[str, frozenset[tuple[str, Any]]]]:
    found = set()
    for place, call in enumerate(calls):
        try:
            found.add((call.name, frozenset(call.args.items())))
        except TypeError as error:
            raise BadInputError(
                f"{side}[{place}] {call.name}: {error}; RAGAS's F1 takes texts, numbers, true, false and null alone"
            ) from error
    return found
