"""Estimates of one group by the written rules, one attempt at a time, in plain Python and with scipy.stats: slow and apart.

Attempts are `(case, correct, weight)`. Nothing here comes from `otel_agentic`.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import combinations
from math import comb, sqrt
from typing import TYPE_CHECKING, NamedTuple

from scipy.stats import beta, norm, t

if TYPE_CHECKING:
    from collections.abc import Sequence

Outcome = tuple[str, bool, float]


class Sample(NamedTuple):
    """A rate, the attempts it is worth, and the number of clusters or None."""

    p: float
    n: float
    cases: int | None


def by_case(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Return the attempts of each case."""
    cases: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        cases[outcome[0]].append(outcome)
    return list(cases.values())


def pooled(outcomes: Sequence[Outcome]) -> Sample:
    """Return the pooled rate and what it is worth; weights are exact fractions here."""
    weights = [Fraction(weight) for _, _, weight in outcomes]
    total = sum(weights)
    p = sum(weight for weight, (_, correct, _) in zip(weights, outcomes, strict=True) if correct) / total
    kish = float(total**2 / sum(weight**2 for weight in weights))
    cases, unequal = by_case(outcomes), len(set(weights)) > 1
    if len(cases) > 1 and len(cases) < len(outcomes):
        spread = sum(sum(Fraction(weight) * (correct - p) for _, correct, weight in case) ** 2 for case in cases)
        if not unequal:
            kish = float(len(outcomes))
        variance = Fraction(len(cases), len(cases) - 1) * spread / total**2
        worth = float(len(cases)) if not variance or p in (0, 1) else float(p * (1 - p) / variance)
        return Sample(float(p), min(kish, worth), len(cases))
    spread = sum((weight * (correct - p)) ** 2 for weight, (_, correct, _) in zip(weights, outcomes, strict=True))
    if unequal and len(cases) > 1 and spread:
        kish = min(kish, float(p * (1 - p) * total**2 / spread))
    return Sample(float(p), kish, None)


def critical(level: float, cases: int | None) -> float:
    """Return the two-sided quantile."""
    return float(norm.ppf((1 + level) / 2) if cases is None else t.ppf((1 + level) / 2, cases - 1))


def score_interval(sample: Sample, level: float) -> tuple[float, float]:
    """Return the rates that a score test does not reject, by the roots of its quadratic equation."""
    z = critical(level, sample.cases) ** 2 / sample.n
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
    return [(value, ends[0][place], ends[1][place]) for place, value in enumerate(bernoulli(sample.p, k))]


def unbiased(outcomes: Sequence[Outcome], k: int, level: float) -> list[tuple[float, float, float]] | None:
    """Return the shares of k-subsets, all of them looked at, of attempts of equal weight; None with fewer than k."""
    correct = [outcome[1] for outcome in outcomes]
    if len(correct) < k:
        return None
    subsets = list(combinations(correct, k))
    values = sum(any(each) for each in subsets) / len(subsets), sum(all(each) for each in subsets) / len(subsets)
    ends = [bernoulli(end, k) for end in score_interval(pooled(outcomes), level)]
    return [(v, min(v, ends[0][place]), max(v, ends[1][place])) for place, v in enumerate(values)]


def bayesian(
    outcomes: Sequence[Outcome], k: int, level: float, prior: tuple[float, float]
) -> list[tuple[float, float, float]]:
    """Return posterior means of the counts, drawn from an urn one after the other, and quantiles of effective counts."""
    sample = pooled(outcomes)
    a, b = prior[0] + sample.p * len(outcomes), prior[1] + (1 - sample.p) * len(outcomes)
    all_pass = all_fail = 1.0
    for step in range(k):
        all_pass *= (a + step) / (a + b + step)
        all_fail *= (b + step) / (a + b + step)
    worth = sample.n * (critical(level, None) / critical(level, sample.cases)) ** 2
    posterior = beta(prior[0] + sample.p * worth, prior[1] + (1 - sample.p) * worth)
    ends = [bernoulli(float(posterior.ppf(tail)), k) for tail in ((1 - level) / 2, (1 + level) / 2)]
    made = []
    for place, value in enumerate((1 - all_fail, all_pass)):
        lower, upper = ends[0][place], ends[1][place]
        made.append((value, min(lower, value), max(upper, value)))
    return made


def per_case(outcomes: Sequence[Outcome], k: int, level: float) -> list[tuple[float, float, float]] | None:
    """Return means over cases with k attempts, of equal weight, without the ends that smaller k allow."""
    cases = [case for case in by_case(outcomes) if len(case) >= k]
    kept = [outcome for case in cases for outcome in case]
    if len(cases) < 2 or len(cases) == len(kept):
        return unbiased(kept, k, level)
    counts = [(len(case), sum(correct for _, correct, _ in case)) for case in cases]
    at = [1 - Fraction(comb(n - c, k), comb(n, k)) for n, c in counts]
    power = [Fraction(comb(c, k), comb(n, k)) for n, c in counts]
    return [_mean(values, len(kept), level) for values in (at, power)]


def _mean(values: Sequence[Fraction], attempts: int, level: float) -> tuple[float, float, float]:
    cases = len(values)
    mean = sum(values) / cases
    variance = sum((value - mean) ** 2 for value in values) / (cases - 1) / cases
    worth = Fraction(cases) if not variance else min(Fraction(attempts), Fraction(mean * (1 - mean) / variance))
    return float(mean), *score_interval(Sample(float(mean), float(worth), cases), level)
