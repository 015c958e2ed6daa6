"""Facts of a text that are compared by value: numbers with units, dates, times of day, durations, identifiers.

For example, 2024-05-20 equals May 20th, 2024, and 10:30 pm equals 22:30. Months are read in English, German, French and
Spanish.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Final

from otel_agentic.redaction.fields import MARK, MARK_START
from otel_agentic.truth.values import normalise

#: The words for numbers, units, months and so on; the file explains its sections.
LEXICON: Final[Mapping[str, Any]] = tomllib.loads(files(__package__).joinpath("lexicon.toml").read_text("utf-8"))
#: Name of a unit in lower case -> its dimension, and its size in base units.
UNITS: Final[Mapping[str, tuple[str, float]]] = {
    name: (dimension, size) for dimension, size, names in LEXICON["units"] for name in names.split()
}

_RELATIVE_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number in a text: `value` as written (scale words applied), `factor` times that in the base unit of `dimension`.

    `dimension` is None for a bare number. `decimals` counts the digits after the point. `start` and `end` are its
    position. `worded`: written as a word ("three").
    """

    value: float
    dimension: str | None
    factor: float
    decimals: int
    start: int
    end: int
    worded: bool = False

    def same_as(self, other: Quantity) -> bool:
        """Return whether both have the same value; a bare number matches any unit, 5 % matches 5 and 0.05."""
        if self.dimension is None or other.dimension is None:
            # Only a percentage changes its bare value: 1000 is not written for 1 km without a unit.
            percent = 0.01 if "percent" in {self.dimension, other.dimension} else 1.0
            own, others = self.value, other.value
            scaled = (own * percent, others) if self.dimension else (own, others * percent)
            return _close(own, others) or _close(*scaled)
        return self.dimension == other.dimension and _close(self.value * self.factor, other.value * other.factor)

    def same_kind(self, other: Quantity) -> bool:
        """Return whether the two have the same dimension and could therefore contradict each other."""
        return self.dimension == other.dimension


def _close(first: float, second: float) -> bool:
    return first == second or math.isclose(first, second, rel_tol=_RELATIVE_TOLERANCE, abs_tol=1e-12)


def rounds_to(exact: float, stated: Quantity) -> bool:
    """Return whether a stated number equals an exact one, perhaps rounded to the decimals that are written.

    >>> rounds_to(11.4567, next(quantities("about 11.46")))
    True
    """
    return _close(exact, stated.value) or abs(exact - stated.value) <= 0.5 * 10.0**-stated.decimals * (1 + 1e-9)


_SCALES: Final[Mapping[str, float]] = LEXICON["scales"]
#: Whole numbers by their English names, and by those of other languages.
NUMBER_WORDS: Final[Mapping[str, int]] = {word: value for value, word in enumerate(LEXICON["numbers"].split())}
_WORDED: Final[Mapping[str, int]] = {
    **{
        word: value
        for names in LEXICON["other_numbers"]
        for value, word in enumerate(names.split(), start=2)
        if word != "_"
    },
    **NUMBER_WORDS,
}
_TENS: Final[Mapping[str, int]] = {word: 10 * value for value, word in enumerate(LEXICON["tens"].split(), start=2)}
_WORDED_SCALES: Final[Mapping[str, float]] = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_CURRENCIES: Final = "$€£¥₹"

_WORD_CHARACTERS: Final = re.compile(r"\w+")
#: A number. It starts at a digit, so that the search skips from number to number; `_BEFORE` reads the prefix
#: afterwards.
_NUMBER: Final = re.compile(
    rf"""
    (?<!\w)(?<!\d\.)
    (?P<digits>
        \d{{1,3}}(?:\.\d{{3}})+,\d+ |                    # 1.234,56
        \d{{1,3}}(?:\.\d{{3}}){{2,}}(?![\d.]) |          # 1.234.567
        \d{{1,3}}(?:[,'\u2019\u00a0\u202f\u2009]\d{{3}})+(?!\d)(?:\.\d+)? |   # 1,234.56  1'234  1 234
        (?<!\d,)\d+,\d{{1,2}}(?![\d,]) |                 # 3,50, but not in 1,2,3
        \d+(?:\.\d+)?(?:[eE][+-]?\d{{1,3}}(?!\w))? |     # 1234.56  1e6
        \.\d+
    )
    (?:(?:st|nd|rd|th)(?!\w))?
    (?:(?P<scale>[MB](?!\w)|\ ?(?:[kK]|thousand|mn|million|bn|billion|trillion)(?!\w)))?
    (?:[\ \u00a0\u202f-]?(?:degrees?\ )?(?P<unit>%|°\ ?[cCfF]|[{_CURRENCIES}]|[^\W\d_]+)(?!\w))?
    """,
    re.VERBOSE,
)
_BEFORE: Final = re.compile(
    rf"(?:(?<![\w)])(?P<minus>[-\u2212]))?(?:(?P<currency>[{_CURRENCIES}])(?P<late_minus>[-\u2212])?\ ?)?$"
)
#: Maximum number of characters before the digits, plus one to distinguish a minus sign from a hyphen.
_BEFORE_CHARACTERS: Final = 4
_WORD: Final = re.compile(
    rf"""
    (?<![\w-])
    (?:(?P<tens>{"|".join(_TENS)})(?:[\ -](?P<ones>{"|".join([*NUMBER_WORDS][1:10])}))?|(?P<word>{"|".join(_WORDED)}))
    (?P<half>\ and\ a\ half)?
    (?:\ (?P<scale>{"|".join(_WORDED_SCALES)}))?
    (?:[\ -](?P<unit>[^\W\d_]+))?
    (?!\w)
    """,
    re.IGNORECASE | re.VERBOSE,
)


