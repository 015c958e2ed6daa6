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

Attempts of unequal weight (see `weights`): n_i and c_i become sums of weights, n becomes Kish's `(sum w)^2 / sum w^2`, and
where v is 0 n_eff is no more than that. With one attempt a case n_eff is the smaller of Kish's and `p (1 - p) / v`, v being
`sum w^2 (correct - p)^2 / (sum w)^2`: heavy attempts may be the ones that fail.

Ref: Korn and Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts
estimated from survey data"; Dean and Pagano 2015, "Evaluating Confidence Interval Methods for Binomial Proportions in
Clustered Surveys"; Cochran 1977, "Sampling Techniques", section 6 (ratio estimator); Kish 1965, "Survey Sampling".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from otel_agentic.stats.grouped import GroupedAttempts
from otel_agentic.stats.weights import row_weights, unequal_weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from otel_agentic.stats.model import Attempts

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]
    BoolArray = npt.NDArray[np.bool_]

Design = Literal["independent", "one_case", "clustered"]
DESIGNS: Final[tuple[Design, ...]] = get_args(Design)
_INDEPENDENT, _ONE_CASE, _CLUSTERED = range(3)
#: A variance no larger is none: cases whose rates are apart by less than 1e-12 are so by rounding only.
_NO_VARIANCE: Final = 1e-24


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EffectiveSamples:
    """An `EffectiveSample` for each of many groups, as arrays of one shape.

    Attributes:
        p: the rate; NaN in a group without attempts.
        n: the independent attempts it is worth; NaN likewise.
        attempts: the attempts observed, which `n` never exceeds; NaN likewise.
        cases: the clusters; NaN where there are none.
    """

    p: FloatArray
    n: FloatArray
    attempts: FloatArray
    cases: FloatArray

    @property
    def degrees(self) -> FloatArray:
        """Degrees of freedom of the t quantile, NaN for the normal one."""
        return self.cases - 1.0

    def of(self, group: int) -> EffectiveSample | None:
        """Return the sample of one group, None where it has no attempts."""
        p, n, cases = float(self.p[group]), float(self.n[group]), float(self.cases[group])
        return None if np.isnan(n) else EffectiveSample(p=p, n=n, cases=None if np.isnan(cases) else cases)

    def scaled(self, factor: FloatArray | float) -> EffectiveSamples:
        """Return the samples that `factor` times as many conversations, alike in rate and make-up, would give.

        >>> one = EffectiveSamples(
        ...     p=np.array([0.5]), n=np.array([10.0]), attempts=np.array([15.0]), cases=np.array([5.0])
        ... )
        >>> one.scaled(2.0).of(0)
        EffectiveSample(p=0.5, n=20.0, cases=10.0)
        """
        return replace(self, n=self.n * factor, attempts=self.attempts * factor, cases=self.cases * factor)

    def where(self, groups: IntArray) -> EffectiveSamples:
        """Return the samples of some groups only."""
        return EffectiveSamples(
            p=self.p[groups], n=self.n[groups], attempts=self.attempts[groups], cases=self.cases[groups]
        )


def design(attempts: Attempts) -> Design:
    """Return which rule of this page applies.

    >>> from otel_agentic.stats.model import Attempts
    >>> design(Attempts.of([("a", True), ("a", False), ("b", True)]))
    'clustered'
    """
    return DESIGNS[int(designs(GroupedAttempts.of([attempts]))[0])]


def designs(grouped: GroupedAttempts) -> IntArray:
    """Return which rule of this page applies to each group: (size,) places in `DESIGNS`.

    >>> from otel_agentic.stats.model import Attempts
    >>> once, often = Attempts.of([("a", True), ("b", True)]), Attempts.of([("a", True), ("a", True)])
    >>> [DESIGNS[each] for each in designs(GroupedAttempts.of([Attempts(), once, often]))]
    ['independent', 'independent', 'one_case']
    """
    repeated = grouped.total(grouped.n > 1) > 0
    several = np.where(grouped.total(np.ones_like(grouped.n)) == 1, _ONE_CASE, _CLUSTERED)
    return np.where(repeated, several, _INDEPENDENT)


def methods(grouped: GroupedAttempts, names: Mapping[Design, str]) -> list[str]:
    """Return the name of the interval of each group, from the names by design.

    >>> from otel_agentic.stats.model import Attempts
    >>> names = {"independent": "wilson", "one_case": "wilson_one_case", "clustered": "wilson_effective_n"}
    >>> methods(GroupedAttempts.of([Attempts.of([("a", True), ("a", True)])]), names)
    ['wilson_one_case']
    """
    by_place = [names[each] for each in DESIGNS]
    return [by_place[place] for place in designs(grouped).tolist()]


