"""The formulas against enumeration of all subsets, and their laws."""

from __future__ import annotations

from itertools import combinations
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.errors import UsageError
from otel_agentic.stats import (
    all_of,
    any_of,
    plugin_pass_at_k,
    plugin_pass_pow_k,
    unbiased_pass_at_k,
    unbiased_pass_pow_k,
)

RATES = st.floats(0.0, 1.0)
KS = st.integers(1, 40)


@st.composite
def counts_with_k(draw: st.DrawFn) -> tuple[int, int, int]:
    n = draw(st.integers(1, 200))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


def test_the_papers_row_of_two_thirds_comes_out() -> None:
    assert [round(float(plugin_pass_at_k(3, 2, k)), 3) for k in range(1, 6)] == [0.667, 0.889, 0.963, 0.988, 0.996]
    assert [round(float(plugin_pass_pow_k(3, 2, k)), 3) for k in range(1, 6)] == [0.667, 0.444, 0.296, 0.198, 0.132]


def test_three_attempts_two_correct_differ_between_plugin_and_unbiased() -> None:
    assert round(float(plugin_pass_at_k(3, 2, 3)), 3) == 0.963
    assert round(float(plugin_pass_pow_k(3, 2, 3)), 3) == 0.296
    assert float(unbiased_pass_at_k(3, 2, 3)) == 1.0
    assert float(unbiased_pass_pow_k(3, 2, 3)) == 0.0


def test_fewer_attempts_than_k_is_undefined_not_zero() -> None:
    assert isnan(float(unbiased_pass_at_k(2, 2, 3)))
    assert isnan(float(unbiased_pass_pow_k(2, 2, 3)))


def test_no_attempts_is_undefined_not_zero() -> None:
    assert isnan(float(plugin_pass_at_k(0, 0, 1)))
    assert isnan(float(plugin_pass_pow_k(0, 0, 1)))


@pytest.mark.parametrize("n", range(1, 13))
def test_unbiased_forms_equal_the_enumeration_of_all_subsets(n: int) -> None:
    for c in range(n + 1):
        attempts = [True] * c + [False] * (n - c)
        for k in range(1, n + 1):
            subsets = [[attempts[index] for index in chosen] for chosen in combinations(range(n), k)]
            expected_at = sum(any(subset) for subset in subsets) / len(subsets)
            expected_pow = sum(all(subset) for subset in subsets) / len(subsets)
            assert float(unbiased_pass_at_k(n, c, k)) == pytest.approx(expected_at, abs=1e-12)
            assert float(unbiased_pass_pow_k(n, c, k)) == pytest.approx(expected_pow, abs=1e-12)


def test_formulas_are_vectorised_over_cases() -> None:
    n, c = np.array([4, 4, 2]), np.array([4, 2, 1])
    np.testing.assert_allclose(np.array([1.0, 1.0, np.nan]), unbiased_pass_at_k(n, c, 3), atol=1e-12)
    np.testing.assert_allclose(np.array([1.0, 0.0, np.nan]), unbiased_pass_pow_k(n, c, 3), atol=1e-12)
    np.testing.assert_allclose(np.array([0.5, 0.75]), any_of([0.5, 0.5], 1) + np.array([0.0, 0.25]))


def test_all_correct_and_none_correct_are_exact() -> None:
    for n in (1, 7, 1000, 123_457):
        assert (float(unbiased_pass_at_k(n, n, 1)), float(unbiased_pass_pow_k(n, n, n))) == (1.0, 1.0)
        assert (float(unbiased_pass_at_k(n, 0, n)), float(unbiased_pass_pow_k(n, 0, 1))) == (0.0, 0.0)


def test_small_rates_keep_their_digits() -> None:
    assert float(any_of(1e-12, 3)) == pytest.approx(3e-12, rel=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 2, 0), (3, 2, -1)])
def test_counts_or_k_outside_the_domain_are_refused_by_name(n: int, c: int, k: int) -> None:
    for formula in (plugin_pass_at_k, plugin_pass_pow_k, unbiased_pass_at_k, unbiased_pass_pow_k):
        with pytest.raises(UsageError, match=r"k=|c="):
            formula(n, c, k)


@settings(deadline=None)
@given(RATES, KS)
def test_pass_pow_is_at_most_the_rate_and_the_rate_at_most_pass_at(p: float, k: int) -> None:
    assert 0.0 <= float(all_of(p, k)) <= p
    assert p - 1e-12 <= float(any_of(p, k)) <= 1.0


@settings(deadline=None)
@given(RATES, RATES, KS)
def test_transforms_rise_with_the_rate(p: float, q: float, k: int) -> None:
    low, high = sorted((p, q))
    assert float(any_of(low, k)) <= float(any_of(high, k))
    assert float(all_of(low, k)) <= float(all_of(high, k))


@settings(deadline=None)
@given(RATES, KS)
def test_a_larger_k_raises_pass_at_and_lowers_pass_pow(p: float, k: int) -> None:
    assert float(any_of(p, k)) <= float(any_of(p, k + 1)) + 1e-15
    assert float(all_of(p, k + 1)) <= float(all_of(p, k))


@given(counts_with_k())
def test_unbiased_pass_pow_is_at_most_the_rate_and_the_rate_at_most_pass_at(case: tuple[int, int, int]) -> None:
    n, c, k = case
    assert -1e-9 <= float(unbiased_pass_pow_k(n, c, k)) <= c / n + 1e-9
    assert c / n - 1e-9 <= float(unbiased_pass_at_k(n, c, k)) <= 1.0


@given(counts_with_k())
def test_one_more_correct_attempt_never_lowers_an_unbiased_estimate(case: tuple[int, int, int]) -> None:
    n, c, k = case
    better = min(c + 1, n)
    assert float(unbiased_pass_at_k(n, c, k)) <= float(unbiased_pass_at_k(n, better, k)) + 1e-12
    assert float(unbiased_pass_pow_k(n, c, k)) <= float(unbiased_pass_pow_k(n, better, k)) + 1e-12
