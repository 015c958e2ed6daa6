"""The differences between an expected and an actual value: the path to each, and both values around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from otel_agentic.cli.html.filters import VALUE_LIMIT
from otel_agentic.cli.render.text import safe

#: The largest number of differences that are listed for one value.
MAX_DIFFERENCES: Final = 6
#: The number of equal characters that are kept before a difference.
_CONTEXT: Final = 12
_MISSING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where two values differ, and the values there as text; None is a missing one."""

    path: str
    expected: str | None
    actual: str | None


def differences(expected: Any, actual: Any, path: str = "") -> list[Difference]:
    """Return the first differences of two values, with their paths below `path`.

    >>> expected, actual = [{"id": 1, "sum": 2}], [{"id": 1, "sum": 3}]
    >>> [(found.path, found.actual, found.expected) for found in differences(expected, actual, "items")]
    [('items[0].sum', '3', '2')]
    """
    return [
        _difference_of(where, left, right)
        for where, left, right in islice(_leaves(expected, actual, path), MAX_DIFFERENCES)
    ]


def _leaves(expected: Any, actual: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, expected and actual value of each difference; a key or item of one side only is `_MISSING` on the other."""
    if isinstance(expected, dict) and isinstance(actual, dict) and expected and actual:
        for key in dict.fromkeys([*expected, *actual]):
            below = f"{path}.{key}" if path else str(key)
            yield from _leaves(expected.get(key, _MISSING), actual.get(key, _MISSING), below)
    elif isinstance(expected, list) and isinstance(actual, list) and expected and actual:
        for index in range(max(len(expected), len(actual))):
            left, right = (side[index] if index < len(side) else _MISSING for side in (expected, actual))
            yield from _leaves(left, right, f"{path}[{index}]")
    elif expected is _MISSING or actual is _MISSING or expected != actual:
        yield path, expected, actual


def _difference_of(path: str, expected: Any, actual: Any) -> Difference:
    left, right = _texts(expected, actual)
    return Difference(path=path, expected=left, actual=right)


def _texts(expected: Any, actual: Any) -> tuple[str | None, str | None]:
    """Return both values as one line each; long texts begin shortly before their difference.

    >>> left, right = _texts("a" * 90 + "b", "a" * 90 + "c")
    >>> left, right
    ('…aaaaaaaaaaaab', '…aaaaaaaaaaaac')
    """
    texts = [None if value is _MISSING else " ".join(safe(value).split()) for value in (expected, actual)]
    present = [text for text in texts if text is not None]
    if len(present) == len(texts) and max(map(len, present)) > VALUE_LIMIT:
        first = next((index for index, (left, right) in enumerate(zip(*present, strict=False)) if left != right), 0)
        start = max(0, first - _CONTEXT)
        present = [f"…{text[start:]}" if start else text for text in present]
        texts = list(present)
    left, right = (None if text is None else _cut(text) for text in texts)
    return left, right


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"
