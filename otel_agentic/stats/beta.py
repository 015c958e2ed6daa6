"""The Beta posterior of a success rate: means of pass@k and pass^k and quantiles, exact, vectorised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betaincinv

from otel_agentic.stats.interval import Interval, lower_tail
from otel_agentic.stats.rising import rising_ratio

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]


def beta_pass_at_mean(a: npt.ArrayLike, b: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return E[1 - (1 - p)^k] = 1 - B(a, b + k) / B(a, b) of p ~ Beta(a, b), elementwise.

    Ref: moments of the Beta distribution; Johnson, Kotz and Balakrishnan 1995, chapter 25.

    >>> beta_pass_at_mean(8.0, 4.0, [1, 3]).round(4).tolist()
    [0.6667, 0.9451]
    """
    successes, failures = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    whole = successes + failures
    return np.where(np.equal(k, 1), successes / whole, 1.0 - rising_ratio(failures, whole, k))


def beta_pass_pow_mean(a: npt.ArrayLike, b: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return E[p^k] = B(a + k, b) / B(a, b) of p ~ Beta(a, b), elementwise.

    Ref: moments of the Beta distribution; Johnson, Kotz and Balakrishnan 1995, chapter 25.

    >>> beta_pass_pow_mean(8.0, 4.0, [1, 3]).round(4).tolist()
    [0.6667, 0.3297]
    """
    successes, failures = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return rising_ratio(successes, successes + failures, k)


def beta_bounds(a: npt.ArrayLike, b: npt.ArrayLike, level: float) -> FloatArray:
    """Return the equal-tailed interval of p ~ Beta(a, b): (..., 2), lower and upper.

    Raises:
        UsageError: the level is not between 0 and 1.

    Ref: inverse of the regularised incomplete beta function; DiDonato and Morris 1992, "Algorithm 708".

    >>> beta_bounds([8.0, 1.0], [4.0, 1.0], 0.95).round(4).tolist()
    [[0.3903, 0.8907], [0.025, 0.975]]
    """
    return beta_quantiles(a, b, lower_tail(level))


def beta_quantiles(a: npt.ArrayLike, b: npt.ArrayLike, tail: npt.ArrayLike) -> FloatArray:
    """Return the interval of p ~ Beta(a, b) that leaves out a probability on either side: (..., 2), lower and upper.

    >>> beta_quantiles([8.0, 1.0], [4.0, 1.0], [0.025, 0.1]).round(4).tolist()
    [[0.3903, 0.8907], [0.1, 0.9]]
    """
    successes, failures, beyond = (np.asarray(each, dtype=np.float64) for each in (a, b, tail))
    ends = [betaincinv(successes, failures, probability) for probability in (beyond, 1.0 - beyond)]
    return np.stack(ends, axis=-1, dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetaPosterior:
    """The posterior Beta(a, b) of one success rate, prior included.

    >>> posterior = BetaPosterior(a=8.0, b=4.0)
    >>> round(posterior.pass_at_mean(3), 4), round(posterior.pass_pow_mean(3), 4)
    (0.9451, 0.3297)
    """

    a: float
    b: float

    def pass_at_mean(self, k: int) -> float:
        """Return the mean of pass@k."""
        return float(beta_pass_at_mean(self.a, self.b, k))

    def pass_pow_mean(self, k: int) -> float:
        """Return the mean of pass^k."""
        return float(beta_pass_pow_mean(self.a, self.b, k))

    def interval(self, level: float) -> Interval:
        """Return the equal-tailed interval of the rate.

        Raises:
            UsageError: the level is not between 0 and 1.

        >>> [round(end, 4) for end in BetaPosterior(a=8.0, b=4.0).interval(0.95)]
        [0.3903, 0.8907]
        """
        lower, upper = beta_bounds(self.a, self.b, level).tolist()
        return Interval(lower, upper)
