"""Comparison of two groups: differences of rates and of means with their intervals, and the probability that B is worse.

All differences are B - A. Both sides use the same estimator, which does not depend on the data:

- **pooled**: the observed rates of the two groups in the Bernoulli formulas. The interval is Newcombe's hybrid of the
  two Wilson intervals (each on its effective sample size, see `cluster`), for k > 1 on their transformed ends: the
  square-and-add rule holds for any two estimates with limits. Where at least two cases have attempts in both groups, only
  these cases are compared, and the rule takes their correlation into account, because the unequal difficulty of cases
  cancels out. The correlation is that of the residuals of the cases, less one standard error (Fisher's z), and never below 0.
- **per case**: d_i = estimate of B - estimate of A on case i, by the unbiased estimators of `pass_k`, over the K shared cases
  with k attempts or more in both groups; undefined with fewer than two. The interval is `mean(d) +- t (K - 1 degrees) * s`,
  with `s^2 = (sum (d_i - mean)^2 + 2 e^2) / (K (K - 1))`: as if there were two more cases, one better and one worse
  than the mean by e, the standard error of k attempts out of n at a rate of 1/2. Without these, a handful of cases with
  equal results would have an interval without width: with 5 cases x 4 attempts at a rate of .97 the plain t interval
  contained the true difference in 50 % of simulated comparisons (with them: over 99 %;
  tests/stats/test_stats_compare_coverage.py).

The probability that B is worse is about single attempts. It comes from Student's t over the shared cases if there are
two or more, which is the posterior of a mean under the flat prior, otherwise from the two Beta posteriors.

Ref: Newcombe 1998, "Interval estimation for the difference between independent proportions: comparison of eleven methods",
method 10; Zou and Donner 2008, "Construction of confidence limits about effect measures: a general approach" (MOVER);
Agresti and Min 2005, "Simple improved confidence intervals for comparing matched proportions" (added pairs); Miller 2024,
"Adding error bars to evals", section 4 (paired differences).

The difference of two means is paired by case if both sides have the same cases. Its interval is that of Student's t
over the differences of the shared cases, or of Welch's t over the units of each side. A unit is a case (the mean of its
conversations), or a conversation without a case: conversations of one case resemble each other.

Values with a minimum and a maximum are treated as if there were two more units, one better and one worse than the mean
by the largest standard error that the values can have (half the range for a single value), as `compare` does with
rates. Without these, a handful of cases with equal results would have an interval without width. Values without bounds,
such as times, are seldom equal, and their spread is that of the data alone.

Ref: Student 1908, "The probable error of a mean"; Welch 1947, "The generalization of Student's problem when several different
population variances are involved"; Agresti and Min 2005, "Simple improved confidence intervals for comparing matched
proportions" (added pairs); Popoviciu 1935, "Sur les equations algebriques ayant toutes leurs racines reelles" (the
largest variance within a range).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import scipy

from otel_agentic.errors import UsageError
from otel_agentic.stats.cluster import EffectiveSample, pooled_sample
from otel_agentic.stats.model import Attempts, CaseCount, CaseKey, Estimate
from otel_agentic.stats.rates import (
    BetaPosterior,
    Bounded,
    all_of,
    any_of,
    probability_below,
    quantile,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
    wilson,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    Formula = Callable[[FloatArray, FloatArray, int], FloatArray]
    Transform = Callable[[FloatArray, int], FloatArray]

Method = Literal["paired", "unpaired"]
#: Fewer shared cases than this have no spread to measure.
MIN_PAIRS: Final = 2
#: Fisher's z has the standard error 1 / sqrt(cases - 3).
_FISHER_CASES: Final = 3
_NO_SPREAD: Final = 1e-12
_MAX_CORRELATION: Final = 1.0 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """B - A of pass@k and pass^k for one k: the method, and the shared cases behind it."""

    method: Method
    cases: int
    pass_at_k: Estimate
    pass_pow_k: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two groups: differences by k, `pooled` for all k and `per_case` where it is defined.

    `method` and `worse`, the probability that B is worse than A, are about single attempts (k = 1). `shared` cases
    have attempts in both groups, `only_a` and `only_b` in one group; a paired comparison excludes the latter.
    """

    level: float
    method: Method
    shared: int
    only_a: int
    only_b: int
    worse: float
    pooled: Mapping[int, Difference]
    per_case: Mapping[int, Difference]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Attempts and correct attempts of the shared cases, arrays of one length."""

    n_a: FloatArray
    c_a: FloatArray
    n_b: FloatArray
    c_b: FloatArray

    @classmethod
    def of(cls, a: Attempts, b: Attempts) -> _Pairs:
        others = {(case.dataset, case.case_id): case for case in b.cases}
        both = [(case, others[key]) for case in a.cases if (key := (case.dataset, case.case_id)) in others]
        rows = np.array([(*_counts(first), *_counts(second)) for first, second in both], dtype=np.float64).reshape(
            -1, 4
        )
        return cls(n_a=rows[:, 0], c_a=rows[:, 1], n_b=rows[:, 2], c_b=rows[:, 3])

    def __len__(self) -> int:
        return len(self.n_a)

    def correlation(self) -> float:
        """Return the correlation of the residuals by case, less one standard error and not below 0."""
        a, b = (c - c.sum() / n.sum() * n for n, c in ((self.n_a, self.c_a), (self.n_b, self.c_b)))
        spread = float((a @ a) * (b @ b)) ** 0.5
        if len(self) <= _FISHER_CASES or spread < _NO_SPREAD:
            return 0.0
        z = np.arctanh(np.clip(a @ b / spread, -_MAX_CORRELATION, _MAX_CORRELATION))
        return max(0.0, float(np.tanh(z - 1.0 / (len(self) - _FISHER_CASES) ** 0.5)))

    def with_attempts(self, k: int) -> _Pairs:
        """Return the cases with k attempts or more in both groups."""
        common = (self.n_a >= k) & (self.n_b >= k)
        return _Pairs(n_a=self.n_a[common], c_a=self.c_a[common], n_b=self.n_b[common], c_b=self.c_b[common])


def compare(
    a: Attempts, b: Attempts, k: Sequence[int], *, level: float, prior: tuple[float, float] = (1.0, 1.0)
) -> Comparison:
    """Return the comparison of B with A, paired by case if at least two cases have attempts in both.

    Args:
        a: attempts of group A, at least one.
        b: attempts of group B, at least one.
        k: the k of pass@k and pass^k.
        level: level of the intervals.
        prior: Beta prior of each rate; used in the probability of an unpaired comparison.

    Raises:
        UsageError: a group has no attempts.

    >>> before = Attempts.of((case, try_ != 5 or case == "a") for case in "abcd" for try_ in range(6))
    >>> after = Attempts.of((case, try_ % 2 == 0) for case in "abcd" for try_ in range(6))
    >>> found = compare(before, after, [1], level=0.95)
    >>> found.method, found.shared, round(found.worse, 3), round(found.pooled[1].pass_pow_k.value, 3)
    ('paired', 4, 0.986, -0.375)
    """
    if not a.n or not b.n:
        raise UsageError("a comparison needs an attempt in each of the two groups")
    pairs = _Pairs.of(a, b)
    paired = len(pairs) >= MIN_PAIRS
    sides = (_restricted_to_cases(a, b), _restricted_to_cases(b, a)) if paired else (a, b)
    samples = [sample for group in sides if (sample := pooled_sample(group)) is not None]
    return Comparison(
        level=level,
        method="paired" if paired else "unpaired",
        shared=len(pairs),
        only_a=len(a.cases) - len(pairs),
        only_b=len(b.cases) - len(pairs),
        worse=_worse_paired(pairs) if paired else _worse_unpaired(samples[0], samples[1], level, prior),
        pooled={each_k: _pooled(pairs, samples, each_k, level, paired=paired) for each_k in k},
        per_case={
            each_k: _per_case(common, each_k, level)
            for each_k in k
            if len(common := pairs.with_attempts(each_k)) >= MIN_PAIRS
        },
    )


def paired_difference(values: FloatArray, added: float, level: float) -> Bounded:
    """Return the mean of the differences of cases with its interval, both ends within [-1, 1].

    Args:
        values: (cases,) two or more, each in [-1, 1].
        added: e^2 (see the module docstring), the squared deviation of each added case.
        level: level of the interval.

    >>> [round(each, 3) for each in paired_difference(np.array([-0.5, -0.25, 0.0, -0.25]), 0.04, 0.95)]
    [-0.25, -0.666, 0.166]
    """
    mean, error = _mean_and_error(values, added)
    half = quantile(level, len(values) - 1.0) * error
    return Bounded(mean, max(-1.0, mean - half), min(1.0, mean + half))


def square_and_add(a: Bounded, b: Bounded, correlation: float = 0.0) -> Bounded:
    """Return b - a with the interval that follows from the limits of two estimates and their correlation.

    Ref: Newcombe 1998, method 10; Zou and Donner 2008, eq. 3; with the correlation: Newcombe 1998, "Improved confidence
    intervals for the difference between binomial proportions based on paired data", method 10.

    >>> a, b = (Bounded(c / n, *wilson(c / n, n, quantile(0.95))) for c, n in ((56, 70), (48, 80)))
    >>> [round(each, 4) for each in square_and_add(a, b)]  # Newcombe's example (a): .2000 [.0524, .3339]
    [-0.2, -0.3339, -0.0524]
    """
    value = b.value - a.value
    below, above = (
        (first**2 + second**2 - 2.0 * correlation * first * second) ** 0.5
        for first, second in ((b.value - b.lower, a.upper - a.value), (b.upper - b.value, a.value - a.lower))
    )
    return Bounded(value, value - below, value + above)


def _pooled(pairs: _Pairs, samples: Sequence[EffectiveSample], k: int, level: float, *, paired: bool) -> Difference:
    correlation = pairs.correlation() if paired else 0.0
    at, pow_ = (_pooled_difference(samples, transform, k, level, correlation) for transform in (any_of, all_of))
    return Difference(
        method="paired" if paired else "unpaired",
        cases=len(pairs),
        pass_at_k=Estimate.of(at),
        pass_pow_k=Estimate.of(pow_),
    )


def _per_case(common: _Pairs, k: int, level: float) -> Difference:
    at, pow_ = (
        paired_difference(_values(common, formula, k), _added_variance(common, k), level)
        for formula in (unbiased_pass_at_k, unbiased_pass_pow_k)
    )
    return Difference(method="paired", cases=len(common), pass_at_k=Estimate.of(at), pass_pow_k=Estimate.of(pow_))


def _values(pairs: _Pairs, formula: Formula, k: int) -> FloatArray:
    return np.asarray(formula(pairs.n_b, pairs.c_b, k) - formula(pairs.n_a, pairs.c_a, k))


def _added_variance(pairs: _Pairs, k: int) -> float:
    """Return e^2 for n / k disjoint subsets of k attempts at a rate of 1/2, averaged over both groups and all cases."""
    return 0.25 * k * float(np.mean(1.0 / pairs.n_a + 1.0 / pairs.n_b)) / 2.0


def _mean_and_error(values: FloatArray, added: float) -> tuple[float, float]:
    """Return the mean of the differences and its standard error, including the added cases."""
    cases = len(values)
    mean = float(np.mean(values))
    squares = float(np.sum((values - mean) ** 2)) + 2.0 * added
    return mean, (squares / (cases * (cases - 1))) ** 0.5


def _worse_paired(pairs: _Pairs) -> float:
    mean, error = _mean_and_error(_values(pairs, unbiased_pass_pow_k, 1), _added_variance(pairs, 1))
    return float(scipy.special.stdtr(len(pairs) - 1, -mean / error))


def _worse_unpaired(a: EffectiveSample, b: EffectiveSample, level: float, prior: tuple[float, float]) -> float:
    return probability_below(_posterior(b, level, prior), _posterior(a, level, prior))


def _posterior(sample: EffectiveSample, level: float, prior: tuple[float, float]) -> BetaPosterior:
    """Return the posterior of a rate; as in `exact_rate`, fewer effective attempts replace the t quantile."""
    reduction = 1.0 if sample.degrees is None else (quantile(level) / quantile(level, sample.degrees)) ** 2
    n = sample.n * reduction
    return BetaPosterior(a=prior[0] + sample.p * n, b=prior[1] + (1.0 - sample.p) * n)


def _pooled_difference(
    samples: Sequence[EffectiveSample], transform: Transform, k: int, level: float, correlation: float
) -> Bounded:
    """Return the difference of the observed rates with the interval of the samples' rates, stretched to contain it."""
    a, b = (_transformed(sample, transform, k, level) for sample in samples)
    limits = square_and_add(a, b, correlation)
    observed = transform(np.array([sample.observed for sample in samples]), k)
    value = float(observed[1] - observed[0])
    return Bounded(value, min(limits.lower, value), max(limits.upper, value))


