"""Counts of the results in rolling windows at many ends, without reading any conversation twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from otel_agentic.stats import GroupedAttempts
from otel_agentic.windows.columns import Tallies
from otel_agentic.windows.rolling import widest_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.windows.columns import Results
    from otel_agentic.windows.rolling import Window

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]


_ROOM: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """The kinds of cases in each content; counts by weight are whole numbers, so that sums are exact.

    Attributes:
        weights: (weights,) the distinct weights of attempts.
        kinds: (kinds, 2 * weights) attempts at each weight, then the correct ones among them.
        content: (rows,) index of the content.
        kind: (rows,) index into `kinds`.
        cases: (rows,) number of cases of that kind.
    """

    weights: FloatArray
    kinds: IntArray
    content: IntArray
    kind: IntArray
    cases: IntArray

    def attempts(self, size: int) -> GroupedAttempts:
        """Return the input of estimators, for `size` contents; with weights only if a content has several."""
        order = np.lexsort((self.kind, self.content))
        content, kind, cases = self.content[order], self.kind[order], self.cases[order]
        n_by, c_by = np.hsplit(self.kinds, 2)
        n, c = n_by.sum(axis=1)[kind], c_by.sum(axis=1)[kind]
        present = [np.bincount(content, weights=column[kind] * cases, minlength=size) > 0 for column in n_by.T]
        mixed = np.sum(present, axis=0) > 1 if present else np.zeros(size, dtype=bool)
        weights = None
        if mixed.any():
            sums = np.stack((n_by @ self.weights, c_by @ self.weights, n_by @ self.weights**2), axis=1)[kind]
            weights = np.where(mixed[content][:, None], sums, np.stack((n, c, n), axis=1))
        return GroupedAttempts(size=size, group=content, n=n, c=c, cases=cases, weights=weights)


def unique_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the index of the first of each distinct row, in ascending order of rows, and the distinct row of each row.

    >>> places, which = unique_rows([np.array([2, 1, 2]), np.array([0, 5, 0])])
    >>> places.tolist(), which.tolist()
    ([1, 0], [1, 0, 1])
    """
    packed = _packed(columns)
    if packed is not None:
        _, first, which = np.unique(packed, return_index=True, return_inverse=True)
        return first, which
    order = np.lexsort(tuple(reversed(columns)))
    is_new = np.zeros(len(order), dtype=bool)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= np.diff(column[order]) != 0
    which = np.empty(len(order), dtype=np.int64)
    which[order] = np.cumsum(is_new) - 1
    return order[is_new], which


def _packed(columns: Sequence[IntArray]) -> IntArray | None:
    """Return one number per row that sorts as the rows do, or None if 62 bits are too few: one sort is faster than many."""
    packed = np.zeros(len(columns[0]), dtype=np.int64)
    if not len(packed):
        return packed
    room = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        room *= high - low + 1
        if room > _ROOM:
            return None
        packed = packed * (high - low + 1) + (column - low)
    return packed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordered:
    """Results sorted by group and event order.

    Attributes:
        results: the results as passed.
        row: (rows,) index of each in `results`.
        group: (rows,) index of the group, ascending.
        ended_ns: (rows,) end, ascending within a group.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        case: (rows,) code of the case within all groups; -1 for a case that is evaluated only once.
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
        """Return results in event order; those of one moment stay in the order passed."""
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
        """Return the index of the first end that is not before each conversation's: from there on it may be in a window."""
        return np.searchsorted(ends, self.ended_ns, side="left")

    def beyond_ends(self, window: Window, ends: IntArray) -> IntArray:
        """Return the index of the first end whose window each conversation has left."""
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
    distinct, which = unique_rows([group[named], case[named]])
    several = np.bincount(which, minlength=len(distinct)) > 1
    codes[named] = np.where(several[which], which, -1)
    return codes


