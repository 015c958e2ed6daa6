"""Exact bounds for gates: Clopper-Pearson on the effective number of attempts, put through the Bernoulli formulas.

A gate is a decision, so its bounds must not cover less than they say: Wilson's interval holds its level on average, the one
of Clopper and Pearson for every rate. Attempts of one case resemble each other; they enter by the effective sample size of
`cluster`, made smaller by the t quantile of its degrees of freedom.

- pooled estimators: the bounds of the pooled rate, transformed (both formulas are monotone in the rate).
- `per_case`: the mean over cases is treated as a rate in `n_eff` attempts, as `PerCaseEstimator` does.

Ref: Clopper and Pearson 1934, "The use of confidence or fiducial limits illustrated in the case of the binomial"; Korn and
Graubard 1998, "Confidence intervals for proportions with small expected number of positive counts estimated from survey
data" (the degrees-of-freedom adjusted effective sample size).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from otel_agentic.stats.bayesian import BayesianEstimator
from otel_agentic.stats.cluster import DESIGNS, EffectiveSample, designs, mean_samples, pooled_samples
from otel_agentic.stats.frequentist import PerCaseEstimator, PluginEstimator, UnbiasedEstimator
from otel_agentic.stats.grouped import GroupedAttempts
from otel_agentic.stats.interval import Interval, clopper_pearson, quantile
from otel_agentic.stats.pass_k import all_of, any_of, unbiased_pass_at_k, unbiased_pass_pow_k
from otel_agentic.stats.search import smallest_for_each
from otel_agentic.stats.weights import correct_counts

if TYPE_CHECKING:
    from otel_agentic.stats.cluster import EffectiveSamples
    from otel_agentic.stats.model import Attempts

#: What is estimated: at least one of k attempts is right, or all k are.
Kind = Literal["pass_at_k", "pass_pow_k"]

_POOLED: Final = frozenset({PluginEstimator.name, UnbiasedEstimator.name, BayesianEstimator.name})
_BERNOULLI: Final = {"pass_at_k": any_of, "pass_pow_k": all_of}
_SUBSETS: Final = {"pass_at_k": unbiased_pass_at_k, "pass_pow_k": unbiased_pass_pow_k}
#: Beyond this many more conversations, "how many more" is no advice.
MOST_NEEDED: Final = 100_000


def exact_rate(sample: EffectiveSample, level: float) -> Interval:
    """Return the exact interval of a rate, on its effective number of attempts, stretched to hold the observed rate.

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

    None where the estimator is none of those that this page is about, or has no estimate: no attempts, or for `per_case`
    no case with k attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> twenty = Attempts.of((f"case {i}", True) for i in range(20))
    >>> [round(end, 3) for end in exact_bounds("plugin", twenty, "pass_pow_k", 3, 0.95)]
    [0.575, 1.0]
    """
    grouped = GroupedAttempts.of([attempts])
    if estimator in _POOLED:
        return _pooled(grouped, kind, k, level)
    if estimator != PerCaseEstimator.name:
        return None
    kept = grouped.where(grouped.n >= k)
    if DESIGNS[int(designs(kept)[0])] != "clustered":
        return _pooled(kept, kind, k, level)
    return _mean(kept, kind, k, level)


def more_needed(attempts: Attempts, kind: Kind, k: int, wanted: float, level: float) -> int | None:
    """Return how many more conversations at the observed rate would lift the exact lower bound to what is wanted.

    The pooled rate is meant. 0 where the bound is there already; None where no number up to 100,000 would do, or there
    are no attempts.

    >>> from otel_agentic.stats.model import Attempts
    >>> more_needed(Attempts.of((f"case {i}", True) for i in range(20)), "pass_pow_k", 3, 0.7, 0.95)
    12
    """
    samples = pooled_samples(GroupedAttempts.of([attempts]))
    if not attempts.n:
        return None

    def reaches(more: int) -> bool:
        sample = samples.scaled((attempts.n + more) / attempts.n).of(0)
        return sample is not None and _transformed(exact_rate(sample, level), kind, k).lower >= wanted

    if reaches(0):
        return 0
    found = smallest_for_each(lambda _, more: np.array([reaches(int(each)) for each in more]), 1, MOST_NEEDED)
    return int(found[0]) or None


def _pooled(grouped: GroupedAttempts, kind: Kind, k: int, level: float) -> Interval | None:
    sample = pooled_samples(grouped).of(0)
    return None if sample is None else _transformed(exact_rate(sample, level), kind, k)


def _mean(kept: GroupedAttempts, kind: Kind, k: int, level: float) -> Interval:
    """Return the bounds of a mean over cases. Of the same cases pass@k is at least pass@1, pass^k at most."""
    ks = np.array(sorted({1, k}))
    values = _SUBSETS[kind](kept.n[:, None], correct_counts(kept)[:, None], ks)
    means = mean_samples(kept, values)
    ends = [exact_rate(_column(means, place), level) for place in range(len(ks))]
    if kind == "pass_at_k":
        return Interval(max(end.lower for end in ends), ends[-1].upper)
    return Interval(ends[-1].lower, min(end.upper for end in ends))


def _column(means: EffectiveSamples, place: int) -> EffectiveSample:
    """Return the sample of one column of the means of a single group."""
    p, n, degrees = (float(each[0, place]) for each in (means.p, means.n, means.degrees))
    return EffectiveSample(p=p, n=n, observed=p, degrees=None if np.isnan(degrees) else degrees)


def _transformed(rate: Interval, kind: Kind, k: int) -> Interval:
    lower, upper = _BERNOULLI[kind](np.array(rate), k).tolist()
    return Interval(lower, upper)
