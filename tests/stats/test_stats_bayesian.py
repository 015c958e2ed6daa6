"""The closed forms against scipy's quantiles and Monte Carlo."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import beta

from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.stats import Attempts, BayesianEstimator, BetaPosterior
from otel_agentic.stats.rates import beta_quantiles


def independent(n: int, c: int) -> Attempts:
    return Attempts.of((f"case {i}", i < c) for i in range(n))


def test_seven_of_ten_with_a_uniform_prior_gives_the_worked_numbers() -> None:
    estimates = BayesianEstimator().estimate(independent(10, 7), [3])
    at, power = estimates.pass_at_k[3], estimates.pass_pow_k[3]
    assert (at.value, at.lower, at.upper) == pytest.approx((0.9451, 0.7733, 0.9987), abs=5e-5)
    assert (power.value, power.lower, power.upper) == pytest.approx((0.3297, 0.0594, 0.7067), abs=5e-5)
    assert estimates.interval_method == "beta_equal_tailed"


@settings(max_examples=25, deadline=None)
@given(st.floats(0.5, 60.0), st.floats(0.5, 60.0), st.integers(1, 12))
def test_posterior_means_equal_the_product_of_rising_factorials(a: float, b: float, k: int) -> None:
    """E[p^k] is the product of (a + i) / (a + b + i): Polya's urn, one draw after the other."""
    posterior = BetaPosterior(a=a, b=b)
    assert posterior.pass_pow_mean(k) == pytest.approx(prod((a + i) / (a + b + i) for i in range(k)), rel=1e-9)
    assert posterior.pass_at_mean(k) == pytest.approx(1 - prod((b + i) / (a + b + i) for i in range(k)), abs=1e-12)


def test_posterior_means_and_intervals_equal_monte_carlo() -> None:
    rng = np.random.default_rng(5)
    draws = rng.beta(18.5, 3.5, 400_000)
    estimates = BayesianEstimator(prior=(0.5, 0.5)).estimate(independent(21, 18), [5])
    for estimate, sample in ((estimates.pass_at_k[5], 1 - (1 - draws) ** 5), (estimates.pass_pow_k[5], draws**5)):
        assert estimate.value == pytest.approx(float(sample.mean()), abs=2e-3)
        assert estimate.lower == pytest.approx(float(np.quantile(sample, 0.025)), abs=3e-3)
        assert estimate.upper == pytest.approx(float(np.quantile(sample, 0.975)), abs=3e-3)


def test_intervals_are_transforms_of_the_beta_quantiles() -> None:
    lower, upper = float(beta.ppf(0.05, 8, 4)), float(beta.ppf(0.95, 8, 4))
    estimate = BayesianEstimator(level=0.9).estimate(independent(10, 7), [4])
    at, power = estimate.pass_at_k[4], estimate.pass_pow_k[4]
    assert (at.lower, at.upper) == pytest.approx((1 - (1 - lower) ** 4, 1 - (1 - upper) ** 4))
    assert (power.lower, power.upper) == pytest.approx((lower**4, upper**4))


def test_without_attempts_the_prior_is_not_passed_off_as_a_finding() -> None:
    assert BayesianEstimator().estimate(Attempts(), [1]).pass_at_k[1].value is None


def test_level_and_prior_come_from_the_settings() -> None:
    expected = BayesianEstimator(level=0.8, prior=(0.5, 0.5))
    assert expected == BayesianEstimator.from_settings(StatsSettings(level=0.8, prior=(0.5, 0.5)))


def test_a_level_outside_0_and_1_is_refused_by_the_posterior() -> None:
    with pytest.raises(UsageError, match="level"):
        BetaPosterior(a=1, b=1).interval(1.0)


def test_a_million_conversations_keep_their_digits() -> None:
    expected = 1.0
    for i in range(3):
        expected *= (900_001 + i) / (1_000_002 + i)
    assert BetaPosterior(a=900_001, b=100_001).pass_pow_mean(3) == pytest.approx(expected, rel=1e-8)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.integers(1, 30))
def test_posterior_means_are_ordered_and_monotone(counts: tuple[int, int], k: int) -> None:
    n, c = counts
    posterior, better = BetaPosterior(a=1 + c, b=1 + n - c), BetaPosterior(a=2 + c, b=1 + n - c)
    mean = posterior.a / (posterior.a + posterior.b)
    assert posterior.pass_pow_mean(k) <= mean + 1e-9
    assert mean - 1e-9 <= posterior.pass_at_mean(k)
    assert posterior.pass_at_mean(k) <= posterior.pass_at_mean(k + 1) + 1e-12
    assert posterior.pass_pow_mean(k + 1) <= posterior.pass_pow_mean(k) + 1e-12
    assert posterior.pass_at_mean(k) <= better.pass_at_mean(k) + 1e-12
    assert posterior.pass_pow_mean(k) <= better.pass_pow_mean(k) + 1e-12


@given(st.floats(0.9, 4.0), st.floats(0.01, 4.0), st.floats(-100.0, -2.0))
@example(1.01860219, 0.74330457, -36.56)  # scipy's inverse is NaN
def test_every_tail_has_a_quantile(a: float, b: float, log10_tail: float) -> None:
    lower = beta_quantiles(a, b, 10.0**log10_tail)[0]
    assert betainc(a, b, lower) == pytest.approx(10.0**log10_tail, rel=1e-6)
