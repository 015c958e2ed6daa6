"""How often intervals of differences hold the true difference, simulated with cases of unequal difficulty."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from otel_agentic.stats.compare import compare
from otel_agentic.stats.model import Attempts, CaseCount


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Two versions on the same cases: rates of A ~ Beta(kappa 2) with a mean, those of B shifted on the logit scale."""

    cases: int
    attempts: int
    mean: float
    shift: float

    def rates(self, rng: np.random.Generator, cases: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rates of both versions on some cases."""
        a = np.clip(rng.beta(2 * self.mean, 2 * (1 - self.mean), cases), 1e-12, 1 - 1e-12)
        return a, a if self.shift == 0 else 1 / (1 + np.exp(-(np.log(a / (1 - a)) + self.shift)))


@cache
def truth(bench: Bench, k: int, *, per_case: bool) -> float:
    """Return the true difference of pass^k: the mean over all cases that there might be, or that of the mean rate."""
    a, b = bench.rates(np.random.default_rng(0), 1_000_000)
    return float(np.mean(b**k - a**k)) if per_case else float(np.mean(b) ** k - np.mean(a) ** k)


def attempts_of(rates: np.ndarray, attempts: int, rng: np.random.Generator, name: str = "") -> Attempts:
    correct = rng.binomial(attempts, rates)
    return Attempts(
        cases=tuple(
            CaseCount(case_id=f"{name}{position:04}", n=attempts, c=int(c)) for position, c in enumerate(correct)
        )
    )


def coverage(bench: Bench, k: int, *, times: int, shared: bool = True, per_case: bool = False) -> float:
    """Return how often the 95 % interval of the difference of pass^k holds the true one: of new cases, or of new traffic."""
    rng = np.random.default_rng([bench.cases, bench.attempts, k])
    hits = 0
    for _ in range(times):
        a, b = bench.rates(rng, bench.cases)
        if not shared:
            _, b = bench.rates(rng, bench.cases)
        first, other = attempts_of(a, bench.attempts, rng), attempts_of(b, bench.attempts, rng, "" if shared else "b")
        result = compare(first, other, [k], level=0.95)
        assert ("paired" if shared else "unpaired") == result.method
        difference = (result.per_case if per_case else result.pooled)[k].pass_pow_k
        assert difference.lower is not None
        assert difference.upper is not None
        hits += difference.lower <= truth(bench, k, per_case=per_case) <= difference.upper
    return hits / times


@pytest.mark.parametrize("per_case", [False, True])
def test_the_interval_of_a_paired_difference_holds_the_true_one(*, per_case: bool) -> None:
    assert coverage(Bench(cases=10, attempts=5, mean=0.7, shift=-1.5), 1, times=150, per_case=per_case) >= 0.92


def test_the_interval_of_an_unpaired_difference_holds_the_true_one() -> None:
    assert coverage(Bench(cases=40, attempts=1, mean=0.7, shift=-1.5), 1, times=150, shared=False) >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize("per_case", [False, True])
@pytest.mark.parametrize("shift", [0.0, -1.5])
@pytest.mark.parametrize("mean", [0.5, 0.7, 0.9, 0.97])
@pytest.mark.parametrize(("cases", "attempts"), [(4, 6), (5, 4), (10, 5), (25, 2), (50, 4), (20, 1)])
def test_paired_intervals_hold_the_true_difference_in_every_design(
    cases: int, attempts: int, mean: float, shift: float, *, per_case: bool
) -> None:
    bench = Bench(cases=cases, attempts=attempts, mean=mean, shift=shift)

    result = {k: coverage(bench, k, times=400, per_case=per_case) for k in (1, 3) if attempts >= k}
    assert min(result.values()) >= 0.91, result


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, -1.5])
@pytest.mark.parametrize("mean", [0.7, 0.97])
@pytest.mark.parametrize(("cases", "attempts"), [(10, 5), (25, 2), (100, 1)])
def test_unpaired_intervals_hold_the_true_difference_in_every_design(
    cases: int, attempts: int, mean: float, shift: float
) -> None:
    bench = Bench(cases=cases, attempts=attempts, mean=mean, shift=shift)

    assert coverage(bench, 1, times=400, shared=False) >= 0.91


@pytest.mark.slow
def test_the_probability_of_being_worse_is_as_often_right_as_it_says() -> None:
    """Versions from the same distribution: where it is .9 to 1, B is worse in at least 9 of 10 draws."""
    rng = np.random.default_rng(8)
    answer, true = [], []
    for _ in range(3_000):
        rates = rng.random(2)
        a, b = (attempts_of(np.full(30, rate), 1, rng, name) for rate, name in zip(rates, "ab", strict=True))
        answer.append(compare(a, b, [1], level=0.95).worse)
        true.append(rates[1] < rates[0])
    for low in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9):
        inside = [right for worse, right in zip(answer, true, strict=True) if low <= worse < low + 0.2]
        assert low - 0.05 <= float(np.mean(inside)) <= low + 0.25
