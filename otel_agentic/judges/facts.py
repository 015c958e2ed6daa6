"""The facts of a text that can be compared by value: numbers, dates, times of day, identifiers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.dates import Day, TimeOfDay, days, times
from otel_agentic.judges.quantities import Quantity, quantities
from otel_agentic.truth.text import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier:
    """A code, address or name that is right or wrong as a whole: `HAT069`, `credit_card_44`, `a@b.org`; case folded."""

    value: str
    start: int
    end: int

    def same_as(self, other: Identifier) -> bool:
        """Return whether both are the same identifier."""
        return self.value == other.value


Fact = Quantity | Day | TimeOfDay | Identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a text in order, and the text with the facts blanked out (same length)."""

    found: tuple[Fact, ...]
    rest: str

    def holds(self, fact: Fact) -> bool:
        """Return whether the same fact is there."""
        return next(self.like(fact), None) is not None

    def like(self, fact: Fact) -> Iterator[Fact]:
        """Yield the facts that say the same."""
        return (own for own in self.found if same_fact(own, fact))


def same_fact(one: Fact, other: Fact) -> bool:
    """Return whether two facts are of one kind and say the same."""
    match (one, other):
        case (Quantity(), Quantity()):
            return one.same_as(other)
        case (Day(), Day()):
            return one.same_as(other)
        case (TimeOfDay(), TimeOfDay()):
            return one.same_as(other)
        case (Identifier(), Identifier()):
            return one.same_as(other)
    return False


def rival_facts(one: Fact, other: Fact) -> bool:
    """Return whether two facts are of one kind and say different things: one of them at most is the answer."""
    if isinstance(one, Quantity) and isinstance(other, Quantity) and not one.same_kind(other):
        return False
    return type(one) is type(other) and not same_fact(one, other)


_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"\u201c\u201d\u2018\u2019'<>|*`=]+")
_TRAILING: Final = ".:-/"
_REMEMBERED_CHARACTERS: Final = 4000
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_CODE_MARK: Final = re.compile(r"[\d_@]")
#: A number with what is glued to it ("5km", "20th", "10am", "$1.2k"): letters that do not make it a code.
_GLUED: Final = re.compile(r"[^\w]*\d[\d.:/-]*(?:[eE][+-]?\d{1,3}|[a-z]{1,4}|[A-Z]|GB|MB|KB|TB)?[%.]?")


def extract(text: str) -> Facts:
    """Return the facts of a text.

    Times are read first, then dates, identifiers and numbers, each from what is left. Remembered for recent short texts:
    an answer is asked for by its judge and by each call whose result it may use.

    >>> [type(fact).__name__ for fact in extract("HAT069 leaves on 2024-05-20 at 06:00 for $51").found]
    ['Identifier', 'Day', 'TimeOfDay', 'Quantity']
    """
    return _extract_remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else _extract(text)


def _extract(text: str) -> Facts:
    found: list[Fact] = []
    rest = text
    for reader in _readers(text):
        here = list(reader(rest))
        if here:
            kept = _without_overlaps(here)
            found += kept
            rest = _blanked(rest, kept)
    return Facts(found=tuple(sorted(found, key=lambda fact: fact.start)), rest=rest)


_extract_remembered = lru_cache(maxsize=2048)(_extract)


def _without_overlaps(facts: list[Fact]) -> list[Fact]:
    """Return the facts in order of place; of overlapping readings ("May 20" in "May 20, 2024") the longest stays."""
    kept: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: (fact.start, -fact.end)):
        if not kept or fact.start >= kept[-1].end:
            kept.append(fact)
    return kept


def _blanked(text: str, facts: list[Fact]) -> str:
    """Return the text with spaces in place of the facts, which stand in order."""
    pieces: list[str] = []
    end = 0
    for fact in facts:
        pieces += (text[end : fact.start], " " * (fact.end - fact.start))
        end = fact.end
    return "".join((*pieces, text[end:]))


def _readers(text: str) -> Iterator[Callable[[str], Iterator[Fact]]]:
    """Yield the readers that may find something: most sentences hold no digit."""
    if _DIGIT.search(text):
        yield times
        yield days
    if _CODE_MARK.search(text):
        yield identifiers
    yield quantities


def identifiers(text: str) -> Iterator[Identifier]:
    """Yield the identifiers of a text: words that mix letters with digits, underscores or an @.

    >>> [found.value for found in identifiers("user mia_li_3668 booked HAT136, seat 12A, 5km off")]
    ['mia_li_3668', 'hat136']
    """
    for found in _TOKEN.finditer(text):
        token = found.group().rstrip(_TRAILING)
        if _is_identifier(token):
            yield Identifier(value=token.casefold(), start=found.start(), end=found.start() + len(token))


def _is_identifier(token: str) -> bool:
    if not (_CODE_MARK.search(token) and _LETTER.search(token)) or token[0] in "$€£¥₹" or _GLUED.fullmatch(token):
        return False
    return bool(_DIGIT.search(token)) or "_" in token.strip("_") or "@" in token[1:-1]


@dataclass(frozen=True, kw_only=True)
class FactText:
    """A text whose normalised form and facts are read once, when they are first asked for."""

    raw: str

    @cached_property
    def plain(self) -> str:
        """The normalised text."""
        return normalise(self.raw)

    @cached_property
    def facts(self) -> Facts:
        """The facts of the text."""
        return extract(self.raw)
