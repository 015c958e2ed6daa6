"""Rule-based changes of an answer: some keep it right, the others make it wrong.

Each function returns the changed text, or None if the text contains nothing to change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    Change = Callable[[str], str | None]

_NUMBER: Final = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
_LIST_NUMBER: Final = re.compile(r"^[ \t]*\d+\. ", re.MULTILINE)
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_IDENTIFIER: Final = re.compile(r"\b(?=\w*[A-Za-z])(?=\w*\d)[A-Za-z0-9_]{4,}\b")
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_AUXILIARY: Final = re.compile(r"\b(?:is|are|was|were|can|will|has been|have been)\b(?! not|n't|['\u2019]t)")
_DENIAL: Final = re.compile(r"\b(is|are|was|were|can|will|has|have) not\b|\bcannot\b")
_MARKUP: Final = re.compile(r"\*\*|`|^[-*] |^\d+\. |^#+ ", re.MULTILINE)


def polite(text: str) -> str | None:
    """Return the answer with polite phrases before and after it."""
    return f"Of course, let me tell you. {text} Is there anything else I can do for you?"


def plain(text: str) -> str | None:
    """Return the answer without Markdown."""
    return _changed(_MARKUP, "", text)


def without_separators(text: str) -> str | None:
    """Return the answer with 1327 for 1,327."""
    return _changed(_THOUSANDS, "", text)


def small_letters(text: str) -> str | None:
    """Return the answer in lower case."""
    return text.lower() if text != text.lower() else None


def long_dates(text: str) -> str | None:
    """Return the answer with May 20, 2024 for 2024-05-20."""
    return _ISO_DATE.sub(_long_date, text) if _ISO_DATE.search(text) else None


def another_number(text: str) -> str | None:
    """Return the answer with a larger last number; dates and list numbers do not count."""
    aside = [match.span() for pattern in (_ISO_DATE, _LIST_NUMBER) for match in pattern.finditer(text)]
    numbers = [match for match in _NUMBER.finditer(text) if not any(a <= match.start() < b for a, b in aside)]
    if not numbers:
        return None
    last = numbers[-1]
    value = float(last.group().replace(",", "")) + 7
    return f"{text[: last.start()]}{value:g}{text[last.end() :]}"


def another_identifier(text: str) -> str | None:
    """Return the answer with the last two different characters of an identifier swapped, at every occurrence."""
    for match in _IDENTIFIER.finditer(text):
        name = match.group()
        if name[-1] != name[-2]:
            return text.replace(name, name[:-2] + name[-1] + name[-2])
    return None


def another_day(text: str) -> str | None:
    """Return the answer with a different day of the month in each of its dates."""
    return (
        _ISO_DATE.sub(lambda iso_date: f"{iso_date[1]}-{iso_date[2]}-{1 + int(iso_date[3]) % 28:02d}", text)
        if _ISO_DATE.search(text)
        else None
    )


def denied(text: str) -> str | None:
    """Return the answer with its first statement negated, or its first negation removed."""
    taken_back = _DENIAL.search(text)
    if taken_back:
        return f"{text[: taken_back.start()]}{taken_back[1] or 'can'}{text[taken_back.end() :]}"
    stated = _AUXILIARY.search(text)
    return f"{text[: stated.end()]} not{text[stated.end() :]}" if stated else None


CORRECT: Final[Mapping[str, Change]] = {
    "polite words around it": polite,
    "Markdown removed": plain,
    "thousands separators removed": without_separators,
    "small letters": small_letters,
    "dates spelled out": long_dates,
}
INCORRECT: Final[Mapping[str, Change]] = {
    "one number changed": another_number,
    "an identifier changed": another_identifier,
    "dates changed": another_day,
    "a statement denied": denied,
}


def _changed(pattern: re.Pattern[str], new: str, text: str) -> str | None:
    replaced = pattern.sub(new, text)
    return replaced if replaced != text else None


def _long_date(iso_date: re.Match[str]) -> str:
    day = date(int(iso_date[1]), int(iso_date[2]), int(iso_date[3]))
    return f"{day:%B} {day.day}, {day.year}"
