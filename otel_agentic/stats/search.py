"""The smallest number where a condition holds: by doubling, then bisection, for many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    BoolArray = npt.NDArray[np.bool_]
    IntArray = npt.NDArray[np.int64]


def smallest_for_each(holds: Callable[[IntArray, IntArray], BoolArray], size: int, most: int) -> IntArray:
    """Return for each of `size` conditions the smallest number from 1 to `most` where it holds, 0 where nowhere.

    It doubles until a condition holds, then bisects: some 2 log2(most) calls for all of them. A condition must keep
    holding once it holds, as a tier does at a fixed rate, where intervals only shrink; were it to lapse in between, the
    answer would still be a number where it holds while it does not just below.

    Args:
        holds: takes which conditions to ask and a number for each, returns whether each holds there.
        size: how many conditions.
        most: the largest number to look at, 1 or more.

    >>> smallest_for_each(lambda which, numbers: numbers >= np.array([37, 1, 101])[which], 3, 100).tolist()
    [37, 1, 0]
    """
    below, above = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
    asked = np.arange(size)
    while asked.size:
        asked = asked[~holds(asked, above[asked])]
        below[asked] = above[asked]
        above[asked] = np.where(above[asked] == most, 0, np.minimum(2 * above[asked], most))
        asked = asked[above[asked] > 0]
    asked = np.flatnonzero(above - below > 1)
    while asked.size:
        middle = (below[asked] + above[asked]) // 2
        held = holds(asked, middle)
        above[asked[held]], below[asked[~held]] = middle[held], middle[~held]
        asked = asked[above[asked] - below[asked] > 1]
    return above
