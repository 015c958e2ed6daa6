"""The differences of an expected and an actual value as text: the path to each, and both values cut around it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from otel_agentic import differences as values
from otel_agentic.render.html.filters import VALUE_LIMIT
from otel_agentic.render.text import compact, printable, safe

#: The largest number of differences that are listed for one value.
MAX_DIFFERENCES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two values differ, and the values there as text; None is a missing one."""

    path: str
    expected: str | None
    actual: str | None


def differences(expected: Any, actual: Any, path: str = "") -> list[Difference]:
    """Return the first differences of two values, with their paths below `path`.

    >>> differences([{"id": 1, "sum": 2}], [{"id": 1, "sum": 3}], "items")
    [Difference(path='items[0].sum', expected='2', actual='3')]
    """
    return [_as_text(item) for item in islice(values.differences(expected, actual, path), MAX_DIFFERENCES)]


def _as_text(item: values.Difference) -> Difference:
    """Return a difference with one line for each value; values of different types have their JSON form."""
    sides = (item.expected, item.actual)
    texts = ["" if side is values.MISSING else " ".join(safe(side).split()) for side in sides]
    if texts[0] == texts[1]:
        texts = ["" if side is values.MISSING else printable(compact(side)) for side in sides]
    expected, actual = (
        None if side is values.MISSING else text
        for side, text in zip(sides, values.around(texts[0], texts[1], VALUE_LIMIT), strict=True)
    )
    return Difference(path=item.path, expected=expected, actual=actual)
