"""A group's windows over time: where the line breaks, and how it is thinned without losing what stands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

#: Names of the estimates of a point, each with its bounds.
ESTIMATES: Final = ("pass_at_k", "pass_pow_k")
#: A line breaks where the next window end is further away than this many steps: in between, no window holds anything.
_STEPS: Final = 1.5
#: How many steps on either side tell how long a step is here; it changes where history was filled in.
_NEAR: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Points of one group, by window end, each array of the same length.

    Attributes:
        ends_ns: window ends, ascending, nanoseconds UTC.
        values: by name, (points, 3) value, lower, upper; NaN where it is undefined.
        coverage: evaluated / all.
        tiers: the tier of each point.
        restated: which points were changed after they had been final.
        width_ns: width of a window, None where windows are counts of conversations.
    """

    ends_ns: npt.NDArray[np.int64]
    values: Mapping[str, Floats]
    coverage: Floats
    tiers: Sequence[str]
    restated: npt.NDArray[np.bool_]
    width_ns: int | None = field(default=None)

    @classmethod
    def of(cls, row: Mapping[str, Any], width_ns: int | None) -> Series:
        """Return the series of a row of `report_pictures`, of windows of that width."""
        bounds = {name: (name, f"{name}_lower", f"{name}_upper") for name in ESTIMATES}
        return cls(
            ends_ns=np.array(row["end_ns"], dtype=np.int64),
            values={name: np.stack([_floats(row[each]) for each in names], axis=1) for name, names in bounds.items()},
            coverage=_floats(row["coverage"]),
            tiers=row["tier"],
            restated=np.array(row["restated"], dtype=np.bool_),
            width_ns=width_ns,
        )

    def segments(self, name: str | None = None) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the places of the points that a line goes through, a piece at a time; it breaks where there is no data.

        Args:
            name: an estimate; where it is undefined the line breaks, too.
        """
        there = np.ones(len(self.ends_ns), bool) if name is None else ~np.isnan(self.values[name][:, 0])
        starts = np.flatnonzero(breaks(self.ends_ns, self.width_ns) | ~there)
        for piece in np.split(np.arange(len(self.ends_ns)), starts):
            kept = piece[there[piece]]
            if len(kept):
                yield kept

    def tier_runs(self, every: int = 1) -> Iterator[tuple[int, int, str]]:
        """Yield first place, last place and tier of each run of one tier without a gap, looking at every so many points."""
        for piece in self.segments():
            first = piece[0]
            for place in piece[1::every]:
                if self.tiers[place] != self.tiers[first]:
                    yield int(first), int(place), self.tiers[first]
                    first = place
            yield int(first), int(piece[-1]), self.tiers[first]


def breaks(ends_ns: npt.NDArray[np.int64], width_ns: int | None) -> npt.NDArray[np.bool_]:
    """Return which points begin a new piece of the line: there is time before them that no window with data covers.

    That is so where the step to them is longer than a window, or than the steps around it.

    >>> hours = np.array([1, 2, 3, 8, 9, 10]) * 3_600_000_000_000
    >>> breaks(hours, 24 * 3_600_000_000_000).tolist()
    [False, False, False, True, False, False]
    """
    if len(ends_ns) <= 1:
        return np.zeros(len(ends_ns), bool)
    steps = np.diff(ends_ns)
    padded = (
        np.pad(steps, _NEAR, mode="reflect")
        if len(steps) > _NEAR
        else np.full(len(steps) + 2 * _NEAR, np.median(steps))
    )
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEAR + 1), axis=1)
    broken = steps > _STEPS * usual
    if width_ns is not None:
        broken |= steps > width_ns
    return np.concatenate([[False], broken])


def thinned(columns: Floats, most: int) -> npt.NDArray[np.intp]:
    """Return the places of at most about `most` points that draw the same picture: ends and extremes of every stretch.

    Args:
        columns: (points, columns) what is drawn; the extremes of each column are kept.
        most: points that are wanted.

    >>> thinned(np.array([[0.0], [0.0], [9.0], [0.0], [0.0], [0.0], [0.0], [0.0]]), 4).tolist()
    [0, 2, 7]
    """
    count, width = columns.shape
    if count <= most:
        return np.arange(count)
    stretches = np.array_split(np.arange(count), max(1, most // (2 + 2 * width)))
    lowest, highest = (np.where(np.isnan(columns), worst, columns) for worst in (np.inf, -np.inf))
    kept = [
        place
        for stretch in stretches
        for place in (
            stretch[0],
            stretch[-1],
            *stretch[lowest[stretch].argmin(axis=0)],
            *stretch[highest[stretch].argmax(axis=0)],
        )
    ]
    return np.unique(kept)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
