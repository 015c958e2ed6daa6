"""Counts what windows hold, at many ends at once, without looking at any conversation twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.windows.columns import Tallies
from otel_agentic.windows.kinds import Kinds, unique_rows
from otel_agentic.windows.rolling import widest_ns
from otel_agentic.windows.runs import Runs, running, runs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.windows.ordered import Ordered
    from otel_agentic.windows.rolling import Window

    BoolArray = npt.NDArray[np.bool_]
    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

#: The tool dimensions: see `DIMENSIONS`.
_DIMENSIONS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stays:
    """For how long each conversation is in each window: at the ends `first <= end < beyond`, by place of the end.

    Attributes:
        place: (stays,) `window * groups + group`: where it is counted.
        item: (stays,) its place in event order.
        first: (stays,) first end.
        beyond: (stays,) the end after the last one.
        shape: how many places and ends there are.
    """

    place: IntArray
    item: IntArray
    first: IntArray
    beyond: IntArray
    shape: tuple[int, int]

    @classmethod
    def of(cls, ordered: Ordered, windows: Sequence[Window], ends: IntArray) -> _Stays:
        first = ordered.first_ends(ends)
        beyond = np.concatenate([ordered.beyond_ends(window, ends) for window in windows])
        size = len(first)
        item = np.tile(np.arange(size), len(windows))
        groups = len(ordered.results.groups)
        place = np.tile(ordered.group, len(windows)) + np.repeat(np.arange(len(windows)) * groups, size)
        first = np.tile(first, len(windows))
        some = first < beyond
        return cls(
            place=place[some],
            item=item[some],
            first=first[some],
            beyond=beyond[some],
            shape=(groups * len(windows), len(ends)),
        )

    def running(self, some: BoolArray | None = None, weights: FloatArray | None = None) -> FloatArray:
        """Return the count at each place and end of some conversations, or the sum of their weights."""
        chosen = np.ones(len(self.place), dtype=bool) if some is None else some
        return running(
            self.place[chosen],
            self.first[chosen],
            self.beyond[chosen],
            self.shape,
            None if weights is None else weights[chosen],
        )

    def changes(self) -> BoolArray:
        """Return at which places and ends the content is another than at the end before; at the first end it is."""
        places, ends = self.shape
        changed = np.zeros((places, ends + 1), dtype=bool)
        changed[self.place, self.first] = True
        changed[self.place, self.beyond] = True
        changed[:, 0] = True
        return changed[:, :ends]


def tally(ordered: Ordered, windows: Sequence[Window], ends_ns: Sequence[int]) -> Tallies:
    """Return what each group's windows hold at some ends; one that holds nothing has no point.

    Memory is bounded by groups x windows x ends, and by the kinds of cases of all distinct contents.

    Args:
        ordered: the conversations.
        windows: the windows.
        ends_ns: their ends, ascending, each once.
    """
    ends = np.asarray(ends_ns, dtype=np.int64)
    stays = _Stays.of(ordered, windows, ends)
    present = (stays.running() > 0) & _alive(ordered, windows, ends)
    numbers = (np.cumsum(stays.changes()) - 1).reshape(stays.shape)
    end, place = np.nonzero(present.T)
    used, content = np.unique(numbers[place, end], return_inverse=True)
    attempts = _kinds(ordered, stays, numbers, used).attempts(len(used))
    outcome = ordered.outcome[stays.item]
    reasons, missing = _not_evaluated(ordered, stays, (place, end))
    dimension_mean, dimension_n = _dimensions(ordered, stays, (place, end))
    return Tallies(
        groups=ordered.results.groups,
        group=place % max(1, len(ordered.results.groups)),
        windows=[window.name for window in windows],
        window=place // max(1, len(ordered.results.groups)),
        end_ns=ends[end],
        n=_whole(stays.running(outcome >= 0)[place, end]),
        c=_whole(stays.running(outcome == 1)[place, end]),
        content=content.astype(np.int64),
        attempts=attempts,
        reasons=reasons,
        not_evaluated=missing,
        dimension_mean=dimension_mean,
        dimension_n=dimension_n,
    )


def _alive(ordered: Ordered, windows: Sequence[Window], ends: IntArray) -> BoolArray:
    """Return at which places and ends a window may have a point: a count window not for ever, see `widest_ns`."""
    groups = len(ordered.results.groups)
    first = ordered.first_ends(ends)
    beyond = np.searchsorted(ends - widest_ns(windows), ordered.ended_ns, side="left")
    recent = running(ordered.group, first, np.maximum(first, beyond), (groups, len(ends))) > 0
    always = np.ones_like(recent)
    by_window = [always if window.newest is None else recent for window in windows]
    return np.concatenate(by_window)


def _kinds(ordered: Ordered, stays: _Stays, numbers: IntArray, used: IntArray) -> Kinds:
    """Return the kinds of cases of the contents in use, numbered as in `used`."""
    held = _cases(ordered, stays)
    ends = stays.shape[1]
    first_of_kind, kind = unique_rows(list(held.values.T))
    counted = runs_of((held.key[:, 0], kind), held.first, held.beyond, np.ones((len(kind), 1), dtype=np.int64), ends)
    begin = numbers[counted.key[:, 0], counted.first]
    length = numbers[counted.key[:, 0], counted.beyond - 1] - begin + 1
    row = np.repeat(np.arange(len(length)), length)
    number = begin[row] + np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    at = np.minimum(np.searchsorted(used, number), max(0, len(used) - 1))
    kept = used[at] == number if len(used) else np.zeros(len(row), dtype=bool)
    return Kinds(
        weights=ordered.weights,
        kinds=held.values[first_of_kind],
        content=at[kept],
        kind=counted.key[row[kept], 1],
        cases=counted.values[row[kept], 0],
    )


def _cases(ordered: Ordered, stays: _Stays) -> Runs:
    """Return, by place and case, the evaluated attempts at each weight, then the correct ones, as runs."""
    evaluated = np.flatnonzero(ordered.outcome[stays.item] >= 0)
    item = stays.item[evaluated]
    sizes = len(ordered.weights)
    values = np.zeros((len(item), 2 * sizes), dtype=np.int64)
    values[np.arange(len(item)), ordered.weight[item]] = 1
    values[np.arange(len(item)), sizes + ordered.weight[item]] = ordered.outcome[item]
    first, beyond, place = stays.first[evaluated], stays.beyond[evaluated], stays.place[evaluated]
    alone = ordered.case[item] < 0
    several = ~alone
    repeated = runs_of(
        (place[several], ordered.case[item[several]]), first[several], beyond[several], values[several], stays.shape[1]
    )
    return Runs(
        key=np.concatenate((np.stack((place[alone], np.full(alone.sum(), -1)), axis=1), repeated.key)),
        first=np.concatenate((first[alone], repeated.first)),
        beyond=np.concatenate((beyond[alone], repeated.beyond)),
        values=np.concatenate((values[alone], repeated.values)),
    )


def _not_evaluated(
    ordered: Ordered, stays: _Stays, points: tuple[IntArray, IntArray]
) -> tuple[Sequence[str], IntArray]:
    """Return the reasons of what was not evaluated, sorted, and how often each point has each."""
    reason = ordered.results.reason[ordered.row][stays.item]
    seen = sorted(np.unique(reason[reason >= 0]).tolist(), key=lambda code: ordered.results.reasons[code])
    counts = [_whole(stays.running(reason == code)[points]) for code in seen]
    table = np.stack(counts, axis=1) if counts else np.zeros((len(points[0]), 0), dtype=np.int64)
    return [ordered.results.reasons[code] for code in seen], table


def _dimensions(ordered: Ordered, stays: _Stays, points: tuple[IntArray, IntArray]) -> tuple[FloatArray, IntArray]:
    """Return the weighted mean of each tool dimension at each point, and of how many conversations it is."""
    means = np.full((len(points[0]), _DIMENSIONS), np.nan)
    counts = np.zeros(means.shape, dtype=np.int64)
    values = ordered.results.dimensions[ordered.row][stays.item]
    weight = ordered.weights[ordered.weight[stays.item]]
    for dimension in range(_DIMENSIONS):
        applies = ~np.isnan(values[:, dimension])
        if applies.any():
            counts[:, dimension] = _whole(stays.running(applies)[points])
            total = stays.running(applies, weight * values[:, dimension])[points]
            there = counts[:, dimension] > 0
            means[there, dimension] = (total[there] / stays.running(applies, weight)[points][there]).clip(0.0, 1.0)
    return means, counts


def _whole(counts: FloatArray) -> IntArray:
    return np.rint(counts).astype(np.int64)