class Runs(NamedTuple):
    """Values that hold at the ends `first <= end < beyond`, by index of the end.

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
    indices: IntArray, first: IntArray, beyond: IntArray, shape: tuple[int, int], weights: FloatArray | None = None
) -> npt.NDArray[np.float64]:
    """Return the sum, at each index and end, of the items that count from `first` to before `beyond`.

    Args:
        indices: (items,) index of each item.
        first: (items,) first end at which it counts.
        beyond: (items,) the end after the last one.
        shape: number of indices and ends.
        weights: (items,) how much each counts; None: 1.

    >>> running(np.array([0, 0]), np.array([0, 1]), np.array([2, 3]), (1, 3)).tolist()
    [[1.0, 2.0, 1.0]]
    """
    size, ends = shape
    flat = indices * (ends + 1)
    enter = np.bincount(flat + first, weights=weights, minlength=size * (ends + 1))
    leave = np.bincount(flat + beyond, weights=weights, minlength=size * (ends + 1))
    return np.asarray(np.cumsum((enter - leave).reshape(size, ends + 1), axis=1)[:, :ends], dtype=np.float64)


def runs_of(keys: Sequence[IntArray], first: IntArray, beyond: IntArray, values: IntArray, ends: int) -> Runs:
    """Return, by key, the sums of the items that count, as runs between changes; where all are 0 there is no run.

    Args:
        keys: columns that form the key of each item.
        first: (items,) first end at which an item counts.
        beyond: (items,) the end after the last one, at most `ends`.
        values: (items, columns) how much it counts.
        ends: number of ends.
    """
    at = np.concatenate((first, beyond))
    twice = [np.concatenate((key, key)) for key in keys]
    order = np.lexsort((at, *reversed(twice)))
    at, sorted_keys = at[order], np.stack([key[order] for key in twice], axis=1)
    total = np.cumsum(np.concatenate((values, -values))[order], axis=0)  # each key's changes sum up to 0
    same_key = np.all(sorted_keys[1:] == sorted_keys[:-1], axis=1)
    last = np.ones(len(at), dtype=bool)  # of several changes of a key at one end, the last one is the result
    last[:-1] = ~(same_key & (at[1:] == at[:-1]))
    key, begin, held = sorted_keys[last], at[last], total[last]
    beyond_run = np.concatenate((begin[1:], [ends]))  # the last change of a key sets it to 0, and is dropped
    some = np.any(held != 0, axis=1) & (begin < ends)
    return Runs(key=key[some], first=begin[some], beyond=np.minimum(beyond_run, ends)[some], values=held[some])


#: The number of tool dimensions: see `DIMENSIONS`.
_DIMENSIONS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stays:
    """How long each conversation is in each window: at the ends `first <= end < beyond`, by index of the end.

    Attributes:
        index: (stays,) `window * groups + group`: where it is counted.
        item: (stays,) its index in event order.
        first: (stays,) first end.
        beyond: (stays,) the end after the last one.
        shape: number of indices and ends.
    """

    index: IntArray
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
        index = np.tile(ordered.group, len(windows)) + np.repeat(np.arange(len(windows)) * groups, size)
        first = np.tile(first, len(windows))
        some = first < beyond
        return cls(
            index=index[some],
            item=item[some],
            first=first[some],
            beyond=beyond[some],
            shape=(groups * len(windows), len(ends)),
        )

    def running(self, some: BoolArray | None = None, weights: FloatArray | None = None) -> FloatArray:
        """Return the count at each index and end of some conversations, or the sum of their weights."""
        chosen = np.ones(len(self.index), dtype=bool) if some is None else some
        return running(
            self.index[chosen],
            self.first[chosen],
            self.beyond[chosen],
            self.shape,
            None if weights is None else weights[chosen],
        )

    def changes(self) -> BoolArray:
        """Return at which indices and ends the content differs from that at the previous end; it does at the first end."""
        indices, ends = self.shape
        changed = np.zeros((indices, ends + 1), dtype=bool)
        changed[self.index, self.first] = True
        changed[self.index, self.beyond] = True
        changed[:, 0] = True
        return changed[:, :ends]


def tally(ordered: Ordered, windows: Sequence[Window], ends_ns: Sequence[int]) -> Tallies:
    """Return the content of each group's windows at some ends; an empty window has no point.

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
    end, index = np.nonzero(present.T)
    used, content = np.unique(numbers[index, end], return_inverse=True)
    attempts = _kinds(ordered, stays, numbers, used).attempts(len(used))
    outcome = ordered.outcome[stays.item]
    reasons, missing = _not_evaluated(ordered, stays, (index, end))
    dimension_mean, dimension_n = _dimensions(ordered, stays, (index, end))
    return Tallies(
        groups=ordered.results.groups,
        group=index % max(1, len(ordered.results.groups)),
        windows=[window.name for window in windows],
        window=index // max(1, len(ordered.results.groups)),
        end_ns=ends[end],
        n=_integers(stays.running(outcome >= 0)[index, end]),
        c=_integers(stays.running(outcome == 1)[index, end]),
        content=content.astype(np.int64),
        attempts=attempts,
        reasons=reasons,
        not_evaluated=missing,
        dimension_mean=dimension_mean,
        dimension_n=dimension_n,
    )


