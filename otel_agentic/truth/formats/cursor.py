"""Walks a JSON text member by member: what the `json` package reads at once, with the place of each part.

A key that stands twice, NaN and a number beyond what can be held become `Faulty`: each would lose a value in silence.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.formats.items import Faulty, Path, twice

if TYPE_CHECKING:
    from collections.abc import Iterator

#: White space as JSON has it.
BLANK: Final = " \t\r\n"


class Cursor:
    """A place in a JSON text. Whoever takes a member or an element from it reads its value before the next."""

    __slots__ = ("_text", "at")

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self.at = at
        self._skip()

    def value(self) -> Any:
        """Return the value here and go past it.

        Raises:
            JSONDecodeError: there is none.
            RecursionError: it is nested too deep.
        """
        value, self.at = DECODER.raw_decode(self._text, self.at)
        self._skip()
        return value

    def sees(self, mark: str) -> bool:
        """Return whether a mark stands here."""
        return self._text.startswith(mark, self.at)

    def ended(self) -> bool:
        """Return whether nothing but white space follows."""
        return self.at >= len(self._text)

    def members(self) -> Iterator[str]:
        """Yield the keys of the object here, each with the cursor at its value; end behind the object.

        Raises:
            JSONDecodeError: the text is none.
        """
        for _ in self._parts("{", "}"):
            if not self.sees('"'):
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self.at)
            key = self.value()
            self._take(":", "Expecting ':' delimiter")
            yield key

    def elements(self) -> Iterator[int]:
        """Yield where the elements of the list here begin, each with the cursor at it; end behind the list.

        Raises:
            JSONDecodeError: the text is none.
        """
        return self._parts("[", "]")

    def _parts(self, opening: str, closing: str) -> Iterator[int]:
        self._take(opening, f"Expecting '{opening}'")
        if not self.sees(closing):
            yield self.at
            while self.sees(","):
                self._take(",", "")
                yield self.at
        self._take(closing, "Expecting ',' delimiter")

    def _take(self, mark: str, message: str) -> None:
        if not self.sees(mark):
            raise json.JSONDecodeError(message, self._text, self.at)
        self.at += 1
        self._skip()

    def _skip(self) -> None:
        text, at, end = self._text, self.at, len(self._text)
        while at < end and text[at] in BLANK:
            at += 1
        self.at = at


def offset_of(text: str, start: int, path: Path) -> int:
    """Return where a field of the value at `start` begins; of one that is not there, where its holder begins."""
    for part in path:
        start = _part_of(Cursor(text, start), part)
    return start


def _part_of(cursor: Cursor, part: str | int) -> int:
    start, found = cursor.at, None
    keys = cursor.members() if cursor.sees("{") else cursor.elements() if cursor.sees("[") else iter(())
    with suppress(json.JSONDecodeError):  # the text may break off inside
        for place, key in enumerate(keys):
            # Of a key that stands twice the second is the one too many.
            if part == (place if isinstance(part, int) else key):
                found = cursor.at
            cursor.value()
    return start if found is None else found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found[key] = twice(key)
            seen.add(key)
    return found


def _whole_number(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # Python's own limit, against numbers that take forever
        return Faulty(f"a number of {len(digits):,} digits; write it as a text")


def _fraction(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else Faulty(f"{digits} is beyond what a number can hold")


def _constant(name: str) -> Faulty:
    return Faulty(f"{name} is not JSON; leave the field out or give a number")


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole_number, parse_float=_fraction, parse_constant=_constant
)
