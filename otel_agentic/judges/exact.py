"""The embedded judge: compares normalised text and facts by value. It needs no model, and is a heuristic.

What it cannot see: a paraphrase without shared words, an answer in another language than the expected one, a list in
another order, a name that is right but said of someone else. `docs/exact-judge.md` publishes how often it agrees with people.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.errors import UsageError
from otel_agentic.judges import polarity
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.negation import has_denial, sentences
from otel_agentic.judges.sides import JudgedText, Sides
from otel_agentic.judges.standing import stands_by
from otel_agentic.judges.structured import json_agreement
from otel_agentic.judges.wording import similarity, stems
from otel_agentic.truth.text import places_of, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import JudgeSettings

#: What is read of a text, in characters: an answer longer than a book chapter is judged by its beginning.
READ_CHARACTERS: Final = 50_000
#: How far below the threshold a capped score stays.
_CAP_MARGIN: Final = 0.05
_ARTICLE: Final = re.compile(r"^(?:the|an?)\s+(?=\w)")
_OR_BEFORE: Final = re.compile(r"(?<!\w)or\s+$")
_OR_AFTER: Final = re.compile(r",?\s+or\s+\w")


class ExactJudge:
    """Judges by text and value (entry point `exact`)."""

    name: str = "exact"
    version: str = "exact-2"

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point; it asks no model
        """Return the judge; it has no settings of its own.

        Raises:
            UsageError: an argument is given.
        """
        if argument is not None:
            raise UsageError(f"judge exact:{argument}: the judge exact takes nothing after a colon")
        return cls()

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return a verdict a question; it fails at rubrics alone, which take a model."""
        return [self._verdict(question) for question in questions]

    @staticmethod
    def _verdict(question: Question) -> Verdict | JudgeFailure:
        if question.rubric is not None:
            return JudgeFailure(reason="judge_error", message=f"judge exact takes no rubric ({question.rubric.name})")
        score, reasoning = compare(question)
        return Verdict(score=round(score, 6), reasoning=reasoning + _unread(question))


def compare(question: Question) -> tuple[float, str]:
    """Return the score of an answer in [0, 1] and why.

    >>> compare(Question(query="Total?", expected="$1,327", answer="Your total is 1327 dollars.", threshold=0.7))
    (1.0, 'the expected fact is in the answer')
    >>> compare(Question(query="Total?", expected="$1,327", answer="Your total is $1,372.", threshold=0.7))
    (0.0, "'$1,327' is missing or different")
    """
    expected, answer, query = (
        JudgedText(raw=raw[:READ_CHARACTERS].replace("**", ""))
        for raw in (question.expected, question.answer, question.query)
    )
    ceiling = max(0.0, question.threshold - _CAP_MARGIN)
    if not answer.plain:
        return 0.0, "the answer is empty"
    if expected.plain == answer.plain and question.expected[READ_CHARACTERS:] == question.answer[READ_CHARACTERS:]:
        return 1.0, "the texts are equal"
    if answer.plain == query.plain:
        return 0.0, "the answer only repeats the question"
    agreement = json_agreement(expected.raw, answer.raw)
    if agreement is not None:
        return (1.0, "the JSON is equal") if agreement == 1.0 else (min(agreement, ceiling), "the JSON differs")
    return _compare(Sides(expected=expected, answer=answer, query=query), ceiling)


def _compare(sides: Sides, ceiling: float) -> tuple[float, str]:
    expected, answer, query = sides.expected, sides.answer, sides.query
    if sides.doubt is None and expected.is_short:
        found = _short_fact(sides)
        if found is not None:
            return found
    score = similarity(expected.telling, answer.stems, query.stems, facts=sides.held)
    if sides.doubt is not None:
        return min(score, ceiling), sides.doubt
    if polarity.opposed(expected.raw, answer.raw):
        return min(score, ceiling), "one of them denies what the other says"
    return score, f"token similarity {score:.2f}"


def _short_fact(sides: Sides) -> tuple[float, str] | None:
    """Return the verdict on a short expected fact, None where it is not found word for word."""
    expected, answer = sides.expected, sides.answer
    if not expected.stems and expected.wanted:
        return 1.0, "the expected fact is in the answer"
    wants_yes = _wants_yes(sides)
    if wants_yes is not None:
        return _yes_or_no(wants_yes, _says_yes(sides))
    wanted = _ARTICLE.sub("", expected.plain)
    places = list(places_of(answer.plain, wanted))
    if not places:
        return None
    if not has_denial(expected.raw) and not any(stands_by(answer.plain, *place, sides.manner) for place in places):
        return 0.0, f"{wanted!r} is denied, or set aside"
    if all(_is_choice(answer.plain, *place) for place in places):
        return 0.0, f"{wanted!r} is one of several choices"
    return 1.0, "the expected fact is in the answer"


def _is_choice(text: str, start: int, end: int) -> bool:
    return bool(_OR_BEFORE.search(text[max(0, start - 8) : start])) or bool(_OR_AFTER.match(text[end : end + 8]))


def _yes_or_no(wanted: bool, said: bool | None) -> tuple[float, str]:  # noqa: FBT001 — the polarity is the data, not a switch
    if said is None:
        return 0.0, "it says neither yes nor no"
    return (1.0, "yes and no agree") if said == wanted else (0.0, "yes and no differ")


def _wants_yes(sides: Sides) -> bool | None:
    """Return True or False where a yes or a no is expected: the word alone, or the question said again or denied."""
    expected, query = sides.expected, sides.query
    if expected.leading is not None and len(words(expected.plain)) == 1:
        return expected.leading
    repeats = expected.telling and not expected.telling - query.stems and not expected.wanted
    return not polarity.flips(query.raw, expected.raw) if repeats else None


def _says_yes(sides: Sides) -> bool | None:
    """Return whether the answer says yes to the query, in its first word or in what it says about it; None for neither."""
    if sides.answer.leading is not None:
        return sides.answer.leading
    asked = sides.query.stems
    shared, about = max(
        (((stems(said) & asked).total(), said) for said in sentences(sides.answer.raw)), key=itemgetter(0)
    )
    if asked and not shared and not has_denial(about):
        return None
    return not polarity.flips(sides.query.raw, about)


def _unread(question: Question) -> str:
    """Return what was not read of a very long answer, "" where all was."""
    if len(question.answer) <= READ_CHARACTERS:
        return ""
    return f" (of {len(question.answer):,} characters the first {READ_CHARACTERS:,} were read)"
