"""Simulate coverage and width for unequal numbers of attempts per case; random groups are estimated all at once.

Each case of a group has a success rate drawn from Beta(mean kappa, (1 - mean) kappa) and a number of attempts: the same
for all, Zipf-distributed (exponent 1.7, at most 60) or in proportion to 1 / rank (500 in all). There are two targets: the mean
over new cases, which is `mean`, and this traffic, `sum n_i p_i / n` over the cases of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betaincinv

from benchmarks.coverage import ROUNDING
from otel_agentic.stats import (
    BayesianEstimator,
    GroupedAttempts,
    HierarchicalEstimator,
    PerCaseEstimator,
    PluginEstimator,
    TrafficEstimator,
)
from otel_agentic.stats.rates import critical_values, wilson_bounds

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]
    IntArray = npt.NDArray[np.int64]

CASES: Final = (5, 10, 50, 200)
KAPPAS: Final = (0.5, 2.0, 10.0)
MEAN_RATES: Final = (0.7, 0.888, 0.95, 0.97)
#: Groups per cell, and fewer if each takes milliseconds.
GROUPS: Final = 2_000
SLOW_GROUPS: Final = 150
LEVEL: Final = 0.95
TARGET: Final = 0.93
_ZIPF: Final = 1.7
_MOST: Final = 60
_RANKED: Final = 500
SIZES: Final[dict[str, Callable[[np.random.Generator, int, int], IntArray]]] = {
    "1 each": lambda _, groups, cases: np.full((groups, cases), 1),
    "4 each": lambda _, groups, cases: np.full((groups, cases), 4),
    "20 each": lambda _, groups, cases: np.full((groups, cases), 20),
    "Zipf": lambda rng, groups, cases: np.minimum(rng.zipf(_ZIPF, (groups, cases)), _MOST),
    "1/rank": lambda _, groups, cases: np.broadcast_to(_ranked(cases), (groups, cases)),
}
EQUAL: Final = ("4 each", "20 each")
PRESENT: Final = (BayesianEstimator(), PluginEstimator(), PerCaseEstimator())


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the grid."""

    cases: int
    sizes: str
    kappa: float
    mean: float


@dataclass(frozen=True, slots=True)
class Covered:
    """The performance of an interval in a cell: its coverage and its mean width."""

    coverage: float
    width: float


def cells(sizes: Sequence[str] = tuple(SIZES)) -> list[Cell]:
    """Return the cells of the grid."""
    return [
        Cell(cases, size, kappa, mean) for cases in CASES for size in sizes for kappa in KAPPAS for mean in MEAN_RATES
    ]


