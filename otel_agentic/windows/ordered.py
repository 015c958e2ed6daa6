"""Results in event order, ready to be counted: what does not depend on window ends is worked out once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from otel_agentic.windows.kinds import unique_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.windows.columns import Results
    from otel_agentic.windows.rolling import Window

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordered:
    """Results sorted by group and event order.

    Attributes:
        results: as they were given.
        row: (rows,) place of each in `results`.
        group: (rows,) index of the group, ascending.
        ended_ns: (rows,) end, ascending within a group.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        case: (rows,) code of the case within all groups; -1 for one that is evaluated only once, alone.
        weights: (weights,) the distinct weights, ascending.
        weight: (rows,) index into `weights`.
    """

    results: Results
    row: IntArray
    group: IntArray
    ended_ns: IntArray
    outcome: IntArray
    case: IntArray
    weights: FloatArray
    weight: IntArray

    @classmethod
    def of(cls, results: Results) -> Ordered:
        """Return results in event order; those of one moment stay in the order given."""
        row = np.lexsort((results.ended_ns, results.group))
        weights, weight = np.unique(results.weight, return_inverse=True)
        if not len(weights):
            weights = np.ones(1)
        outcome = results.outcome[row]
        return cls(
            results=results,
            row=row,
            group=results.group[row],
            ended_ns=results.ended_ns[row],
            outcome=outcome,
            case=_repeated(results.group[row], results.case[row], evaluated=outcome >= 0),
            weights=weights,
            weight=weight.astype(np.int64)[row],
        )

    def first_ends(self, ends: IntArray) -> IntArray:
        """Return the place of the first end that is not before each conversation's: from there on it may be in a window."""
        return np.searchsorted(ends, self.ended_ns, side="left")

    def beyond_ends(self, window: Window, ends: IntArray) -> IntArray:
        """Return the place of the first end whose window each conversation has left."""
        if window.width_ns is not None:
            return np.searchsorted(ends - window.width_ns, self.ended_ns, side="left")
        assert window.newest is not None  # noqa: S101 — a window has a width or a number
        first = self.first_ends(ends)
        pushed_out_by = np.arange(len(first)) + window.newest
        group_beyond = np.searchsorted(self.group, self.group, side="right")
        stays = pushed_out_by >= group_beyond
        return np.where(stays, len(ends), first[np.minimum(pushed_out_by, len(first) - 1)])


def _repeated(group: IntArray, case: IntArray, *, evaluated: npt.NDArray[np.bool_]) -> IntArray:
    """Return codes of (group, case) for cases with several evaluated attempts, -1 for the others."""
    codes = np.full(len(group), -1, dtype=np.int64)
    named = np.flatnonzero(evaluated & (case >= 0))
    places, which = unique_rows([group[named], case[named]])
    several = np.bincount(which, minlength=len(places)) > 1
    codes[named] = np.where(several[which], which, -1)
    return codes