def pooled_sample(attempts: Attempts) -> EffectiveSample | None:
    """Return the pooled rate with its effective sample size; None without attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> both_ways = [(case, case == "a" or case == "b") for case in "abcd" for _ in range(5)]
    >>> pooled_sample(Attempts.of(both_ways))
    EffectiveSample(p=0.5, n=3.0, cases=4.0)
    """
    return pooled_samples(GroupedAttempts.of([attempts])).of(0)


def pooled_samples(grouped: GroupedAttempts) -> EffectiveSamples:
    """Return the pooled rate of each group with its effective sample size; NaN without attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> light = [(f"case {i}", True) for i in range(10)]
    >>> sample = pooled_samples(GroupedAttempts.of([Attempts.of([*light, ("heavy", False, 5.0)])])).of(0)
    >>> round(sample.p, 3), round(sample.n, 2)  # Kish's would be 225 / 35 = 6.43
    (0.667, 4.09)
    """
    weights = row_weights(grouped)
    total, correct, squares = grouped.total(weights).T
    clustered = designs(grouped) == _CLUSTERED
    cases = np.where(clustered, grouped.total(np.ones_like(grouped.n)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without attempts: 0 / 0, which is NaN
        p, worth = correct / total, total * total / squares
        residuals = weights[:, 1] * total[grouped.group] - weights[:, 0] * correct[grouped.group]
        variance = grouped.total(residuals**2) / total**4
    several = effective_n(p, variance * np.nan_to_num(cases / (cases - 1.0), nan=1.0), attempts=worth, cases=cases)
    alone = np.where(unequal_weights(grouped), effective_n(p, variance, attempts=worth, cases=worth), worth)
    attempts = np.where(np.isnan(p), np.nan, grouped.total(grouped.n))
    return EffectiveSamples(p=p, n=np.where(clustered, several, alone), attempts=attempts, cases=cases)


def mean_samples(grouped: GroupedAttempts, values: FloatArray, *, traffic_weighted: bool = False) -> EffectiveSamples:
    """Return the mean over cases of estimates in [0, 1], by column, with its effective sample size.

    Args:
        grouped: the counts; groups of two cases or more, some with more than one attempt, others mean nothing here.
        values: (rows, columns) estimates a case.
        traffic_weighted: whether a case counts by its attempts, and not once.

    Returns:
        Arrays of (size, columns).

    >>> from otel_agentic.stats.model import Attempts
    >>> grouped = GroupedAttempts.of([Attempts.of([(case, case in "ab") for case in "abcd" for _ in range(4)])])
    >>> mean_samples(grouped, np.array([[0.0], [1.0]])).n.tolist()
    [[3.0]]
    """
    total, _, squares = row_weights(grouped).T
    cases, sizes = grouped.total(np.ones_like(total))[:, None], grouped.total(total)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):  # a group without attempts, or with a single case
        share = total[:, None] / sizes[grouped.group] if traffic_weighted else 1.0 / cases[grouped.group]
        mean = np.where(cases > 0, np.clip(grouped.total(share * values), 0.0, 1.0), np.nan)
        variance = cases / (cases - 1.0) * grouped.total((share * (values - mean[grouped.group])) ** 2)
        worth = sizes**2 / grouped.total(squares)[:, None]
    n = effective_n(mean, variance, attempts=worth, cases=cases)
    attempts = np.broadcast_to(grouped.total(grouped.n)[:, None], mean.shape)
    return EffectiveSamples(p=mean, n=n, attempts=attempts, cases=np.broadcast_to(cases, mean.shape))


def effective_n(
    p: npt.ArrayLike, variance: npt.ArrayLike, *, attempts: npt.ArrayLike, cases: npt.ArrayLike
) -> FloatArray:
    """Return the number of independent attempts that would give the same variance (the rule of this page), elementwise.

    >>> effective_n([0.5, 1.0], [0.25 / 30, 0.0], attempts=40, cases=10).tolist()
    [30.0, 10.0]
    """
    rate, spread = np.asarray(p, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    alike = (spread <= _NO_VARIANCE) | (rate <= 0.0) | (rate >= 1.0)
    worth = rate * (1.0 - rate) / np.where(alike, 1.0, spread)
    return np.asarray(np.minimum(attempts, np.where(alike, cases, worth)), dtype=np.float64)
