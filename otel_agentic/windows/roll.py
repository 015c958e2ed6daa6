"""Window points: counts at many ends, estimated once for each distinct content."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from otel_agentic.stats import (
    GroupedAttempts,
    GroupedEstimates,
    estimate_groups,
    headline_among,
    leaning_tiers,
    pooled_samples,
    validate_k,
)
from otel_agentic.windows.columns import Tallies, WindowTable
from otel_agentic.windows.rolling import parse_windows
from otel_agentic.windows.tally import Kinds, Ordered, tally, unique_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats import Estimator, Tier
    from otel_agentic.windows.columns import Results
    from otel_agentic.windows.model import GroupKey
    from otel_agentic.windows.rolling import Window

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    #: The tier claimed for a group at an end, ns.
    Claims = Mapping[tuple[GroupKey, int], Tier]


class Slot(NamedTuple):
    """A window at an end: the bands `first <= band < beyond`; `number` is `end * windows + window`."""

    number: int
    first: int
    beyond: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bands:
    """The counts of one query, and the windows that are sums of its bands.

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


#: For cases: slot, group, attempts by weight and the correct ones, and how many cases have these numbers.
_Cases = tuple["IntArray", "IntArray", "IntArray", "IntArray"]


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


_CELLS: Final = 100_000


def roll(
    results: Results,
    widths: Sequence[str],
    ends: Sequence[int],
    *,
    estimators: Sequence[Estimator],
    settings: StatsSettings,
    k: Sequence[int],
    claims: Mapping[tuple[GroupKey, int], Tier] | None = None,
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
