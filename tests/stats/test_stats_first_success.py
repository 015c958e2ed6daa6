"""The expected effort until the first success equals that of simulated repetitions, and the trend that of a direct count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.stats import first_success, trend

AMOUNTS = st.lists(st.floats(0, 100), max_size=20)


@given(AMOUNTS, AMOUNTS)
def test_by_default_it_is_the_total_of_all_attempts_per_success(passed: list[float], failed: list[float]) -> None:
    result = first_success(passed, failed)
    if not passed:
        assert result is None
        return
    assert result is not None
    assert result.attempts == pytest.approx((len(passed) + len(failed)) / len(passed))
    assert result.amount == pytest.approx(math.fsum([*passed, *failed]) / len(passed))


def test_it_is_the_mean_of_simulated_repetitions() -> None:
    passed, failed, p = [2.0, 4.0, 9.0], [1.0, 3.0], 0.3
    source = np.random.default_rng(7)

    def spent() -> tuple[int, float]:
        attempts, amount = 1, 0.0
        while source.random() >= p:
            attempts, amount = attempts + 1, amount + float(source.choice(failed))
        return attempts, amount + float(source.choice(passed))

    runs = [spent() for _ in range(20_000)]
    result = first_success(passed, failed, p=p)
    assert result is not None
    assert result.attempts == pytest.approx(math.fsum(attempts for attempts, _ in runs) / len(runs), rel=0.03)
    assert result.amount == pytest.approx(math.fsum(amount for _, amount in runs) / len(runs), rel=0.03)


@pytest.mark.parametrize(
    ("passed", "failed", "p", "expected"),
    [
        ([], [1.0], None, None),
        ([1.0], [1.0], 0.0, None),
        ([3.0], [], None, (1.0, 1.0, 3.0, 1, 0)),
        ([3.0], [None], None, (0.5, 2.0, None, 1, 0)),
        ([None], [1.0], None, (0.5, 2.0, None, 0, 1)),
        ([2.0, None], [1.0, None], None, (0.5, 2.0, 3.0, 1, 1)),
        ([3.0], [], 0.5, (0.5, 2.0, None, 1, 0)),
    ],
)
def test_an_unknown_amount_is_no_data_and_never_0(
    passed: list[float | None], failed: list[float | None], p: float | None, expected: tuple[object, ...] | None
) -> None:
    result = first_success(passed, failed, p=p)
    assert expected == (result and (result.p, result.attempts, result.amount, result.passes, result.failures))


@pytest.mark.parametrize(("passed", "p"), [([-1.0], None), ([math.inf], None), ([1.0], 1.5), ([1.0], math.nan)])
def test_impossible_amounts_and_rates_are_refused(passed: list[float], p: float | None) -> None:
    with pytest.raises(ValueError, match=r"at least 0|\[0, 1\]"):
        first_success(passed, [], p=p)


def _fisher(a: int, n: int, b: int, m: int) -> float:
    """Return the two-sided p-value by adding up all tables that are at most as probable."""
    events = a + b

    def probability(first: int) -> float:
        return math.comb(n, first) * math.comb(m, events - first) / math.comb(n + m, events)

    observed = probability(a)
    possible = range(max(0, events - m), min(n, events) + 1)
    return math.fsum(value for first in possible if (value := probability(first)) <= observed * (1 + 1e-9))


COUNTS = st.integers(0, 40).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@given(COUNTS, COUNTS)
def test_the_direction_of_a_trend_is_that_of_a_significant_difference(
    earlier: tuple[int, int], later: tuple[int, int]
) -> None:
    result = trend(*earlier, *later)
    assert result.p_value == pytest.approx(_fisher(*earlier, *later))
    if result.direction in {"rising", "falling"}:
        assert result.p_value < 0.05
        rates = earlier[0] / earlier[1], later[0] / later[1]
        assert (result.direction == "rising") == (rates[0] < rates[1])
    else:
        assert (result.direction == "steady") == (earlier[0] + later[0] >= 10)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="6 of 5"):
        trend(6, 5, 0, 5)
