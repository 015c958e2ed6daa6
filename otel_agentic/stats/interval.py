"""Intervals of a rate: Wilson (reports), Clopper-Pearson (gates) and their quantiles.

Attempts may be a real number: an effective sample size is seldom whole.
"""

from __future__ import annotations

from typing import NamedTuple

from scipy.special import betaincinv, ndtri, stdtrit

from otel_agentic.errors import UsageError


class Interval(NamedTuple):
    """Lower and upper end of an interval of a rate, both in [0, 1]."""

    lower: float
    upper: float


class Bounded(NamedTuple):
    """A point with its interval, all of them known."""

    value: float
    lower: float
    upper: float


def quantile(level: float, degrees: float | None = None) -> float:
    """Return the two-sided quantile of a level: normal, or Student's t where degrees of freedom are given.

    Raises:
        UsageError: the level is not between 0 and 1.

    >>> round(quantile(0.95), 3), round(quantile(0.95, 19), 3)
    (1.96, 2.093)
    """
    if not 0 < level < 1:
        raise UsageError(f"level {level!r}: the level of an interval lies between 0 and 1, e.g. 0.95")
    tail = (1.0 + level) / 2.0
    return float(ndtri(tail) if degrees is None else stdtrit(degrees, tail))


def wilson(p: float, n: float, critical: float) -> Interval:
    """Return the score interval of a rate p seen in n attempts, at a critical value (see `quantile`).

    Unlike p +- z * standard error it keeps a width at p = 0 and p = 1 and stays inside [0, 1].

    Ref: Wilson 1927, "Probable inference, the law of succession, and statistical inference"; with n the effective
    sample size and a t quantile for clustered data: Dean and Pagano 2015, "Evaluating Confidence Interval Methods
    for Binomial Proportions in Clustered Surveys".

    >>> [round(end, 3) for end in wilson(0.7, 10, quantile(0.95))]
    [0.397, 0.892]
    """
    shrink = critical * critical / n
    centre = (p + shrink / 2.0) / (1.0 + shrink)
    half = (shrink * p * (1.0 - p) + shrink * shrink / 4.0) ** 0.5 / (1.0 + shrink)
    # The formula gives exactly 0 or 1 at p = 0 or 1; rounding must not let it miss p.
    return Interval(max(0.0, min(p, centre - half)), min(1.0, max(p, centre + half)))


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
    if not 0 < level < 1:
        raise UsageError(f"level {level!r}: the level of an interval lies between 0 and 1, e.g. 0.95")
    tail = (1.0 - level) / 2.0
    lower = 0.0 if c == 0 else float(betaincinv(c, n - c + 1, tail))
    upper = 1.0 if c == n else float(betaincinv(c + 1, n - c, 1.0 - tail))
    return Interval(lower, upper)
