"""Points over time of one group: where a line breaks, and the runs of a tier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.results.charts import HistoryRow

    Floats = npt.NDArray[np.float64]

#: Names of the estimates of a point, each with its bounds.
ESTIMATES: Final = ("pass_at_k", "pass_pow_k")
#: A line breaks where the next window end is further away than this many steps: no window in between contains data.
_STEPS: Final = 1.5
#: The number of steps on either side whose median is the usual step, which differs where history was backfilled.
_NEAR: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """Points of one group, by window end, each array of the same length.

    Attributes:
        ends_ns: window ends, ascending, nanoseconds UTC.
        values: by name, (points, 3) value, lower, upper; NaN where it is undefined.
        coverage: evaluated / all.
        tiers: the tier of each point.
        restated: whether each point was changed after it had been final.
        width_ns: width of a window; None for windows of the last n conversations.
    """

    ends_ns: npt.NDArray[np.int64]
    values: Mapping[str, Floats]
    coverage: Floats
    tiers: Sequence[str]
    restated: npt.NDArray[np.bool_]
    width_ns: int | None = field(default=None)

    @classmethod
    def of(cls, row: HistoryRow, width_ns: int | None) -> Series:
        """Return the series for a row of `report_pictures` with windows of this width."""
        bounds = {name: (name, f"{name}_lower", f"{name}_upper") for name in ESTIMATES}
        return cls(
            ends_ns=np.array(row.end_ns, dtype=np.int64),
            values={
                name: np.stack([_floats(getattr(row, column)) for column in names], axis=1)
                for name, names in bounds.items()
            },
            coverage=_floats(row.coverage),
            tiers=[tier or "" for tier in row.tier],
            restated=np.array(row.restated, dtype=np.bool_),
            width_ns=width_ns,
        )

    def segments(self, name: str | None = None) -> Iterator[npt.NDArray[np.intp]]:
        """Yield the indices of the points of each segment of the line, which breaks where there is no data.

        Args:
            name: an estimate; the line also breaks where it is undefined.
        """
        is_defined = np.ones(len(self.ends_ns), bool) if name is None else ~np.isnan(self.values[name][:, 0])
        starts = np.flatnonzero(breaks(self.ends_ns, self.width_ns) | ~is_defined)
        for indices in np.split(np.arange(len(self.ends_ns)), starts):
            segment = indices[is_defined[indices]]
            if len(segment):
                yield segment

    def tier_runs(self, every: int = 1) -> Iterator[tuple[int, int, str]]:
        """Yield first index, last index and tier of each run of one tier without a gap, at every `every`-th point."""
        for segment in self.segments():
            first = segment[0]
            for index in segment[1::every]:
                if self.tiers[index] != self.tiers[first]:
                    yield int(first), int(index), self.tiers[first]
                    first = index
            yield int(first), int(segment[-1]), self.tiers[first]


def breaks(ends_ns: npt.NDArray[np.int64], width_ns: int | None) -> npt.NDArray[np.bool_]:
    """Return which points begin a new segment of the line: no window with data covers the time before them.

    A segment begins where the step to a point is longer than a window, or than the neighbouring steps.

    >>> hours = np.array([1, 2, 3, 8, 9, 10]) * 3_600_000_000_000
    >>> breaks(hours, 24 * 3_600_000_000_000).tolist()
    [False, False, False, True, False, False]
    """
    if len(ends_ns) <= 1:
        return np.zeros(len(ends_ns), bool)
    steps = np.diff(ends_ns)
    padded_steps = (
        np.pad(steps, _NEAR, mode="reflect")
        if len(steps) > _NEAR
        else np.full(len(steps) + 2 * _NEAR, np.median(steps))
    )
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded_steps, 2 * _NEAR + 1), axis=1)
    is_break = steps > _STEPS * usual
    if width_ns is not None:
        is_break |= steps > width_ns
    return np.concatenate([[False], is_break])


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
