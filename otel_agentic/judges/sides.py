"""Question, expected text and answer side by side, and what speaks against the answer whatever its words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

from otel_agentic.judges import polarity
from otel_agentic.judges.bindings import misplaced
from otel_agentic.judges.contradiction import contradicted
from otel_agentic.judges.durations import with_whole_durations
from otel_agentic.judges.facts import Fact, Facts, FactText, extract
from otel_agentic.judges.negation import sentences
from otel_agentic.judges.quantities import Quantity
from otel_agentic.judges.standing import Manner, stands_by
from otel_agentic.judges.wording import stem, stems
from otel_agentic.truth.text import words

#: An expected text of at most so many telling words is a short fact, to be found word for word in a longer answer.
_SHORT_WORDS: Final = 4
#: Expected facts that an answer is held against, and its own that are looked at: a pasted table costs no more than a page.
_MAX_WANTED: Final = 100
_MAX_PLACES: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class JudgedText(FactText):
    """A text with what the comparison needs of it."""

    @cached_property
    def facts(self) -> Facts:
        """The facts of the text, durations whole."""
        return with_whole_durations(self.raw, extract(self.raw))

    @cached_property
    def stems(self) -> Counter[str]:
        """The telling words outside the facts."""
        return stems(self.facts.rest)

    @cached_property
    def leading(self) -> bool | None:
        """True or False where the text begins with a yes or a no."""
        return polarity.leading(self.plain)

    @cached_property
    def wanted(self) -> tuple[Fact, ...]:
        """The facts that an answer must state, each once: "one" beside other words is as often an article."""
        distinct: dict[Fact, Fact] = {}
        for fact in self.facts.found:
            if not (self.stems and _is_article(fact)):
                distinct.setdefault(replace(fact, start=0, end=0), fact)
        return tuple(distinct.values())[:_MAX_WANTED]

    @property
    def telling(self) -> Counter[str]:
        """The telling words without a yes or a no at the beginning, which is compared by itself."""
        first = words(self.plain)[:1] if self.leading is not None else []
        return self.stems - Counter(stem(word) for word in first)

    @property
    def is_short(self) -> bool:
        """Whether it is a short fact: a few words in one sentence."""
        return self.stems.total() <= _SHORT_WORDS and len(sentences(self.raw)) <= 1


def _is_article(fact: Fact) -> bool:
    return isinstance(fact, Quantity) and fact.worded and fact.value == 1 and fact.dimension is None


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Question, expected text and answer, side by side."""

    expected: JudgedText
    answer: JudgedText
    query: JudgedText

    @cached_property
    def manner(self) -> Manner:
        """How question and expected text speak themselves."""
        return Manner.of(self.expected.raw, self.query.raw)

    @cached_property
    def known(self) -> Facts:
        """What an answer may repeat: the facts of the query and all that are expected."""
        return Facts(found=self.query.facts.found[:_MAX_WANTED] + self.expected.facts.found[:_MAX_WANTED], rest="")

    @cached_property
    def unasked(self) -> tuple[Fact, ...]:
        """The facts that the answer brings in by itself: neither in the query nor expected."""
        return tuple(fact for fact in self.answer.facts.found[:_MAX_PLACES] if not self.known.holds(fact))

    def stands(self, fact: Fact) -> bool:
        """Return whether the answer stands by a fact of its own."""
        return stands_by(self.answer.raw, fact.start, fact.end, self.manner)

    @cached_property
    def doubt(self) -> str | None:
        """Why the answer cannot be right whatever its words, None where nothing speaks against it."""
        for fact in self.expected.wanted:
            told = self._doubt_about(fact)
            if told is not None:
                return f"{self.expected.raw[fact.start : fact.end]!r} is {told}"
        if None not in {self.expected.leading, self.answer.leading} and self.expected.leading != self.answer.leading:
            return "yes and no differ"
        swapped = misplaced(self.expected.raw, self.expected.wanted, self.answer.raw, self.answer.facts)
        if swapped is not None:
            return f"{self.expected.raw[swapped.start : swapped.end]!r} is said of something else"
        return None

    def _doubt_about(self, fact: Fact) -> str | None:
        places = list(islice(self.answer.facts.like(fact), _MAX_PLACES))
        if not places:
            return "missing or different"
        if stands_by(self.expected.raw, fact.start, fact.end, self.manner) and not any(map(self.stands, places)):
            return "denied, or set aside"
        if contradicted(self.answer.raw, filter(self.stands, places), fact, filter(self.stands, self.unasked)):
            return "contradicted by another value"
        return None

    @property
    def held(self) -> list[tuple[bool, bool]]:
        """For each expected fact whether the answer states it, and whether the query does."""
        asked = replace(self.query.facts, found=self.query.facts.found[:_MAX_WANTED])
        return [(self.answer.facts.holds(fact), asked.holds(fact)) for fact in self.expected.wanted]
