"""pass@k and pass^k of counts and rates, vectorised over numpy arrays, and intervals of a rate.

pass@k is the chance that at least one of k attempts is correct, pass^k that all k are. The plug-in forms put the
observed rate into the Bernoulli formulas (draws with replacement); the unbiased forms count subsets of the observed
attempts (draws without replacement) and are undefined (NaN here, null in reports) with fewer than k attempts.

All arguments broadcast against each other, k too. Counts may be real numbers: with attempts of unequal weight the correct
ones are the weighted rate times the attempts, and the binomials are those of the Gamma function.

Counting subsets and averaging over a Beta distribution both come down to ratios of rising factorials
`(x)_k = x (x + 1) ... (x + k - 1)`: the share of k-subsets that are all correct is `(c - k + 1)_k / (n - k + 1)_k`, the mean
of p^k under Beta(a, b) is `(a)_k / (a + b)_k`.

Intervals of a rate are Wilson's (reports), Clopper and Pearson's (gates) and those of the Beta posterior. Attempts may be a
real number: an effective sample size is seldom whole. Functions that take arrays return an interval as the last axis, lower
and upper.

The probability that one Beta variable is below another is a quadrature, without sampling, over the logit of Y. There the
density of a Beta variable is log-concave with at most exponential tails, for all parameters, so that it can be cut off at a
known height and no quantile has to be inverted. The weights are normalised by their own sum, so the rounding errors of large
log-gamma values cancel out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import scipy

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    BoolArray = npt.NDArray[np.bool_]
    IntArray = npt.NDArray[np.int64]

#: From this value on, four terms of Stirling's series are exact to double precision.
_LARGE: Final = 16.0
#: The product of this many factors below 1e19 does not overflow a double.
_FEW: Final = 16


def log_rising(x: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return log (x)_k = log Gamma(x + k) - log Gamma(x), elementwise, for x > 0.

    For large x the two logarithms are near 1e8 and their difference keeps eight digits only; there Stirling's series is
    subtracted term by term.

    Ref: Abramowitz and Stegun 1964, 6.1.40 (Stirling's series) and 6.1.22 (rising factorial).

    >>> round(float(np.exp(log_rising(3.0, 4))), 9), float(log_rising(3.0, 0))  # 3 * 4 * 5 * 6
    (360.0, 0.0)
    >>> round(float(log_rising(1e7, 3)), 6)
    48.354287
    """
    start, steps = np.asarray(x, dtype=np.float64), np.asarray(k, dtype=np.float64)
    large = np.maximum(start, _LARGE)
    series = (large - 0.5) * np.log1p(steps / large) + steps * (np.log(large + steps) - 1.0)
    series += _stirling_tail(large + steps) - _stirling_tail(large)
    return np.asarray(
        np.where(start < _LARGE, scipy.special.gammaln(start + steps) - scipy.special.gammaln(start), series)
    )