def _alive(ordered: Ordered, windows: Sequence[Window], ends: IntArray) -> BoolArray:
    """Return at which indices and ends a window may have a point; a count window ends some time after its last, see `widest_ns`."""
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
    selected = used[at] == number if len(used) else np.zeros(len(row), dtype=bool)
    return Kinds(
        weights=ordered.weights,
        kinds=held.values[first_of_kind],
        content=at[selected],
        kind=counted.key[row[selected], 1],
        cases=counted.values[row[selected], 0],
    )


def _cases(ordered: Ordered, stays: _Stays) -> Runs:
    """Return, by index and case, the evaluated attempts at each weight, then the correct ones, as runs."""
    evaluated = np.flatnonzero(ordered.outcome[stays.item] >= 0)
    item = stays.item[evaluated]
    sizes = len(ordered.weights)
    values = np.zeros((len(item), 2 * sizes), dtype=np.int64)
    values[np.arange(len(item)), ordered.weight[item]] = 1
    values[np.arange(len(item)), sizes + ordered.weight[item]] = ordered.outcome[item]
    first, beyond, index = stays.first[evaluated], stays.beyond[evaluated], stays.index[evaluated]
    alone = ordered.case[item] < 0
    several = ~alone
    repeated = runs_of(
        (index[several], ordered.case[item[several]]), first[several], beyond[several], values[several], stays.shape[1]
    )
    return Runs(
        key=np.concatenate((np.stack((index[alone], np.full(alone.sum(), -1)), axis=1), repeated.key)),
        first=np.concatenate((first[alone], repeated.first)),
        beyond=np.concatenate((beyond[alone], repeated.beyond)),
        values=np.concatenate((values[alone], repeated.values)),
    )


def _not_evaluated(
    ordered: Ordered, stays: _Stays, points: tuple[IntArray, IntArray]
) -> tuple[Sequence[str], IntArray]:
    """Return the reasons of conversations not evaluated, sorted, and how often each point has each."""
    reason = ordered.results.reason[ordered.row][stays.item]
    occurring = sorted(np.unique(reason[reason >= 0]).tolist(), key=lambda code: ordered.results.reasons[code])
    counts = [_integers(stays.running(reason == code)[points]) for code in occurring]
    table = np.stack(counts, axis=1) if counts else np.zeros((len(points[0]), 0), dtype=np.int64)
    return [ordered.results.reasons[code] for code in occurring], table


def _dimensions(ordered: Ordered, stays: _Stays, points: tuple[IntArray, IntArray]) -> tuple[FloatArray, IntArray]:
    """Return the weighted mean of each tool dimension at each point, and the number of its conversations."""
    means = np.full((len(points[0]), _DIMENSIONS), np.nan)
    counts = np.zeros(means.shape, dtype=np.int64)
    values = ordered.results.dimensions[ordered.row][stays.item]
    weight = ordered.weights[ordered.weight[stays.item]]
    for dimension in range(_DIMENSIONS):
        applies = ~np.isnan(values[:, dimension])
        if applies.any():
            counts[:, dimension] = _integers(stays.running(applies)[points])
            total = stays.running(applies, weight * values[:, dimension])[points]
            there = counts[:, dimension] > 0
            means[there, dimension] = (total[there] / stays.running(applies, weight)[points][there]).clip(0.0, 1.0)
    return means, counts


def _integers(counts: FloatArray) -> IntArray:
    return np.rint(counts).astype(np.int64)
