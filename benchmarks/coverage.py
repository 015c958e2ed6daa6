"""Compute the coverage of intervals by enumeration of every possible sample with its probability.

The interval of a group depends only on the number of cases with each number of correct attempts. There are few such samples
(126 for 5 cases with 4 attempts, 3,003 for 10 with 5). Under Beta-distributed success rates each sample has a known probability,
so coverage is a sum and needs no simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import gammaln
from scipy.stats import betabinom, binom

from otel_agentic.config import StatsSettings
from otel_agentic.stats import (
    BayesianEstimator,
    Estimator,
    GroupedAttempts,
    HierarchicalEstimator,
    PerCaseEstimator,
    PluginEstimator,
    all_of,
    any_of,
    clopper_pearson,
    estimate_groups,
    headline_estimator,
    with_bootstrap,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

RATES: Final = (0.5, 0.7, 0.9, 0.97)
SIZES: Final = (10, 20, 50)
MEAN_RATES: Final = (0.7, 0.9, 0.97)
KAPPAS: Final = (0.2, 0.5, 2.0, 8.0, 50.0)
KAPPA: Final = 2.0
LEVEL: Final = 0.95
K: Final = (1, 3)
ESTIMATORS: Final[tuple[Estimator, ...]] = (
    BayesianEstimator(),
    PluginEstimator(),
    PerCaseEstimator(),
    HierarchicalEstimator(),
)
#: A bound that differs from the true value only by rounding covers it.
ROUNDING: Final = 1e-12
_BY_RATE: Final = (PluginEstimator(), BayesianEstimator(), HierarchicalEstimator())


@dataclass(frozen=True, slots=True)
class Design:
    """A number of cases with the same number of attempts each."""

    cases: int
    attempts: int

    def __str__(self) -> str:
        return f"{self.cases} x {self.attempts}"


DESIGNS: Final = (Design(5, 4), Design(10, 5), Design(25, 2))


def coverage(bounds: FloatArray, chance: FloatArray, truth: float) -> float:
    """Return the probability of the samples whose bounds (samples, 2) contain the true value."""
    held = (bounds[:, 0] <= truth + ROUNDING) & (truth - ROUNDING <= bounds[:, 1])
    return float(chance[held].sum())


def averaged(bounds: FloatArray, rates: int = 20_000) -> float:
    """Return the mean coverage over rates spread evenly over (0, 1), that is, under the uniform prior."""
    n = len(bounds) - 1
    p = (np.arange(rates) + 0.5) / rates
    chance = binom.pmf(np.arange(n + 1)[:, None], n, p)
    held = (bounds[:, :1] <= p) & (p <= bounds[:, 1:])
    return float((chance * held).sum() / rates)


@lru_cache
def samples(design: Design) -> npt.NDArray[np.int64]:
    """Return every sample as (samples, attempts + 1): the number of cases with 0, 1, ... correct attempts."""
    slots = design.cases + design.attempts
    bars = np.array([(-1, *chosen, slots) for chosen in combinations(range(slots), design.attempts)])
    return np.diff(bars, axis=1) - 1


def probabilities(design: Design, mean: float, kappa: float) -> FloatArray:
    """Return the probability of every sample of cases whose rates are Beta(mean kappa, (1 - mean) kappa)."""
    counts = samples(design)
    correct = np.arange(design.attempts + 1)
    of_case = betabinom.logpmf(correct, design.attempts, mean * kappa, (1 - mean) * kappa)
    return np.asarray(np.exp(gammaln(design.cases + 1) - gammaln(counts + 1).sum(axis=1) + counts @ of_case))


def grouped(design: Design) -> GroupedAttempts:
    """Return every sample as a separate group."""
    group, c = np.nonzero(samples(design))
    n = np.full_like(c, design.attempts)
    return GroupedAttempts(size=len(samples(design)), group=group, n=n, c=c, cases=samples(design)[group, c])


@lru_cache
def estimated(index: int, design: Design) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of pass@k and of pass^k of every sample, (samples, K, 2) each, by ESTIMATORS[place]."""
    estimates = estimate_groups(ESTIMATORS[index], grouped(design), K)
    return estimates.pass_at_k[..., 1:], estimates.pass_pow_k[..., 1:]


def naive(estimator: Estimator, design: Design) -> FloatArray:
    """Return the bounds of the mean rate of every sample as if each attempt had its own case."""
    total = samples(design) @ np.arange(design.attempts + 1)
    return np.asarray(
        estimate_groups(estimator, once_each(design.cases * design.attempts), [1]).pass_pow_k[total, 0, 1:]
    )


def once_each(n: int) -> GroupedAttempts:
    """Return n + 1 groups of n cases with one attempt each: with 0, 1, ..., n correct."""
    correct = np.arange(n + 1)
    cases = np.stack([n - correct, correct], axis=1)
    group, c = np.nonzero(cases)
    return GroupedAttempts(size=n + 1, group=group, n=np.ones_like(c), c=c, cases=cases[group, c])


@lru_cache
def resampled(design: Design) -> FloatArray:
    """Return the bootstrap bounds of the pooled rate of every sample: (samples, 2)."""
    every = grouped(design)
    estimates = [
        with_bootstrap(PluginEstimator(), every.attempts(group), [1]).pass_pow_k[1] for group in range(every.size)
    ]
    return np.array([(bound.lower, bound.upper) for bound in estimates], dtype=np.float64)


def truth(estimator: str, mean: float, kappa: float, k: int, *, at: bool) -> float:
    """Return the target of an estimator: p^k at the mean p for pooled estimators, the mean of p^k over cases for the others."""
    if estimator in {"per_case", "hierarchical"}:
        rate = 1.0 - mean if at else mean
        every = float(np.prod([(rate * kappa + i) / (kappa + i) for i in range(k)]))
        return 1.0 - every if at else every
    return float(any_of(mean, k) if at else all_of(mean, k))


def headline() -> str:
    """Return the name of the headline estimator with default settings."""
    return headline_estimator(StatsSettings())


def cell(estimator: Estimator, design: Design, mean: float, kappa: float, k: int, *, at: bool = False) -> float:
    """Return the coverage of the target of an estimator."""
    bounds = estimated(ESTIMATORS.index(estimator), design)[0 if at else 1][:, K.index(k)]
    return coverage(bounds, probabilities(design, mean, kappa), truth(estimator.name, mean, kappa, k, at=at))


def rate_bounds(n: int) -> list[FloatArray]:
    """Return the bounds of the rate by Wilson, Clopper-Pearson, Beta posterior and profile likelihood."""
    wilson, bayesian, hierarchical = (
        estimate_groups(estimator, once_each(n), [1]).pass_pow_k[:, 0, 1:] for estimator in _BY_RATE
    )
    exact = np.array([clopper_pearson(c, n, LEVEL) for c in range(n + 1)])
    return [wilson, exact, bayesian, hierarchical]
