"""Dates and times of day in text, by value: 2024-05-20 is May 20th, 2024; 10:30 pm is 22:30.

Months are read in English, German, French and Spanish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar janvier enero",
            "feb february februar février febrero",
            "mar march märz mars marzo",
            "apr april avril abril",
            "may mai mayo",
            "jun june juni juin junio",
            "jul july juli juillet julio",
            "aug august août agosto",
            "sep sept september septembre septiembre",
            "oct october oktober octobre octubre",
            "nov november novembre noviembre",
            "dec december dezember décembre diciembre",
        ),
        start=1,
    )
    for name in names.split()
}
_MONTH_BEGINNINGS: Final = tuple({name[:3] for name in _MONTHS})
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
    lowered = text.lower()
    # Most texts name no month: searching for one is cheaper than trying three patterns at every position.
    worded = any(beginning in lowered for beginning in _MONTH_BEGINNINGS)
    for pattern in (*_NUMERIC_DATES, *(_WORDED_DATES if worded else ())):
        for match in pattern.finditer(text):
            readings = frozenset(reading for reading in _readings(match.groupdict(default="")) if _possible(reading))
            if readings:
                yield Day(readings=readings, start=match.start(), end=match.end())


def _readings(part: dict[str, str]) -> Iterator[tuple[int | None, int, int | None]]:
    year = int(part["year"]) if part.get("year") else None
    if "mark" in part:
        first, second = int(part["one"]), int(part["two"])
        yield (year, first, second)
        yield (year, second, first)
        return
    month = int(part["number"]) if "number" in part else _MONTHS[part["month"].lower()]
    yield (year, month, int(part["day"]) if part.get("day") else None)


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
            part = match.groupdict(default="")
            minutes = int(part["hour"]) * 60 + int(part.get("minute") or 0)
            half = part["half"].lower()
            if half:
                minutes = minutes % _HALF_DAY_MINUTES + (_HALF_DAY_MINUTES if half == "p" else 0)
            if minutes < _DAY_MINUTES:
                known = bool(half) or minutes >= _HALF_DAY_MINUTES + 60
                yield TimeOfDay(minutes=minutes, half_known=known, start=match.start(), end=match.end())
