"""Reduces the points of a line without a visible change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


def thinned(columns: Floats, most: int) -> npt.NDArray[np.intp]:
    """Return the indices of about `most` points that draw the same line: the ends and extremes of intervals.

    Args:
        columns: (points, columns) the drawn values; the extremes of each column are kept.
        most: the approximate maximum number of points.

    >>> thinned(np.array([[0.0], [0.0], [9.0], [0.0], [0.0], [0.0], [0.0], [0.0]]), 4).tolist()
    [0, 2, 7]
    """
    count, width = columns.shape
    if count <= most:
        return np.arange(count)
    stretches = np.array_split(np.arange(count), max(1, most // (2 + 2 * width)))
    lowest, highest = (np.where(np.isnan(columns), worst, columns) for worst in (np.inf, -np.inf))
    extremes = [
        index
        for stretch in stretches
        for index in (
            stretch[0],
            stretch[-1],
            *stretch[lowest[stretch].argmin(axis=0)],
            *stretch[highest[stretch].argmax(axis=0)],
        )
    ]
    return np.unique(extremes)
