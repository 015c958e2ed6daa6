"""Beta means and quantiles against exact binomial tails and against sampling, and at the ends of what can be asked."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.errors import UsageError
from otel_agentic.stats import BayesianEstimator, GroupedAttempts
from otel_agentic.stats.rates import beta_bounds, beta_pass_at_mean, beta_pass_pow_mean


def below(x: float, a: int, b: int) -> Fraction:
    """Return P(p <= x) of Beta(a, b) with whole parameters: a or more successes of a + b - 1 at rate x, exactly."""
    rate, n = Fraction(x), a + b - 1
    return sum((comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(a, n + 1)), Fraction(0))


@given(st.integers(1, 25), st.integers(1, 25), st.sampled_from([0.5, 0.8, 0.95, 0.999]))
def test_quantiles_leave_exactly_the_tails_outside(a: int, b: int, level: float) -> None:
    lower, upper = beta_bounds(a, b, level).tolist()
    assert float(below(lower, a, b)) == pytest.approx((1 - level) / 2, rel=1e-9)
    assert float(1 - below(upper, a, b)) == pytest.approx((1 - level) / 2, rel=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_a_level_outside_0_and_1_is_refused(level: float) -> None:
    with pytest.raises(UsageError, match="level"):
        beta_bounds(1.0, 1.0, level)


def of_counts(n: np.ndarray, c: np.ndarray) -> GroupedAttempts:
    """Return groups of n conversations a case each, c of them correct."""
    kinds = np.stack((n - c, c), axis=1)
    group, correct = np.nonzero(kinds)
    return GroupedAttempts(
        size=len(n), group=group, n=np.ones_like(group), c=correct, cases=kinds[group, correct].astype(np.int64)
    )


def test_exact_numbers_of_many_groups_agree_with_monte_carlo() -> None:
    """Means within 5 standard errors, and so the draws below each end."""
    rng, k, draws = np.random.default_rng(11), (1, 3, 5, 10), 20_000
    n = rng.integers(5, 501, 40)
    c = rng.binomial(n, rng.beta(4.0, 1.0, 40))
    estimate = BayesianEstimator().estimate_groups(of_counts(n, c), k)
    slack = 5 * (0.025 * 0.975 / draws) ** 0.5
    for group in range(40):
        rates = rng.beta(1 + c[group], 1 + n[group] - c[group], draws)
        for position, item in enumerate(k):
            for exact, sampled in ((estimate.pass_at_k, 1 - (1 - rates) ** item), (estimate.pass_pow_k, rates**item)):
                value, lower, upper = exact[group, position]
                assert abs(value - sampled.mean()) <= 5 * sampled.std() / draws**0.5 + 1e-12
                # At k = 10 many a sampled pass@k is 1.0 to the last digit, so an end may be a value that is often drawn.
                # An interval that would not hold the mean is stretched to it.
                assert (sampled < lower).mean() - slack <= 0.025
                assert lower == value or (sampled <= lower).mean() + slack >= 0.025
                assert (sampled > upper).mean() - slack <= 0.025
                assert upper == value or (sampled >= upper).mean() + slack >= 0.025


@pytest.mark.slow
def test_exact_numbers_of_ten_thousand_groups_agree_with_monte_carlo_of_five_thousand_draws() -> None:
    """As many groups as benchmarks/bench_estimators.py has; within 6 standard errors, because there are 240,000 numbers."""
    rng, k, draws = np.random.default_rng(12), (1, 3, 5, 10), 5_000
    n = rng.integers(5, 501, 10_000)
    c = rng.binomial(n, rng.beta(4.0, 1.0, 10_000))
    estimate = BayesianEstimator().estimate_groups(of_counts(n, c), k)
    slack = 6 * (0.025 * 0.975 / draws) ** 0.5
    for first in range(0, 10_000, 500):
        some = slice(first, first + 500)
        rates = rng.beta(1.0 + c[some], 1.0 + n[some] - c[some], (draws, 500))
        for position, item in enumerate(k):
            for exact, sampled in ((estimate.pass_at_k, 1 - (1 - rates) ** item), (estimate.pass_pow_k, rates**item)):
                value, lower, upper = exact[some, position].T
                # An interval that would not hold the mean is stretched to it. Where nearly all drawn pass@k are 1, the few others decide: the 1e-5 is for these.
                assert (np.abs(value - sampled.mean(axis=0)) <= 6 * sampled.std(axis=0) / draws**0.5 + 1e-5).all()
                assert ((sampled < lower).mean(axis=0) - slack <= 0.025).all()
                assert ((lower == value) | ((sampled <= lower).mean(axis=0) + slack >= 0.025)).all()
                assert ((sampled > upper).mean(axis=0) - slack <= 0.025).all()
                assert ((upper == value) | ((sampled >= upper).mean(axis=0) + slack >= 0.025)).all()


@given(
    st.sampled_from([(1.0, 1.0), (0.5, 0.5), (1e-3, 1e-3), (1e-12, 1.0), (1e-300, 1e-300), (50.0, 1e-6), (1e6, 1e6)]),
    st.sampled_from([1, 2, 17, 1_000, 10_000_000]),
    st.floats(0.0, 1.0),
    st.sampled_from([0.5, 0.95, 0.999]),
)
def test_numbers_are_finite_and_ordered_for_any_prior_and_counts(
    prior: tuple[float, float], n: int, share: float, level: float
) -> None:
    k, c = (1, 2, 16, 17, 100, 1000), round(n * share)
    estimate = BayesianEstimator(level=level, prior=prior).estimate_groups(of_counts(np.array([n]), np.array([c])), k)
    at, power = estimate.pass_at_k[0], estimate.pass_pow_k[0]
    for numbers in (at, power):
        assert np.isfinite(numbers).all()
        assert ((numbers >= 0.0) & (numbers <= 1.0)).all()
        assert (numbers[:, 1] <= numbers[:, 2]).all()
    assert (np.diff(at, axis=0) >= -1e-11).all()  # pass@k rises with k: value and ends
    assert (np.diff(power, axis=0) <= 1e-11).all()  # pass^k falls
    np.testing.assert_array_equal(at[0], power[0])


@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6), st.integers(1, 1000))
def test_no_pass_among_k_and_all_fail_are_the_same(a: float, b: float, k: int) -> None:
    """Exchanging success and failure turns 1 - pass@k into pass^k."""
    assert float(1.0 - beta_pass_at_mean(a, b, k)) == pytest.approx(float(beta_pass_pow_mean(b, a, k)), abs=1e-12)
