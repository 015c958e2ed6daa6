"""How many window points there will be, from the ends of conversations alone. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from otel_agentic.windows.rolling import parse_windows, widest_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]


def count_points(group: IntArray, ended_ns: IntArray, windows: Sequence[str], ends: range) -> int:
    """Return how many pairs of a group and a window of these ends hold a conversation, over all windows.

    Args:
        group: (conversations,) whole number of the group.
        ended_ns: (conversations,) when each ended, ns.
        windows: such as "24h", or "n200".
        ends: window ends, ns.

    >>> hours = 3_600 * 10**9
    >>> count_points(np.array([0, 0, 1]), np.array([1, 5, 5]) * hours, ["2h"], range(0, 9 * hours, hours))
    6
    """
    order = np.lexsort((ended_ns, group))
    group, ended_ns = group[order], ended_ns[order]
    same = np.concatenate(([False], group[1:] == group[:-1])) if len(group) else np.zeros(0, dtype=bool)
    first = np.maximum(_steps_up_to(ended_ns, ends), 0)
    asked = parse_windows(windows)
    # One of the newest conversations goes on as long as the widest one of a time.
    widths_ns = [widest_ns(asked) if window.width_ns is None else window.width_ns for window in asked]
    return sum(_held(first, _last(ended_ns, width_ns, ends), same) for width_ns in widths_ns)


def _last(ended_ns: IntArray, width_ns: int, ends: range) -> IntArray:
    """Return the number of the last end whose window holds each conversation, counted from 0; -1 and less: none."""
    return np.minimum(_steps_up_to(ended_ns + width_ns, ends) - 1, len(ends) - 1)


def _steps_up_to(times_ns: IntArray, ends: range) -> IntArray:
    """Return the number of the first end that is not before each time, counted from 0."""
    return -((ends.start - times_ns) // ends.step)


def _held(first: IntArray, last: IntArray, same: npt.NDArray[np.bool_]) -> int:
    """Return how many ends are in some of the spans from first to last, spans of one group in order and each end once."""
    begun = first.copy()
    begun[1:] = np.where(same[1:], np.maximum(first[1:], last[:-1] + 1), first[1:])
    return int(np.maximum(last - begun + 1, 0).sum())
