"""RAGAS 0.3.9 (and the tool call accuracy of 0.2.15): tool calls, answer accuracy, topic adherence.

`docs/compat.md` lists the reproduced parts, faults included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.errors import BadInputError
from otel_agentic.evaluators.base import Overlap, harmonic_mean, is_subsequence
from otel_agentic.judges.messages import SYSTEM, encode, new_nonce

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class RagasCall:
    """A call by name and arguments.

    Lists of calls are in the order of the calls, regardless of the messages that contain them.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


def tool_call_accuracy(
    predicted: Sequence[RagasCall], reference: Sequence[RagasCall], *, strict_order: bool = True
) -> float:
    """Return the mean agreement of arguments over the reference calls, 0 unless the names are the same, one by one.

    One extra, missing or misplaced call makes it 0. Without `strict_order`, both sides are sorted first. Values are
    compared by their Python text: 5 and 5.0 differ, None and "None" do not. Arguments that only the prediction has are
    ignored. This is RAGAS's definition; `evaluators.ragas` pairs calls in order, so that one extra call costs its share
    only.

    >>> made = [RagasCall(name="book", args={"time": "20:00", "table": 4})]
    >>> tool_call_accuracy(made, [RagasCall(name="book", args={"time": "20:00"})])
    1.0
    >>> tool_call_accuracy(made * 2, [RagasCall(name="book", args={"time": "20:00"})])
    0.0
    """
    if not (predicted and reference):
        return 1.0 if not (predicted or reference) else 0.0
    actual, expected = list(predicted), list(reference)
    if not strict_order:
        actual.sort(key=_sorting_key)
        expected.sort(key=_sorting_key)
    if [call.name for call in actual] != [call.name for call in expected]:
        return 0.0
    return sum(_argument_score(item, other) for item, other in zip(actual, expected, strict=True)) / len(expected)


def legacy_tool_call_accuracy(predicted: Sequence[RagasCall], reference: Sequence[RagasCall]) -> float:
    """Return the accuracy of RAGAS 0.2, which can exceed 1, because every pair of calls with the same name is added.

    It is 0 unless the reference names occur among the predicted ones in order. No evaluator uses this definition.

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
    if not is_subsequence([call.name for call in reference], [call.name for call in predicted]):
        return 0.0
    score = 0.0
    for expected in reference:
        for actual in predicted:
            if actual.name == expected.name:
                score += _argument_score(actual, expected)
    return score / len(reference)


def tool_call_f1(predicted: Sequence[RagasCall], reference: Sequence[RagasCall]) -> float:
    """Return F1 over calls as *sets* of name and arguments, rounded to four places: a repeated call counts once.

    Raises:
        BadInputError: an argument is a list or an object, which RAGAS cannot put into a set.

    >>> call, other = RagasCall(name="search", args={"q": 1}), RagasCall(name="search", args={"q": 2})
    >>> tool_call_f1([call, call, other], [call])
    0.6667
    """
    expected, actual = _call_set(reference, "reference"), _call_set(predicted, "predicted")
    overlap = Overlap(common=len(actual & expected), actual=len(actual), expected=len(expected))
    return round(harmonic_mean(overlap.precision(empty=0.0), overlap.recall(empty=0.0)), 4)


def _argument_score(actual: RagasCall, expected: RagasCall) -> float:
    """Return the share of expected arguments with equal actual ones; any argument is wrong if none is expected."""
    if not expected.args:
        return 0.0 if actual.args else 1.0
    equal = sum(key in actual.args and str(actual.args[key]) == str(value) for key, value in expected.args.items())
    return equal / len(expected.args)


def _sorting_key(call: RagasCall) -> tuple[str, ...]:
    return (call.name, *(text for key in sorted(call.args) for text in (key, str(call.args[key]))))


def _call_set(calls: Sequence[RagasCall], side: str) -> set[tuple[str, frozenset[tuple[str, Any]]]]:
    result = set()
    for index, call in enumerate(calls):
        try:
            result.add((call.name, frozenset(call.args.items())))
        except TypeError as error:
            raise BadInputError(
                f"{side}[{index}] {call.name}: {error}; RAGAS's F1 takes texts, numbers, true, false and null alone"
            ) from error
    return result


#: Maximum number of requests for each of the two prompts until a reply contains a digit from 0 to 4.
TRIES: Final = 5
_FULL_MARKS: Final = 4

_ANSWER_FIRST: Final = """\
Compare the user's answer with the reference, which answers the question fully. Reply with one digit: 4 when it agrees \
in every fact, number, date and unit, 2 when it agrees for the most part, 0 when it does not, or does not answer it."""
_REFERENCE_FIRST: Final = """\
How well does the reference agree with the user's answer to the question? Reply with one digit: 4 entirely, 2 with minor \
differences, 0 not at all, or beside the question."""
#: Each prompt: the order in which it shows the two answers, and the question about them.
_PROMPTS: Final = ((("user_answer", "reference"), _ANSWER_FIRST), (("reference", "user_answer"), _REFERENCE_FIRST))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAccuracy:
    """The average of the two ratings, in [0, 1], None if RAGAS has no number; `calls` counts the requests to the model."""

    score: float | None
    calls: int