def _transformed(sample: EffectiveSample, transform: Transform, k: int, level: float) -> Bounded:
    interval = wilson(sample.p, sample.n, quantile(level, sample.degrees))
    value, lower, upper = (float(item) for item in transform(np.array([sample.p, *interval]), k))
    return Bounded(value, lower, upper)


def _restricted_to_cases(group: Attempts, other: Attempts) -> Attempts:
    """Return the attempts of the cases that have attempts in the other group too."""
    keys = {(case.dataset, case.case_id) for case in other.cases}
    return Attempts(cases=tuple(case for case in group.cases if (case.dataset, case.case_id) in keys))


def _counts(case: CaseCount) -> tuple[float, float]:
    """Return attempts and correct attempts of a case, the latter by weight where attempts were sampled unequally."""
    if case.weights is None:
        return case.n, case.c
    return case.n, min(float(case.n), case.n * case.weights.correct / case.weights.total)


#: Fewer units than this have no spread to measure.
MIN_UNITS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Values of one side: `n` of them in `units` units, the mean and the variance over the units.

    `cases` has the mean and the number of values of each case. `variance` is the sample variance, 0 with fewer
    than two units.
    """

    n: int
    units: int
    mean: float
    variance: float
    cases: Mapping[CaseKey, tuple[float, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Iterable[tuple[CaseKey | None, float]]) -> Values | None:
        """Return the statistics of values, each with its case or None; return None without values.

        >>> made = Values.of([(("d", "a"), 1.0), (("d", "a"), 2.0), (None, 3.5)])
        >>> made.n, made.units, made.mean, made.variance
        (3, 2, 2.5, 2.0)
        """
        by_case: dict[CaseKey, list[float]] = {}
        without_case: list[float] = []
        for case, value in values:
            (without_case if case is None else by_case.setdefault(case, [])).append(value)
        cases = {case: (float(np.mean(members)), len(members)) for case, members in sorted(by_case.items())}
        units = np.array([*(mean for mean, _ in cases.values()), *without_case], dtype=np.float64)
        if not units.size:
            return None
        n = len(without_case) + sum(map(len, by_case.values()))
        variance = float(np.var(units, ddof=1)) if units.size >= MIN_UNITS else 0.0
        return cls(n=n, units=int(units.size), mean=float(np.mean(units)), variance=variance, cases=cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDifference:
    """B - A of two means; `lower` and `upper` are None if there are too few units to distinguish change from chance."""

    method: Literal["paired", "unpaired"]
    units: int
    value: float
    lower: float | None
    upper: float | None


def mean_difference(a: Values, b: Values, level: float, *, width: float | None = None) -> MeanDifference:
    """Return the mean of B minus the mean of A, paired if at least two cases have values on both sides.

    Args:
        a: the values of side A.
        b: the values of side B.
        level: level of the interval.
        width: the largest possible value minus the smallest, or None if unbounded.

    >>> a = Values.of([(("d", name), value) for name, value in zip("xyz", (1.0, 2.0, 3.0))])
    >>> b = Values.of([(("d", name), value) for name, value in zip("xyz", (2.0, 3.5, 3.5))])
    >>> found = mean_difference(a, b, 0.95)
    >>> found.method, found.value, round(found.lower, 3), round(found.upper, 3)
    ('paired', 1.0, -0.242, 2.242)
    """
    max_variance = 0.0 if width is None else width**2 / 4.0  # the largest possible variance of a value
    shared = sorted(a.cases.keys() & b.cases.keys())
    if len(shared) >= MIN_UNITS:
        differences = np.array([b.cases[case][0] - a.cases[case][0] for case in shared])
        inverse_count = float(np.mean([1.0 / a.cases[case][1] + 1.0 / b.cases[case][1] for case in shared])) / 2.0
        squared_error = _squared_error(
            float(np.var(differences, ddof=1)), len(differences), max_variance * inverse_count
        )
        return _with_interval(
            "paired", float(np.mean(differences)), squared_error**0.5, len(differences) - 1.0, (len(differences), level)
        )
    units, value = a.units + b.units, b.mean - a.mean
    if min(a.units, b.units) < MIN_UNITS:
        return MeanDifference(method="unpaired", units=units, value=value, lower=None, upper=None)
    squared_errors = (
        _squared_error(a.variance, a.units, max_variance),
        _squared_error(b.variance, b.units, max_variance),
    )
    degrees = _welch_degrees(squared_errors, (a.units - 1, b.units - 1))
    return _with_interval("unpaired", value, sum(squared_errors) ** 0.5, degrees, (units, level))


def _squared_error(variance: float, units: int, added: float) -> float:
    """Return the squared standard error of a mean with two more units, each with the squared deviation `added`."""
    return (variance + 2.0 * added / (units - 1)) / units


def _with_interval(
    method: Literal["paired", "unpaired"], value: float, error: float, degrees: float, basis: tuple[int, float]
) -> MeanDifference:
    units, level = basis
    half = quantile(level, degrees) * error
    return MeanDifference(method=method, units=units, value=value, lower=value - half, upper=value + half)


def _welch_degrees(parts: tuple[float, float], degrees: tuple[int, int]) -> float:
    """Return the Welch-Satterthwaite degrees of freedom; those of the smaller side if nothing varies."""
    total = sum(parts)
    if not total:
        return float(min(degrees))
    return total**2 / sum(part**2 / freedom for part, freedom in zip(parts, degrees, strict=True))
