"""Has the pass rate fallen below what was promised, although it was good before? A Shiryaev-Roberts e-detector.

The evidence of an e-process that watches from the beginning sinks while an agent does well, and a later fall has to make
up for that first. A change detector sums the evidence over every start: a stream that was good for long costs nothing.
The price is another promise: no bound on ever being wrong, but false alarms are `target_run_length` conversations apart
on average, at least, while every conversation passes with probability `p0` or more.

Ref: Shiryaev (1963), Theory Probab. Appl. 8(1); Roberts (1966), Technometrics 8(3); Pollak (1985), Ann. Statist. 13(1)
(the sum less n is a martingale, hence the run length); Shin, Ramdas and Rinaldo (2024), E-detectors, New England J.
Statist. Data Sci., doi:10.51387/23-NEJSDS51, arXiv:2203.03532 (under composite hypotheses).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import roots_jacobi

from otel_agentic.errors import UsageError
from otel_agentic.stats.sequential import PRIOR

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

_NODES: Final = 16
#: Conversations taken at once, at most, and the largest exponent of their likelihood ratios' product: no overflow.
_PORTION, _EXPONENT = 256, 300.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChangeDetector:
    """What a change detector looks for.

    Attributes:
        target_run_length: conversations between false alarms on average, at least; the alarm is at this value.
        rates: (rates,) pass rates after the change that it bets on, all below the promised one.
        weights: (rates,) share of each, adding up to 1.
        log_pass: (rates,) log likelihood ratio of a correct conversation.
        log_fail: (rates,) that of a failed one.

    A block of conversations is given by its mean, in the place of an outcome: see `blocks`. Run lengths are in blocks then.
    """

    target_run_length: float
    rates: FloatArray
    weights: FloatArray
    log_pass: FloatArray
    log_fail: FloatArray

    @classmethod
    def of(cls, p0: float, target_run_length: float, prior: tuple[float, float] = PRIOR) -> ChangeDetector:
        """Return the detector of a fall below p0.

        Args:
            p0: the promised rate.
            target_run_length: conversations between false alarms on average, at least; 1 or more.
            prior: (a, b) of the Beta on [0, p0] that the bets are spread over, at the nodes of a Gauss quadrature.

        Raises:
            UsageError: p0 is not between 0 and 1, or the run length is below 1.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> bool(detector.rates.max() < 0.9), round(float(detector.weights.sum()), 9)
        (True, 1.0)
        """
        if not (0 < p0 < 1 and target_run_length >= 1):
            raise UsageError("the promised rate p0 must be above 0 and below 1, and target_run_length 1 or more")
        nodes, weights = roots_jacobi(_NODES, 0.0, prior[0] - 1.0)
        rates = p0 * (nodes + 1.0) / 2.0
        weights = weights * (1.0 - rates) ** (prior[1] - 1.0)
        return cls(
            target_run_length=target_run_length,
            rates=rates,
            weights=weights / weights.sum(),
            log_pass=np.log(rates / p0),
            log_fail=np.log1p(-rates) - np.log1p(-p0),
        )

    def start(self) -> FloatArray:
        """Return the values, (rates,), before the first conversation.

        >>> float(ChangeDetector.of(0.9, 1000).start().sum())
        0.0
        """
        return np.zeros_like(self.rates)

    def value(self, values: FloatArray) -> FloatArray:
        """Return the detector's value from the values of its rates, the last axis.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> float(detector.value(detector.start()))
        0.0
        """
        return np.asarray(values @ self.weights)

    def step(self, values: FloatArray, outcomes: npt.ArrayLike) -> FloatArray:
        """Return the values after one more conversation of each stream: R = (1 + R) * likelihood ratio.

        Args:
            values: (..., rates) values before.
            outcomes: (...) true where correct.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> round(float(detector.value(detector.step(detector.start(), False))), 2)
        2.81
        """
        correct = np.asarray(outcomes, dtype=np.bool_)[..., np.newaxis]
        return np.asarray((1.0 + values) * np.exp(np.where(correct, self.log_pass, self.log_fail)))

    def watch(self, values: FloatArray, outcomes: npt.ArrayLike) -> tuple[FloatArray, list[int]]:
        """Return the values after a stretch of one stream, and the places of its alarms; each alarm starts it anew.

        Args:
            values: (rates,) values before.
            outcomes: (looks,) true where correct, in event order; or means of blocks.

        >>> detector = ChangeDetector.of(0.9, 1000)
        >>> detector.watch(detector.start(), [True] * 50 + [False] * 20)[1]
        [54, 59, 64, 69]
        """
        correct = np.asarray(outcomes, dtype=np.float64)
        steepest = float(max(-self.log_pass.min(), self.log_fail.max()))
        portion = max(1, min(_PORTION, int(_EXPONENT / steepest)))
        alarms: list[int] = []
        place = 0
        while place < correct.size:
            path = self._portion(values, correct[place : place + portion])
            reached = np.flatnonzero(self.value(path) >= self.target_run_length)
            if reached.size:
                alarms.append(place + int(reached[0]))
                place, values = alarms[-1] + 1, self.start()
            else:
                place, values = place + len(path), path[-1]
        return values, alarms

    def run_lengths(self, outcomes: npt.ArrayLike) -> IntArray:
        """Return how many conversations the first alarm took in each of many streams, 0 where there was none.

        Args:
            outcomes: (streams, looks) true where correct.

        >>> ChangeDetector.of(0.9, 1000).run_lengths([[False] * 9, [True] * 9]).tolist()
        [5, 0]
        """
        correct = np.asarray(outcomes, dtype=np.bool_)
        lengths = np.zeros(len(correct), dtype=np.int64)
        waiting = np.arange(len(correct))
        values = np.zeros((len(correct), self.rates.size))
        for look in range(correct.shape[1]):
            values = self.step(values, correct[waiting, look])
            reached = self.value(values) >= self.target_run_length
            lengths[waiting[reached]] = look + 1
            waiting, values = waiting[~reached], values[~reached]
        return lengths

    def _portion(self, values: FloatArray, correct: FloatArray) -> FloatArray:
        """Return the values after each conversation: with L the product so far, R = L * (R before + sum of 1 / earlier L)."""
        means = correct[:, np.newaxis]
        ratios = np.log(means * np.exp(self.log_pass) + (1.0 - means) * np.exp(self.log_fail))
        log_product = np.cumsum(ratios, axis=0)
        earlier = np.exp(-np.concatenate((np.zeros((1, self.rates.size)), log_product[:-1])))
        return np.asarray(np.exp(log_product) * (values + np.cumsum(earlier, axis=0)))
