"""Estimates of one group by the written rules, one attempt at a time, in plain Python and with scipy.stats: slow and apart.

Attempts are `(case, correct, weight)`. Nothing here comes from `otel_agentic`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import beta, norm, t

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

Outcome = tuple[str, bool, float]
#: A variance no larger is rounding.
TINY = 1e-24


class Sample(NamedTuple):
    """The rate of the interval, the attempts it is worth, the pooled rate, and the degrees of freedom or None."""

    p: float
    n: float
    observed: float
    degrees: float | None


def by_case(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Return the attempts of each case."""
    cases: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        cases[outcome[0]].append(outcome)
    return list(cases.values())


def pooled(outcomes: Sequence[Outcome]) -> Sample:
    """Return the pooled rate and its effective number of attempts; weights are exact fractions here."""
    weights = [Fraction(weight) for _, _, weight in outcomes]
    total = sum(weights)
    p = sum(weight for weight, (_, correct, _) in zip(weights, outcomes, strict=True) if correct) / total
    kish = float(total**2 / sum(weight**2 for weight in weights))
    cases, unequal = by_case(outcomes), len(set(weights)) > 1
    if 1 < len(cases) < len(outcomes):
        sizes = [float(sum(weight for _, _, weight in case)) if unequal else float(len(case)) for case in cases]
        rates = [sum(w for _, correct, w in case if correct) / sum(w for _, _, w in case) for case in cases]
        rho = 0.0 if unequal else correlation([len(case) for case in cases], rates)
        if not unequal:
            kish = float(len(outcomes))
            part = evidence(np.array(weighted(sizes, rho)), np.array(rates))
            rho = part * rho + 1.0 - part
        mean, n, degrees = mean_over_cases(np.array(weighted(sizes, rho)), np.array(rates))
        return Sample(mean, min(kish, n), float(p), degrees)
    spread = sum((weight * (correct - p)) ** 2 for weight, (_, correct, _) in zip(weights, outcomes, strict=True))
    if unequal and len(cases) > 1 and spread:
        kish = min(kish, float(p * (1 - p) * total**2 / spread))
    return Sample(float(p), kish, float(p), None)


def correlation(sizes: Sequence[int], rates: Sequence[float]) -> float:
    """Return the intraclass correlation by the mean squares of the one-way analysis of variance of single attempts."""
    attempts = [
        (case, outcome)
        for case, (size, rate) in enumerate(zip(sizes, rates, strict=True))
        for outcome in [1.0] * round(size * rate) + [0.0] * (size - round(size * rate))
    ]
    n, cases = len(attempts), len(sizes)
    grand = sum(outcome for _, outcome in attempts) / n
    within = sum((outcome - rates[case]) ** 2 for case, outcome in attempts) / (n - cases)
    between = sum((rates[case] - grand) ** 2 for case, _ in attempts) / (cases - 1)
    usual = (n - sum(size**2 for size in sizes) / n) / (cases - 1)
    spread = between + (usual - 1) * within
    return min(1.0, max(0.0, (between - within) / spread)) if spread > TINY else 1.0


def weighted(sizes: Sequence[float], rho: float) -> list[float]:
    """Return the share of each case at a correlation."""
    weights = [size / (1 + rho * (size - 1)) for size in sizes]
    return [weight / sum(weights) for weight in weights]


def bias_reduced(share: FloatArray, values: FloatArray) -> tuple[float, float]:
    """Return variance and degrees of freedom of a weighted mean by the matrices of Bell and McCaffrey, CR2.

    A regression on a constant with a cluster a value; the working variance of a value is the inverse of its share.
    """
    size = len(share)
    residuals = np.eye(size) - np.ones((size, 1)) @ share[None, :]
    working = np.diag(1.0 / share)
    adjusted = np.diag(share**2 * np.diag(working) / np.diag(residuals @ working @ residuals.T))
    errors = residuals @ values
    form = np.sqrt(working) @ residuals.T @ adjusted @ residuals @ np.sqrt(working)
    return float(errors @ adjusted @ errors), float(np.trace(form) ** 2 / np.trace(form @ form))


def evidence(share: FloatArray, values: FloatArray) -> float:
    """Return how much of the variance between cases is the data's."""
    spreads = []
    for y in (values, 1 - values):
        square = float(share @ y**2)
        spreads.append(float(share @ y) ** 2 / square if square > TINY else 0.0)
    u = min(spreads)
    cases = u / float(share @ share)
    return cases / (cases + 1.25 * max(0.0, 1 - 2 * u))


