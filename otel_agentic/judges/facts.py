"""Facts of a text that compare by value: numbers, dates, times of day, durations, identifiers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from otel_agentic.judges.dates import MONTH_NAMES, Day, TimeOfDay, days, times
from otel_agentic.judges.quantities import Quantity, quantities
from otel_agentic.spans.redact_marks import MARK, MARK_START
from otel_agentic.truth.text import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier:
    """A token that is right or wrong as a whole: `HAT069`, `credit_card_44`, `a@b.org`, `/etc/hosts`, `3.2.1`; case folded."""

    value: str
    start: int
    end: int

    def same_as(self, second: Identifier) -> bool:
        """Return whether both are the same identifier."""
        return self.value == second.value


Fact = Quantity | Day | TimeOfDay | Identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of a text in order, and the text with the facts blanked out (same length)."""

    all: tuple[Fact, ...]
    rest: str

    def holds(self, fact: Fact) -> bool:
        """Return whether a fact of the text covers another one."""
        return next(self.like(fact), None) is not None

    def like(self, fact: Fact) -> Iterator[Fact]:
        """Yield the facts that cover another one, see `covers_fact`."""
        return (own for own in self.all if covers_fact(own, fact))


def same_fact(first: Fact, second: Fact) -> bool:
    """Return whether two facts are of the same kind and equal."""
    match (first, second):
        case (Quantity(), Quantity()):
            return first.same_as(second)
        case (Day(), Day()):
            return first.same_as(second)
        case (TimeOfDay(), TimeOfDay()):
            return first.same_as(second)
        case (Identifier(), Identifier()):
            return first.same_as(second)
    return False


def covers_fact(own: Fact, expected: Fact) -> bool:
    """Return whether a fact implies the expected one, and perhaps states more.

    >>> (date,), (month,), (year,) = (extract(text).found for text in ("May 20, 2024", "May 2024", "2024"))
    >>> covers_fact(date, month), covers_fact(date, year), covers_fact(month, date), covers_fact(year, date)
    (True, True, False, False)
    """
    match (own, expected):
        case (Day(), Day()):
            return own.covers(expected)
        case (Day(), Quantity(dimension=None)):
            return own.in_year(expected.value)
    return same_fact(own, expected)


def rival_facts(first: Fact, second: Fact) -> bool:
    """Return whether two facts are of the same kind and differ: at most one of them is the answer."""
    if isinstance(first, Quantity) and isinstance(second, Quantity) and not first.same_kind(second):
        return False
    return type(first) is type(second) and not same_fact(first, second)


_TOKEN: Final = re.compile(r"[^\s,;!?()\[\]{}\"\u201c\u201d\u2018\u2019'<>|*`=]+")
_TRAILING: Final = ".:-/"
_REMEMBERED_CHARACTERS: Final = 4000
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_CODE_MARK: Final = re.compile(r"[\d_@]")
#: The number of a list entry is no quantity; "3. Mai" is a date.
_LIST_NUMBER: Final = re.compile(
    rf"^[ \t]*\d{{1,2}}[.)](?=[ \t]+(?!(?:{MONTH_NAMES})\b)\S)", re.MULTILINE | re.IGNORECASE
)
#: The path of a file, by how it begins; and a web address.
_ADDRESS: Final = re.compile(r"(?:~|\.{1,2})?/[\w.][^/]*/[\w.]|~/\w|[a-z]:\\", re.IGNORECASE)
_WEB: Final = re.compile(r"(?<![a-zA-Z0-9])[a-zA-Z]{2,10}://[^\s<>\"'`|]+")
#: Version numbers and network addresses: 3.2.1, 10.0.0.1; but 1.234.567 is a number.
_DOTTED: Final = re.compile(r"v?(?P<number>\d{1,9}(?:\.\d{1,9}){2,7})")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")
#: Telephone numbers: those with a plus, and those that are grouped as in North America.
_TELEPHONE: Final = re.compile(r"(?<![\w.])(?:\+\d[\d ()/.-]{6,20}\d|\(?\d{3}\)?[ .-]?\d{3}[.-]\d{4})(?!\w)")
#: The digits that identify a telephone number: country and trunk prefixes are optional.
_TELEPHONE_DIGITS: Final = 9
#: A number with attached letters or signs ("5km", "20th", "10am", "$1.2k") that do not make it a code.
_GLUED: Final = re.compile(r"[^\w]*\d[\d.:/-]*(?:[eE][+-]?\d{1,3}|[a-z]{1,4}|[A-Z]|°[cCfF]|GB|MB|KB|TB)?[%.]?")


