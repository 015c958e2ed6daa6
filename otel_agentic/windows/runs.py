"""What holds from one window end to another: conversations enter a window and leave it, and counts follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


class Runs(NamedTuple):
    """Values that hold at the ends `first <= end < beyond`, by place of the end.

    Attributes:
        key: (runs, keys) whose values they are.
        first: (runs,) first end.
        beyond: (runs,) the end after the last one.
        values: (runs, columns) the values.
    """

    key: IntArray
    first: IntArray
    beyond: IntArray
    values: IntArray


def running(
    places: IntArray, first: IntArray, beyond: IntArray, shape: tuple[int, int], weights: FloatArray | None = None
) -> npt.NDArray[np.float64]:
    """Return the sum, at each place and end, of what is there from `first` to before `beyond`.

    Args:
        places: (items,) place of each item.
        first: (items,) first end at which it counts.
        beyond: (items,) the end after the last one.
        shape: how many places and ends there are.
        weights: (items,) what it counts; None: 1.

    >>> running(np.array([0, 0]), np.array([0, 1]), np.array([2, 3]), (1, 3)).tolist()
    [[1.0, 2.0, 1.0]]
    """
    size, ends = shape
    flat = places * (ends + 1)
    enter = np.bincount(flat + first, weights=weights, minlength=size * (ends + 1))
    leave = np.bincount(flat + beyond, weights=weights, minlength=size * (ends + 1))
    return np.asarray(np.cumsum((enter - leave).reshape(size, ends + 1), axis=1)[:, :ends], dtype=np.float64)


def runs_of(keys: Sequence[IntArray], first: IntArray, beyond: IntArray, values: IntArray, ends: int) -> Runs:
    """Return, by key, the sums of what is there, as runs between changes; where all are 0 there is no run.

    Args:
        keys: columns that make the key of each item.
        first: (items,) first end at which an item counts.
        beyond: (items,) the end after the last one, at most `ends`.
        values: (items, columns) what it counts.
        ends: how many ends there are.
    """
    at = np.concatenate((first, beyond))
    twice = [np.concatenate((key, key)) for key in keys]
    order = np.lexsort((at, *reversed(twice)))
    at, sorted_keys = at[order], np.stack([key[order] for key in twice], axis=1)
    total = np.cumsum(np.concatenate((values, -values))[order], axis=0)  # each key's changes sum up to 0
    same_key = np.all(sorted_keys[1:] == sorted_keys[:-1], axis=1)
    last = np.ones(len(at), dtype=bool)  # of several changes of a key at one end the last one tells
    last[:-1] = ~(same_key & (at[1:] == at[:-1]))
    key, begin, held = sorted_keys[last], at[last], total[last]
    beyond_run = np.concatenate((begin[1:], [ends]))  # the last change of a key brings it to 0, and that is dropped
    some = np.any(held != 0, axis=1) & (begin < ends)
    return Runs(key=key[some], first=begin[some], beyond=np.minimum(beyond_run, ends)[some], values=held[some])
