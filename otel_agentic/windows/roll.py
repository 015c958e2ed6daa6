"""Rolling windows at many ends, counted in a single pass over the conversations."""

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


#: Default maximum of groups x windows x ends that are counted at once.
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
    """Return a point for each group, window and end whose window has a conversation, sorted by end, window and group.

    An empty window has no point, so that a series without conversations ends. A count window has a point while its
    newest conversation is no older than the widest time window among `widths`, or than 7 days without any.

    Args:
        results: the conversations, including all that the windows at the first end reach back to.
        widths: names of windows, such as "1h", "24h" and "n200".
        ends: window ends, nanoseconds UTC, ascending.
        estimators: the estimators, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k.
        claims: the tiers claimed for groups at ends, see `window_table`.
        cells: maximum of groups x windows x ends that are counted at once; it limits the memory.

    Raises:
        ConfigError: a width is invalid.
        UsageError: a k is not allowed.
    """
    windows = parse_windows(widths)
    chosen_k = validate_k(k)
    ordered = Ordered.of(results)
    size = max(1, cells // max(1, len(results.groups) * len(windows)))
    parts = [tally(ordered, windows, part) for part in _chunks(sorted(set(ends)), size)]
    tallies = _concatenated(parts) if parts else tally(ordered, windows, [])
    return window_table(tallies, estimators=estimators, settings=settings, k=chosen_k, claims=claims)


def _chunks(ends: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(ends), size):
        yield ends[start : start + size]


def _concatenated(parts: Sequence[Tallies]) -> Tallies:
    """Return the tallies of several ranges of ends, in ascending order, as one."""
    if len(parts) == 1:
        return parts[0]
    reasons = sorted({reason for part in parts for reason in part.reasons})
    offsets = np.cumsum([0, *(part.attempts.size for part in parts)])
    return replace(
        parts[0],
        group=np.concatenate([part.group for part in parts]),
        window=np.concatenate([part.window for part in parts]),
        end_ns=np.concatenate([part.end_ns for part in parts]),
        n=np.concatenate([part.n for part in parts]),
        c=np.concatenate([part.c for part in parts]),
        content=np.concatenate([part.content + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
        attempts=_concatenated_attempts([part.attempts for part in parts]),
        reasons=reasons,
        not_evaluated=np.concatenate([_by_reason(part, reasons) for part in parts]),
        dimension_mean=np.concatenate([part.dimension_mean for part in parts]),
        dimension_n=np.concatenate([part.dimension_n for part in parts]),
    )


def _concatenated_attempts(parts: Sequence[GroupedAttempts]) -> GroupedAttempts:
    offsets = np.cumsum([0, *(part.size for part in parts)])
    has_weights = any(part.weights is not None for part in parts)
    return GroupedAttempts(
        size=int(offsets[-1]),
        group=np.concatenate([part.group + offset for part, offset in zip(parts, offsets[:-1], strict=True)]),
        n=np.concatenate([part.n for part in parts]),
        c=np.concatenate([part.c for part in parts]),
        cases=np.concatenate([part.cases for part in parts]),
        weights=np.concatenate([_weights(part) for part in parts]) if has_weights else None,
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
        row: (rows,) index of each row in `results`.
        group: (rows,) index of the group, ascending.
        ended_ns: (rows,) end of the conversation, ns, ascending within a group.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        case: (rows,) code of the case, unique across groups; -1 for a case with only one evaluated attempt.
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
        """Return results in event order; results with the same end stay in the order passed."""
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
        """Return for each conversation the index of the first window end at or after its own end."""
        return np.searchsorted(ends, self.ended_ns, side="left")

    def beyond_ends(self, window: Window, ends: IntArray) -> IntArray:
        """Return for each conversation the index of the first later end whose window no longer contains it."""
        if window.width_ns is not None:
            return np.searchsorted(ends - window.width_ns, self.ended_ns, side="left")
        assert window.newest is not None  # noqa: S101 — a window has a width or a number of conversations
        first = self.first_ends(ends)
        successor = np.arange(len(first)) + window.newest
        group_stop = np.searchsorted(self.group, self.group, side="right")
        is_among_newest = successor >= group_stop
        return np.where(is_among_newest, len(ends), first[np.minimum(successor, len(first) - 1)])


def _repeated(group: IntArray, case: IntArray, *, evaluated: npt.NDArray[np.bool_]) -> IntArray:
    """Return a code for each (group, case) with several evaluated attempts, -1 for all other rows."""
    codes = np.full(len(group), -1, dtype=np.int64)
    evaluated_rows = np.flatnonzero(evaluated & (case >= 0))
    distinct, row_codes = unique_rows([group[evaluated_rows], case[evaluated_rows]])
    is_repeated = np.bincount(row_codes, minlength=len(distinct)) > 1
    codes[evaluated_rows] = np.where(is_repeated[row_codes], row_codes, -1)
    return codes


class Runs(NamedTuple):
    """Values that hold at the ends `first <= end < beyond`, by index of the end.

    Attributes:
        key: (runs, keys) the key of each run.
        first: (runs,) index of the first end.
        beyond: (runs,) index after the last end.
        values: (runs, columns) the values.
    """

    key: IntArray
    first: IntArray
    beyond: IntArray
    values: IntArray


def running(
    indices: IntArray, first: IntArray, beyond: IntArray, shape: tuple[int, int], weights: FloatArray | None = None
) -> npt.NDArray[np.float64]:
    """Return, at each index and end, the sum of the items that count there: those with `first <= end < beyond`.

    Args:
        indices: (items,) index of each item.
        first: (items,) first end at which the item counts.
        beyond: (items,) the end after the last one.
        shape: number of indices and ends.
        weights: (items,) weight of each item; None: 1.

    >>> running(np.array([0, 0]), np.array([0, 1]), np.array([2, 3]), (1, 3)).tolist()
    [[1.0, 2.0, 1.0]]
    """
    size, ends = shape
    flat = indices * (ends + 1)
    added = np.bincount(flat + first, weights=weights, minlength=size * (ends + 1))
    removed = np.bincount(flat + beyond, weights=weights, minlength=size * (ends + 1))
    return np.asarray(np.cumsum((added - removed).reshape(size, ends + 1), axis=1)[:, :ends], dtype=np.float64)


def runs_of(keys: Sequence[IntArray], first: IntArray, beyond: IntArray, values: IntArray, ends: int) -> Runs:
    """Return the sums of the items that count, by key, as runs of constant values; runs of zeros are omitted.

    Args:
        keys: columns that form the key of each item.
        first: (items,) first end at which the item counts.
        beyond: (items,) the end after the last one, at most `ends`.
        values: (items, columns) values of the item.
        ends: number of ends.
    """
    change_end = np.concatenate((first, beyond))
    change_keys = [np.concatenate((key, key)) for key in keys]
    order = np.lexsort((change_end, *reversed(change_keys)))
    change_end, sorted_keys = change_end[order], np.stack([key[order] for key in change_keys], axis=1)
    running_sum = np.cumsum(np.concatenate((values, -values))[order], axis=0)  # the changes of each key sum to 0
    same_key = np.all(sorted_keys[1:] == sorted_keys[:-1], axis=1)
    is_last = np.ones(len(change_end), dtype=bool)  # if a key has several changes at one end, the last sum is valid
    is_last[:-1] = ~(same_key & (change_end[1:] == change_end[:-1]))
    key, run_first, run_values = sorted_keys[is_last], change_end[is_last], running_sum[is_last]
    run_beyond = np.concatenate((run_first[1:], [ends]))  # the last change of a key sets it to 0 and is dropped
    selected = np.any(run_values != 0, axis=1) & (run_first < ends)
    return Runs(
        key=key[selected],
        first=run_first[selected],
        beyond=np.minimum(run_beyond, ends)[selected],
        values=run_values[selected],
    )


#: The number of tool dimensions, see `DIMENSIONS`.
_DIMENSIONS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stays:
    """The ends at which each window contains each conversation: `first <= end < beyond`, by index of the end.

    Attributes:
        index: (stays,) `window * groups + group`, under which the conversation is counted.
        item: (stays,) index of the conversation in event order.
        first: (stays,) index of the first end.
        beyond: (stays,) index after the last end.
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
        nonempty = first < beyond
        return cls(
            index=index[nonempty],
            item=item[nonempty],
            first=first[nonempty],
            beyond=beyond[nonempty],
            shape=(groups * len(windows), len(ends)),
        )

    def running(self, selection: BoolArray | None = None, weights: FloatArray | None = None) -> FloatArray:
        """Return the number of the selected stays at each index and end, or the sum of their weights."""
        selected = np.ones(len(self.index), dtype=bool) if selection is None else selection
        return running(
            self.index[selected],
            self.first[selected],
            self.beyond[selected],
            self.shape,
            None if weights is None else weights[selected],
        )

    def changes(self) -> BoolArray:
        """Return whether the content at each index and end differs from the previous end; True at the first end."""
        indices, ends = self.shape
        changed = np.zeros((indices, ends + 1), dtype=bool)
        changed[self.index, self.first] = True
        changed[self.index, self.beyond] = True
        changed[:, 0] = True
        return changed[:, :ends]


def tally(ordered: Ordered, windows: Sequence[Window], ends_ns: Sequence[int]) -> Tallies:
    """Return the content of each group's windows at these ends; an empty window has no point.

    Memory is bounded by groups x windows x ends, and by the kinds of cases in all distinct contents.

    Args:
        ordered: the conversations.
        windows: the windows.
        ends_ns: the ends of the windows, ascending, each once.
    """
    ends = np.asarray(ends_ns, dtype=np.int64)
    stays = _Stays.of(ordered, windows, ends)
    present = (stays.running() > 0) & _may_have_point(ordered, windows, ends)
    content_numbers = (np.cumsum(stays.changes()) - 1).reshape(stays.shape)
    end, index = np.nonzero(present.T)
    used_numbers, content = np.unique(content_numbers[index, end], return_inverse=True)
    attempts = _kinds(ordered, stays, content_numbers, used_numbers).attempts(len(used_numbers))
    outcome = ordered.outcome[stays.item]
    reasons, not_evaluated = _not_evaluated(ordered, stays, (index, end))
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
        not_evaluated=not_evaluated,
        dimension_mean=dimension_mean,
        dimension_n=dimension_n,
    )


def _may_have_point(ordered: Ordered, windows: Sequence[Window], ends: IntArray) -> BoolArray:
    """Return whether a window may have a point at each index and end; count windows expire, see `widest_ns`."""
    groups = len(ordered.results.groups)
    first = ordered.first_ends(ends)
    beyond = np.searchsorted(ends - widest_ns(windows), ordered.ended_ns, side="left")
    recent = running(ordered.group, first, np.maximum(first, beyond), (groups, len(ends))) > 0
    always = np.ones_like(recent)
    by_window = [always if window.newest is None else recent for window in windows]
    return np.concatenate(by_window)


def _kinds(ordered: Ordered, stays: _Stays, numbers: IntArray, used: IntArray) -> Kinds:
    """Return the kinds of cases of the contents in use, numbered by their index in `used`."""
    cases = _cases(ordered, stays)
    ends = stays.shape[1]
    first_of_kind, kind = unique_rows(list(cases.values.T))
    kind_runs = runs_of(
        (cases.key[:, 0], kind), cases.first, cases.beyond, np.ones((len(kind), 1), dtype=np.int64), ends
    )
    first_number = numbers[kind_runs.key[:, 0], kind_runs.first]
    run_length = numbers[kind_runs.key[:, 0], kind_runs.beyond - 1] - first_number + 1
    run = np.repeat(np.arange(len(run_length)), run_length)
    content_number = first_number[run] + np.arange(len(run)) - np.repeat(np.cumsum(run_length) - run_length, run_length)
    content = np.minimum(np.searchsorted(used, content_number), max(0, len(used) - 1))
    selected = used[content] == content_number if len(used) else np.zeros(len(run), dtype=bool)
    return Kinds(
        weights=ordered.weights,
        kinds=cases.values[first_of_kind],
        content=content[selected],
        kind=kind_runs.key[run[selected], 1],
        cases=kind_runs.values[run[selected], 0],
    )


def _cases(ordered: Ordered, stays: _Stays) -> Runs:
    """Return, by index and case, runs of the number of evaluated attempts at each weight, then of correct attempts."""
    evaluated = np.flatnonzero(ordered.outcome[stays.item] >= 0)
    item = stays.item[evaluated]
    n_weights = len(ordered.weights)
    values = np.zeros((len(item), 2 * n_weights), dtype=np.int64)
    values[np.arange(len(item)), ordered.weight[item]] = 1
    values[np.arange(len(item)), n_weights + ordered.weight[item]] = ordered.outcome[item]
    first, beyond, index = stays.first[evaluated], stays.beyond[evaluated], stays.index[evaluated]
    is_single = ordered.case[item] < 0
    is_repeated = ~is_single
    repeated = runs_of(
        (index[is_repeated], ordered.case[item[is_repeated]]),
        first[is_repeated],
        beyond[is_repeated],
        values[is_repeated],
        stays.shape[1],
    )
    return Runs(
        key=np.concatenate((np.stack((index[is_single], np.full(is_single.sum(), -1)), axis=1), repeated.key)),
        first=np.concatenate((first[is_single], repeated.first)),
        beyond=np.concatenate((beyond[is_single], repeated.beyond)),
        values=np.concatenate((values[is_single], repeated.values)),
    )


def _not_evaluated(
    ordered: Ordered, stays: _Stays, points: tuple[IntArray, IntArray]
) -> tuple[Sequence[str], IntArray]:
    """Return the reasons of conversations that were not evaluated, sorted, and their counts at each point."""
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
        applicable = ~np.isnan(values[:, dimension])
        if applicable.any():
            counts[:, dimension] = _integers(stays.running(applicable)[points])
            total = stays.running(applicable, weight * values[:, dimension])[points]
            nonempty = counts[:, dimension] > 0
            means[nonempty, dimension] = (total[nonempty] / stays.running(applicable, weight)[points][nonempty]).clip(
                0.0, 1.0
            )
    return means, counts


def _integers(counts: FloatArray) -> IntArray:
    return np.rint(counts).astype(np.int64)
