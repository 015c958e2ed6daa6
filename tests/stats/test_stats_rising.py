"""Ratios of rising factorials against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.stats import unbiased_pass_at_k, unbiased_pass_pow_k
from otel_agentic.stats.rates import log_rising, rising_ratio


def exact(part: float, complete: float, k: int) -> Fraction:
    """Return (part)_k / (whole)_k, factor by factor."""
    ratio = Fraction(1)
    for step in range(k):
        ratio *= (Fraction(part) + step) / (Fraction(complete) + step)
    return ratio


@given(
    st.one_of(st.floats(1e-3, 50.0), st.floats(1.0, 1e7)),
    st.one_of(st.floats(0.0, 50.0), st.floats(0.0, 1e7)),
    st.one_of(st.integers(1, 40), st.integers(1, 1000)),
)
def test_a_ratio_keeps_eleven_digits_up_to_ten_million_attempts_and_k_of_a_thousand(
    part: float, more: float, k: int
) -> None:
    expected = float(exact(part, part + more, k))
    assert float(rising_ratio(part, part + more, k)) == pytest.approx(expected, rel=1e-11, abs=1e-250)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 8))
def test_of_small_whole_numbers_a_ratio_is_the_nearest_double(part: int, more: int, k: int) -> None:
    assert float(exact(part, part + more, k)) == float(rising_ratio(part, part + more, k))


@pytest.mark.parametrize("x", [0.001, 0.5, 3.0, 15.999, 16.0, 16.001, 1e3, 1e7, 1e9])
@pytest.mark.parametrize("k", [1, 2, 17, 1000])
def test_the_logarithm_is_the_sum_of_the_logarithms_of_the_factors(x: float, k: int) -> None:
    expected = float(np.log(x + np.arange(k)).sum())
    assert float(log_rising(x, k)) == pytest.approx(expected, rel=1e-13, abs=1e-12)


def test_arguments_broadcast_k_too() -> None:
    actual = rising_ratio(np.array([[1.0], [2.0]]), np.array([[4.0], [5.0]]), np.array([1, 3, 20]))
    expected = [[float(exact(part, part + 3, k)) for k in (1, 3, 20)] for part in (1, 2)]
    np.testing.assert_allclose(expected, actual, rtol=1e-12)


@given(
    st.integers(1, 10_000_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.one_of(st.integers(1, 20), st.integers(1, 1000)),
)
def test_shares_of_subsets_equal_exact_fractions_at_any_size(counts: tuple[int, int], k: int) -> None:
    n, c = counts
    at, power = float(unbiased_pass_at_k(n, c, k)), float(unbiased_pass_pow_k(n, c, k))
    if n < k:
        assert np.isnan([at, power]).all()
        return
    none_fails = exact(c - k + 1, n - k + 1, k) if c >= k else Fraction(0)
    none_passes = exact(n - c - k + 1, n - k + 1, k) if n - c >= k else Fraction(0)
    assert power == pytest.approx(float(none_fails), rel=1e-11, abs=1e-250)
    assert at == pytest.approx(float(1 - none_passes), abs=1e-11)


@given(st.integers(2, 500).flatmap(lambda n: st.tuples(st.just(n), st.floats(0, n - 1.0))), st.integers(1, 30))
def test_between_whole_counts_the_shares_lie_between_those_of_the_whole_counts(
    counts: tuple[int, float], k: int
) -> None:
    n, c = counts
    for formula in (unbiased_pass_at_k, unbiased_pass_pow_k):
        low, middle, high = (float(formula(n, item, k)) for item in (np.floor(c), c, np.floor(c) + 1))
        assert np.isnan(middle) if n < k else low - 1e-12 <= middle <= high + 1e-12
