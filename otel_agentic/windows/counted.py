"""Counts that a query made, by bands of time, as the tallies of windows.

Windows overlap, bands do not: a query counts each conversation once, in the band between two edges of windows, and a window
is the sum of its bands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from otel_agentic.stats import GroupedAttempts
from otel_agentic.windows.columns import Tallies
from otel_agentic.windows.kinds import Kinds, unique_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.windows.model import GroupKey
    from otel_agentic.windows.rolling import Window

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]


class Slot(NamedTuple):
    """A window at an end: the bands `first <= band < beyond`; `number` is `end * windows + window`."""

    number: int
    first: int
    beyond: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bands:
    """What one query counted, and the windows that are sums of its bands.

    Attributes:
        slots: the windows.
        group: (rows,) index of the group.
        band: (rows,) band.
        weight: (rows,) weight of the conversations.
        reason: (rows,) index of the reason why they were not evaluated, -1 for evaluated ones.
        count: (rows,) how many there are.
        dimension_sum: (rows, 4) sum of each tool dimension.
        dimension_n: (rows, 4) over how many conversations.
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

    def summed(self, place: IntArray, band: IntArray, size: int, values: FloatArray) -> FloatArray:
        """Return sums by window and place: (slots, size, columns) from (rows, columns)."""
        bands = max(slot.beyond for slot in self.slots)
        flat = band * size + place
        columns = [np.bincount(flat, weights=column, minlength=bands * size) for column in values.T]
        by_band = np.stack(columns, axis=1).reshape(bands, size, len(columns))
        return np.stack([by_band[slot.first : slot.beyond].sum(axis=0) for slot in self.slots])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """What queries counted, by group, window and end.

    Attributes:
        groups: the groups, sorted by key.
        windows: the windows.
        ends: their ends, ns, ascending.
        reasons: reasons, sorted.
        parts: what each query counted; together they have every window at every end once.
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
        seen = np.flatnonzero(missing.any(axis=0))
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
            reasons=[self.reasons[reason] for reason in seen.tolist()],
            not_evaluated=missing[np.ix_(points, seen)].astype(np.int64),
            dimension_mean=np.divide(
                dimensions[points, 0], dimensions[points, 1], out=np.full((len(points), 4), np.nan),
                where=dimensions[points, 2] > 0,
            ).clip(0.0, 1.0),
            dimension_n=dimensions[points, 2].astype(np.int64),
        )  # fmt: skip

    def _held(self, slots: int) -> tuple[FloatArray, FloatArray]:
        """Return, by slot and group, the not evaluated by reason, and of each dimension weighted sum, weight and number."""
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
        found = [each for part in self.parts for each in (_named(part, weights), _alone(part, weights))]
        place = np.concatenate([each[0] for each in found])
        group = np.concatenate([each[1] for each in found])
        values = np.concatenate([each[2] for each in found])
        cases = np.concatenate([each[3] for each in found])
        content = place * len(self.groups) + group
        first, which = unique_rows([content, *values.T])
        kinds = Kinds(
            weights=weights,
            kinds=values[first],
            content=content[first],
            kind=np.arange(len(first)),
            cases=np.bincount(which, weights=cases, minlength=len(first)).astype(np.int64),
        )
        return kinds.attempts(slots * len(self.groups))


#: Of cases: slot, group, attempts by weight and the correct ones, and how many cases are like that.
_Cases = tuple["IntArray", "IntArray", "IntArray", "IntArray"]


def _named(part: Bands, weights: FloatArray) -> _Cases:
    """Return the cases with a name: each is one in each window."""
    rows = np.flatnonzero(part.case >= 0)
    first, which = unique_rows([part.case_group[rows], part.case[rows]])
    held = part.summed(which, part.case_band[rows], len(first), _by_weight(part, rows, weights)).astype(np.int64)
    slot, pair = np.nonzero(held[..., : len(weights)].any(axis=2))
    group = part.case_group[rows][first]
    numbers = np.array([each.number for each in part.slots], dtype=np.int64)
    return numbers[slot], group[pair], held[slot, pair], np.ones(len(pair), dtype=np.int64)


def _alone(part: Bands, weights: FloatArray) -> _Cases:
    """Return the conversations without a case: each is a case of one attempt."""
    rows = np.flatnonzero(part.case < 0)
    size = int(part.case_group.max(initial=-1)) + 1
    held = part.summed(part.case_group[rows], part.case_band[rows], size, _by_weight(part, rows, weights))
    attempts, correct = np.split(held, 2, axis=2)
    slot, group, kind = np.nonzero(np.concatenate((attempts - correct, correct), axis=2))
    cases = np.concatenate((attempts - correct, correct), axis=2)[slot, group, kind].astype(np.int64)
    one = np.eye(len(weights), dtype=np.int64)
    kinds = np.vstack((np.hstack((one, np.zeros_like(one))), np.hstack((one, one))))
    numbers = np.array([each.number for each in part.slots], dtype=np.int64)
    return numbers[slot], group, kinds[kind], cases


def _by_weight(part: Bands, rows: IntArray, weights: FloatArray) -> FloatArray:
    """Return the attempts at each weight, then the correct ones, of some case rows."""
    weight = np.searchsorted(weights, part.case_weight[rows])[:, None] == np.arange(len(weights))
    attempts = (part.passed + part.failed)[rows, None]
    return np.hstack((weight * attempts, weight * part.passed[rows, None])).astype(np.float64)


def _at(attempts: GroupedAttempts, places: IntArray) -> GroupedAttempts:
    """Return the counts of some groups, which are all that have any, numbered anew."""
    return GroupedAttempts(
        size=len(places),
        group=np.searchsorted(places, attempts.group),
        n=attempts.n,
        c=attempts.c,
        cases=attempts.cases,
        weights=attempts.weights,
    )
