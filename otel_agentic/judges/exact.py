"""The embedded judge: compares normalised text and facts by value. It needs no model, and is a heuristic.

What it cannot see: a paraphrase without shared words, an answer in another language, a list in another order whose
entries were swapped. Its measured agreement with given labels is published with the benchmarks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from otel_agentic.errors import UsageError
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.contradiction import contradicted
from otel_agentic.judges.facts import Fact, Facts, FactText
from otel_agentic.judges.negation import denied_at, has_denial, sentences
from otel_agentic.truth.text import normalise, places_of, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import JudgeSettings


def _set_of(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: An expected text of at most so many telling words is a short fact, to be found word for word in a longer answer.
_SHORT_WORDS: Final = 4
#: What is read of a text, in characters: an answer longer than a book chapter is judged by its beginning.
_READ_CHARACTERS: Final = 50_000
#: How far below the threshold a capped score stays.
_CAP_MARGIN: Final = 0.05
#: An answer may say more than was expected: words beyond it weigh little.
_PRECISION_SHARE: Final = 0.2

_FILLERS: Final = _set_of(
    "a an the is are was were be been it its it's this that these those of to in on at for and or with by from as i you "
    "your we our they he she there will would can could do does did have has had please so just very s t ll re ve"
)
_YES: Final = _set_of("yes yeah yep correct indeed sure certainly absolutely definitely true right")
_NO: Final = _set_of("no nope never false incorrect wrong")
_ENDINGS: Final = re.compile(r"(?<=\w{3})(?:ing|ed|es|s)$")


class ExactJudge:
    """Judges by text and value (entry point `exact`)."""

    name: str = "exact"
    version: str = "exact-1"

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
        """Return a verdict a question; it never fails."""
        return [self._verdict(question) for question in questions]

    @staticmethod
    def _verdict(question: Question) -> Verdict:
        score, reasoning = compare(question)
        return Verdict(score=round(score, 6), reasoning=reasoning)


@dataclass(frozen=True, kw_only=True)
class _Text(FactText):
    """A text with what the comparison needs of it."""

    @cached_property
    def stems(self) -> Counter[str]:
        """The telling words outside the facts."""
        return _stems(self.facts.rest)

    @cached_property
    def leading(self) -> bool | None:
        """True or False where the text begins with a yes or a no."""
        first = next(iter(words(self.plain)), "")
        return True if first in _YES else False if first in _NO else None


def compare(question: Question) -> tuple[float, str]:
    """Return the score of an answer in [0, 1] and why.

    >>> compare(Question(query="Total?", expected="$1,327", answer="Your total is 1327 dollars.", threshold=0.7))
    (1.0, 'the expected fact is in the answer')
    >>> compare(Question(query="Total?", expected="$1,327", answer="Your total is $1,372.", threshold=0.7))
    (0.0, "'$1,327' is missing or different")
    """
    expected, answer, query = (
        _Text(raw=raw[:_READ_CHARACTERS]) for raw in (question.expected, question.answer, question.query)
    )
    if not answer.plain:
        return 0.0, "the answer is empty"
    if expected.plain == answer.plain:
        return 1.0, "the texts are equal"
    doubt = _doubt(expected, answer, query)
    if doubt is None and _is_short(expected):
        found = _short_fact(expected, answer)
        if found is not None:
            return found
    score = _similarity(expected, answer)
    if doubt is None:
        return score, f"token similarity {score:.2f}"
    return min(score, max(0.0, question.threshold - _CAP_MARGIN)), doubt


def _doubt(expected: _Text, answer: _Text, query: _Text) -> str | None:
    """Return why the answer cannot be right whatever its words, None where nothing speaks against it."""
    for fact in expected.facts.found:
        shown = repr(expected.raw[fact.start : fact.end])
        places = list(answer.facts.like(fact))
        if not places:
            return f"{shown} is missing or different"
        if not _denied(expected.raw, fact) and all(_denied(answer.raw, place) for place in places):
            return f"{shown} is denied"
        if contradicted(answer.raw, answer.facts, fact, _known(query, expected)):
            return f"{shown} is contradicted by another value"
    if expected.leading is not None and answer.leading is not None and expected.leading != answer.leading:
        return "yes and no differ"
    return None if _is_short(expected) or _same_polarity(expected, answer) else "one of them denies what the other says"


def _denied(text: str, fact: Fact) -> bool:
    return denied_at(text, fact.start, fact.end)


def _known(query: _Text, expected: _Text) -> Facts:
    """Return the facts that an answer may repeat: those of the query and the other expected ones."""
    return Facts(found=query.facts.found + expected.facts.found, rest="")


def _is_short(expected: _Text) -> bool:
    return expected.stems.total() <= _SHORT_WORDS and len(sentences(expected.raw)) <= 1


def _short_fact(expected: _Text, answer: _Text) -> tuple[float, str] | None:
    """Return the verdict on a short expected fact, None where it is not found word for word."""
    if not expected.stems and expected.facts.found:
        return 1.0, "the expected fact is in the answer"
    if expected.leading is not None and len(words(expected.plain)) == 1:
        return _yes_or_no(expected.leading, answer)
    wanted = _without_article(expected.plain)
    places = list(places_of(answer.plain, wanted))
    if not places:
        return None
    if not has_denial(expected.raw) and all(denied_at(answer.plain, *place) for place in places):
        return 0.0, f"{wanted!r} is denied"
    if all(_is_choice(answer.plain, *place) for place in places):
        return 0.0, f"{wanted!r} is one of several choices"
    return 1.0, "the expected fact is in the answer"


def _without_article(text: str) -> str:
    return re.sub(r"^(?:the|an?)\s+(?=\w)", "", text)


def _is_choice(text: str, start: int, end: int) -> bool:
    return bool(re.search(r"(?<!\w)or\s+$", text[:start])) or bool(re.match(r",?\s+or\s+\w", text[end:]))


def _yes_or_no(expected: bool, answer: _Text) -> tuple[float, str]:  # noqa: FBT001 — the polarity is the data, not a switch
    said = answer.leading
    if said is None:
        said = not has_denial(sentences(answer.raw)[0])
    return (1.0, "yes and no agree") if said == expected else (0.0, "yes and no differ")


def _same_polarity(expected: _Text, answer: _Text) -> bool:
    """Return whether each expected sentence and the answer's most similar one both deny or both affirm."""
    said = [(_stems(sentence), has_denial(sentence)) for sentence in sentences(answer.raw)]
    for sentence in sentences(expected.raw):
        own = _stems(sentence)
        shared, denies = max(((own & other).total(), denies) for other, denies in said)
        if 2 * shared >= own.total() > 0 and denies != has_denial(sentence):
            return False
    return True


def _stems(text: str) -> Counter[str]:
    """Return the telling words of a text without their endings."""
    return Counter(_ENDINGS.sub("", word) for word in words(normalise(text)) if word not in _FILLERS)


def _similarity(expected: _Text, answer: _Text) -> float:
    """Return how much of the expected words and facts the answer holds, a little less for each word beyond them."""
    facts = sum(answer.facts.holds(fact) for fact in expected.facts.found)
    shared = (expected.stems & answer.stems).total() + facts
    wanted = expected.stems.total() + len(expected.facts.found)
    said = answer.stems.total() + len(answer.facts.found)
    if not (wanted and said):
        return 0.0
    return shared / wanted * (1 - _PRECISION_SHARE + _PRECISION_SHARE * min(1.0, shared / said))
