"""Rolling windows at many ends, counted without reading any conversation twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from otel_agentic.stats import Estimator, GroupedAttempts, validate_k
from otel_agentic.windows.columns import Kinds, Results, Tallies, WindowTable, unique_rows, window_table
from otel_agentic.windows.model import Window, parse_windows, widest_ns

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.windows.columns import Claims, FloatArray, IntArray

    BoolArray = npt.NDArray[np.bool_]


_CELLS: Final = 100_000


def roll(
    results: Results,
    widths: Sequence[str],
    ends: Sequence[int],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    claims: Claims | None = None,
    cells: int = _CELLS,
) -> WindowTable:
    """Return a point for each group, window and end whose window holds a conversation, sorted by end, window, group.

    An empty window has no point, so that a series without conversations stops. A count window has one as long as its newest
    conversation is no older than the widest time window among `widths`, or than 7 days without any.

    Args:
        results: the conversations; for windows at the first end all that they reach back to.
        widths: such as "1h", "24h" and "n200", as they are named in metrics.
        ends: window ends, nanoseconds UTC, ascending.
        estimators: the estimators, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k.
        claims: the tiers claimed for groups at ends, see `window_table`.
        cells: groups x windows x ends that are counted at once: limits the memory.

    Raises:
        ConfigError: a width cannot be read.
        UsageError: a k is not allowed.
    """
    windows = parse_windows(widths)
    chosen_k = validate_k(k)
    ordered = Ordered.of(results)
    size = max(1, cells // max(1, len(results.groups) * len(windows)))
    parts = [tally(ordered, windows, part) for part in _chunks(sorted(set(ends)), size)]
    tallies = _joined(parts) if parts else tally(ordered, windows, [])
    return window_table(tallies, estimators=estimators, settings=settings, k=chosen_k, claims=claims)


def _chunks(ends: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(ends), size):
        yield ends[start : start + size]


def _joined(parts: Sequence[Tallies]) -> Tallies:
    """Merge the tallies of several ranges of ends, ascending."""
    if len(parts) == 1:
        return parts[0]
    reasons = sorted({reason for part in parts for reason in part.reasons})
    before = np.cumsum([0, *(part.attempts.size for part in parts)])
    return replace(
        parts[0],
        group=np.concatenate([part.group for part in parts]),
        window=np.concatenate([part.window for part in parts]),
        end_ns=np.concatenate([part.end_ns for part in parts]),
        n=np.concatenate([part.n for part in parts]),
        c=np.concatenate([part.c for part in parts]),
        content=np.concatenate([part.content + start for part, start in zip(parts, before[:-1], strict=True)]),
        attempts=_joined_attempts([part.attempts for part in parts]),
        reasons=reasons,
        not_evaluated=np.concatenate([_by_reason(part, reasons) for part in parts]),
        dimension_mean=np.concatenate([part.dimension_mean for part in parts]),
        dimension_n=np.concatenate([part.dimension_n for part in parts]),
    )


def _joined_attempts(parts: Sequence[GroupedAttempts]) -> GroupedAttempts:
    before = np.cumsum([0, *(part.size for part in parts)])
    weighted = any(part.weights is not None for part in parts)
    return GroupedAttempts(
        size=int(before[-1]),
        group=np.concatenate([part.group + start for part, start in zip(parts, before[:-1], strict=True)]),
        n=np.concatenate([part.n for part in parts]),
        c=np.concatenate([part.c for part in parts]),
        cases=np.concatenate([part.cases for part in parts]),
        weights=np.concatenate([_weights(part) for part in parts]) if weighted else None,
    )


def _weights(part: GroupedAttempts) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.stack((part.n, part.c, part.n), axis=1).astype(np.float64) if part.weights is None else part.weights


def _by_reason(part: Tallies, reasons: Sequence[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    table = np.zeros((part.size, len(reasons)), dtype=np.int64)
    table[:, [reasons.index(reason) for reason in part.reasons]] = part.not_evaluated
    return table


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
