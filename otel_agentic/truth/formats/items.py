"""What the reader of a text hands to a format: records, where each of their fields stands, and what could not be read."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The way from a record to one of its fields: keys and places, such as `("turns", 0, "query")`.
Path = tuple[str | int, ...]
Unit = Literal["line", "row"]

#: Objects and lists inside one another, at most; deeper ones are built to break readers.
MAX_DEPTH: Final = 128
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Keys of an object whose list holds the records of a file.
WRAPPERS: Final = frozenset({"cases", "eval_cases", "evalCases", "samples", "tasks", "datasets"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record of a file, as JSON has it.

    `place_of` tells the line (or row, 1-based) of a field, `name_of` what it is called in the file. `header` is what stands
    around the list that the record is in, `header_place` tells the line of a field of that.
    """

    value: Any
    place_of: Callable[[Path], int]
    name_of: Callable[[Path], Path] = lambda path: path
    header: Mapping[str, Any] = field(default_factory=dict)
    header_place: Callable[[Path], int] = lambda _: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something of a file that cannot be read: the line or row (0: the file as a whole), and what is wrong there."""

    place: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The records of a text, in its order, and what is wrong with the places that hold none."""

    items: tuple[Item, ...]
    troubles: tuple[Trouble, ...]
    unit: Unit = "line"


class Faulty:
    """Stands in a value for something that was there and means nothing; `reason` is a sentence."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def dotted(path: Path) -> str:
    """Return a path as messages show it.

    >>> dotted(("turns", 0, "query"))
    'turns.0.query'
    """
    return ".".join(str(part) for part in path)


def located(path: Path, reason: str) -> str:
    """Return what is wrong with a field, or with the record itself where the path is empty."""
    return f"{dotted(path)}: {reason}" if path else reason


def twice(key: str) -> Faulty:
    """Return what stands for the value of a key that an object has twice."""
    return Faulty(f"the key {key!r} stands twice; keep one")


@dataclass(frozen=True, slots=True)
class LineStarts:
    """Where the lines of a text begin."""

    offsets: list[int]

    def line(self, offset: int) -> int:
        """Return the line (1-based) of an offset."""
        return bisect_right(self.offsets, offset)


def line_starts(text: str) -> LineStarts:
    r"""Return where the lines of a text begin.

    >>> line_starts("a\nb").line(2)
    2
    """
    starts = [0]
    while end := text.find("\n", starts[-1]) + 1:
        starts.append(end)
    return LineStarts(starts)


def faults(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield where a value is faulty, nested too deep, or no text, and why; it is walked without recursion."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, found = waiting.pop()
        if isinstance(found, Faulty):
            yield path, found.reason
        elif isinstance(found, str):
            if _SURROGATE.search(found):
                yield path, "half of a surrogate pair stands in the text; it is no character"
        elif len(path) > MAX_DEPTH:
            yield path[:3], f"nested deeper than {MAX_DEPTH} levels; no case needs that"
            return
        elif isinstance(found, dict):
            waiting.extend((path, key) for key in found if _SURROGATE.search(key))
            waiting.extend(((*path, key), inner) for key, inner in reversed(found.items()))
        elif isinstance(found, list):
            waiting.extend(((*path, place), inner) for place, inner in reversed(list(enumerate(found))))
