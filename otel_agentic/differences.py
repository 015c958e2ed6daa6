"""Differences of an expected and an actual JSON value: the path to each, and both texts cut around it, never before it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, NamedTuple

#: The value of an object member or list item that one side lacks.
MISSING: Final = object()
#: The number of equal characters that precede a difference.
_CONTEXT: Final = 8


class Difference(NamedTuple):
    """Where two values differ, and the values there; `MISSING` is the value of a side that has none."""

    path: str
    expected: Any
    actual: Any


def differences(expected: Any, actual: Any, path: str = "") -> Iterator[Difference]:
    """Yield every difference of two JSON values; objects and lists are compared inside.

    >>> [*differences([{"id": 1, "sum": 2}], [{"id": 1, "sum": 3}], "items")]
    [Difference(path='items[0].sum', expected=2, actual=3)]
    """
    if isinstance(expected, dict) and isinstance(actual, dict) and expected and actual:
        for key in dict.fromkeys([*expected, *actual]):
            below = f"{path}.{key}" if path else str(key)
            yield from differences(expected.get(key, MISSING), actual.get(key, MISSING), below)
    elif isinstance(expected, list) and isinstance(actual, list) and expected and actual:
        for index, (left, right) in enumerate(zip_longest(expected, actual, fillvalue=MISSING)):
            yield from differences(left, right, f"{path}[{index}]")
    elif _differ(expected, actual):
        yield Difference(path, expected, actual)


def _differ(expected: Any, actual: Any) -> bool:
    """Return whether two values differ; true and 1 do, although Python compares them as equal."""
    return isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual


def around(expected: str, actual: str, limit: int) -> tuple[str, str]:
    """Return two different texts of at most `limit` characters each, cut so that their first difference remains.

    >>> around("flight HAT033 to Rome", "flight HAT212 to Rome", 12)
    ('…t HAT033 t…', '…t HAT212 t…')
    """
    if max(len(expected), len(actual)) <= limit:
        return expected, actual
    pairs = enumerate(zip(expected, actual, strict=False))
    same = next((index for index, (left, right) in pairs if left != right), min(len(expected), len(actual)))
    start = max(0, same - min(_CONTEXT, limit // 2))
    return _part(expected, start, limit), _part(actual, start, limit)


def _part(text: str, start: int, limit: int) -> str:
    part = f"…{text[start + 1 :]}" if start else text
    return part if len(part) <= limit else f"{part[: limit - 1]}…"