_NUMBER_NAMES: Final = frozenset({*_TENS, *_WORDED})


def _has_word_among(words: AbstractSet[str], text: str) -> bool:
    """Return whether a text contains one of these words; a pattern of all words would be tried at every position."""
    return not words.isdisjoint(_WORD_CHARACTERS.findall(text.casefold()))


def quantities(text: str) -> Iterator[Quantity]:
    """Yield the numbers of a text, first those in digits, then those in words, each group in order.

    >>> [(q.value, q.dimension) for q in quantities("$1,234.50 for 3 nights, 5 km away")]
    [(1234.5, 'usd'), (3.0, None), (5.0, 'length')]
    """
    for match in _NUMBER.finditer(text):
        yield _quantity(text, match)
    for match in _WORD.finditer(text) if _has_word_among(_NUMBER_NAMES, text) else ():
        yield _worded(match)


def _quantity(text: str, match: re.Match[str]) -> Quantity:
    digits = match.start("digits")
    before = _BEFORE.search(text[max(0, digits - _BEFORE_CHARACTERS) : digits])
    minus, currency, late_minus = before.group("minus", "currency", "late_minus") if before else ("", "", "")
    value, decimals = _value(match["digits"])
    scale = _SCALES[match["scale"].strip().lower()] if match["scale"] else 1.0
    # A word that is not a unit ("3 nights") is not part of the number.
    unit = UNITS.get(match["unit"].lower().replace(" ", "")) if match["unit"] else None
    dimension, factor = UNITS[currency] if currency else unit or (None, 1.0)
    return Quantity(
        value=(-value if minus or late_minus else value) * scale,
        dimension=dimension,
        factor=factor,
        decimals=0 if scale > 1 else decimals,
        start=digits - (len(before.group()) if before else 0),
        end=match.end() if unit else match.end("scale") if match["scale"] else match.end("digits"),
    )


def _worded(match: re.Match[str]) -> Quantity:
    groups = {name: (text or "").lower() for name, text in match.groupdict().items()}
    unit = UNITS.get(groups["unit"])
    # A word that is not a unit ("three nights") is not part of the number.
    end = match.end() if unit else match.start("unit") - 1 if groups["unit"] else match.end()
    value = _TENS[groups["tens"]] + _WORDED.get(groups["ones"], 0) if groups["tens"] else _WORDED[groups["word"]]
    dimension, factor = unit or (None, 1.0)
    return Quantity(
        value=(value + (0.5 if groups["half"] else 0.0)) * _WORDED_SCALES.get(groups["scale"], 1.0),
        dimension=dimension,
        factor=factor,
        decimals=0,
        start=match.start(),
        end=end,
        worded=True,
    )


_CONTINENTAL: Final = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d+,\d{1,2}")
_CONTINENTAL_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")
_SEPARATORS: Final = str.maketrans("", "", ",'\u2019\u00a0\u202f\u2009")


def _value(digits: str) -> tuple[float, int]:
    """Return the value of a written number and the number of its decimals."""
    if digits.isascii() and digits.isdigit():
        return float(digits), 0
    if _CONTINENTAL_THOUSANDS.fullmatch(digits):
        digits = digits.replace(".", "")
    if "," in digits and _CONTINENTAL.fullmatch(digits):
        digits = digits.replace(".", "").replace(",", ".")
    digits = digits.translate(_SEPARATORS)
    mantissa = digits.lower().partition("e")[0]
    return float(digits), len(mantissa.partition(".")[2])


