"""Window contents and window points as columns: counts, estimates and tiers, each distinct content estimated once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from otel_agentic.scoring.scope import DIMENSIONS
from otel_agentic.stats import (
    Estimator,
    GroupedAttempts,
    GroupedEstimates,
    estimate_groups,
    headline_among,
    leaning_tiers,
    pooled_samples,
)
from otel_agentic.windows.model import (
    DimensionMean,
    GroupKey,
    GroupSummary,
    Window,
    WindowPoint,
    parse_window,
    pass_rate_bounds,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.scoring.scope import Dimension
    from otel_agentic.stats import Tier

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    #: The tier claimed for a group at an end, ns.
    Claims = Mapping[tuple[GroupKey, int], Tier]
    #: For cases: slot, group, attempts by weight and the correct ones, and how many cases have these numbers.
    _Cases = tuple[IntArray, IntArray, IntArray, IntArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """Scored conversations, one row each; one that is counted in several groups (by tag) has a row in each.

    Rows of one group that ended at the same moment are in event order (environment, conversation id): that decides which of them
    a count window contains.

    Attributes:
        groups: the groups.
        group: (rows,) index into `groups`.
        case: (rows,) code of the case, 0 or more; rows with equal codes are attempts of one case. -1: without a case.
        ended_ns: (rows,) end of the conversation's last span, ns since the epoch.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        reasons: reasons of conversations that were not evaluated.
        reason: (rows,) index into `reasons`, -1 for evaluated ones.
        dimensions: (rows, 4) tool dimension scores in the order of `DIMENSIONS`, NaN if they do not apply.
        weight: (rows,) 1 / sampling ratio at the time of scoring; 1 if all are evaluated.
    """

    groups: Sequence[GroupKey]
    group: IntArray
    case: IntArray
    ended_ns: IntArray
    outcome: IntArray
    reasons: Sequence[str]
    reason: IntArray
    dimensions: FloatArray
    weight: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tallies:
    """The counts of each window point, one row each; a group's window without a conversation has no point.

    Neighbouring points often have the same content: estimates are computed once for each distinct content.

    Attributes:
        groups: the groups.
        group: (points,) index into `groups`.
        windows: the windows' names, such as "24h" or "n200".
        window: (points,) index into `windows`.
        end_ns: (points,) end of the window, inclusive, ns since the epoch.
        n: (points,) evaluated conversations.
        c: (points,) correct ones among them.
        content: (points,) index of the content of the window, which is a group of `attempts`.
        attempts: the evaluated conversations of each distinct content, by kind of case.
        reasons: reasons of conversations that were not evaluated, sorted.
        not_evaluated: (points, reasons) how many there are.
        dimension_mean: (points, 4) weighted mean of each tool dimension over conversations to which it applies, NaN without any.
        dimension_n: (points, 4) the number of these conversations.
    """

    groups: Sequence[GroupKey]
    group: IntArray
    windows: Sequence[str]
    window: IntArray
    end_ns: IntArray
    n: IntArray
    c: IntArray
    content: IntArray
    attempts: GroupedAttempts
    reasons: Sequence[str]
    not_evaluated: IntArray
    dimension_mean: FloatArray
    dimension_n: IntArray

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.end_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowTable:
    """Window points with all their figures, sorted by end, window and group.

    Attributes:
        tallies: the counts.
        k: the values of k, ascending.
        estimates: by estimator name; the groups of each are the points. All requested ones, also without a point.
        default_estimator: (points,) the headline estimator.
        effective_n: (points,) the number of independent conversations to which the evaluated ones amount, NaN without any.
        tier: (points,) the tier claimed for the group at the end, from all of its conversations up to then.
        leaning: (points,) the tier that the estimates of the window lean to, or None if they are undefined.
    """

    tallies: Tallies
    k: tuple[int, ...]
    estimates: Mapping[str, GroupedEstimates]
    default_estimator: Sequence[str]
    effective_n: FloatArray
    tier: Sequence[Tier]
    leaning: Sequence[Tier | None]

    @property
    def widths(self) -> Sequence[str]:
        """The requested windows, also those without a point."""
        return self.tallies.windows

    def points(self) -> list[WindowPoint]:
        """Return the points one by one, in their order."""
        widths = {name: parse_window(name).width_ns for name in self.widths}
        tallies = self.tallies
        windows = [tallies.windows[window] for window in tallies.window.tolist()]
        return [
            WindowPoint(window=window, width_ns=widths[window], end_ns=end_ns, summary=self._summary(point))
            for point, (window, end_ns) in enumerate(zip(windows, tallies.end_ns.tolist(), strict=True))
        ]

    def _summary(self, point: int) -> GroupSummary:
        tallies = self.tallies
        n, c = int(tallies.n[point]), int(tallies.c[point])
        missing = {
            reason: count
            for reason, count in zip(tallies.reasons, tallies.not_evaluated[point].tolist(), strict=True)
            if count
        }
        everything = n + sum(missing.values())
        return GroupSummary(
            key=tallies.groups[int(tallies.group[point])],
            n=n,
            c=c,
            not_evaluated=missing,
            coverage=n / everything if everything else None,
            bounds=pass_rate_bounds(n, c, everything - n),
            estimates={name: estimate.of(point) for name, estimate in self.estimates.items()},
            default_estimator=self.default_estimator[point],
            effective_n=float(self.effective_n[point]) if n else None,
            tool_dimensions=self._dimension_means(point),
            tier=self.tier[point],
            leaning=self.leaning[point],
            needed=None,
        )

    def _dimension_means(self, point: int) -> dict[Dimension, DimensionMean]:
        means = self.tallies.dimension_mean[point].tolist()
        counts = self.tallies.dimension_n[point].tolist()
        return {
            name: DimensionMean(mean=mean, n=count)
            for name, mean, count in zip(DIMENSIONS, means, counts, strict=True)
            if count
        }


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


class Slot(NamedTuple):
    """A window at an end: the bands `first <= band < beyond`; `number` is `end * windows + window`."""

    number: int
    first: int
    beyond: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bands:
    """The counts of one query, and the windows that are sums of its bands.

    Windows overlap, bands do not: a query counts each conversation once, in the band between two edges of windows.

    Attributes:
        slots: the windows.
        group: (rows,) index of the group.
        band: (rows,) band.
        weight: (rows,) weight of the conversations.
        reason: (rows,) index of the reason why they were not evaluated, -1 for evaluated ones.
        count: (rows,) number of conversations.
        dimension_sum: (rows, 4) sum of each tool dimension.
        dimension_n: (rows, 4) number of conversations in the sum.
        case_group: (case rows,) index of the group.
        case_band: (case rows,) band.
        case_weight: (case rows,) weight of the conversations.
        case: (case rows,) code of the case, -1 for conversations without one.
        passed: (case rows,) how many of its conversations passed.
        failed: (case rows,) how many failed.
    """

    slots: Sequence[Slot]
    group: IntArray
    band: IntArray
    weight: FloatArray
    reason: IntArray
    count: IntArray
    dimension_sum: FloatArray
    dimension_n: IntArray
    case_group: IntArray
    case_band: IntArray
    case_weight: FloatArray
    case: IntArray
    passed: IntArray
    failed: IntArray

    def summed(self, index: IntArray, band: IntArray, size: int, values: FloatArray) -> FloatArray:
        """Return sums by window and index: (slots, size, columns) from (rows, columns)."""
        bands = max(slot.beyond for slot in self.slots)
        flat = band * size + index
        columns = [np.bincount(flat, weights=column, minlength=bands * size) for column in values.T]
        by_band = np.stack(columns, axis=1).reshape(bands, size, len(columns))
        return np.stack([by_band[slot.first : slot.beyond].sum(axis=0) for slot in self.slots])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """The counts of queries, by group, window and end.

    Attributes:
        groups: the groups, sorted by key.
        windows: the windows.
        ends: their ends, ns, ascending.
        reasons: reasons, sorted.
        parts: the counts of each query; together they contain every window at every end once.
    """

    groups: Sequence[GroupKey]
    windows: Sequence[Window]
    ends: Sequence[int]
    reasons: Sequence[str]
    parts: Sequence[Bands]

    def tallies(self) -> Tallies:
        """Return the tallies, points sorted by end, window and group."""
        size = len(self.groups)
        slots = len(self.ends) * len(self.windows)
        missing, dimensions = self._held(slots)
        attempts = self._attempts(slots)
        evaluated = attempts.total(np.stack((attempts.n, attempts.c), axis=1))
        points = np.flatnonzero(evaluated[:, 0] + missing.sum(axis=1) > 0)
        used = np.flatnonzero(missing.any(axis=0))
        slot = points // max(1, size)
        return Tallies(
            groups=self.groups,
            group=points % max(1, size),
            windows=[window.name for window in self.windows],
            window=slot % len(self.windows),
            end_ns=np.asarray(self.ends, dtype=np.int64)[slot // len(self.windows)],
            n=evaluated[points, 0].astype(np.int64),
            c=evaluated[points, 1].astype(np.int64),
            content=np.arange(len(points)),
            attempts=_at(attempts, points),
            reasons=[self.reasons[reason] for reason in used.tolist()],
            not_evaluated=missing[np.ix_(points, used)].astype(np.int64),
            dimension_mean=np.divide(
                dimensions[points, 0], dimensions[points, 1], out=np.full((len(points), 4), np.nan),
                where=dimensions[points, 2] > 0,
            ).clip(0.0, 1.0),
            dimension_n=dimensions[points, 2].astype(np.int64),
        )  # fmt: skip

    def _held(self, slots: int) -> tuple[FloatArray, FloatArray]:
        """Return, by slot and group, the not evaluated by reason, and weighted sum, weight and number of each dimension."""
        size, reasons = len(self.groups), len(self.reasons)
        missing, dimensions = np.zeros((slots, size, reasons)), np.zeros((slots, size, 12))
        for part in self.parts:
            weight = part.weight[:, None]
            values: FloatArray = np.hstack((part.dimension_sum * weight, part.dimension_n * weight, part.dimension_n))
            numbers = [slot.number for slot in part.slots]
            dimensions[numbers] = part.summed(part.group, part.band, size, values)
            by_reason: FloatArray = np.where(part.reason[:, None] == np.arange(reasons), part.count[:, None], 0.0)
            if reasons:
                missing[numbers] = part.summed(part.group, part.band, size, by_reason)
        return missing.reshape(slots * size, reasons), dimensions.reshape(slots * size, 3, 4)

    def _attempts(self, slots: int) -> GroupedAttempts:
        """Return the evaluated conversations by slot and group."""
        weights = np.unique(np.concatenate([[], *(part.case_weight for part in self.parts)]))
        if not len(weights):
            weights = np.ones(1)
        parts = [cases for part in self.parts for cases in (_named(part, weights), _alone(part, weights))]
        slot = np.concatenate([part[0] for part in parts])
        group = np.concatenate([part[1] for part in parts])
        values = np.concatenate([part[2] for part in parts])
        cases = np.concatenate([part[3] for part in parts])
        content = slot * len(self.groups) + group
        first, which = unique_rows([content, *values.T])
        kinds = Kinds(
            weights=weights,
            kinds=values[first],
            content=content[first],
            kind=np.arange(len(first)),
            cases=np.bincount(which, weights=cases, minlength=len(first)).astype(np.int64),
        )
        return kinds.attempts(slots * len(self.groups))


def _named(part: Bands, weights: FloatArray) -> _Cases:
    """Return the cases with a name: each is one case in each window."""
    rows = np.flatnonzero(part.case >= 0)
    first, which = unique_rows([part.case_group[rows], part.case[rows]])
    held = part.summed(which, part.case_band[rows], len(first), _by_weight(part, rows, weights)).astype(np.int64)
    slot, pair = np.nonzero(held[..., : len(weights)].any(axis=2))
    group = part.case_group[rows][first]
    numbers = np.array([slot.number for slot in part.slots], dtype=np.int64)
    return numbers[slot], group[pair], held[slot, pair], np.ones(len(pair), dtype=np.int64)


def _alone(part: Bands, weights: FloatArray) -> _Cases:
    """Return the conversations without a case: each is a case of one attempt."""
    rows = np.flatnonzero(part.case < 0)
    size = int(part.case_group.max(initial=-1)) + 1
    held = part.summed(part.case_group[rows], part.case_band[rows], size, _by_weight(part, rows, weights))
    attempts, correct = np.split(held, 2, axis=2)
    slot, group, kind = np.nonzero(np.concatenate((attempts - correct, correct), axis=2))
    cases = np.concatenate((attempts - correct, correct), axis=2)[slot, group, kind].astype(np.int64)
    identity = np.eye(len(weights), dtype=np.int64)
    kinds = np.vstack((np.hstack((identity, np.zeros_like(identity))), np.hstack((identity, identity))))
    numbers = np.array([slot.number for slot in part.slots], dtype=np.int64)
    return numbers[slot], group, kinds[kind], cases


def _by_weight(part: Bands, rows: IntArray, weights: FloatArray) -> FloatArray:
    """Return the attempts at each weight, then the correct ones, of some case rows."""
    weight = np.searchsorted(weights, part.case_weight[rows])[:, None] == np.arange(len(weights))
    attempts = (part.passed + part.failed)[rows, None]
    return np.hstack((weight * attempts, weight * part.passed[rows, None])).astype(np.float64)


def _at(attempts: GroupedAttempts, indices: IntArray) -> GroupedAttempts:
    """Return the counts of some groups, which include all groups with counts, numbered consecutively."""
    return GroupedAttempts(
        size=len(indices),
        group=np.searchsorted(indices, attempts.group),
        n=attempts.n,
        c=attempts.c,
        cases=attempts.cases,
        weights=attempts.weights,
    )


def window_table(
    tallies: Tallies,
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    claims: Claims | None = None,
) -> WindowTable:
    """Return the points of some counts, with estimates and tiers; each distinct content is estimated once.

    The leaning of a window is based on the headline estimator: the configured one, or if it is not among `estimators` the mode's
    pooled one, else the first.

    Args:
        tallies: the counts.
        estimators: the estimators, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k, ascending.
        claims: the tiers claimed for groups at ends, from all of their conversations up to these; without one the evidence is
            insufficient.
    """
    content, attempts = tallies.content, tallies.attempts
    if attempts.size == 0:
        nothing = {estimator.name: _nothing(estimator.name, settings, k) for estimator in estimators}
        return WindowTable(
            tallies=tallies,
            k=tuple(k),
            estimates=nothing,
            default_estimator=[],
            effective_n=np.zeros(0),
            tier=[],
            leaning=[],
        )
    headline, headline_estimator = headline_among(estimators, settings)
    leaning = leaning_tiers(attempts, settings, headline_estimator)
    indices = content.tolist()
    identities = zip(tallies.group.tolist(), tallies.end_ns.tolist(), strict=True)
    return WindowTable(
        tallies=tallies,
        k=tuple(k),
        estimates={
            estimator.name: _points_at(estimate_groups(estimator, attempts, k), content) for estimator in estimators
        },
        default_estimator=[headline] * len(indices),
        effective_n=pooled_samples(attempts).n[content],
        tier=[(claims or {}).get((tallies.groups[group], end), "insufficient_evidence") for group, end in identities],
        leaning=[leaning[index] for index in indices],
    )


def _points_at(estimates: GroupedEstimates, content: IntArray) -> GroupedEstimates:
    """Return the estimates of the points, from those of their contents."""
    left_out = estimates.cases_left_out
    return replace(
        estimates,
        interval_methods=[estimates.interval_methods[index] for index in content.tolist()],
        pass_at_k=estimates.pass_at_k[content],
        pass_pow_k=estimates.pass_pow_k[content],
        cases_left_out=None if left_out is None else left_out[content],
    )


def _nothing(name: str, settings: StatsSettings, k: Sequence[int]) -> GroupedEstimates:
    empty = np.zeros((0, len(k), 3))
    return GroupedEstimates(
        estimator=name, level=settings.level, k=tuple(k), interval_methods=[], pass_at_k=empty, pass_pow_k=empty
    )
