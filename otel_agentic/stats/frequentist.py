"""Estimators without a prior: `plugin` and `unbiased` pool all attempts, `per_case` averages over cases.

Pooled intervals are Wilson's on the rate, on the effective sample size of `cluster`, with the endpoints put through
the Bernoulli formulas (both are monotone in p, so the coverage of p carries over; no delta method).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from otel_agentic.stats.cluster import counts, design, mean_sample, pooled_sample
from otel_agentic.stats.interval import Bounded, quantile, wilson
from otel_agentic.stats.model import Attempts, Estimate, Estimates
from otel_agentic.stats.pass_k import all_of, any_of, unbiased_pass_at_k, unbiased_pass_pow_k

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.cluster import Design, EffectiveSample
    from otel_agentic.stats.interval import Interval

    FloatArray = npt.NDArray[np.float64]
    Formula = Callable[[npt.ArrayLike, npt.ArrayLike, int], FloatArray]
    Transform = Callable[[npt.ArrayLike, int], FloatArray]

INTERVAL_METHODS: Final[dict[Design, str]] = {
    "independent": "wilson",
    "one_case": "wilson_one_case",
    "clustered": "wilson_effective_n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEstimator:
    """The observed rate c / n put into the Bernoulli formulas (the paper's frequentist mode); biased for small n.

    >>> from otel_agentic.stats.model import Attempts
    >>> three = Attempts.of([("a", True), ("b", True), ("c", False)])
    >>> round(PluginEstimator().estimate(three, [3]).pass_pow_k[3].value, 3)
    0.296
    """

    name: ClassVar[str] = "plugin"
    level: float = 0.95

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> PluginEstimator:
        """Return the estimator with the level of the settings."""
        return cls(level=settings.level)

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined without attempts."""
        sample = pooled_sample(attempts)
        return Estimates(
            estimator=self.name,
            interval_method=INTERVAL_METHODS[design(attempts)],
            level=self.level,
            pass_at_k={each: Estimate.of(self.pass_at(sample, each) if sample else None) for each in k},
            pass_pow_k={each: Estimate.of(self.pass_pow(sample, each) if sample else None) for each in k},
        )

    def pass_at(self, sample: EffectiveSample, k: int) -> Bounded:
        """Return pass@k of a pooled sample."""
        return _transformed(any_of, float(any_of(sample.p, k)), _rate_interval(sample, self.level), k)

    def pass_pow(self, sample: EffectiveSample, k: int) -> Bounded:
        """Return pass^k of a pooled sample."""
        return _transformed(all_of, float(all_of(sample.p, k)), _rate_interval(sample, self.level), k)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbiasedEstimator:
    """Subsets of the pooled attempts; undefined where n < k.

    With very few attempts the point can lie past the transformed interval of the rate (n = 3, c = 2, k = 3: pass^3
    is 0). The interval is then stretched to hold it: an interval without its own estimate helps nobody, and
    stretching only adds coverage.

    >>> from otel_agentic.stats.model import Attempts
    >>> three = Attempts.of([("a", True), ("b", True), ("c", False)])
    >>> UnbiasedEstimator().estimate(three, [3, 4]).pass_at_k[3].value
    1.0
    >>> UnbiasedEstimator().estimate(three, [3, 4]).pass_at_k[4].value is None
    True
    """

    name: ClassVar[str] = "unbiased"
    level: float = 0.95

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> UnbiasedEstimator:
        """Return the estimator with the level of the settings."""
        return cls(level=settings.level)

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined where there are fewer than k attempts."""
        subsets = _Subsets.of(attempts, self.level)
        return Estimates(
            estimator=self.name,
            interval_method=INTERVAL_METHODS[design(attempts)],
            level=self.level,
            pass_at_k={each: subsets.estimate(each, unbiased_pass_at_k, any_of) for each in k},
            pass_pow_k={each: subsets.estimate(each, unbiased_pass_pow_k, all_of) for each in k},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerCaseEstimator:
    """Mean over cases of the unbiased estimate of each case: the convention of benchmarks.

    A case with fewer than k attempts is left out and counted in `cases_left_out`. `traffic_weighted` weighs a case by
    its attempts; otherwise each case counts once. Intervals are Wilson's on the mean itself with the effective sample
    size of the per-case values; where a single case is left, it is the `unbiased` interval of that case.

    >>> from otel_agentic.stats.model import Attempts
    >>> twice = Attempts.of([("a", True), ("a", True), ("b", True), ("b", False), ("c", False)])
    >>> estimates = PerCaseEstimator().estimate(twice, [2])
    >>> estimates.pass_pow_k[2].value, estimates.pass_at_k[2].value, estimates.cases_left_out
    (0.5, 1.0, {2: 1})
    """

    name: ClassVar[str] = "per_case"
    level: float = 0.95
    traffic_weighted: bool = False

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> PerCaseEstimator:
        """Return the estimator with the level of the settings, each case counting once."""
        return cls(level=settings.level)

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined where no case has k attempts."""
        means = {each: self._coherent(attempts, each, k) for each in k}
        return Estimates(
            estimator=self.name,
            interval_method=INTERVAL_METHODS[design(attempts)],
            level=self.level,
            pass_at_k={each: pass_at for each, (pass_at, _) in means.items()},
            pass_pow_k={each: pass_pow for each, (_, pass_pow) in means.items()},
            cases_left_out={each: sum(case.n < each for case in attempts.cases) for each in k},
        )

    def _coherent(self, attempts: Attempts, k: int, asked: Sequence[int]) -> tuple[Estimate, Estimate]:
        """Return pass@k and pass^k over the cases with k attempts or more, with ends that smaller k allow.

        Of the same cases pass@k is at least pass@j for every j < k, and pass^k at most pass^j: what bounds one bounds
        the other. Without this, five cases whose pass@3 is all 1 have no variance left and a wider interval than
        pass@1 has.
        """
        kept = Attempts(cases=tuple(case for case in attempts.cases if case.n >= k))
        pass_at, pass_pow = self._means(kept, k)
        for smaller in sorted({1, *asked}):
            if smaller < k:
                any_smaller, all_smaller = self._means(kept, smaller)
                pass_at = replace(pass_at, lower=_outermost(max, pass_at.lower, any_smaller.lower))
                pass_pow = replace(pass_pow, upper=_outermost(min, pass_pow.upper, all_smaller.upper))
        return pass_at, pass_pow

    def _means(self, kept: Attempts, k: int) -> tuple[Estimate, Estimate]:
        """Return pass@k and pass^k over cases that all have k attempts or more."""
        if design(kept) != "clustered":  # one attempt a case (k = 1) or one case: the mean is the pooled estimate
            subsets = _Subsets.of(kept, self.level)
            return subsets.estimate(k, unbiased_pass_at_k, any_of), subsets.estimate(k, unbiased_pass_pow_k, all_of)
        n, c = counts(kept)
        total = int(n.sum())
        weights = n / total if self.traffic_weighted else np.full(len(n), 1.0 / len(n))
        pass_at = mean_sample(unbiased_pass_at_k(n, c, k), weights, total)
        pass_pow = mean_sample(unbiased_pass_pow_k(n, c, k), weights, total)
        return _mean_estimate(pass_at, self.level), _mean_estimate(pass_pow, self.level)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subsets:
    """Pooled attempts with the interval of their rate, from which subsets of k are drawn."""

    n: int
    c: int
    rate: Interval | None

    @classmethod
    def of(cls, attempts: Attempts, level: float) -> _Subsets:
        sample = pooled_sample(attempts)
        return cls(n=attempts.n, c=attempts.c, rate=_rate_interval(sample, level) if sample else None)

    def estimate(self, k: int, formula: Formula, transform: Transform) -> Estimate:
        if self.rate is None or self.n < k:
            return Estimate.of(None)
        return Estimate.of(_transformed(transform, float(formula(self.n, self.c, k)), self.rate, k))


def _outermost(choose: Callable[..., float], end: float | None, other: float | None) -> float | None:
    return None if end is None or other is None else choose(end, other)


def _rate_interval(sample: EffectiveSample, level: float) -> Interval:
    return wilson(sample.p, sample.n, quantile(level, sample.degrees))


def _mean_estimate(sample: EffectiveSample, level: float) -> Estimate:
    interval = _rate_interval(sample, level)
    return Estimate(value=sample.p, lower=interval.lower, upper=interval.upper)


def _transformed(transform: Transform, value: float, rate: Interval, k: int) -> Bounded:
    lower, upper = (float(end) for end in transform(np.array(rate), k))
    return Bounded(value, min(lower, value), max(upper, value))