_MONTHS: Final = {name: number for number, names in enumerate(LEXICON["months"], start=1) for name in names.split()}
_HALF_DAY_MINUTES: Final = 12 * 60
_DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A date in a text. `readings` are the possible (year, month, day): 5/6/2024 has two; None for an unstated part."""

    readings: frozenset[tuple[int | None, int, int | None]]
    start: int
    end: int

    def same_as(self, other: Day) -> bool:
        """Return whether the two may mean the same date; a part that one of them omits does not count."""
        return any(_agree(own, others) for own in self.readings for others in other.readings)

    def covers(self, other: Day) -> bool:
        """Return whether this may mean the same date and states the day of the month if the other one does."""
        return any(
            _agree(own, others) and (own[2] is not None or others[2] is None)
            for own in self.readings
            for others in other.readings
        )

    def in_year(self, year: float) -> bool:
        """Return whether this may be a date of a year."""
        return any(own[0] == year for own in self.readings)


def _agree(own: tuple[int | None, ...], others: tuple[int | None, ...]) -> bool:
    return all(a is None or b is None or a == b for a, b in zip(own, others, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOfDay:
    """A time of day in a text, in minutes after midnight; `half_known` False: 10:30 may mean 22:30."""

    minutes: int
    half_known: bool
    start: int
    end: int

    def same_as(self, other: TimeOfDay) -> bool:
        """Return whether the two mean the same time; one without am or pm matches both."""
        if self.half_known and other.half_known:
            return self.minutes == other.minutes
        return self.minutes % _HALF_DAY_MINUTES == other.minutes % _HALF_DAY_MINUTES


#: As an alternative of a regular expression, in lower case.
MONTH_NAMES: Final = "|".join(sorted(_MONTHS, key=len, reverse=True))
_MONTH: Final = rf"(?P<month>{MONTH_NAMES})\b\.?"
#: "3. Mai" is a date, "in room 3. May I" is not.
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.(?!\s+(?:may|march)\b))?"
_NUMERIC_DATES: Final = (
    re.compile(r"(?<![\w-])(?P<year>\d{4})-(?P<number>\d{1,2})-(?P<day>\d{1,2})(?=T\b|T\d|(?![\w-]))"),
    re.compile(r"(?<![\w/.])(?P<one>\d{1,2})(?P<mark>[/.])(?P<two>\d{1,2})(?P=mark)(?P<year>\d{4})(?!\w)"),
)
_WORDED_DATES: Final = (
    re.compile(rf"(?<!\w){_DAY}\s+(?:of\s+|de\s+)?{_MONTH}(?:(?:,|\s+de)?\s+(?P<year>\d{{4}}))?(?!\w)", re.IGNORECASE),
    re.compile(rf"(?<!\w){_MONTH}\s+(?:the\s+)?{_DAY}(?:,?\s+(?P<year>\d{{4}}))?(?!\w)", re.IGNORECASE),
    re.compile(rf"(?<!\w){_MONTH},?\s+(?P<year>\d{{4}})(?!\w)", re.IGNORECASE),
)
_TIMES: Final = (
    re.compile(
        r"(?:(?<=\d)T|(?<![\w:]))(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::\d{2}(?:\.\d+)?)?Z?"
        r"(?:\s?(?P<half>[ap])\.?m\b\.?)?(?![\d:])",
        re.IGNORECASE,
    ),
    re.compile(r"(?<![\w:.])(?P<hour>\d{1,2})\s?(?P<half>[ap])\.?m\b\.?", re.IGNORECASE),
)


def days(text: str) -> Iterator[Day]:
    """Yield the dates of a text.

    >>> iso, long = days("2024-05-20, that is May 20th, 2024")
    >>> iso.same_as(long)
    True
    """
    for pattern in (*_NUMERIC_DATES, *(_WORDED_DATES if _has_word_among(_MONTHS.keys(), text) else ())):
        for match in pattern.finditer(text):
            readings = frozenset(reading for reading in _readings(match.groupdict(default="")) if _possible(reading))
            if readings:
                yield Day(readings=readings, start=match.start(), end=match.end())


def _readings(groups: dict[str, str]) -> Iterator[tuple[int | None, int, int | None]]:
    year = int(groups["year"]) if groups.get("year") else None
    if "mark" in groups:
        first, second = int(groups["one"]), int(groups["two"])
        yield (year, first, second)
        yield (year, second, first)
        return
    month = int(groups["number"]) if "number" in groups else _MONTHS[groups["month"].lower()]
    yield (year, month, int(groups["day"]) if groups.get("day") else None)


def _possible(reading: tuple[int | None, int, int | None]) -> bool:
    _, month, day = reading
    return 1 <= month <= len({*_MONTHS.values()}) and (day is None or 1 <= day <= 31)  # noqa: PLR2004 — a month's days


def times(text: str) -> Iterator[TimeOfDay]:
    """Yield the times of day of a text.

    >>> [time.minutes for time in times("from 9 am to 10:30 pm")]
    [1350, 540]
    """
    for pattern in _TIMES:
        for match in pattern.finditer(text):
            groups = match.groupdict(default="")
            minutes = int(groups["hour"]) * 60 + int(groups.get("minute") or 0)
            half = groups["half"].lower()
            if half:
                minutes = minutes % _HALF_DAY_MINUTES + (_HALF_DAY_MINUTES if half == "p" else 0)
            if minutes < _DAY_MINUTES:
                half_known = bool(half) or minutes >= _HALF_DAY_MINUTES + 60
                yield TimeOfDay(minutes=minutes, half_known=half_known, start=match.start(), end=match.end())


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
        """Return whether any fact of the text covers another fact, see `covers_fact`."""
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

    >>> (date,), (month,), (year,) = (extract(text).all for text in ("May 20, 2024", "May 2024", "2024"))
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


_SEPARATORS_OF_TOKENS: Final = r"\s,;!?()\[\]{}\"\u201c\u201d\u2018\u2019'<>|*`="
#: A token with a character that only identifiers have; most words have none, so that they need no further check.
_TOKEN: Final = re.compile(
    rf"(?<![^{_SEPARATORS_OF_TOKENS}])[^{_SEPARATORS_OF_TOKENS}\d_@/\\]*+[\d_@/\\][^{_SEPARATORS_OF_TOKENS}]*"
)
_TRAILING: Final = ".:-/"
_REMEMBERED_CHARACTERS: Final = 4000
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
_CODE_MARK: Final = re.compile(r"[\d_@]")
#: The number of a list entry, which is not a quantity; "3. Mai" is a date.
_LIST_NUMBER: Final = re.compile(
    rf"^[ \t]*\d{{1,2}}[.)](?=[ \t]+(?!(?:{MONTH_NAMES})\b)\S)", re.MULTILINE | re.IGNORECASE
)
#: The beginning of a file path, and a web address.
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

    Times are read first, then dates, identifiers and numbers, each from the remaining text. The facts of recent short
    texts are cached: the judge reads them, and so does each tool call whose result the answer may use.

    >>> [type(fact).__name__ for fact in extract("HAT069 leaves on 2024-05-20 at 06:00 for $51").all]
    ['Identifier', 'Day', 'TimeOfDay', 'Quantity']
    """
    return _cached_extract(text) if len(text) <= _REMEMBERED_CHARACTERS else _extract(text)


