"""Estimators without a prior: `plugin` and `unbiased` pool all attempts, `per_case` averages over cases.

Pooled intervals are Wilson's on the rate, on the effective sample size of `cluster`, with the endpoints put through
the Bernoulli formulas (both are monotone in p, so the coverage of p carries over; no delta method).

Everything is computed for many groups at once; `estimate` is `estimate_groups` of one. Attempts of unequal weight (see
`weights`) enter by weighted rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from otel_agentic.stats.cluster import DESIGNS, designs, mean_samples, methods, pooled_samples
from otel_agentic.stats.grouped import GroupedAttempts, GroupedEstimates
from otel_agentic.stats.interval import bounded, critical_values, wilson_bounds
from otel_agentic.stats.pass_k import all_of, any_of, unbiased_pass_at_k, unbiased_pass_pow_k
from otel_agentic.stats.weights import correct_counts, pooled_correct

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.cluster import Design, EffectiveSamples
    from otel_agentic.stats.model import Attempts, Estimates

    FloatArray = npt.NDArray[np.float64]

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
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN without attempts."""
        pass_at, pass_pow = self.of_samples(pooled_samples(grouped), k)
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=methods(grouped, INTERVAL_METHODS),
            pass_at_k=pass_at,
            pass_pow_k=pass_pow,
        )

    def of_samples(self, samples: EffectiveSamples, k: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k of pooled samples: (groups, len(k), 3) value, lower, upper."""
        ks, rates = np.asarray(k), _rates(samples, self.level)[:, None, :]
        return (
            bounded(any_of(samples.observed[:, None], ks), any_of(rates, ks[:, None])),
            bounded(all_of(samples.observed[:, None], ks), all_of(rates, ks[:, None])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbiasedEstimator:
    """Subsets of the pooled attempts; undefined where n < k.

    Where attempts weigh unequally, the weighted rate times n takes the place of c, and the binomials are those of the
    Gamma function: a continuation, exact at equal weights, that is not unbiased itself.

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
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN where there are fewer than k attempts."""
        pass_at, pass_pow = _pooled_subsets(grouped, k, self.level)
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=methods(grouped, INTERVAL_METHODS),
            pass_at_k=pass_at,
            pass_pow_k=pass_pow,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PerCaseEstimator:
    """Mean over cases of the unbiased estimate of each case: the convention of benchmarks.

    A case with fewer than k attempts is left out and counted in `cases_left_out`. `traffic_weighted` weighs a case by
    its attempts, or their weights; otherwise each case counts once. Where attempts weigh unequally, a case's estimate is
    that of its weighted rate, as `unbiased` has it; where no case has two attempts, each is a conversation that stands for
    as many as its weight says, and the mean is weighted. Intervals are Wilson's on the mean itself with the effective sample
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
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN where no case has k attempts."""
        pass_at, pass_pow = zip(*(self._coherent(grouped, each, k) for each in k), strict=True)
        left_out = grouped.total(grouped.n[:, None] < np.asarray(k))
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=methods(grouped, INTERVAL_METHODS),
            pass_at_k=np.stack(pass_at, axis=1),
            pass_pow_k=np.stack(pass_pow, axis=1),
            cases_left_out=left_out.astype(np.int64),
        )

    def _coherent(self, grouped: GroupedAttempts, k: int, asked: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k over the cases with k attempts or more, with ends that smaller k allow: (size, 3).

        Of the same cases pass@k is at least pass@j for every j < k, and pass^k at most pass^j: what bounds one bounds
        the other. Without this, five cases whose pass@3 is all 1 have no variance left and a wider interval than
        pass@1 has.
        """
        kept = grouped.where(grouped.n >= k)
        if not kept.n.size:  # of traffic that repeats no case, every k above 1
            return np.full((grouped.size, 3), np.nan), np.full((grouped.size, 3), np.nan)
        up_to_k = [*(each for each in sorted({1, *asked}) if each < k), k]
        at, power = self._means(kept, up_to_k)
        pass_at, pass_pow = at[:, -1].copy(), power[:, -1].copy()
        pass_at[:, 1], pass_pow[:, 2] = at[:, :, 1].max(axis=1), power[:, :, 2].min(axis=1)
        return pass_at, pass_pow

    def _means(self, kept: GroupedAttempts, k: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k over cases that all have every k attempts: (size, len(k), 3)."""
        clustered = (designs(kept) == DESIGNS.index("clustered"))[:, None, None]
        # One attempt a case (k = 1), or one case: the mean is the pooled estimate.
        pooled = _pooled_subsets(kept, k, self.level)
        if not clustered.any():
            return pooled
        # Cases of many groups are of few kinds: each is computed once. The complex number is the pair (n, c).
        kinds, kind = np.unique(kept.n + 1j * correct_counts(kept), return_inverse=True)
        n, c = kinds.real[:, None], kinds.imag[:, None]
        values = np.concatenate((unbiased_pass_at_k(n, c, k), unbiased_pass_pow_k(n, c, k)), axis=1)
        samples = mean_samples(kept, values[kind], traffic_weighted=self.traffic_weighted)
        means = np.split(bounded(samples.observed, _rates(samples, self.level)), 2, axis=1)
        return np.where(clustered, means[0], pooled[0]), np.where(clustered, means[1], pooled[1])


def _pooled_subsets(grouped: GroupedAttempts, k: Sequence[int], level: float) -> tuple[FloatArray, FloatArray]:
    """Return pass@k and pass^k of subsets of the pooled attempts: (size, len(k), 3)."""
    ks, rates = np.asarray(k), _rates(pooled_samples(grouped), level)[:, None, :]
    n = grouped.total(grouped.n)[:, None]
    c = pooled_correct(grouped)[:, None]
    return (
        bounded(unbiased_pass_at_k(n, c, ks), any_of(rates, ks[:, None])),
        bounded(unbiased_pass_pow_k(n, c, ks), all_of(rates, ks[:, None])),
    )


def _rates(samples: EffectiveSamples, level: float) -> FloatArray:
    """Return the interval of the rate of each sample: (..., 2)."""
    return wilson_bounds(samples.p, samples.n, critical_values(level, samples.degrees))
