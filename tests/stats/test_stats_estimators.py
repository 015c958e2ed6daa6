"""The four estimators side by side: their results, their undefined values, and their registration as plug-ins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic import plugins, stats
from otel_agentic.config import StatsSettings
from otel_agentic.stats import (
    Attempts,
    BayesianEstimator,
    CaseCount,
    Estimator,
    PerCaseEstimator,
    PluginEstimator,
    UnbiasedEstimator,
    all_of,
    any_of,
    quantile,
    wilson,
)

BUILT_IN: dict[str, type[Estimator]] = {
    "bayesian": BayesianEstimator,
    "per_case": PerCaseEstimator,
    "plugin": PluginEstimator,
    "unbiased": UnbiasedEstimator,
}


def independent(n: int, c: int) -> Attempts:
    return Attempts.of((f"case {i}", i < c) for i in range(n))


def test_every_public_name_is_there_and_the_list_is_sorted() -> None:
    assert sorted(set(stats.__all__), key=_as_ruff_sorts) == list(stats.__all__)
    assert [name for name in stats.__all__ if not hasattr(stats, name)] == []


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_estimators_are_found_by_their_entry_point(name: str) -> None:
    loaded = plugins.get("estimators", name).load()
    assert BUILT_IN[name] is loaded
    estimator = loaded.from_settings(StatsSettings(level=0.9))
    assert isinstance(estimator, Estimator)
    assert (name, 0.9) == (estimator.name, estimator.estimate(independent(3, 2), [1]).level)


def test_three_conversations_two_correct() -> None:
    attempts = independent(3, 2)
    plugin = PluginEstimator().estimate(attempts, [3])
    unbiased = UnbiasedEstimator().estimate(attempts, [3])
    assert (plugin.pass_at_k[3].value, plugin.pass_pow_k[3].value) == pytest.approx((0.963, 0.296), abs=5e-4)
    assert (unbiased.pass_at_k[3].value, unbiased.pass_pow_k[3].value) == (1.0, 0.0)


def test_two_conversations_leave_the_unbiased_estimate_of_three_undefined() -> None:
    attempts = independent(2, 1)
    unbiased = UnbiasedEstimator().estimate(attempts, [1, 3])
    assert (unbiased.pass_at_k[1].value, unbiased.pass_at_k[3].value) == (0.5, None)
    assert (unbiased.pass_pow_k[3].lower, unbiased.pass_pow_k[3].upper) == (None, None)
    assert PluginEstimator().estimate(attempts, [3]).pass_at_k[3].value is not None


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_without_attempts_every_estimate_is_undefined(name: str) -> None:
    estimates = BUILT_IN[name].from_settings(StatsSettings()).estimate(Attempts(), [1, 3])
    points = [estimate.value for estimate in (*estimates.pass_at_k.values(), *estimates.pass_pow_k.values())]
    assert points == [None] * 4


def test_pooled_intervals_are_wilsons_with_the_endpoints_transformed() -> None:
    lower, upper = wilson(0.7, 40, quantile(0.9))
    for estimator in (PluginEstimator(level=0.9), UnbiasedEstimator(level=0.9)):
        estimate = estimator.estimate(independent(40, 28), [3])
        at, power = estimate.pass_at_k[3], estimate.pass_pow_k[3]
        assert (at.lower, at.upper) == pytest.approx((float(any_of(lower, 3)), float(any_of(upper, 3))))
        assert (power.lower, power.upper) == pytest.approx((float(all_of(lower, 3)), float(all_of(upper, 3))))


def test_an_unbiased_point_past_the_interval_of_the_rate_stretches_it() -> None:
    estimate = UnbiasedEstimator().estimate(independent(3, 2), [3])
    assert (estimate.pass_at_k[3].value, estimate.pass_at_k[3].upper) == (1.0, 1.0)
    assert (estimate.pass_pow_k[3].value, estimate.pass_pow_k[3].lower) == (0.0, 0.0)


def test_per_case_averages_over_cases_and_says_which_were_left_out() -> None:
    counts = (CaseCount(case_id="a", n=4, c=2), CaseCount(case_id="b", n=2, c=2), CaseCount(case_id="c", n=1, c=1))
    estimate = PerCaseEstimator().estimate(Attempts(cases=counts), [1, 2, 4, 5])
    assert estimate.pass_at_k[1].value == pytest.approx((0.5 + 1 + 1) / 3)
    assert estimate.pass_pow_k[2].value == pytest.approx((1 / 6 + 1) / 2)
    assert (estimate.pass_at_k[4].value, estimate.pass_pow_k[4].value) == (1.0, 0.0)
    assert estimate.pass_at_k[5].value is None
    assert estimate.cases_left_out == {1: 0, 2: 1, 4: 2, 5: 3}


def test_traffic_weights_count_a_case_by_its_attempts() -> None:
    counts = (CaseCount(case_id="a", n=6, c=6), CaseCount(case_id="b", n=2, c=0))
    estimate = PerCaseEstimator(traffic_weighted=True).estimate(Attempts(cases=counts), [1])
    assert estimate.pass_at_k[1].value == pytest.approx(0.75)


@given(st.integers(5, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_pass_pow_is_at_most_pass_at_1_and_that_at_most_pass_at_k(counts: tuple[int, int]) -> None:
    attempts = independent(*counts)
    for name in ("bayesian", "plugin", "unbiased"):
        estimate = BUILT_IN[name].from_settings(StatsSettings()).estimate(attempts, [1, 3, 5])
        first = estimate.pass_at_k[1].value
        assert estimate.pass_pow_k[1].value == pytest.approx(first)
        for k in (3, 5):
            at, power = estimate.pass_at_k[k].value, estimate.pass_pow_k[k].value
            assert first is not None
            assert at is not None
            assert power is not None
            assert power <= first + 1e-9 <= at + 2e-9


@given(st.lists(st.integers(3, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=8))
def test_per_case_keeps_the_same_order_where_no_case_is_left_out(counts: list[tuple[int, int]]) -> None:
    cases = tuple(CaseCount(case_id=str(i), n=n, c=c) for i, (n, c) in enumerate(counts))
    estimate = PerCaseEstimator().estimate(Attempts(cases=cases), [1, 3])
    at, first, power = estimate.pass_at_k[3].value, estimate.pass_at_k[1].value, estimate.pass_pow_k[3].value
    assert at is not None
    assert first is not None
    assert power is not None
    assert power <= first + 1e-9 <= at + 2e-9
