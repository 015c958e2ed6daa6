"""Window contents and window points as columns: counts, estimates and tiers, with distinct contents estimated once."""

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
    #: Columns of cases: slot, group, attempts and correct attempts by weight, and the number of cases with these
    #: values.
    _Cases = tuple[IntArray, IntArray, IntArray, IntArray]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Results:
    """Scored conversations, one row each; a conversation that counts in several groups (by tag) has a row in each.

    Rows of one group with the same end are in order of environment and conversation id, which determines the rows that
    a count window contains.

    Attributes:
        groups: the groups.
        group: (rows,) index into `groups`.
        case: (rows,) code of the case, 0 or more; rows with equal codes are attempts of one case. -1: no case.
        ended_ns: (rows,) end of the conversation's last span, ns since the epoch.
        outcome: (rows,) 1 pass, 0 fail, -1 not evaluated.
        reasons: reasons of conversations that were not evaluated.
        reason: (rows,) index into `reasons`, -1 for evaluated ones.
        dimensions: (rows, 4) tool dimension scores in the order of `DIMENSIONS`, NaN where not applicable.
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
    """The counts of each window point, one row each; a window without conversations has no point.

    Neighbouring points often have the same content, so estimates are computed once for each distinct content.

    Attributes:
        groups: the groups.
        group: (points,) index into `groups`.
        windows: the names of the windows, such as "24h" or "n200".
        window: (points,) index into `windows`.
        end_ns: (points,) end of the window, inclusive, ns since the epoch.
        n: (points,) evaluated conversations.
        c: (points,) correct conversations.
        content: (points,) index of the content of the window: a group of `attempts`.
        attempts: the evaluated conversations of each distinct content, by kind of case.
        reasons: reasons of conversations that were not evaluated, sorted.
        not_evaluated: (points, reasons) number of conversations that were not evaluated.
        dimension_mean: (points, 4) weighted mean of each tool dimension over the conversations to which it applies, NaN
            without conversations.
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
        estimates: the estimates by estimator name, including requested estimators without a point; their groups are the
            points.
        default_estimator: (points,) name of the headline estimator.
        effective_n: (points,) number of independent conversations that carry the same information as the evaluated
            ones, NaN without evaluated conversations.
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
        """The requested windows, including those without a point."""
        return self.tallies.windows

    def at(self, ends: Sequence[int]) -> WindowTable:
        """Return the points at some of the ends, ns."""
        tallies = self.tallies
        points = np.flatnonzero(np.isin(tallies.end_ns, np.asarray(ends, dtype=np.int64)))
        if len(points) == tallies.size:
            return self
        not_evaluated = tallies.not_evaluated[points]
        occurring = np.flatnonzero(not_evaluated.any(axis=0))
        indices = points.tolist()
        return replace(
            self,
            tallies=replace(
                tallies,
                group=tallies.group[points],
                window=tallies.window[points],
                end_ns=tallies.end_ns[points],
                n=tallies.n[points],
                c=tallies.c[points],
                content=tallies.content[points],
                reasons=[tallies.reasons[reason] for reason in occurring.tolist()],
                not_evaluated=not_evaluated[:, occurring],
                dimension_mean=tallies.dimension_mean[points],
                dimension_n=tallies.dimension_n[points],
            ),
            estimates={name: _estimates_of_points(estimate, points) for name, estimate in self.estimates.items()},
            default_estimator=[self.default_estimator[index] for index in indices],
            effective_n=self.effective_n[points],
            tier=[self.tier[index] for index in indices],
            leaning=[self.leaning[index] for index in indices],
        )

    def points(self) -> list[WindowPoint]:
        """Return the points as objects, in order."""
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
        not_evaluated = {
            reason: count
            for reason, count in zip(tallies.reasons, tallies.not_evaluated[point].tolist(), strict=True)
            if count
        }
        total = n + sum(not_evaluated.values())
        return GroupSummary(
            key=tallies.groups[int(tallies.group[point])],
            n=n,
            c=c,
            not_evaluated=not_evaluated,
            coverage=n / total if total else None,
            bounds=pass_rate_bounds(n, c, total - n),
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


#: Maximum number of distinct values of a packed row: 62 bits fit an int64.
_MAX_PACKED: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kinds:
    """The kinds of cases in each content; counts by weight are integers, so that sums are exact.

    Attributes:
        weights: (weights,) the distinct weights of attempts.
        kinds: (kinds, 2 * weights) number of attempts at each weight, then of correct attempts at each weight.
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
        """Return the input of estimators for `size` contents; it has weights only if a content has several."""
        order = np.lexsort((self.kind, self.content))
        content, kind, cases = self.content[order], self.kind[order], self.cases[order]
        n_by_weight, c_by_weight = np.hsplit(self.kinds, 2)
        n, c = n_by_weight.sum(axis=1)[kind], c_by_weight.sum(axis=1)[kind]
        present = [np.bincount(content, weights=column[kind] * cases, minlength=size) > 0 for column in n_by_weight.T]
        mixed = np.sum(present, axis=0) > 1 if present else np.zeros(size, dtype=bool)
        weights = None
        if mixed.any():
            sums = np.stack(
                (n_by_weight @ self.weights, c_by_weight @ self.weights, n_by_weight @ self.weights**2), axis=1
            )[kind]
            weights = np.where(mixed[content][:, None], sums, np.stack((n, c, n), axis=1))
        return GroupedAttempts(size=size, group=content, n=n, c=c, cases=cases, weights=weights)


def unique_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the index of the first occurrence of each distinct row, sorted by row, and for each row its distinct row.

    >>> first, inverse = unique_rows([np.array([2, 1, 2]), np.array([0, 5, 0])])
    >>> first.tolist(), inverse.tolist()
    ([1, 0], [1, 0, 1])
    """
    packed = _packed(columns)
    if packed is not None:
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        return first, inverse
    order = np.lexsort(tuple(reversed(columns)))
    is_new = np.zeros(len(order), dtype=bool)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= np.diff(column[order]) != 0
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(is_new) - 1
    return order[is_new], inverse


def _packed(columns: Sequence[IntArray]) -> IntArray | None:
    """Return one number per row that sorts as the rows do, or None if 62 bits are too few.

    Sorting one column is faster than sorting several.
    """
    packed = np.zeros(len(columns[0]), dtype=np.int64)
    if not len(packed):
        return packed
    distinct_values = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        distinct_values *= high - low + 1
        if distinct_values > _MAX_PACKED:
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

    Windows overlap, but bands do not: a query counts each conversation once, in the band between two edges of windows.

    Attributes:
        slots: the windows.
        group: (rows,) index of the group.
        band: (rows,) band.
        weight: (rows,) weight of the conversations.
        reason: (rows,) index of the reason why conversations were not evaluated, -1 for evaluated ones.
        count: (rows,) number of conversations.
        dimension_sum: (rows, 4) sum of each tool dimension.
        dimension_n: (rows, 4) number of conversations in the sum.
        case_group: (case rows,) index of the group.
        case_band: (case rows,) band.
        case_weight: (case rows,) weight of the conversations.
        case: (case rows,) code of the case, -1 for conversations without one.
        passed: (case rows,) number of its conversations that passed.
        failed: (case rows,) number of its conversations that failed.
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
        ends: the ends of the windows, ns, ascending.
        reasons: reasons of conversations that were not evaluated, sorted.
        parts: the counts of each query; together they contain every window at every end exactly once.
    """

    groups: Sequence[GroupKey]
    windows: Sequence[Window]
    ends: Sequence[int]
    reasons: Sequence[str]
    parts: Sequence[Bands]

    def tallies(self) -> Tallies:
        """Return the tallies, with points sorted by end, window and group."""
        size = len(self.groups)
        slots = len(self.ends) * len(self.windows)
        not_evaluated, dimensions = self._slot_counts(slots)
        attempts = self._attempts(slots)
        evaluated = attempts.total(np.stack((attempts.n, attempts.c), axis=1))
        points = np.flatnonzero(evaluated[:, 0] + not_evaluated.sum(axis=1) > 0)
        occurring_reasons = np.flatnonzero(not_evaluated.any(axis=0))
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
            reasons=[self.reasons[reason] for reason in occurring_reasons.tolist()],
            not_evaluated=not_evaluated[np.ix_(points, occurring_reasons)].astype(np.int64),
            dimension_mean=np.divide(
                dimensions[points, 0], dimensions[points, 1], out=np.full((len(points), 4), np.nan),
                where=dimensions[points, 2] > 0,
            ).clip(0.0, 1.0),
            dimension_n=dimensions[points, 2].astype(np.int64),
        )  # fmt: skip

    def _slot_counts(self, slots: int) -> tuple[FloatArray, FloatArray]:
        """Return the counts of conversations that were not evaluated, and the sums of the tool dimensions.

        Returns:
            (slots * groups, reasons) counts by reason, and (slots * groups, 3, 4) the weighted sum, the weight and the
            number of conversations of each dimension.
        """
        size, reasons = len(self.groups), len(self.reasons)
        not_evaluated, dimensions = np.zeros((slots, size, reasons)), np.zeros((slots, size, 12))
        for part in self.parts:
            weight = part.weight[:, None]
            values: FloatArray = np.hstack((part.dimension_sum * weight, part.dimension_n * weight, part.dimension_n))
            numbers = [slot.number for slot in part.slots]
            dimensions[numbers] = part.summed(part.group, part.band, size, values)
            by_reason: FloatArray = np.where(part.reason[:, None] == np.arange(reasons), part.count[:, None], 0.0)
            if reasons:
                not_evaluated[numbers] = part.summed(part.group, part.band, size, by_reason)
        return not_evaluated.reshape(slots * size, reasons), dimensions.reshape(slots * size, 3, 4)

    def _attempts(self, slots: int) -> GroupedAttempts:
        """Return the evaluated conversations of each slot and group."""
        weights = np.unique(np.concatenate([[], *(part.case_weight for part in self.parts)]))
        if not len(weights):
            weights = np.ones(1)
        parts = [
            cases for part in self.parts for cases in (_cases_with_id(part, weights), _cases_without_id(part, weights))
        ]
        slot = np.concatenate([part[0] for part in parts])
        group = np.concatenate([part[1] for part in parts])
        values = np.concatenate([part[2] for part in parts])
        cases = np.concatenate([part[3] for part in parts])
        content = slot * len(self.groups) + group
        first, inverse = unique_rows([content, *values.T])
        kinds = Kinds(
            weights=weights,
            kinds=values[first],
            content=content[first],
            kind=np.arange(len(first)),
            cases=np.bincount(inverse, weights=cases, minlength=len(first)).astype(np.int64),
        )
        return kinds.attempts(slots * len(self.groups))


def _cases_with_id(part: Bands, weights: FloatArray) -> _Cases:
    """Return the conversations with a case, whose attempts in a window are summed."""
    rows = np.flatnonzero(part.case >= 0)
    first, inverse = unique_rows([part.case_group[rows], part.case[rows]])
    sums = part.summed(inverse, part.case_band[rows], len(first), _by_weight(part, rows, weights)).astype(np.int64)
    slot, pair = np.nonzero(sums[..., : len(weights)].any(axis=2))
    group = part.case_group[rows][first]
    numbers = np.array([slot.number for slot in part.slots], dtype=np.int64)
    return numbers[slot], group[pair], sums[slot, pair], np.ones(len(pair), dtype=np.int64)


def _cases_without_id(part: Bands, weights: FloatArray) -> _Cases:
    """Return the conversations without a case, each of which is a case of one attempt."""
    rows = np.flatnonzero(part.case < 0)
    size = int(part.case_group.max(initial=-1)) + 1
    sums = part.summed(part.case_group[rows], part.case_band[rows], size, _by_weight(part, rows, weights))
    attempts, correct = np.split(sums, 2, axis=2)
    slot, group, kind = np.nonzero(np.concatenate((attempts - correct, correct), axis=2))
    cases = np.concatenate((attempts - correct, correct), axis=2)[slot, group, kind].astype(np.int64)
    identity = np.eye(len(weights), dtype=np.int64)
    kinds = np.vstack((np.hstack((identity, np.zeros_like(identity))), np.hstack((identity, identity))))
    numbers = np.array([slot.number for slot in part.slots], dtype=np.int64)
    return numbers[slot], group, kinds[kind], cases


def _by_weight(part: Bands, rows: IntArray, weights: FloatArray) -> FloatArray:
    """Return the number of attempts at each weight, then of correct attempts, for case rows."""
    weight = np.searchsorted(weights, part.case_weight[rows])[:, None] == np.arange(len(weights))
    attempts = (part.passed + part.failed)[rows, None]
    return np.hstack((weight * attempts, weight * part.passed[rows, None])).astype(np.float64)


def _at(attempts: GroupedAttempts, indices: IntArray) -> GroupedAttempts:
    """Return the counts of the selected groups, renumbered; every group with counts must be selected."""
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
    """Return window points with estimates and tiers; each distinct content is estimated once.

    The leaning of a window is based on the headline estimator: the configured one; if it is not among `estimators`, the
    pooled one of the mode; else the first.

    Args:
        tallies: the counts.
        estimators: the estimators, each name once.
        settings: mode, prior, level, tier rule and default estimator.
        k: the k of pass@k and pass^k, ascending.
        claims: the tiers claimed for groups at ends, from all conversations up to the end; a missing claim means
            `insufficient_evidence`.
    """
    content, attempts = tallies.content, tallies.attempts
    if attempts.size == 0:
        no_estimates = {estimator.name: _no_estimates(estimator.name, settings, k) for estimator in estimators}
        return WindowTable(
            tallies=tallies,
            k=tuple(k),
            estimates=no_estimates,
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
            estimator.name: _estimates_of_points(estimate_groups(estimator, attempts, k), content)
            for estimator in estimators
        },
        default_estimator=[headline] * len(indices),
        effective_n=pooled_samples(attempts).n[content],
        tier=[(claims or {}).get((tallies.groups[group], end), "insufficient_evidence") for group, end in identities],
        leaning=[leaning[index] for index in indices],
    )


def _estimates_of_points(estimates: GroupedEstimates, content: IntArray) -> GroupedEstimates:
    """Return the estimates of points, given the estimates of contents and the content of each point."""
    left_out = estimates.cases_left_out
    return replace(
        estimates,
        interval_methods=[estimates.interval_methods[index] for index in content.tolist()],
        pass_at_k=estimates.pass_at_k[content],
        pass_pow_k=estimates.pass_pow_k[content],
        cases_left_out=None if left_out is None else left_out[content],
    )


def _no_estimates(name: str, settings: StatsSettings, k: Sequence[int]) -> GroupedEstimates:
    empty = np.zeros((0, len(k), 3))
    return GroupedEstimates(
        estimator=name, level=settings.level, k=tuple(k), interval_methods=[], pass_at_k=empty, pass_pow_k=empty
    )