def extract(text: str) -> Facts:
    """Return the facts of a text.

    Times are read first, then dates, identifiers and numbers, each from the remaining text. Cached for recent short texts, which
    are read by the judge and again for each call whose result the answer may use.

    >>> [type(fact).__name__ for fact in extract("HAT069 leaves on 2024-05-20 at 06:00 for $51").found]
    ['Identifier', 'Day', 'TimeOfDay', 'Quantity']
    """
    return _extract_remembered(text) if len(text) <= _REMEMBERED_CHARACTERS else _extract(text)


def _extract(text: str) -> Facts:
    facts: list[Fact] = []
    rest = _LIST_NUMBER.sub(_blank, text)
    for reader in _readers(text):
        candidates = list(reader(rest))
        if candidates:
            chosen = _without_overlaps(candidates)
            facts += chosen
            rest = _blanked(rest, chosen)
    return Facts(all=tuple(sorted(facts, key=lambda fact: fact.start)), rest=rest)


_extract_remembered = lru_cache(maxsize=2048)(_extract)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _without_overlaps(facts: list[Fact]) -> list[Fact]:
    """Return the facts by position; of overlapping readings ("May 20" in "May 20, 2024") the longest remains."""
    chosen: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: (fact.start, -fact.end)):
        if not chosen or fact.start >= chosen[-1].end:
            chosen.append(fact)
    return chosen


def _blanked(text: str, facts: list[Fact]) -> str:
    """Return the text with spaces in place of the facts, which are in order."""
    pieces: list[str] = []
    end = 0
    for fact in facts:
        pieces += (text[end : fact.start], " " * (fact.end - fact.start))
        end = fact.end
    return "".join((*pieces, text[end:]))


def _readers(text: str) -> Iterator[Callable[[str], Iterator[Fact]]]:
    """Yield the readers that may find a fact: most sentences contain no digit."""
    if MARK_START in text:
        yield marks
    if _DIGIT.search(text):
        yield times
        yield days
    if _DIGIT.search(text):
        yield telephones
    if _CODE_MARK.search(text) or "/" in text or "\\" in text:
        yield identifiers
    yield quantities


def marks(text: str) -> Iterator[Identifier]:
    """Yield the marks of redaction in a text: each represents an unknown value, and equals only itself.

    >>> [mark.value for mark in marks("Mail [redacted:email:deadbeef].")]
    ['[redacted:email:deadbeef]']
    """
    for match in MARK.finditer(text):
        yield Identifier(value=match.group(), start=match.start(), end=match.end())


def identifiers(text: str) -> Iterator[Identifier]:
    """Yield the identifiers of a text: words that mix letters with digits, underscores or an @; paths, versions.

    >>> [word.value for word in identifiers("user mia_li_3668 booked #HAT136, seat 12A, 5km off; see /var/log, v3.2.1")]
    ['mia_li_3668', 'hat136', '/var/log', '3.2.1']
    """
    for match in _WEB.finditer(text):
        token = match.group().rstrip(_TRAILING + ",;!?)")
        yield Identifier(value=token.casefold(), start=match.start(), end=match.start() + len(token))
    for match in _TOKEN.finditer(text):
        token = match.group().rstrip(_TRAILING)
        start = match.start() + len(token) - len(token.lstrip("#"))
        token = token.lstrip("#")
        dotted = _DOTTED.fullmatch(token)
        if dotted and not _THOUSANDS.fullmatch(token):
            yield Identifier(value=dotted["number"], start=start, end=start + len(token))
        elif _is_identifier(token):
            yield Identifier(value=token.casefold(), start=start, end=start + len(token))


def telephones(text: str) -> Iterator[Identifier]:
    """Yield the telephone numbers of a text, by their last digits.

    >>> [number.value for number in telephones("+1 800 555 0199 or (800) 555-0199")]
    ['tel:005550199', 'tel:005550199']
    """
    for match in _TELEPHONE.finditer(text):
        digits = re.sub(r"\D", "", match.group())
        yield Identifier(value=f"tel:{digits[-_TELEPHONE_DIGITS:]}", start=match.start(), end=match.end())


def _is_identifier(token: str) -> bool:
    if _ADDRESS.match(token):
        return True
    if not (_CODE_MARK.search(token) and _LETTER.search(token)) or token[0] in "$€£¥₹" or _GLUED.fullmatch(token):
        return False
    return bool(_DIGIT.search(token)) or "_" in token.strip("_") or "@" in token[1:-1]


@dataclass(frozen=True, kw_only=True)
class FactText:
    """A text whose normalised form and facts are computed once, at the first access."""

    raw: str

    @cached_property
    def plain(self) -> str:
        """The normalised text."""
        return normalise(self.raw)

    @cached_property
    def facts(self) -> Facts:
        """The facts of the text."""
        return extract(self.raw)
