"""The cluster bootstrap: what it resamples, against all resamples written out, and where it collapses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.errors import UsageError
from otel_agentic.stats import (
    Attempts,
    BayesianEstimator,
    Estimates,
    Estimator,
    HierarchicalEstimator,
    PerCaseEstimator,
    PluginEstimator,
    UnbiasedEstimator,
    collapsed,
    with_bootstrap,
)
from tests.stats.beta_binomial_oracle import attempts_of

if TYPE_CHECKING:
    from otel_agentic.config import StatsSettings

ESTIMATORS: tuple[Estimator, ...] = (
    PluginEstimator(),
    UnbiasedEstimator(),
    PerCaseEstimator(),
    BayesianEstimator(),
    HierarchicalEstimator(),
)


def bounds(estimates: Estimates, k: int) -> tuple[float, float]:
    """Return the bounds of pass^k."""
    estimate = estimates.pass_pow_k[k]
    assert estimate.lower is not None
    assert estimate.upper is not None
    return estimate.lower, estimate.upper


@pytest.mark.parametrize("counts", [[(4, 4), (4, 1), (4, 3)], [(5, 0), (2, 2), (3, 1), (1, 1)], [(9, 4), (1, 1)]])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_bounds_are_the_quantiles_over_all_resamples_of_cases(counts: list[tuple[int, int]], level: float) -> None:
    """With K cases there are K^K resamples, all as likely; 40,000 drawn ones come within a step of their quantiles."""
    drawn = [[counts[case] for case in chosen] for chosen in product(range(len(counts)), repeat=len(counts))]
    rates = np.sort([(sum(c for _, c in item) / sum(n for n, _ in item)) ** 2 for item in drawn])
    actual = bounds(
        with_bootstrap(PluginEstimator(level=level), Attempts.of(_outcomes(counts)), [2], resamples=40_000), 2
    )
    point = (sum(c for _, c in counts) / sum(n for n, _ in counts)) ** 2
    (lowest, highest), (low, high) = (
        np.quantile(rates, np.clip([tail - 0.01, tail + 0.01], 0, 1), method="inverted_cdf")
        for tail in ((1 - level) / 2, (1 + level) / 2)
    )
    assert min(point, lowest) - 1e-12 <= actual[0] <= min(point, highest) + 1e-12
    assert max(point, low) - 1e-12 <= actual[1] <= max(point, high) + 1e-12


def test_many_cases_give_the_interval_of_the_normal_distribution() -> None:
    lower, upper = bounds(with_bootstrap(PluginEstimator(), attempts_of({(1, 1): 300, (1, 0): 100}), [1]), 1)
    half = 1.96 * (0.75 * 0.25 / 400) ** 0.5
    assert (lower, upper) == pytest.approx((0.75 - half, 0.75 + half), abs=0.005)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda item: item.name)
def test_points_stay_and_bounds_hold_them(estimator: Estimator) -> None:
    attempts = attempts_of({(4, 4): 3, (4, 1): 2, (2, 0): 1})
    plain, actual = estimator.estimate(attempts, [1, 3]), with_bootstrap(estimator, attempts, [1, 3], resamples=200)
    assert (plain.estimator, plain.level, plain.cases_left_out) == (
        actual.estimator,
        actual.level,
        actual.cases_left_out,
    )
    assert actual.interval_method == "cluster_bootstrap"
    for k in (1, 3):
        for before, after in ((plain.pass_at_k[k], actual.pass_at_k[k]), (plain.pass_pow_k[k], actual.pass_pow_k[k])):
            assert after.value is not None
            assert after.lower is not None
            assert after.upper is not None
            assert before.value == after.value
            assert after.lower <= after.value <= after.upper


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda item: item.name)
@pytest.mark.parametrize("kinds", [{(4, 4): 6}, {(1, 0): 30}, {(10, 7): 1}, {(3, 2): 5}], ids=str)
def test_with_equal_cases_it_collapses_and_is_reported_as_collapsed(
    estimator: Estimator, kinds: dict[tuple[int, int], int]
) -> None:
    actual = with_bootstrap(estimator, attempts_of(kinds), [1], resamples=10)
    assert collapsed(actual)
    assert not collapsed(estimator.estimate(attempts_of(kinds), [1]))


def test_cases_that_differ_have_not_collapsed() -> None:
    assert not collapsed(with_bootstrap(PluginEstimator(), attempts_of({(4, 4): 3, (4, 1): 2}), [1, 3]))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=9))
def test_the_same_counts_give_the_same_bounds_for_any_names_of_the_cases(counts: list[tuple[int, int]]) -> None:
    attempts = Attempts.of(_outcomes(counts))
    renamed = Attempts(cases=tuple(replace(case, case_id=f"{case.case_id} again") for case in reversed(attempts.cases)))
    first, second = (with_bootstrap(PerCaseEstimator(), item, [1, 2], resamples=60) for item in (attempts, renamed))
    assert first == second


def test_what_is_undefined_stays_undefined() -> None:
    for attempts in (Attempts(), attempts_of({(2, 1): 4})):
        actual = with_bootstrap(PerCaseEstimator(), attempts, [3])
        assert (actual.pass_at_k[3].value, actual.pass_at_k[3].lower, actual.pass_pow_k[3].upper) == (None, None, None)
        assert not collapsed(actual)


def test_resamples_without_an_estimate_are_left_out() -> None:
    """One case of two has 3 attempts: a quarter of the resamples has none that counts for k = 3."""
    actual = with_bootstrap(PerCaseEstimator(), attempts_of({(1, 1): 1, (4, 3): 1}), [1, 3])
    assert bounds(actual, 3) == pytest.approx((0.25, 0.25))
    assert bounds(actual, 1) == pytest.approx((0.75, 1.0))


def test_weights_of_attempts_are_resampled_with_their_case() -> None:
    cases = [(f"case {i}", i < 10) for i in range(20)]
    plain = bounds(with_bootstrap(PluginEstimator(), Attempts.of(cases), [1]), 1)
    weighted = Attempts.of((case, correct, 9.0 if correct else 1.0) for case, correct in cases)
    actual = bounds(with_bootstrap(PluginEstimator(), weighted, [1]), 1)
    as_weighted = tuple(9 * rate / (9 * rate + (1 - rate)) for rate in plain)  # the other resamples, passes ninefold
    assert as_weighted == pytest.approx(actual, abs=0.04)


@dataclass(frozen=True)
class Foreign:
    """A foreign estimator, which takes one group at a time."""

    name: ClassVar[str] = "foreign"

    @classmethod
    def from_settings(cls, settings: StatsSettings) -> Foreign:  # noqa: ARG003 — the protocol's signature
        return cls()

    def estimate(self, attempts: Attempts, k: Sequence[int]) -> Estimates:
        return replace(PluginEstimator().estimate(attempts, k), estimator=self.name)


def test_estimators_of_others_can_be_resampled_too() -> None:
    attempts = attempts_of({(4, 4): 3, (4, 1): 2})
    actual, own = (with_bootstrap(item, attempts, [1], resamples=100) for item in (Foreign(), PluginEstimator()))
    assert bounds(actual, 1) == bounds(own, 1)


def test_no_resamples_are_refused() -> None:
    with pytest.raises(UsageError, match="resamples=0"):
        with_bootstrap(PluginEstimator(), Attempts(), [1], resamples=0)


def _outcomes(counts: list[tuple[int, int]]) -> list[tuple[str, bool]]:
    return [(f"case {position}", attempt < c) for position, (n, c) in enumerate(counts) for attempt in range(n)]
