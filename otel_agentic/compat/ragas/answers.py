"""RAGAS's answer accuracy: two prompts that compare both ways, rated 0, 2 or 4, averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.fence import SYSTEM, encode, new_nonce

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: How often each of the two prompts is asked until a reply holds a digit from 0 to 4.
TRIES: Final = 5
_FULL_MARKS: Final = 4

_ANSWER_FIRST: Final = """\
Compare the user's answer with the reference, which answers the question fully. Reply with one digit: 4 when it agrees \
in every fact, number, date and unit, 2 when it agrees for the most part, 0 when it does not, or does not answer it."""
_REFERENCE_FIRST: Final = """\
How well does the reference agree with the user's answer to the question? Reply with one digit: 4 entirely, 2 with minor \
differences, 0 not at all, or beside the question."""
#: Each prompt: the order in which it shows the two answers, and what is asked of them.
_PROMPTS: Final = ((("user_answer", "reference"), _ANSWER_FIRST), (("reference", "user_answer"), _REFERENCE_FIRST))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAccuracy:
    """The average of the two ratings, in [0, 1], None where RAGAS has no number; `calls` were made of the model."""

    score: float | None
    calls: int


def answer_accuracy(query: str, answer: str, reference: str, *, ask: Callable[[str], str]) -> AnswerAccuracy:
    """Return the answer accuracy by a model.

    Args:
        query: what the user asked.
        answer: what the agent said.
        reference: what it should have said.
        ask: returns the model's reply to a prompt; what it raises makes the score None.

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
                rated = rating(ask(prompt))
            except Exception:  # noqa: BLE001 — whatever a model raises, RAGAS has no number then
                return AnswerAccuracy(score=None, calls=calls)
            if not math.isnan(rated):
                break
        ratings.append(rated)
    return AnswerAccuracy(score=average_ratings(*ratings), calls=calls)


def _prompt(texts: Mapping[str, str], instructions: str) -> str:
    word = new_nonce()
    return f"{SYSTEM.format(nonce=word)}\n\n<data {word}>\n{encode(dict(texts))}\n</data {word}>\n\n{instructions}"


def rating(reply: str) -> float:
    """Return the smallest digit from 0 to 4 that stands anywhere in the reply, over 4; NaN where none does.

    >>> [rating(reply) for reply in ("4", "Rating: 2/4", "10", "five")]
    [1.0, 0.5, 0.0, nan]
    """
    return next((digit / _FULL_MARKS for digit in range(_FULL_MARKS + 1) if str(digit) in reply), math.nan)


def average_ratings(first: float, second: float) -> float | None:
    """Return the average of two ratings; where one is NaN the first of them, which is None where that one is NaN.

    >>> average_ratings(1.0, 0.5), average_ratings(1.0, float("nan")), average_ratings(float("nan"), 1.0)
    (0.75, 1.0, None)
    """
    if math.isnan(first):
        return None
    return first if math.isnan(second) else (first + second) / 2