def rising_ratio(part: npt.ArrayLike, total: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return (part)_k / (total)_k, elementwise, for 0 < part <= total: in [0, 1].

    Up to k = 16 the factors are multiplied: for small integers the ratio is then the nearest double, so that a tier
    whose threshold it meets exactly does not depend on the rounding of logarithms. Larger k use log Gamma.

    >>> round(float(rising_ratio(8.0, 12.0, 3)), 4)  # (8 * 9 * 10) / (12 * 13 * 14)
    0.3297
    """
    steps = np.asarray(k)
    few = _rising(part, steps) / _rising(total, steps)
    if np.all(steps <= _FEW):
        return np.asarray(few)
    many = np.exp(np.minimum(log_rising(part, steps) - log_rising(total, steps), 0.0))
    return np.where(steps <= _FEW, few, many)


def _rising(x: npt.ArrayLike, k: npt.NDArray[np.integer]) -> FloatArray:
    """Return (x)_k, or the product of the first `_FEW` factors if k is larger."""
    steps = np.arange(min(int(k.max(initial=0)), _FEW))
    factors = np.asarray(x, dtype=np.float64)[..., None] + steps
    return np.asarray(np.where(steps < k[..., None], factors, 1.0).prod(axis=-1))


def _stirling_tail(x: FloatArray) -> FloatArray:
    square = x * x
    return np.asarray((1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / (1680.0 * square)) / square) / square) / x)


def any_of(p: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return pass@k of a success rate p: 1 - (1 - p)^k, rising in p and in k.

    Raises:
        UsageError: k is below 1.

    Ref: k independent Bernoulli attempts; Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 3.2.

    >>> [round(float(any_of(2 / 3, k)), 3) for k in (1, 2, 3, 4, 5)]
    [0.667, 0.889, 0.963, 0.988, 0.996]
    """
    _require_k(k)
    rate = np.asarray(p, dtype=np.float64)
    with np.errstate(divide="ignore"):  # p = 1: log1p(-1) is -inf, and expm1(-inf) is -1, as required
        at_least_one = -np.expm1(np.asarray(k) * np.log1p(-rate))
    return np.where(np.equal(k, 1), rate, at_least_one)  # pass@1 must equal pass^1 to the last digit


def all_of(p: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return pass^k of a success rate p: p^k, rising in p and falling in k.

    Raises:
        UsageError: k is below 1.

    Ref: k independent Bernoulli attempts; Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 3.3.

    >>> [round(float(all_of(2 / 3, k)), 3) for k in (1, 2, 3, 4, 5)]
    [0.667, 0.444, 0.296, 0.198, 0.132]
    """
    _require_k(k)
    return np.asarray(np.asarray(p, dtype=np.float64) ** np.asarray(k))


def plugin_pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return the plug-in pass@k of c correct among n attempts; NaN where n = 0. Biased for small n.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Bernoulli formula at the maximum-likelihood rate c / n.

    >>> round(float(plugin_pass_at_k(3, 2, 3)), 3)
    0.963
    """
    return any_of(_rate(n, c), k)


def plugin_pass_pow_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return the plug-in pass^k of c correct among n attempts; NaN where n = 0. Biased for small n.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Bernoulli formula at the maximum-likelihood rate c / n.

    >>> round(float(plugin_pass_pow_k(3, 2, 3)), 3)
    0.296
    """
    return all_of(_rate(n, c), k)


def unbiased_pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return 1 - C(n-c, k) / C(n, k), the share of k-subsets with a correct attempt; NaN where n < k.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.

    >>> float(unbiased_pass_at_k(3, 2, 3)), float(unbiased_pass_at_k(2, 1, 3))
    (1.0, nan)
    """
    attempts, correct = _counts(n, c)
    at_least_one = 1.0 - _subset_ratio(attempts - correct, attempts, k)
    return np.where(np.equal(k, 1), _rate(attempts, correct), at_least_one)


def unbiased_pass_pow_k(n: npt.ArrayLike, c: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """Return C(c, k) / C(n, k), the share of k-subsets that are all correct; NaN where n < k.

    Raises:
        UsageError: k is below 1, or not 0 <= c <= n.

    Ref: Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains", pass^k.

    >>> float(unbiased_pass_pow_k(3, 2, 3)), round(float(unbiased_pass_pow_k(10, 7, 3)), 4)
    (0.0, 0.2917)
    """
    attempts, correct = _counts(n, c)
    return _subset_ratio(correct, attempts, k)


def _subset_ratio(part: FloatArray, total: FloatArray, k: npt.ArrayLike) -> FloatArray:
    """Return C(part, k) / C(total, k): 0 where part <= k - 1, NaN where total < k."""
    _require_k(k)
    last = np.asarray(k) - 1.0
    # Where the ratio is 0 or undefined, factors may not be positive; they are replaced by 1 and not used.
    zero, undefined = part <= last, total <= last
    ratio = rising_ratio(np.where(zero, 1.0, part - last), np.where(undefined, 1.0, total - last), k)
    return np.asarray(np.where(undefined, np.nan, np.where(zero, 0.0, ratio)))


def _rate(n: npt.ArrayLike, c: npt.ArrayLike) -> FloatArray:
    attempts, correct = _counts(n, c)
    return np.asarray(np.divide(correct, attempts, out=np.full(attempts.shape, np.nan), where=attempts > 0))


def _counts(n: npt.ArrayLike, c: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    attempts, correct = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(c, dtype=np.float64))
    if np.any(correct < 0) or np.any(correct > attempts):
        raise UsageError(f"counts c={c!r} of n={n!r}: each c must lie between 0 and its n")
    return attempts, correct


def _require_k(k: npt.ArrayLike) -> None:
    if np.any(np.asarray(k, dtype=np.float64) < 1):
        raise UsageError(f"k={k!r}: k must be a whole number of attempts, 1 or more")


class Interval(NamedTuple):
    """Lower and upper end of an interval of a rate, both in [0, 1]."""

    lower: float
    upper: float


class Bounded(NamedTuple):
    """A point with its interval, all of them defined."""

    value: float
    lower: float
    upper: float


def lower_tail(level: float) -> float:
    """Return the probability on each side of an equal-tailed interval of a level.

    Raises:
        UsageError: the level is not between 0 and 1.

    >>> lower_tail(0.5)
    0.25
    """
    if not 0 < level < 1:
        raise UsageError(f"level {level!r}: the level of an interval lies between 0 and 1, e.g. 0.95")
    return (1.0 - level) / 2.0


def quantile(level: float, degrees: float | None = None) -> float:
    """Return the two-sided quantile of a level: normal, or Student's t if degrees of freedom are passed.

    Raises:
        UsageError: the level is not between 0 and 1.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 19), 3)
    (1.96, 2.093)
    """
    return float(critical_values(level, np.nan if degrees is None else degrees))


def critical_values(level: float, degrees: npt.ArrayLike) -> FloatArray:
    """Return `quantile` for arrays of degrees of freedom, NaN for the normal one.

    Raises:
        UsageError: the level is not between 0 and 1.

    >>> critical_values(0.95, [np.nan, 19.0]).round(3).tolist()
    [1.96, 2.093]
    """
    upper = 1.0 - lower_tail(level)
    # Many groups have few distinct degrees of freedom, and Student's quantile is slow.
    freedom, inverse = np.unique(np.asarray(degrees, dtype=np.float64), return_inverse=True)
    return np.asarray(
        np.where(np.isnan(freedom), scipy.special.ndtri(upper), scipy.special.stdtrit(freedom, upper))[inverse]
    )


def wilson(p: float, n: float, critical: float) -> Interval:
    """Return the score interval of a rate p observed in n attempts, at a critical value (see `quantile`).

    Unlike p +- z * standard error, it has a width at p = 0 and p = 1, and remains inside [0, 1].

    Ref: Wilson 1927, "Probable inference, the law of succession, and statistical inference"; with n the effective
    sample size and a t quantile for clustered data: Dean and Pagano 2015, "Evaluating Confidence Interval Methods
    for Binomial Proportions in Clustered Surveys".

    >>> [round(end, 3) for end in wilson(0.7, 10, quantile(0.95))]
    [0.397, 0.892]
    """
    lower, upper = wilson_bounds(p, n, critical).tolist()
    return Interval(lower, upper)


def wilson_bounds(p: npt.ArrayLike, n: npt.ArrayLike, critical: npt.ArrayLike) -> FloatArray:
    """Return `wilson` for arrays: (..., 2), lower and upper; NaN where a rate is NaN.

    >>> wilson_bounds([0.7, 1.0], [10, 10], quantile(0.95)).round(3).tolist()
    [[0.397, 0.892], [0.722, 1.0]]
    """
    rate = np.asarray(p, dtype=np.float64)
    shrink = np.square(critical) / np.asarray(n, dtype=np.float64)
    centre = (rate + shrink / 2.0) / (1.0 + shrink)
    half = np.sqrt(shrink * rate * (1.0 - rate) + shrink * shrink / 4.0) / (1.0 + shrink)
    # The formula gives exactly 0 or 1 at p = 0 or 1; rounding must not exclude p.
    lower, upper = np.minimum(rate, centre - half), np.maximum(rate, centre + half)
    return np.stack((np.maximum(lower, 0.0), np.minimum(upper, 1.0)), axis=-1)


def clopper_pearson(c: float, n: float, level: float) -> Interval:
    """Return the exact interval of c correct among n attempts: coverage is never below the level, so gates use it.

    Raises:
        UsageError: n is not above 0, c is not within [0, n], or the level is not between 0 and 1.

    Ref: Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial".

    >>> [round(end, 4) for end in clopper_pearson(7, 10, 0.95)]
    [0.3475, 0.9333]
    """
    if n <= 0 or not 0 <= c <= n:
        raise UsageError(f"c={c!r} of n={n!r}: n must be above 0 and c between 0 and n")
    tail = lower_tail(level)
    lower = 0.0 if c == 0 else float(scipy.special.betaincinv(c, n - c + 1, tail))
    upper = 1.0 if c == n else float(scipy.special.betaincinv(c + 1, n - c, 1.0 - tail))
    return Interval(lower, upper)


def clopper_pearson_bounds(p: npt.ArrayLike, n: npt.ArrayLike, level: float) -> FloatArray:
    """Return `clopper_pearson` for arrays of observed rates: (..., 2), lower and upper; NaN where a rate is NaN.

    >>> clopper_pearson_bounds([0.7, 1.0], [10, 10], 0.95).round(4).tolist()
    [[0.3475, 0.9333], [0.6915, 1.0]]
    """
    tail, rate, attempts = lower_tail(level), np.asarray(p, dtype=np.float64), np.asarray(n, dtype=np.float64)
    correct = rate * attempts
    failures = attempts - correct
    lower = np.where(rate <= 0.0, 0.0, scipy.special.betaincinv(correct, failures + 1.0, tail))
    upper = np.where(rate >= 1.0, 1.0, scipy.special.betaincinv(correct + 1.0, np.maximum(failures, 0.0), 1.0 - tail))
    return np.stack((lower, upper), axis=-1)


def bounded(values: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return points with their intervals: (groups, k, 3); all three are NaN where the point is NaN.

    An interval that does not contain its point is stretched to contain it: an interval without its own estimate is
    useless, and stretching only adds coverage.

    Args:
        values: (groups, k) points.
        bounds: (groups, k, 2) lower and upper.

    >>> bounded(np.array([[0.9]]), np.array([[[0.2, 0.8]]])).tolist()
    [[[0.9, 0.2, 0.9]]]
    """
    lower, upper = np.minimum(bounds[..., 0], values), np.maximum(bounds[..., 1], values)
    return np.where(np.isnan(values)[..., None], np.nan, np.stack((values, lower, upper), axis=-1))


def smallest_for_each(holds: Callable[[IntArray, IntArray], BoolArray], size: int, most: int) -> IntArray:
    """Return for each of `size` conditions the smallest number from 1 to `most` for which it holds, or 0.

    Numbers are doubled until a condition holds, then bisected: about 2 log2(most) calls for all conditions. A condition
    must hold for all larger numbers once it holds, like a tier at a fixed rate, whose intervals only shrink. Otherwise
    the result is still a number for which it holds, while it does not for the next smaller one.

    Args:
        holds: takes the indices of conditions and a number for each; returns whether each condition holds.
        size: number of conditions.
        most: the largest number to try, 1 or more.

    >>> smallest_for_each(lambda which, numbers: numbers >= np.array([37, 1, 101])[which], 3, 100).tolist()
    [37, 1, 0]
    """
    below, above = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
    unresolved = np.arange(size)
    while unresolved.size:
        unresolved = unresolved[~holds(unresolved, above[unresolved])]
        below[unresolved] = above[unresolved]
        above[unresolved] = np.where(above[unresolved] == most, 0, np.minimum(2 * above[unresolved], most))
        unresolved = unresolved[above[unresolved] > 0]
    unresolved = np.flatnonzero(above - below > 1)
    while unresolved.size:
        middle = (below[unresolved] + above[unresolved]) // 2
        holds_at_middle = holds(unresolved, middle)
        above[unresolved[holds_at_middle]], below[unresolved[~holds_at_middle]] = (
            middle[holds_at_middle],
            middle[~holds_at_middle],
        )
        unresolved = unresolved[above[unresolved] - below[unresolved] > 1]
    return above


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
    """Return the interval of p ~ Beta(a, b) that excludes a probability on each side: (..., 2), lower and upper.

    >>> beta_quantiles([8.0, 1.0], [4.0, 1.0], [0.025, 0.1]).round(4).tolist()
    [[0.3903, 0.8907], [0.1, 0.9]]
    """
    successes, failures, tails = (np.asarray(value, dtype=np.float64) for value in (a, b, tail))
    lower = scipy.special.betaincinv(successes, failures, tails)
    if np.isnan(lower).any():
        # scipy returns NaN for some tails below 1e-16. The quantile is then so small that P(X < x) = x^a / (a B(a, b)).
        with np.errstate(divide="ignore", invalid="ignore"):  # of the other elements, which may be 0 or NaN
            logs = np.log(tails) + np.log(successes) + scipy.special.betaln(successes, failures)
            lower = np.where(np.isnan(lower), np.exp(logs / successes), lower)
    return np.stack([lower, scipy.special.betaincinv(successes, failures, 1.0 - tails)], axis=-1, dtype=np.float64)


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


#: A density is cut off where its logarithm is this far below its maximum: the omitted part is below 1e-17.
_DROP: Final = 45.0
#: Number of bisections of the bracket around each end.
_HALVINGS: Final = 60
#: Number of parts on each side of a density's maximum, and Gauss-Legendre nodes in each part.
_PARTS: Final = 24
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: Below this logit only the leading term of the distribution counts, and the rate itself underflows.
_TINY: Final = -600.0


def probability_below(x: BetaPosterior, y: BetaPosterior) -> float:
    """Return P(X < Y) of two independent Beta variables, with an absolute error below 1e-9 for parameters up to 1e6.

    >>> from otel_agentic.stats.rates import BetaPosterior
    >>> round(probability_below(BetaPosterior(a=1.0, b=1.0), BetaPosterior(a=1.0, b=1.0)), 12)
    0.5
    >>> round(probability_below(BetaPosterior(a=85.0, b=117.0), BetaPosterior(a=100.0, b=102.0)), 4)
    0.9335
    """
    y_edges, x_edges = _edges(y), _edges(x)
    edges = np.unique(np.concatenate([y_edges, x_edges[(x_edges > y_edges[0]) & (x_edges < y_edges[-1])]]))
    half = np.diff(edges)[:, None] / 2.0
    logit = edges[:-1, None] + half * (1.0 + _NODES)
    weight = half * _WEIGHTS * np.exp(_log_density(y, logit))
    return float(min(1.0, np.sum(weight * _distribution_at(x, logit)) / np.sum(weight)))


def _log_density(curve: BetaPosterior, logit: FloatArray) -> FloatArray:
    """Return the log density of the logit, 0 at its maximum."""
    top = np.log(curve.a / curve.b)
    density: FloatArray = curve.a * (scipy.special.log_expit(logit) - scipy.special.log_expit(top)) + curve.b * (
        scipy.special.log_expit(-logit) - scipy.special.log_expit(-top)
    )
    return density


def _distribution_at(curve: BetaPosterior, logit: FloatArray) -> FloatArray:
    """Return the distribution function at logits, computed from the side on which the rate is precise."""
    a, b = curve.a, curve.b
    far = [(a, np.minimum(logit, _TINY)), (b, np.minimum(-logit, _TINY))]
    leading = [np.exp(slope * end - np.log(slope) - scipy.special.betaln(a, b)) for slope, end in far]
    below: FloatArray = np.select(
        [logit < _TINY, logit < 0.0, logit <= -_TINY],
        [
            leading[0],
            scipy.special.betainc(a, b, scipy.special.expit(logit)),
            scipy.special.betaincc(b, a, scipy.special.expit(-logit)),
        ],
        1.0 - leading[1],
    )
    return below


def _edges(curve: BetaPosterior) -> FloatArray:
    """Return the edges of the parts into which the density of a logit is divided, from one cut-off to the other."""
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
    steps = np.linspace(0.0, 1.0, _PARTS + 1) ** 3  # finest at the maximum, where a flat density bends
    return np.concatenate([top - far[0] * steps[::-1], top + far[1] * steps[1:]])
