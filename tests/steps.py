"""How work grows with its input, counted in executed lines of Python: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

#: The largest growth of linear work, logarithms included. Quadratic work grows by nearly 4.
LINEAR: Final = 2.6


def steps_of(work: Callable[[], object]) -> int:
    """Return how many calls, lines and returns of Python some work executes in this thread."""
    counted = 0

    def count(*_: Any) -> Any:
        nonlocal counted
        counted += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def growth(prepared: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return by which factor the steps grow when the input doubles: about 2 where they are linear, 4 where quadratic.

    Args:
        prepared: returns the work for an input of some size; its own steps are not counted.
        size: of the smaller input; large enough that one-time work hardly counts.
    """
    prepared(max(1, size // 8))()  # imports and caches of the first use are not counted
    return steps_of(prepared(2 * size)) / steps_of(prepared(size))
