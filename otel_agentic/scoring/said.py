"""What a text says: numbers by value, perhaps rounded; dates, times and identifiers; names and words.

Each finding has its place, so that it can be shown. A value that the text denies ("not 12 but 15") is not said.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.dates import Day
from otel_agentic.judges.facts import FactText
from otel_agentic.judges.quantities import Quantity
from otel_agentic.truth.text import normalise, places_of, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_agentic.judges.facts import Fact

#: What is read of a text, in characters: a longer one is read from its beginning.
READ_CHARACTERS: Final = 50_000
#: So many words in a row that two texts share are no coincidence.
PHRASE_WORDS: Final = 5
_EXCERPT_CHARACTERS: Final = 30
_DENIED: Final = re.compile(r"(?:\bnot|n['\u2019]t|\bnever|\bno longer)[\s*_]*(?:just |only |about )?$", re.IGNORECASE)
_DENIED_WITHIN: Final = 24
_MANTISSA: Final = re.compile(r"\d+(?:\.(\d+))?")

Place = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class SaidText(FactText):
    """A text of user or agent, read once for all values that are looked for in it."""

    @classmethod
    def of(cls, text: str) -> SaidText:
        """Return the text, cut to what is read of it."""
        # A degree sign that is glued to its number hides the number from the reader of facts.
        return cls(raw=text[:READ_CHARACTERS].replace("\u00b0", " \u00b0"))

    def place_of_number(self, number: Quantity, *, spelled: bool = False) -> Quantity | None:
        """Return where a number is said, exact or rounded to the digits that are shown; None where it is not.

        Args:
            number: the number; without a unit it may be said with any.
            spelled: it counts only where its unit is said too.
        """
        for tolerance, (values, facts) in self._numbers.items():
            reach = tolerance + 1e-9 * abs(number.value)
            for place in range(bisect_left(values, number.value - reach), bisect_right(values, number.value + reach)):
                if _unit_fits(number, facts[place], spelled=spelled) and not self.denies(facts[place]):
                    return facts[place]
        return None

    def place_of_fact(self, wanted: Fact) -> Fact | None:
        """Return where a date, time, identifier or worded number is said."""
        return next((fact for fact in self.facts.like(wanted) if _is_whole(fact) and not self.denies(fact)), None)

    def place_of_words(self, text: str) -> Place | None:
        """Return where some words stand in the normalised text."""
        plain = normalise(text)
        # Asking for the first word is quick, and mostly the end of it.
        first = next(iter(words(plain)), None)
        if first is not None and first not in self.vocabulary:
            return None
        return next(places_of(self.plain, plain), None)

    def denies(self, fact: Fact) -> bool:
        """Return whether a denial stands right before a fact of this text."""
        return bool(_DENIED.search(self.raw[max(0, fact.start - _DENIED_WITHIN) : fact.start]))

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The words of the normalised text."""
        return frozenset(words(self.plain))

    @cached_property
    def phrases(self) -> frozenset[str]:
        """All that is said in `PHRASE_WORDS` words in a row."""
        return frozenset(phrases_of(self.plain))

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """The numbers of the text."""
        return tuple(fact for fact in self.facts.all if isinstance(fact, Quantity))

    @cached_property
    def _numbers(self) -> Mapping[float, tuple[list[float], list[Quantity]]]:
        """Return the numbers by how far a number may be from what is shown, each group sorted by value."""
        groups: dict[float, list[Quantity]] = defaultdict(list)
        for fact in self.quantities:
            groups[_tolerance(self.raw[fact.start : fact.end], fact)].append(fact)
        found = {}
        for tolerance, facts in groups.items():
            facts.sort(key=lambda fact: fact.value)
            found[tolerance] = ([fact.value for fact in facts], facts)
        return found

    def around(self, fact: Fact) -> str:
        """Return a fact with the words around it, on one line."""
        return _excerpt(self.raw, (fact.start, fact.end))

    def around_words(self, text: str, place: Place) -> str:
        """Return some words with those around them, on one line.

        Args:
            text: the words.
            place: where they stand in the normalised text; shown where they cannot be found as they were written.
        """
        pattern = r"\s+".join(re.escape(word) for word in text.split())
        written = re.search(pattern, self.raw, re.IGNORECASE)
        return _excerpt(self.raw, written.span()) if written else _excerpt(self.plain, place)


def phrases_of(plain: str) -> Iterator[str]:
    """Yield all runs of `PHRASE_WORDS` words of a normalised text.

    >>> list(phrases_of("the capital of australia is canberra"))
    ['the capital of australia is', 'capital of australia is canberra']
    """
    found = words(plain)
    return (" ".join(found[start : start + PHRASE_WORDS]) for start in range(len(found) - PHRASE_WORDS + 1))


def _unit_fits(number: Quantity, said: Quantity, *, spelled: bool) -> bool:
    if number.dimension is None or said.dimension is None:
        return not spelled
    return (number.dimension, number.factor) == (said.dimension, said.factor)


def _is_whole(fact: Fact) -> bool:
    """Return whether a date has its day: the month alone is said of many days."""
    return not isinstance(fact, Day) or any(day is not None for _, _, day in fact.readings)


def _tolerance(shown: str, fact: Quantity) -> float:
    """Return how far an exact number may be from a shown one that is rounded.

    >>> from otel_agentic.judges.quantities import quantities
    >>> [_tolerance(text, next(quantities(text))) for text in ("12", "11.46", "3.8 million")]
    [0.5, 0.005, 50000.0]
    """
    mantissa = _MANTISSA.search(shown)
    scale = abs(fact.value) / float(mantissa[0]) if mantissa and float(mantissa[0]) else 1.0
    # A scale word; thousands separators make a mantissa that means nothing.
    if scale in {1e3, 1e6, 1e9, 1e12} and mantissa and mantissa[1]:
        return float(0.5 * 10.0 ** -len(mantissa[1]) * scale)
    return float(0.5 * 10.0**-fact.decimals)


def _excerpt(text: str, place: Place) -> str:
    start, end = place
    before, after = text[max(0, start - _EXCERPT_CHARACTERS) : start], text[end : end + _EXCERPT_CHARACTERS]
    if start > _EXCERPT_CHARACTERS:
        before = "\u2026" + before.partition(" ")[2] if " " in before else "\u2026" + before
    if end + _EXCERPT_CHARACTERS < len(text):
        after = (after.rpartition(" ")[0] if " " in after else after) + "\u2026"
    return " ".join(f"{before}{text[start:end]}{after}".split())