def answer_accuracy(query: str, answer: str, reference: str, *, ask: Callable[[str], str]) -> AnswerAccuracy:
    """Return the answer accuracy as rated by a model.

    Args:
        query: the user's query.
        answer: the agent's answer.
        reference: the expected answer.
        ask: returns the model's reply to a prompt; if it raises, the score is None.

    >>> replies = iter(["4", "no idea", "2"])
    >>> answer_accuracy("Capital of France?", "Paris", "Paris", ask=lambda prompt: next(replies))
    AnswerAccuracy(score=0.75, calls=3)
    """
    texts = {"user_answer": answer, "reference": reference}
    calls, ratings = 0, []
    for order, instructions in _PROMPTS:
        prompt = _prompt({"question": query} | {name: texts[name] for name in order}, instructions)
        for _ in range(TRIES):
            calls += 1
            try:
                score = rating(ask(prompt))
            except Exception:  # noqa: BLE001 — RAGAS has no number after any exception of a model
                return AnswerAccuracy(score=None, calls=calls)
            if not math.isnan(score):
                break
        ratings.append(score)
    return AnswerAccuracy(score=average_ratings(*ratings), calls=calls)


def _prompt(texts: Mapping[str, str], instructions: str) -> str:
    word = new_nonce()
    return f"{SYSTEM.format(nonce=word)}\n\n<data {word}>\n{encode(dict(texts))}\n</data {word}>\n\n{instructions}"


def rating(reply: str) -> float:
    """Return the smallest digit from 0 to 4 anywhere in the reply, divided by 4; NaN without one.

    >>> [rating(reply) for reply in ("4", "Rating: 2/4", "10", "five")]
    [1.0, 0.5, 0.0, nan]
    """
    return next((digit / _FULL_MARKS for digit in range(_FULL_MARKS + 1) if str(digit) in reply), math.nan)


def average_ratings(first: float, second: float) -> float | None:
    """Return the average of two ratings: the first if only the second is NaN, None if the first is NaN.

    >>> average_ratings(1.0, 0.5), average_ratings(1.0, float("nan")), average_ratings(float("nan"), 1.0)
    (0.75, 1.0, None)
    """
    if math.isnan(first):
        return None
    return first if math.isnan(second) else (first + second) / 2


#: Added to every denominator, so that no division by 0 occurs and no value reaches 1.
_EPSILON: Final = 1e-10
_YES: Final = frozenset({"true", "1", "yes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAdherence:
    """Precision, recall and F1, each a little below what it would be without the added 1e-10."""

    precision: float
    recall: float
    f1: float


def topic_adherence(refused: Sequence[Any], classifications: Sequence[Any]) -> TopicAdherence:
    """Return the topic adherence of a conversation.

    Args:
        refused: for each topic found, whether the agent refused to talk about it.
        classifications: for each topic, whether it is one of the reference topics, according to the judge: truth
            values, numbers or texts, of which true, 1 and yes count. A single one applies to all topics, as with numpy
            broadcasting.

    Raises:
        BadInputError: there is neither one classification nor one for each topic.

    >>> topic_adherence([False, True], [True, True]).recall
    0.499999999975
    """
    try:
        answered, allowed = (
            np.array([not is_refused for is_refused in refused], dtype=bool),
            _truth_values(classifications),
        )
        answered_inside, answered_outside, refused_inside = (
            int(np.sum(mask)) for mask in (answered & allowed, answered & ~allowed, ~answered & allowed)
        )
    except ValueError as error:
        raise BadInputError(
            f"{len(classifications)} classifications for {len(refused)} topics ({error}); give one for each topic"
        ) from error
    overlap = Overlap(
        common=answered_inside, actual=answered_inside + answered_outside, expected=answered_inside + refused_inside
    )
    precision = overlap.precision(empty=0.0, epsilon=_EPSILON)
    recall = overlap.recall(empty=0.0, epsilon=_EPSILON)
    return TopicAdherence(precision=precision, recall=recall, f1=harmonic_mean(precision, recall, epsilon=_EPSILON))


def _truth_values(classifications: Sequence[Any]) -> npt.NDArray[np.bool_]:
    values = np.array(classifications)
    # numpy converts a list of texts and other values to texts: True becomes "True", 1 becomes "1".
    if values.dtype.kind in "USO":
        return np.array([_truth_value(value) for value in values], dtype=bool)
    return values.astype(bool)


def _truth_value(value: Any) -> bool:
    return value.lower() in _YES if isinstance(value, str) else bool(value)
