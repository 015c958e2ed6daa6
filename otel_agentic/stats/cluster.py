"""Effective sample size: attempts of one case resemble each other, so n of them weigh less than n cases.

The rule, for a rate p over K cases with n attempts, some case having more than one:

- `n_eff = min(n, p (1 - p) / v)` with v the cluster-robust variance of p, cases being the clusters. For the pooled
  rate p = sum c_i / sum n_i this is the linearised ratio estimator, which allows cases of unequal size:
  `v = K / (K - 1) * sum (c_i - p n_i)^2 / n^2`. For a mean over cases it is the same with case weights.
- `n_eff = K` when v is 0 (all cases alike, or p is 0 or 1): then the data cannot tell how alike attempts of one case
  are, and the careful reading is that each case counts once. Without this, intervals collapse to a point.
- Quantiles are Student's t with K - 1 degrees of freedom, since v itself is estimated from K cases.

One attempt a case is the plain interval: n attempts, normal quantile. So is a single case: there is nothing between
cases to measure, its attempts are independent repetitions, and the interval is about that case alone (the method's
name says `one_case`).

Ref: Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts
estimated from survey data"; Dean and Pagano 2015, "Evaluating Confidence Interval Methods for Binomial Proportions in
Clustered Surveys"; Cochran 1977, "Sampling Techniques", section 6 (ratio estimator).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.stats.model import Attempts

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

Design = Literal["independent", "one_case", "clustered"]
#: Case means nearer than this are equal: they are ratios of small counts, apart by rounding only.
_ALIKE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSample:
    """A rate and the independent attempts it is worth; `cases` are the clusters when there are any, else None."""

    p: float
    n: float
    cases: float | None = None

    @property
    def degrees(self) -> float | None:
        """Degrees of freedom of the t quantile, None for the normal one."""
        return None if self.cases is None else self.cases - 1.0

    @property
    def c(self) -> float:
        """Correct ones among the effective attempts."""
        return self.p * self.n

    def scaled(self, factor: float) -> EffectiveSample:
        """Return the sample that `factor` times as many conversations, alike in rate and make-up, would give.

        >>> EffectiveSample(p=0.5, n=10.0, cases=5).scaled(2.0)
        EffectiveSample(p=0.5, n=20.0, cases=10.0)
        """
        return replace(self, n=self.n * factor, cases=None if self.cases is None else self.cases * factor)


def counts(attempts: Attempts) -> tuple[IntArray, IntArray]:
    """Return attempts and correct attempts by case, as two arrays of whole numbers."""
    size = len(attempts.cases)
    n = np.fromiter((case.n for case in attempts.cases), dtype=np.int64, count=size)
    c = np.fromiter((case.c for case in attempts.cases), dtype=np.int64, count=size)
    return n, c


def design(attempts: Attempts) -> Design:
    """Return which rule of this page applies.

    >>> from otel_agentic.stats.model import Attempts
    >>> design(Attempts.of([("a", True), ("a", False), ("b", True)]))
    'clustered'
    """
    if all(case.n == 1 for case in attempts.cases):
        return "independent"
    return "one_case" if len(attempts.cases) == 1 else "clustered"


def pooled_sample(attempts: Attempts) -> EffectiveSample | None:
    """Return the pooled rate with its effective sample size; None without attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> both_ways = [(case, case == "a" or case == "b") for case in "abcd" for _ in range(5)]
    >>> pooled_sample(Attempts.of(both_ways))
    EffectiveSample(p=0.5, n=3.0, cases=4)
    """
    n, c = counts(attempts)
    total = int(n.sum())
    if total == 0:
        return None
    p = int(c.sum()) / total
    if design(attempts) != "clustered":
        return EffectiveSample(p=p, n=float(total))
    # n (c_i - p n_i) is a whole number, so that "no variance" is exactly 0.
    residuals = (c * total - n * int(c.sum())).astype(np.float64)
    cases = len(n)
    variance = cases / (cases - 1) * float(residuals @ residuals) / float(total) ** 4
    return EffectiveSample(p=p, n=effective_n(p, variance, attempts=total, cases=cases), cases=cases)


def mean_sample(values: FloatArray, weights: FloatArray, attempts: int) -> EffectiveSample:
    """Return the weighted mean of per-case estimates in [0, 1] with its effective sample size.

    Args:
        values: an estimate a case, two cases or more, some with more than one attempt.
        weights: a weight a case, summing to 1.
        attempts: attempts behind the values; the effective sample is never larger.

    >>> mean_sample(np.array([0.0, 1.0, 1.0, 0.0]), np.full(4, 0.25), 16)
    EffectiveSample(p=0.5, n=3.0, cases=4)
    """
    cases = len(values)
    mean = float(np.clip(weights @ values, 0.0, 1.0))
    if np.ptp(values) <= _ALIKE:
        return EffectiveSample(p=mean, n=float(cases), cases=cases)
    residuals = weights * (values - mean)
    variance = cases / (cases - 1) * float(residuals @ residuals)
    return EffectiveSample(p=mean, n=effective_n(mean, variance, attempts=attempts, cases=cases), cases=cases)


def effective_n(p: float, variance: float, *, attempts: int, cases: int) -> float:
    """Return the number of independent attempts that would give the same variance (the rule of this page).

    >>> effective_n(0.5, 0.25 / 30, attempts=40, cases=10)
    30.0
    >>> effective_n(1.0, 0.0, attempts=40, cases=10)
    10.0
    """
    if variance <= 0.0 or p <= 0.0 or p >= 1.0:
        return float(cases)
    return min(float(attempts), p * (1.0 - p) / variance)
