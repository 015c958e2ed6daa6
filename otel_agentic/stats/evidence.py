"""The e-process of a stream as it goes on, pooled or with bets of its own for each case. See `sequential`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.stats.sequential import PRIOR, log_e_value

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

#: When a sum that is kept up to date by differences is added up anew: after so many of them, or once it is so small a part
#: of what it was, or so large.
_ADD_UP_AFTER: Final = 1_000
_LOST, _GREAT = 1e-3, 1e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """The e-process of one stream so far; it goes on where it stopped. Cases may have bets of their own.

    With several cases the e-value is the mean over them of each one's e-process, in which a case that joins late counts
    with the e-value at that moment as its stake. So the wealth is shared anew at each arrival and the whole stays a
    betting game; a plain mean, in which each newcomer brings 1, would let a lost bet be made good for nothing.

    Attributes:
        n: (cases,) conversations of each case.
        c: (cases,) correct ones.
        log_stake: (cases,) log of the e-value when the case joined.
        log_e: log of the e-value now.
        log_largest: log of the largest so far.
    """

    n: IntArray
    c: IntArray
    log_stake: FloatArray
    log_e: float = 0.0
    log_largest: float = 0.0

    @classmethod
    def none(cls) -> Evidence:
        """Return the evidence of an empty stream: an e-value of 1.

        >>> Evidence.none().log_e
        0.0
        """
        return cls(n=np.zeros(0, np.int64), c=np.zeros(0, np.int64), log_stake=np.zeros(0))

    def then(
        self, cases: npt.ArrayLike, outcomes: npt.ArrayLike, p0: float, prior: tuple[float, float] = PRIOR
    ) -> tuple[Evidence, FloatArray]:
        """Return the evidence after more conversations, and the log e-value after each of them.

        Args:
            cases: (looks,) case of each conversation, numbered from 0 in the order in which they join; all 0 makes
                one pooled e-process.
            outcomes: (looks,) true where correct, in event order.
            p0: the promised rate.
            prior: of the bets.

        >>> np.round(Evidence.none().then([0, 0], [True, False], 0.9)[1], 2).tolist()
        [-0.23, 0.68]
        >>> after, _ = Evidence.none().then([0, 1, 0, 1], [True, False, True, False], 0.9)
        >>> after.n.tolist(), round(float(np.exp(after.log_e)), 2)
        ([2, 2], 4.51)
        """
        case = np.asarray(cases, dtype=np.int64)
        correct = np.asarray(outcomes, dtype=np.bool_)
        size = max(self.n.size, int(case.max(initial=-1)) + 1)
        n, c = _padded(self.n, size), _padded(self.c, size)
        log_each = log_e_value(
            n[case] + _running(case, np.ones_like(case)), c[case] + _running(case, correct), p0, prior
        )
        log_stake, path = _shared(self, size, case, log_each, log_e_value(n, c, p0, prior))
        n += np.bincount(case, minlength=size)
        c += np.bincount(case, weights=correct, minlength=size).astype(np.int64)
        log_e = float(path[-1]) if path.size else self.log_e
        largest = max(self.log_largest, float(path.max(initial=-math.inf)))
        return Evidence(n=n, c=c, log_stake=log_stake, log_e=log_e, log_largest=largest), path


def _shared(
    before: Evidence, size: int, case: IntArray, log_each: FloatArray, log_now: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the stakes of all cases, and the log of the mean over the cases after each conversation.

    Args:
        before: the evidence before these conversations.
        size: cases then.
        case: (looks,) case of each conversation.
        log_each: (looks,) log e-value of that case after it.
        log_now: (size,) log e-value of each case before these conversations.
    """
    if size <= 1:
        return np.zeros(size), log_each
    log_stake = np.zeros(size)
    log_stake[: before.n.size] = before.log_stake
    fund = _Fund((before.log_stake + log_now[: before.n.size]).tolist())
    stakes, joined, log_e = log_stake.tolist(), before.n.size, before.log_e
    path = []
    for each, log_of_case in zip(case.tolist(), log_each.tolist(), strict=True):
        if each >= joined:
            stakes[each], joined = log_e, each + 1
        log_e = fund.put(each, stakes[each] + log_of_case)
        path.append(log_e)
    return np.array(stakes), np.array(path, dtype=np.float64)


class _Fund:
    """What each case has, as logarithms; their mean is known at once after one of them changes."""

    def __init__(self, logs: list[float]) -> None:
        self._logs = logs
        self._shares: list[float] = []
        self._top = self._total = self._largest = 0.0
        self._steps = 0
        if logs:
            self._add_up()

    def put(self, place: int, log: float) -> float:
        """Set what a case has, the next case where the place is the first free one; return the log of the mean."""
        if place == len(self._logs):
            self._logs.append(log)
            self._add_up()
        else:
            self._logs[place] = log
            share = math.exp(min(log - self._top, 700.0))
            self._total += share - self._shares[place]
            self._shares[place] = share
            self._largest = max(self._largest, self._total)
            self._steps += 1
            if self._steps >= _ADD_UP_AFTER or not self._largest * _LOST < self._total < _GREAT:
                self._add_up()
        return self._top + math.log(self._total / len(self._logs))

    def _add_up(self) -> None:
        """Start anew from the logarithms, so that no rounding error grows."""
        self._top = max(self._logs)
        self._shares = [math.exp(log - self._top) for log in self._logs]
        self._total = self._largest = math.fsum(self._shares)
        self._steps = 0


def _running(groups: IntArray, values: npt.ArrayLike) -> IntArray:
    """Return the running sum within each row's own group, the row included."""
    order = np.argsort(groups, kind="stable")
    total = np.cumsum(np.asarray(values, dtype=np.int64)[order])
    first = np.flatnonzero(np.diff(groups[order], prepend=-1))
    before = np.concatenate(([0], total))[first]
    running = np.empty_like(total)
    running[order] = total - np.repeat(before, np.diff(first, append=groups.size))
    return running


def _padded(counts: IntArray, size: int) -> IntArray:
    return np.concatenate((counts, np.zeros(size - counts.size, np.int64)))