def drawn(cell: Cell, groups: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return attempts and correct attempts (groups, cases), and the rate of this traffic (groups,); seeded by the cell."""
    rng = np.random.default_rng(
        [cell.cases, list(SIZES).index(cell.sizes), round(cell.kappa * 10), round(cell.mean * 1e3)]
    )
    n = SIZES[cell.sizes](rng, groups, cell.cases)
    rates = rng.beta(cell.mean * cell.kappa, (1.0 - cell.mean) * cell.kappa, (groups, cell.cases))
    return n, rng.binomial(n, rates), np.asarray((n * rates).sum(axis=1) / n.sum(axis=1))


def grouped(n: IntArray, c: IntArray) -> GroupedAttempts:
    """Return groups from arrays (groups, cases) of attempts and correct attempts; identical cases share one row."""
    beyond = int(n.max()) + 1
    keys = (np.repeat(np.arange(len(n)), n.shape[1]) * beyond + n.ravel()) * beyond + c.ravel()
    kinds, cases = np.unique(keys, return_counts=True)
    return GroupedAttempts(
        size=len(n),
        group=kinds // beyond**2,
        n=kinds // beyond % beyond,
        c=kinds % beyond,
        cases=cases,
    )


@cache
def study(cell: Cell, groups: int = GROUPS) -> dict[str, Covered]:
    """Return coverage and width by name: current estimators and candidates for a new case, and `this_traffic` for its own target."""
    n, c, traffic = drawn(cell, groups)
    attempts = grouped(n, c)
    results = {
        estimator.name: _covered(estimator.estimate_groups(attempts, [1]).pass_pow_k[:, 0, 1:], cell.mean)
        for estimator in PRESENT
    }
    results |= {name: _covered(interval(n, c), cell.mean) for name, interval in CONTENDERS.items()}
    own = TrafficEstimator().estimate_groups(attempts, [1]).pass_pow_k[:, 0, 1:]
    plain = wilson_bounds(c.sum(axis=1) / n.sum(axis=1), n.sum(axis=1), critical_values(LEVEL, np.nan))
    return results | {"this_traffic": _covered(own, traffic), "naive": _covered(plain, traffic)}


@cache
def pass_pow_3(cell: Cell, groups: int = SLOW_GROUPS) -> dict[str, Covered]:
    """Return coverage and width for pass^3 of a new case, by `hierarchical` and by a pooled estimate read as if it were that."""
    n, c, _ = drawn(cell, groups)
    attempts = grouped(n, c)
    new = float(np.prod([(cell.mean * cell.kappa + i) / (cell.kappa + i) for i in range(3)]))
    return {
        estimator.name: _covered(estimator.estimate_groups(attempts, [3]).pass_pow_k[:, 0, 1:], new)
        for estimator in (HierarchicalEstimator(), BayesianEstimator())
    }


def monte_carlo_error(coverage: float, groups: int) -> float:
    """Return the standard error of a coverage over a number of groups."""
    return float((coverage * (1.0 - coverage) / groups) ** 0.5)


def narrowest(results: dict[str, Covered]) -> float:
    """Return the width of the narrowest interval, current or candidate, with sufficient coverage of a new case."""
    return min(
        (
            result.width
            for name, result in results.items()
            if name not in {"this_traffic", "naive"} and result.coverage >= TARGET
        ),
        default=np.nan,
    )


def _ranked(cases: int) -> IntArray:
    shares = 1.0 / np.arange(1, cases + 1)
    return np.asarray(np.maximum(1, np.round(_RANKED * shares / shares.sum())), dtype=np.int64)


def _covered(bounds: FloatArray, truth: FloatArray | float) -> Covered:
    held = (bounds[:, 0] <= np.add(truth, ROUNDING)) & (np.subtract(truth, ROUNDING) <= bounds[:, 1])
    return Covered(float(held.mean()), float((bounds[:, 1] - bounds[:, 0]).mean()))


def _former_bayesian(n: IntArray, c: IntArray) -> FloatArray:
    """Return the former rule: the ratio estimator's n_eff, K - 1 degrees of freedom, Beta quantiles, stretched to the mean."""
    p, worth, critical = _ratio(n, c)
    attempts, correct = n.sum(axis=1), c.sum(axis=1)
    worth = worth * (critical_values(LEVEL, np.nan) / critical) ** 2
    bounds = betaincinv(1.0 + p * worth, 1.0 + (1.0 - p) * worth, np.array([[0.025], [0.975]]))
    mean = (1.0 + correct) / (2.0 + attempts)
    return np.stack((np.minimum(bounds[0], mean), np.maximum(bounds[1], mean)), axis=1)


def _former_plugin(n: IntArray, c: IntArray) -> FloatArray:
    """Return the former rule with Wilson's interval."""
    return wilson_bounds(*_ratio(n, c))


def _ratio(n: IntArray, c: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return pooled rate, effective attempts and critical value of the ratio estimator; normal for one attempt per case."""
    attempts, cases = n.sum(axis=1), n.shape[1]
    p = c.sum(axis=1) / attempts
    variance = cases / (cases - 1) * ((c - p[:, None] * n) ** 2).sum(axis=1) / attempts**2
    return p, *_worth(p, variance, n, np.full(len(n), cases - 1.0), float(cases))


def _former_per_case(n: IntArray, c: IntArray) -> FloatArray:
    """Return the former rule for the mean over cases."""
    rates, cases = c / n, n.shape[1]
    p = rates.mean(axis=1)
    return wilson_bounds(
        p, *_worth(p, rates.var(axis=1, ddof=1) / cases, n, np.full(len(n), cases - 1.0), float(cases))
    )


def _pooled_cr2(n: IntArray, c: IntArray) -> FloatArray:
    """Return Wilson's interval about the pooled rate with the CR2 variance and Satterthwaite degrees of freedom."""
    share = n / n.sum(axis=1, keepdims=True)
    p = c.sum(axis=1) / n.sum(axis=1)
    ratio = share**2 / (1.0 - share)
    variance = (ratio * (c / n - p[:, None]) ** 2).sum(axis=1)
    squares = (share**2).sum(axis=1)
    degrees = 1.0 / (squares + ratio.sum(axis=1) ** 2 - (ratio**2).sum(axis=1))
    return wilson_bounds(p, *_worth(p, variance, n, degrees, 1.0 / squares))


def _worth(
    p: FloatArray, variance: FloatArray, n: IntArray, degrees: FloatArray, alike: FloatArray | float
) -> tuple[FloatArray, FloatArray]:
    """Return effective attempts and critical values; n and the normal value for groups with one attempt per case."""
    attempts, once = n.sum(axis=1), (n == 1).all(axis=1)
    none = (variance <= ROUNDING**2) | (p <= 0.0) | (p >= 1.0)
    worth = np.where(none, alike, p * (1.0 - p) / np.where(none, 1.0, variance))
    return (
        np.where(once, attempts, np.minimum(attempts, worth)),
        critical_values(LEVEL, np.where(once, np.nan, degrees)),
    )


#: Candidate intervals for the mean over new cases.
CONTENDERS: Final[dict[str, Callable[[IntArray, IntArray], FloatArray]]] = {
    "former bayesian": _former_bayesian,
    "former plugin": _former_plugin,
    "former per_case": _former_per_case,
    "pooled CR2": _pooled_cr2,
}
