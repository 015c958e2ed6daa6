"""Conversations that go alike, taken together: one outcome in [0, 1] a block, and bets on these.

Users who come in runs, and outages, make neighbouring conversations alike: then "each conversation passes with p0 or more,
whatever came before it" does not hold of an agent that keeps its promise, and an e-process that counts each of them alarms
falsely. Of blocks it may hold: what a block's mean outcome is expected to be is p0 or more, whatever the blocks before it were.

A bet on the rate p1 < p0 multiplies its stake by m p1/p0 + (1-m) (1-p1)/(1-p0) at a block of mean m. Its expectation is 1 at
most, and of blocks of one conversation it is the likelihood ratio.

Ref: Waudby-Smith and Ramdas (2024), Estimating means of bounded random variables by betting, J. R. Statist. Soc. B 86(1),
arXiv:2010.09686.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import logsumexp, roots_jacobi

from otel_agentic.stats.sequential import PRIOR

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

#: Rates that are bet on, of each of two priors: that of the bets on conversations, and one for the large stakes that pay where
#: blocks are large and their means vary little.
_NODES: Final = 32
_LARGE_STAKES: Final = (0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockEvidence:
    """The e-process of blocks so far, against "the mean of the next block is expected to be p0 or more".

    Attributes:
        log_bets: (bets,) log of what each bet has, its share of the stake included.
        log_largest: log of the largest e-value so far.
    """

    log_bets: FloatArray
    log_largest: float = 0.0

    @classmethod
    def none(cls, p0: float) -> BlockEvidence:
        """Return the evidence of no blocks: an e-value of 1.

        >>> round(BlockEvidence.none(0.9).log_e, 12)
        0.0
        """
        return cls(log_bets=_bets(p0)[2])

    @property
    def log_e(self) -> float:
        """Log of the e-value now."""
        return float(logsumexp(self.log_bets))

    def then(self, means: npt.ArrayLike, p0: float) -> tuple[BlockEvidence, FloatArray]:
        """Return the evidence after more blocks, and the log e-value after each of them.

        Args:
            means: (blocks,) share of correct conversations of each, in the order in which they closed.
            p0: the promised rate.

        >>> np.round(np.exp(BlockEvidence.none(0.9).then([0.5, 0.5, 1.0], 0.9)[1]), 1).tolist()
        [2.6, 8.2, 2.6]
        """
        correct = np.asarray(means, dtype=np.float64)[:, np.newaxis]
        if not correct.size:
            return self, np.zeros(0)
        on_pass, on_fail, _ = _bets(p0)
        path = self.log_bets + np.cumsum(np.log(correct * on_pass + (1.0 - correct) * on_fail), axis=0)
        log_e = np.asarray(logsumexp(path, axis=1))
        return BlockEvidence(log_bets=path[-1], log_largest=max(self.log_largest, float(log_e.max()))), log_e


@lru_cache(maxsize=64)
def _bets(p0: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what each bet gets back at a block that passes and at one that fails, and the log of its stake."""
    parts = []
    for a, b in (PRIOR, _LARGE_STAKES):
        nodes, weights = roots_jacobi(_NODES, 0.0, a - 1.0)
        rates = p0 * (nodes + 1.0) / 2.0
        weights = weights * (1.0 - rates) ** (b - 1.0)
        parts.append((rates, weights / weights.sum() / 2.0))
    rates, stakes = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rates / p0, (1.0 - rates) / (1.0 - p0), np.log(stakes)


def runs(key: npt.ArrayLike, time_ns: npt.ArrayLike, idle_ns: int) -> IntArray:
    """Return the number of the run that each conversation is in: runs of one key, with no pause longer than `idle_ns`.

    Args:
        key: (rows,) of whom each is.
        time_ns: (rows,) when it ended, ascending.
        idle_ns: the longest pause within a run, ns.

    >>> runs([7, 8, 7, 7], [0, 1, 2, 90], 10).tolist()
    [0, 2, 0, 1]
    """
    keys, times = np.asarray(key), np.asarray(time_ns, dtype=np.int64)
    order = np.lexsort((np.arange(keys.size), keys))
    begins = (np.diff(keys[order], prepend=keys[order][:1]) != 0) | (
        np.diff(times[order], prepend=times[order][:1]) > idle_ns
    )
    number = np.empty(keys.size, dtype=np.int64)
    number[order] = np.cumsum(begins)
    return number
