"""Bounds of gates: never narrower than their level requires, on the effective number of attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from otel_agentic.stats import Attempts, clopper_pearson, pooled_sample
from otel_agentic.stats.estimators import MOST_NEEDED, exact_bounds, exact_rate, more_needed

COUNTS = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def once(n: int, c: int) -> Attempts:
    """Return n attempts, each of a case of its own, c of them correct."""
    return Attempts.of((f"case {position}", position < c) for position in range(n))


def test_twenty_of_twenty_prove_a_pass_pow_3_of_575() -> None:
    # The lower end of p is .025^(1/20) = .8316; .8316^3 = .575.
    bounds = exact_bounds("plugin", once(20, 20), "pass_pow_k", 3, 0.95)
    assert bounds is not None
    assert [pytest.approx(0.025 ** (3 / 20)), 1.0] == list(bounds)


@pytest.mark.parametrize("estimator", ["plugin", "unbiased", "bayesian"])
def test_pooled_estimators_have_the_same_bounds(estimator: str) -> None:
    # Clopper-Pearson of 7 of 10 is [.3475, .9333].
    bounds = exact_bounds(estimator, once(10, 7), "pass_at_k", 2, 0.95)
    assert bounds is not None
    assert [pytest.approx(1 - (1 - 0.3475) ** 2, abs=1e-3), pytest.approx(1 - (1 - 0.9333) ** 2, abs=1e-3)] == list(
        bounds
    )


def test_attempts_of_few_cases_prove_less_than_attempts_of_many() -> None:
    few = Attempts.of((case, True) for case in "abcd" for _ in range(5))
    bounds = exact_bounds("plugin", few, "pass_pow_k", 1, 0.95)
    # All the same: 20 attempts are worth 4 cases. Their variance is assumed, not estimated, so there is no t quantile.
    assert tuple(clopper_pearson(4, 4, 0.95)) == pytest.approx(bounds)
    assert exact_bounds("plugin", once(20, 20), "pass_pow_k", 1, 0.95) > bounds  # type: ignore[operator]  # neither is None


def test_the_mean_over_cases_has_bounds_of_its_own() -> None:
    # pass^2 of the cases: 1, 1, 0 and 1/3 (C(2, 2) / C(3, 2)); their mean is .583.
    outcomes = {"a": (1, 1, 1), "b": (1, 1, 1), "c": (1, 0, 0), "d": (1, 1, 0)}
    attempts = Attempts.of((case, bool(item)) for case, actual in outcomes.items() for item in actual)
    bounds = exact_bounds("per_case", attempts, "pass_pow_k", 2, 0.95)
    assert bounds is not None
    assert bounds.lower < (1 + 1 + 0 + 1 / 3) / 4 < bounds.upper
    assert bounds != exact_bounds("plugin", attempts, "pass_pow_k", 2, 0.95)


def test_without_an_estimate_there_are_no_bounds() -> None:
    assert exact_bounds("plugin", Attempts(), "pass_pow_k", 1, 0.95) is None
    assert exact_bounds("per_case", once(5, 5), "pass_pow_k", 2, 0.95) is None


def test_nothing_is_claimed_of_a_foreign_estimator() -> None:
    assert exact_bounds("hierarchical", once(5, 5), "pass_pow_k", 1, 0.95) is None


@given(COUNTS)
def test_the_lower_bound_is_the_rate_at_which_as_many_would_be_rare(counts: tuple[int, int]) -> None:
    n, c = counts
    sample = pooled_sample(once(n, c))
    assert sample is not None
    lower, upper = exact_rate(sample, 0.95)
    assert c == 0 or pytest.approx(0.025, abs=1e-9) == binom.sf(c - 1, n, lower)
    assert c == n or pytest.approx(0.025, abs=1e-9) == binom.cdf(c, n, upper)


@given(COUNTS, st.sampled_from([1, 2, 3]))
def test_as_many_more_as_are_needed_lift_the_bound_and_one_fewer_do_not(counts: tuple[int, int], k: int) -> None:
    n, c = counts
    expected = 0.5
    more = more_needed(once(n, c), "pass_pow_k", k, expected, 0.95)

    def lower(total: int) -> float:
        return clopper_pearson(total * c / n, total, 0.95).lower ** k

    if more is None:
        assert lower(n + MOST_NEEDED) < expected
        return
    assert lower(n + more) >= expected
    assert more == 0 or lower(n + more - 1) < expected
