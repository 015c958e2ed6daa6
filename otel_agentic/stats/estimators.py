"""Estimators of pass@k and pass^k: plug-in, unbiased, per case, Beta-binomial; exact bounds for gates; and their selection by settings.

Among the estimators without a prior, `plugin` and `unbiased` pool all attempts, `per_case` averages over cases.

Pooled intervals are Wilson's on the rate, with the effective sample size of `cluster`; the endpoints are transformed by
the Bernoulli formulas (both are monotone in p, so the coverage of p carries over; no delta method).

Everything is computed for many groups at once; `estimate` is `estimate_groups` of one group. Attempts of unequal weight
(see `model`) are included by weighted rates.

The exact bounds for gates are Clopper-Pearson on the effective number of attempts, transformed by the Bernoulli
formulas. A gate is a decision, so its bounds must not cover less than their level: Wilson's interval has its level on
average, that of Clopper and Pearson for every rate. Attempts of one case resemble each other; this is accounted for by
the effective sample size of `cluster`, reduced as the t quantile of its degrees of freedom requires.

- pooled estimators: the bounds of the pooled rate, transformed (both formulas are monotone in the rate).
- `per_case`: the mean over cases is treated as a rate in `n_eff` attempts, as `PerCaseEstimator` does.

Ref: Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial"; Korn and
Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts estimated from survey
data" (the degrees-of-freedom adjusted effective sample size).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
import scipy

from otel_agentic.errors import UsageError
from otel_agentic.stats.cluster import (
    DESIGNS,
    Design,
    EffectiveSample,
    EffectiveSamples,
    designs,
    mean_samples,
    methods,
    pooled_samples,
)
from otel_agentic.stats.model import GroupedAttempts, GroupedEstimates, correct_counts, pooled_correct
from otel_agentic.stats.rates import (
    Interval,
    all_of,
    any_of,
    beta_pass_at_mean,
    beta_pass_pow_mean,
    beta_quantiles,
    bounded,
    clopper_pearson,
    critical_values,
    quantile,
    smallest_for_each,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
    wilson_bounds,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from otel_agentic.config import StatsSettings
    from otel_agentic.stats.model import Attempts, Estimates, Estimator

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

    If attempts have unequal weights, the weighted rate times n replaces c, and the binomials are those of the Gamma
    function: a continuation that is exact for equal weights, but not unbiased itself.

    With very few attempts the point can be outside of the transformed interval of the rate (n = 3, c = 2, k = 3: pass^3
    is 0). The interval is then stretched to contain it: an interval without its own estimate is useless, and stretching
    only adds coverage.

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

    A case with fewer than k attempts is excluded and counted in `cases_left_out`. `traffic_weighted` weights a case by
    its attempts, or their weights; otherwise each case counts once. If attempts have unequal weights, the estimate of a
    case is that of its weighted rate, as in `unbiased`; if no case has two attempts, each is a conversation that
    represents as many as its weight, and the mean is weighted. Intervals are Wilson's on the mean itself with the
    effective sample size of the per-case values; if a single case remains, the interval is that of `unbiased`.

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
        pass_at, pass_pow = zip(*(self._coherent(grouped, item, k) for item in k), strict=True)
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

    def _coherent(self, grouped: GroupedAttempts, k: int, requested: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k over the cases with k attempts or more, bounds consistent with smaller k: (size, 3).

        For the same cases pass@k is at least pass@j for every j < k, and pass^k at most pass^j, so a bound of one also
        bounds the other. Without this, five cases that all have a pass@3 of 1 would have no variance and a wider
        interval than that of pass@1.
        """
        remaining = grouped.where(grouped.n >= k)
        if not remaining.n.size:  # every k above 1, if no case is repeated
            return np.full((grouped.size, 3), np.nan), np.full((grouped.size, 3), np.nan)
        up_to_k = [*(item for item in sorted({1, *requested}) if item < k), k]
        at, power = self._means(remaining, up_to_k)
        pass_at, pass_pow = at[:, -1].copy(), power[:, -1].copy()
        pass_at[:, 1], pass_pow[:, 2] = at[:, :, 1].max(axis=1), power[:, :, 2].min(axis=1)
        return pass_at, pass_pow

    def _means(self, remaining: GroupedAttempts, k: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k over cases that all have enough attempts for every k: (size, len(k), 3)."""
        clustered = (designs(remaining) == DESIGNS.index("clustered"))[:, None, None]
        # With one attempt per case (k = 1), or with one case, the mean is the pooled estimate.
        pooled = _pooled_subsets(remaining, k, self.level)
        if not clustered.any():
            return pooled
        # Many groups have few kinds of cases: each is computed once. The complex number encodes the pair (n, c).
        kinds, kind = np.unique(remaining.n + 1j * correct_counts(remaining), return_inverse=True)
        n, c = kinds.real[:, None], kinds.imag[:, None]
        values = np.concatenate((unbiased_pass_at_k(n, c, k), unbiased_pass_pow_k(n, c, k)), axis=1)
        samples = mean_samples(remaining, values[kind], traffic_weighted=self.traffic_weighted)
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


BAYESIAN_INTERVAL_METHODS: Final[dict[Design, str]] = {
    "independent": "beta_equal_tailed",
    "one_case": "beta_equal_tailed_one_case",
    "clustered": "beta_equal_tailed_effective_n",
}

#: A tail probability up to this value counts as 0, which makes the interval [0, 1]: scipy has no quantile for smaller
#: ones.
_NO_TAIL: Final = 1e-100


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesianEstimator:
    """Posterior means under a Beta prior, with equal-tailed intervals: transforms of the Beta quantiles.

    The mean is that of the counts and the prior, for every design. The interval assumes independent conversations;
    if a case has several attempts, it is that of a posterior with the effective attempts of `cluster`, as wide as
    Student's t requires: between the quantiles at the probabilities Phi(-t) and Phi(t), which are .025 and .975 for the
    normal quantile. Intervals are then about new cases like those observed. The mean is not a quantile: for a large k
    and few attempts the posterior of pass^k is so skewed that its mean is above the interval, which is then stretched
    to contain it.

    Ref: Fritz and Fiorenza 2026, "Agentic Evaluation Metric", section 6, of which this is the exact form; Korn and
    Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts estimated from
    survey data" (effective sample size adjusted for degrees of freedom).

    >>> from otel_agentic.stats.model import Attempts
    >>> ten = Attempts.of((f"case {i}", i < 7) for i in range(10))
    >>> third = BayesianEstimator().estimate(ten, [3]).pass_at_k[3]
    >>> round(third.value, 4), round(third.lower, 4), round(third.upper, 4)
    (0.9451, 0.7733, 0.9987)
    """

    name: ClassVar[str] = "bayesian"
    level: float = 0.95
    prior: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> BayesianEstimator:
        """Return the estimator with the level and the prior of the settings."""
        return cls(level=settings.level, prior=settings.prior)

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        """Return the estimates for each k; undefined without attempts, because the prior alone is not a result."""
        return self.estimate_groups(GroupedAttempts.of([attempts]), k).of(0)

    def estimate_groups(self, grouped: GroupedAttempts, k: Sequence[int]) -> GroupedEstimates:
        """Return the estimates of every group for each k; NaN without attempts."""
        pass_at, pass_pow = self.of_samples(pooled_samples(grouped), k)
        return GroupedEstimates(
            estimator=self.name,
            level=self.level,
            k=tuple(k),
            interval_methods=methods(grouped, BAYESIAN_INTERVAL_METHODS),
            pass_at_k=pass_at,
            pass_pow_k=pass_pow,
        )

    def of_samples(self, samples: EffectiveSamples, k: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return pass@k and pass^k of pooled samples: (groups, len(k), 3) value, lower, upper."""
        a, b = self._posterior(samples.observed, samples.attempts)
        rates = self._rates(samples)
        ks = np.asarray(k)
        at_mean = beta_pass_at_mean(a[:, None], b[:, None], ks)
        pow_mean = beta_pass_pow_mean(a[:, None], b[:, None], ks)
        return (
            bounded(at_mean, any_of(rates[:, None, :], ks[:, None])),
            bounded(pow_mean, all_of(rates[:, None, :], ks[:, None])),
        )

    def _posterior(self, p: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a and b after n attempts at the rate p."""
        a, b = self.prior
        return a + p * n, b + (1.0 - p) * n

    def _rates(self, samples: EffectiveSamples) -> FloatArray:
        """Return the interval of the rate of each sample: (groups, 2)."""
        tail = scipy.special.ndtr(-critical_values(self.level, samples.degrees))
        beyond = np.where(tail < _NO_TAIL, 0.0, tail)
        return beta_quantiles(*self._posterior(samples.p, samples.n), beyond)


#: The estimated event: at least one of k attempts is correct, or all k are.
Kind = Literal["pass_at_k", "pass_pow_k"]

_POOLED: Final = frozenset({PluginEstimator.name, UnbiasedEstimator.name, BayesianEstimator.name})
_BERNOULLI: Final = {"pass_at_k": any_of, "pass_pow_k": all_of}
_SUBSETS: Final = {"pass_at_k": unbiased_pass_at_k, "pass_pow_k": unbiased_pass_pow_k}
#: Larger numbers of further conversations are not reported, because they have no practical use.
MOST_NEEDED: Final = 100_000


def exact_rate(sample: EffectiveSample, level: float) -> Interval:
    """Return the exact interval of a rate, on its effective number of attempts, stretched to contain the observed rate.

    >>> [round(end, 4) for end in exact_rate(EffectiveSample(p=0.7, n=10.0, observed=0.7), 0.95)]
    [0.3475, 0.9333]
    """
    n = sample.n
    if sample.degrees is not None:
        n *= (quantile(level) / quantile(level, sample.degrees)) ** 2
    lower, upper = clopper_pearson(min(n, sample.p * n), n, level)
    return Interval(min(lower, sample.observed), max(upper, sample.observed))


def exact_bounds(estimator: str, attempts: Attempts, kind: Kind, k: int, level: float) -> Interval | None:
    """Return the exact bounds of pass@k or pass^k as an estimator estimates it.

    None if the estimator is not one of those described above, or has no estimate: no attempts, or for `per_case`
    no case with k attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> twenty = Attempts.of((f"case {i}", True) for i in range(20))
    >>> [round(end, 3) for end in exact_bounds("plugin", twenty, "pass_pow_k", 3, 0.95)]
    [0.575, 1.0]
    """
    grouped = GroupedAttempts.of([attempts])
    if estimator in _POOLED:
        return _pooled_bounds(grouped, kind, k, level)
    if estimator != PerCaseEstimator.name:
        return None
    remaining = grouped.where(grouped.n >= k)
    if DESIGNS[int(designs(remaining)[0])] != "clustered":
        return _pooled_bounds(remaining, kind, k, level)
    return _mean_bounds(remaining, kind, k, level)


def more_needed(attempts: Attempts, kind: Kind, k: int, target: float, level: float) -> int | None:
    """Return how many more conversations at the observed rate would lift the exact lower bound to the target.

    The bound is that of the pooled rate. The result is 0 if the bound already reaches the target, and None if no number
    up to 100,000 suffices or there are no attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> more_needed(Attempts.of((f"case {i}", True) for i in range(20)), "pass_pow_k", 3, 0.7, 0.95)
    12
    """
    samples = pooled_samples(GroupedAttempts.of([attempts]))
    if not attempts.n:
        return None

    def reaches(more: int) -> bool:
        sample = samples.scaled((attempts.n + more) / attempts.n).of(0)
        return sample is not None and _transformed(exact_rate(sample, level), kind, k).lower >= target

    if reaches(0):
        return 0
    smallest = smallest_for_each(lambda _, more: np.array([reaches(int(value)) for value in more]), 1, MOST_NEEDED)
    return int(smallest[0]) or None


def _pooled_bounds(grouped: GroupedAttempts, kind: Kind, k: int, level: float) -> Interval | None:
    sample = pooled_samples(grouped).of(0)
    return None if sample is None else _transformed(exact_rate(sample, level), kind, k)


def _mean_bounds(remaining: GroupedAttempts, kind: Kind, k: int, level: float) -> Interval:
    """Return the bounds of a mean over cases, consistent with pass@k >= pass@1 >= pass^k of the same cases."""
    ks = np.array(sorted({1, k}))
    values = _SUBSETS[kind](remaining.n[:, None], correct_counts(remaining)[:, None], ks)
    means = mean_samples(remaining, values)
    ends = [exact_rate(_column(means, index), level) for index in range(len(ks))]
    if kind == "pass_at_k":
        return Interval(max(end.lower for end in ends), ends[-1].upper)
    return Interval(ends[-1].lower, min(end.upper for end in ends))


def _column(means: EffectiveSamples, index: int) -> EffectiveSample:
    """Return the sample of one column of the means of a single group."""
    p, n, degrees = (float(value[0, index]) for value in (means.p, means.n, means.degrees))
    return EffectiveSample(p=p, n=n, observed=p, degrees=None if np.isnan(degrees) else degrees)


def _transformed(rate: Interval, kind: Kind, k: int) -> Interval:
    lower, upper = _BERNOULLI[kind](np.array(rate), k).tolist()
    return Interval(lower, upper)


#: The pooled estimator of each statistical mode. The frequentist one is `plugin`, not `unbiased`: the paper uses it,
#: and it is defined for every k.
POOLED: Final = {"bayesian": BayesianEstimator.name, "frequentist": PluginEstimator.name}
#: Estimators that treat all conversations of a group as equivalent.
_POOLED_NAMES: Final = frozenset({PluginEstimator.name, UnbiasedEstimator.name, BayesianEstimator.name})


def validate_k(k: Iterable[object]) -> tuple[int, ...]:
    """Return the k to estimate, ascending and without duplicates.

    Raises:
        UsageError: `k` is empty, or one is not a whole number of at least 1; names it.

    >>> validate_k([5, 1, 3, 3])
    (1, 3, 5)
    """
    chosen: set[int] = set()
    for number in k:
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UsageError(f"k={number!r}: each k must be a whole number of attempts, 1 or more, e.g. 1,3,5")
        chosen.add(number)
    if not chosen:
        raise UsageError("k is empty: give at least one whole number of attempts, e.g. 1,3,5")
    return tuple(sorted(chosen))


def mode_estimator(settings: StatsSettings, *, level: float | None = None) -> BayesianEstimator | PluginEstimator:
    """Return the pooled estimator of the statistical mode, at `level` or that of the settings.

    >>> from otel_agentic.config import StatsSettings
    >>> mode_estimator(StatsSettings(mode="frequentist"), level=0.9)
    PluginEstimator(level=0.9)
    """
    chosen_level = settings.level if level is None else level
    if settings.mode == "bayesian":
        return BayesianEstimator(level=chosen_level, prior=settings.prior)
    return PluginEstimator(level=chosen_level)


def headline_estimator(settings: StatsSettings) -> str:
    """Return the name of the estimator of gauges, comparisons and gates: the configured one, else the mode's pooled one.

    It never depends on the data: a series or a comparison must not change its meaning by itself.

    >>> from otel_agentic.config import StatsSettings
    >>> headline_estimator(StatsSettings()), headline_estimator(StatsSettings(estimator="per_case"))
    ('bayesian', 'per_case')
    """
    return settings.estimator or POOLED[settings.mode]


def pooled_estimator(settings: StatsSettings) -> str:
    """Return the name of the estimator for the whole traffic: the configured one if it is pooled, else the mode's one.

    >>> from otel_agentic.config import StatsSettings
    >>> pooled_estimator(StatsSettings(estimator="unbiased")), pooled_estimator(StatsSettings(estimator="per_case"))
    ('unbiased', 'bayesian')
    """
    return settings.estimator if settings.estimator in _POOLED_NAMES else POOLED[settings.mode]


def shown_estimators(settings: StatsSettings) -> tuple[str, ...]:
    """Return the names of the estimators that a report shows of every group: pooled, per case, and a configured third.

    >>> from otel_agentic.config import StatsSettings
    >>> shown_estimators(StatsSettings()), shown_estimators(StatsSettings(estimator="hierarchical"))
    (('bayesian', 'per_case'), ('bayesian', 'per_case', 'hierarchical'))
    """
    return tuple(dict.fromkeys((pooled_estimator(settings), PerCaseEstimator.name, headline_estimator(settings))))


def headline_among(estimators: Sequence[Estimator], settings: StatsSettings) -> tuple[str, Estimator | None]:
    """Return the name of the headline estimator or of its substitute among `estimators`, and that estimator or None.

    >>> from otel_agentic.config import StatsSettings
    >>> headline_among([PluginEstimator(level=0.9)], StatsSettings())
    ('plugin', PluginEstimator(level=0.9))
    """
    name = default_among([item.name for item in estimators], headline_estimator(settings), settings)
    return name, next((item for item in estimators if item.name == name), None)


def default_among(names: Collection[str], preferred: str, settings: StatsSettings) -> str:
    """Return the preferred name if it is among `names`, else the pooled estimator of the mode, else the first name.

    Without names, return the preferred one.

    >>> from otel_agentic.config import StatsSettings
    >>> default_among(["plugin", "bayesian"], "per_case", StatsSettings())
    'bayesian'
    """
    for name in (preferred, POOLED[settings.mode]):
        if name in names:
            return name
    return next(iter(names), preferred)