def mean_over_cases(share: FloatArray, values: FloatArray) -> tuple[float, float, float | None]:
    """Return a weighted mean over cases, the attempts it is worth and its degrees of freedom."""
    mean = min(1.0, max(0.0, float(share @ values)))
    robust, degrees = bias_reduced(share, values)
    largest = mean * (1 - mean) * float(share @ share)
    part = evidence(share, values) if robust < largest else 1.0
    variance = part * robust + (1 - part) * largest
    alone = 1 / float(share @ share)
    n = alone if variance <= TINY or mean in (0.0, 1.0) else mean * (1 - mean) / variance
    return mean, n, degrees * variance / (part * robust) if part * robust > TINY else None


def critical(level: float, degrees: float | None) -> float:
    """Return the two-sided quantile."""
    return float(norm.ppf((1 + level) / 2) if degrees is None else t.ppf((1 + level) / 2, degrees))


def score_interval(sample: Sample, level: float) -> tuple[float, float]:
    """Return the rates that a score test does not reject, by the roots of its quadratic equation."""
    z = critical(level, sample.degrees) ** 2 / sample.n
    a, b, c = 1 + z, -(2 * sample.p + z), sample.p**2
    root = sqrt(max(b * b - 4 * a * c, 0.0))
    return max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))


def bernoulli(p: float, k: int) -> tuple[float, float]:
    """Return pass@k and pass^k of a rate."""
    return 1 - (1 - p) ** k, p**k


def plugin(outcomes: Sequence[Outcome], k: int, level: float) -> list[tuple[float, float, float]]:
    """Return pass@k and pass^k with their bounds."""
    sample = pooled(outcomes)
    ends = [bernoulli(end, k) for end in score_interval(sample, level)]
    values = bernoulli(sample.observed, k)
    return [(v, min(v, ends[0][position]), max(v, ends[1][position])) for position, v in enumerate(values)]


def unbiased(outcomes: Sequence[Outcome], k: int, level: float) -> list[tuple[float, float, float]] | None:
    """Return the shares of k-subsets, all of them looked at, of attempts of equal weight; None with fewer than k."""
    correct = [outcome[1] for outcome in outcomes]
    if len(correct) < k:
        return None
    subsets = list(combinations(correct, k))
    values = (
        sum(any(subset) for subset in subsets) / len(subsets),
        sum(all(subset) for subset in subsets) / len(subsets),
    )
    ends = [bernoulli(end, k) for end in score_interval(pooled(outcomes), level)]
    return [(v, min(v, ends[0][position]), max(v, ends[1][position])) for position, v in enumerate(values)]


def bayesian(
    outcomes: Sequence[Outcome], k: int, level: float, prior: tuple[float, float]
) -> list[tuple[float, float, float]]:
    """Return posterior means of the counts, drawn from an urn one after the other, and quantiles of effective counts."""
    sample = pooled(outcomes)
    a, b = prior[0] + sample.observed * len(outcomes), prior[1] + (1 - sample.observed) * len(outcomes)
    all_pass = all_fail = 1.0
    for step in range(k):
        all_pass *= (a + step) / (a + b + step)
        all_fail *= (b + step) / (a + b + step)
    posterior = beta(prior[0] + sample.p * sample.n, prior[1] + (1 - sample.p) * sample.n)
    tail = float(norm.cdf(-critical(level, sample.degrees)))
    # With a degree of freedom the tail may be so small that scipy finds no quantile: the interval is then all of [0, 1].
    quantiles = (0.0, 1.0) if tail <= 1e-100 else (posterior.ppf(tail), posterior.ppf(1 - tail))
    ends = [bernoulli(float(rate), k) for rate in quantiles]
    results = []
    for position, value in enumerate((1 - all_fail, all_pass)):
        lower, upper = ends[0][position], ends[1][position]
        results.append((value, min(lower, value), max(upper, value)))
    return results


def per_case(outcomes: Sequence[Outcome], k: int, level: float) -> list[tuple[float, float, float]] | None:
    """Return means over cases with k attempts, of equal weight, without the ends that smaller k allow."""
    cases = [case for case in by_case(outcomes) if len(case) >= k]
    remaining = [outcome for case in cases for outcome in case]
    if len(cases) < 2 or len(cases) == len(remaining):
        return unbiased(remaining, k, level)
    counts = [(len(case), sum(correct for _, correct, _ in case)) for case in cases]
    at = [1 - Fraction(comb(n - c, k), comb(n, k)) for n, c in counts]
    power = [Fraction(comb(c, k), comb(n, k)) for n, c in counts]
    return [_mean(values, len(remaining), level) for values in (at, power)]


def _mean(values: Sequence[Fraction], attempts: int, level: float) -> tuple[float, float, float]:
    share = np.full(len(values), 1 / len(values))
    mean, worth, degrees = mean_over_cases(share, np.array([float(value) for value in values]))
    return mean, *score_interval(Sample(mean, min(attempts, worth), mean, degrees), level)
