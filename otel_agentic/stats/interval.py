"""Intervals of a rate: Wilson (reports), Clopper-Pearson (gates), their quantiles, and a search for the smallest sufficient number.

Attempts may be a real number: an effective sample size is seldom whole. `critical_values` and `wilson_bounds` take arrays;
an interval is then the last axis, lower and upper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri, stdtrit

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    BoolArray = npt.NDArray[np.bool_]
    IntArray = npt.NDArray[np.int64]


class Interval(NamedTuple):
    """Lower and upper end of an interval of a rate, both in [0, 1]."""

    lower: float
    upper: float


class Bounded(NamedTuple):
    """A point with its interval, all of them known."""

    value: float
    lower: float
    upper: float


def lower_tail(level: float) -> float:
    """Return the probability outside an equal-tailed interval of a level, on either side.

    Raises:
        UsageError: the level is not between 0 and 1.

    >>> lower_tail(0.5)
    0.25
    """
    if not 0 < level < 1:
        raise UsageError(f"level {level!r}: the level of an interval lies between 0 and 1, e.g. 0.95")
    return (1.0 - level) / 2.0


def quantile(level: float, degrees: float | None = None) -> float:
    """Return the two-sided quantile of a level: normal, or Student's t where degrees of freedom are given.

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
    # Of many groups few have other degrees of freedom, and Student's quantile is slow.
    freedom, inverse = np.unique(np.asarray(degrees, dtype=np.float64), return_inverse=True)
    return np.asarray(np.where(np.isnan(freedom), ndtri(upper), stdtrit(freedom, upper))[inverse])


def wilson(p: float, n: float, critical: float) -> Interval:
    """Return the score interval of a rate p seen in n attempts, at a critical value (see `quantile`).

    Unlike p +- z * standard error it keeps a width at p = 0 and p = 1 and stays inside [0, 1].

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
    # The formula gives exactly 0 or 1 at p = 0 or 1; rounding must not let it miss p.
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
    lower = 0.0 if c == 0 else float(betaincinv(c, n - c + 1, tail))
    upper = 1.0 if c == n else float(betaincinv(c + 1, n - c, 1.0 - tail))
    return Interval(lower, upper)


def clopper_pearson_bounds(p: npt.ArrayLike, n: npt.ArrayLike, level: float) -> FloatArray:
    """Return `clopper_pearson` for arrays of rates seen in n attempts: (..., 2), lower and upper; NaN where a rate is NaN.

    >>> clopper_pearson_bounds([0.7, 1.0], [10, 10], 0.95).round(4).tolist()
    [[0.3475, 0.9333], [0.6915, 1.0]]
    """
    tail, rate, attempts = lower_tail(level), np.asarray(p, dtype=np.float64), np.asarray(n, dtype=np.float64)
    right = rate * attempts
    failures = attempts - right
    lower = np.where(rate <= 0.0, 0.0, betaincinv(right, failures + 1.0, tail))
    upper = np.where(rate >= 1.0, 1.0, betaincinv(right + 1.0, np.maximum(failures, 0.0), 1.0 - tail))
    return np.stack((lower, upper), axis=-1)


def bounded(values: FloatArray, bounds: FloatArray) -> FloatArray:
    """Return points with their intervals: (groups, k, 3), NaN all three where the point is NaN.

    An interval that misses its point is stretched to hold it: an interval without its own estimate is of no use, and
    stretching only adds coverage.

    Args:
        values: (groups, k) points.
        bounds: (groups, k, 2) lower and upper.

    >>> bounded(np.array([[0.9]]), np.array([[[0.2, 0.8]]])).tolist()
    [[[0.9, 0.2, 0.9]]]
    """
    lower, upper = np.minimum(bounds[..., 0], values), np.maximum(bounds[..., 1], values)
    return np.where(np.isnan(values)[..., None], np.nan, np.stack((values, lower, upper), axis=-1))


def smallest_for_each(holds: Callable[[IntArray, IntArray], BoolArray], size: int, most: int) -> IntArray:
    """Return for each of `size` conditions the smallest number from 1 to `most` where it holds, 0 where nowhere.

    It doubles until a condition holds, then bisects: some 2 log2(most) calls for all of them. A condition must keep
    holding once it holds, as a tier does at a fixed rate, where intervals only shrink; were it to lapse in between, the
    answer would still be a number where it holds while it does not just below.

    Args:
        holds: takes which conditions to ask and a number for each, returns whether each holds there.
        size: how many conditions.
        most: the largest number to look at, 1 or more.

    >>> smallest_for_each(lambda which, numbers: numbers >= np.array([37, 1, 101])[which], 3, 100).tolist()
    [37, 1, 0]
    """
    below, above = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
    open_ = np.arange(size)
    while open_.size:
        open_ = open_[~holds(open_, above[open_])]
        below[open_] = above[open_]
        above[open_] = np.where(above[open_] == most, 0, np.minimum(2 * above[open_], most))
        open_ = open_[above[open_] > 0]
    open_ = np.flatnonzero(above - below > 1)
    while open_.size:
        middle = (below[open_] + above[open_]) // 2
        held = holds(open_, middle)
        above[open_[held]], below[open_[~held]] = middle[held], middle[~held]
        open_ = open_[above[open_] - below[open_] > 1]
    return above