def _extract(text: str) -> Facts:
    facts: list[Fact] = []
    rest = _LIST_NUMBER.sub(lambda match: " " * len(match.group()), text)
    for reader in _readers(text):
        candidates = list(reader(rest))
        if candidates:
            chosen = _without_overlaps(candidates)
            facts += chosen
            rest = _blanked(rest, chosen)
    return Facts(all=tuple(sorted(facts, key=lambda fact: fact.start)), rest=rest)


_cached_extract = lru_cache(maxsize=2048)(_extract)


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
    """Yield the readers that may find a fact in a text; most sentences contain no digit and need few readers."""
    if MARK_START in text:
        yield marks
    if _DIGIT.search(text):
        yield times
        yield days
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


_JOINED: Final = re.compile(r"\s*(?:,|and|und|et|y)?\s*", re.IGNORECASE)
_HOUR_S: Final = 3600.0
_MINUTE_S: Final = 60.0
_MAX_BETWEEN: Final = 8


def with_whole_durations(text: str, facts: Facts) -> Facts:
    """Return the facts of a text with neighbouring parts of one duration joined into one fact, in the unit of the first part.

    >>> from otel_agentic.judges.exact.facts import extract
    >>> [duration.value for duration in with_whole_durations("2h 30m", extract("2h 30m")).all]
    [2.5]
    """
    joined: list[Fact] = []
    for fact in facts.all:
        duration = _duration(text, joined[-1], fact) if joined else None
        if duration is None:
            joined.append(fact)
        else:
            joined[-1] = duration
    return replace(facts, all=tuple(joined))


def _duration(text: str, first: Fact, second: Fact) -> Quantity | None:
    """Return two facts as one duration, or None if they are not parts of one."""
    if not (isinstance(first, Quantity) and isinstance(second, Quantity) and first.dimension == "time"):
        return None
    gap = text[first.end : second.start]
    factor = _part_s(text, first, second)
    if factor is None or len(gap) > _MAX_BETWEEN or not _JOINED.fullmatch(gap):
        return None
    if factor >= first.factor or second.value * factor >= first.factor:
        return None
    return replace(first, value=first.value + second.value * factor / first.factor, end=second.end)


def _part_s(text: str, first: Quantity, second: Quantity) -> float | None:
    """Return the seconds in the unit of the second part; after hours, "30m" means minutes and not metres."""
    if second.dimension == "time":
        return second.factor
    metres = second.dimension == "length" and text[second.start : second.end].rstrip().lower().endswith("m")
    return _MINUTE_S if metres and second.factor == 1.0 and first.factor == _HOUR_S else None
