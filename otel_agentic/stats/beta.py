"""The Beta posterior of a success rate: means of pass@k and pass^k, quantiles, and the probability that one rate is below another.

The probability that one Beta variable lies below another, by quadrature; no sampling.

The integral is taken over the logit of Y. There the density of a Beta variable is log-concave with at most exponential
tails, for all parameters, so that it can be cut off at a known height and no quantile has to be inverted. The weights
are normalised by their own sum, so the rounding errors of large log-gamma values cancel out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betainc, betaincc, betaincinv, betaln, expit, log_expit

from otel_agentic.stats.interval import Interval, lower_tail
from otel_agentic.stats.pass_k import rising_ratio

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
    total = successes + failures
    return np.where(np.equal(k, 1), successes / total, 1.0 - rising_ratio(failures, total, k))


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
    successes, failures, beyond = (np.asarray(value, dtype=np.float64) for value in (a, b, tail))
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


#: A density is cut off where its logarithm is this far below the top: the omitted part is below 1e-17.
_DROP: Final = 45.0
#: Halvings of the bracket that holds an end.
_HALVINGS: Final = 60
#: Parts on either side of each density's top, and Gauss-Legendre nodes in each part.
_PARTS: Final = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: Below this logit only the leading term of the distribution counts, and the rate itself leaves the range of a float.
_TINY: Final = -600.0


def probability_below(x: BetaPosterior, y: BetaPosterior) -> float:
    """Return P(X < Y) of two independent Beta variables, with an absolute error below 1e-9 for parameters up to 1e6.

    >>> from otel_agentic.stats.beta import BetaPosterior
    >>> round(probability_below(BetaPosterior(a=1.0, b=1.0), BetaPosterior(a=1.0, b=1.0)), 12)
    0.5
    >>> round(probability_below(BetaPosterior(a=85.0, b=117.0), BetaPosterior(a=100.0, b=102.0)), 4)
    0.9335
    """
    own, other = _edges(y), _edges(x)
    edges = np.unique(np.concatenate([own, other[(other > own[0]) & (other < own[-1])]]))
    half = np.diff(edges)[:, None] / 2.0
    logit = edges[:-1, None] + half * (1.0 + _NODES)
    weight = half * _WEIGHTS * np.exp(_log_density(y, logit))
    return float(min(1.0, np.sum(weight * _below(x, logit)) / np.sum(weight)))


def _log_density(curve: BetaPosterior, logit: FloatArray) -> FloatArray:
    """Return the log density of the logit, 0 at its top."""
    top = np.log(curve.a / curve.b)
    density: FloatArray = curve.a * (log_expit(logit) - log_expit(top)) + curve.b * (
        log_expit(-logit) - log_expit(-top)
    )
    return density


def _below(curve: BetaPosterior, logit: FloatArray) -> FloatArray:
    """Return the distribution function at logits, from the side on which the rate keeps its digits."""
    a, b = curve.a, curve.b
    far = [(a, np.minimum(logit, _TINY)), (b, np.minimum(-logit, _TINY))]
    leading = [np.exp(slope * end - np.log(slope) - betaln(a, b)) for slope, end in far]
    below: FloatArray = np.select(
        [logit < _TINY, logit < 0.0, logit <= -_TINY],
        [leading[0], betainc(a, b, expit(logit)), betaincc(b, a, expit(-logit))],
        1.0 - leading[1],
    )
    return below


def _edges(curve: BetaPosterior) -> FloatArray:
    """Return the parts that a density of a logit is cut into, from where it starts to count to where it ceases to."""
    top = np.log(curve.a / curve.b)
    spread = (1.0 / curve.a + 1.0 / curve.b) ** 0.5
    sides = np.array([-1.0, 1.0])
    near, far = np.zeros(2), np.full(2, spread)
    while np.any(within := _log_density(curve, top + sides * far) > -_DROP):
        far = np.where(within, 2.0 * far, far)
    for _ in range(_HALVINGS):
        middle = (near + far) / 2.0
        within = _log_density(curve, top + sides * middle) > -_DROP
        near, far = np.where(within, middle, near), np.where(within, far, middle)
    steps = np.linspace(0.0, 1.0, _PARTS + 1) ** 3  # finest at the top, where a flat density bends
    return np.concatenate([top - far[0] * steps[::-1], top + far[1] * steps[1:]])
