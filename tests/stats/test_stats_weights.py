"""Attempts sampled with unequal probability: rates weigh by its inverse, and equal weights change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from scipy.special import binom

from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.stats import (
    Attempts,
    BayesianEstimator,
    GroupedAttempts,
    PerCaseEstimator,
    PluginEstimator,
    UnbiasedEstimator,
    claim_tiers,
    pooled_sample,
)
from otel_agentic.stats.model import unequal_weights
from tests.snapshots import raises
from tests.stats import group_oracle as oracle

ESTIMATORS = (
    PluginEstimator(),
    UnbiasedEstimator(),
    PerCaseEstimator(),
    PerCaseEstimator(traffic_weighted=True),
    BayesianEstimator(),
)
K = (1, 2, 4)
CASES = st.one_of(st.sampled_from("abcdef"), st.uuids().map(str))
OUTCOMES = st.lists(st.tuples(CASES, st.booleans()), min_size=1, max_size=25)
WEIGHTED = st.lists(st.tuples(CASES, st.booleans(), st.sampled_from([1.0, 2.0, 5.0])), min_size=1, max_size=15)


def weighing(outcomes: list[tuple[str, bool]], weight: float) -> Attempts:
    return Attempts.of((case, correct, weight) for case, correct in outcomes)


@settings(max_examples=30, deadline=None)
@given(OUTCOMES, st.sampled_from([1 / 3, 0.7, 1.0, 5.0, 1 / 0.05]))
def test_equal_weights_change_no_digit(outcomes: list[tuple[str, bool]], weight: float) -> None:
    plain, weighted = GroupedAttempts.of([Attempts.of(outcomes)]), GroupedAttempts.of([weighing(outcomes, weight)])
    assert (weight == 1.0) == (weighted.weights is None)
    for estimator in ESTIMATORS:
        expected, result = estimator.estimate_groups(plain, K), estimator.estimate_groups(weighted, K)
        np.testing.assert_array_equal(expected.pass_at_k, result.pass_at_k)
        np.testing.assert_array_equal(expected.pass_pow_k, result.pass_pow_k)
        assert expected.interval_methods == result.interval_methods
    expected_claims, claims = (claim_tiers(item, StatsSettings(), needed=True) for item in (plain, weighted))
    assert expected_claims == claims


def test_equal_weights_of_a_group_stay_equal_next_to_a_group_where_they_differ() -> None:
    alike, unlike = [("a", True, 5.0), ("b", False, 5.0)], [("a", True, 5.0), ("b", False, 1.0)]
    grouped = GroupedAttempts.of([Attempts.of(alike), Attempts.of(unlike), Attempts.of([("a", True)]), Attempts()])
    assert [False, True, False, False] == unequal_weights(grouped).tolist()
    assert [0.5, 5 / 6, 1.0] == PluginEstimator().estimate_groups(grouped, [1]).pass_at_k[:3, 0, 0].tolist()


@settings(max_examples=30, deadline=None)
@given(WEIGHTED, st.sampled_from([0.01, 3.0, 1e4]))
@example([("a", False, 1.0), *((case, case in "xy", 1.0) for case in "bcdefxy"), ("a", True, 2.0)], 0.01)
def test_only_ratios_of_weights_matter(outcomes: list[tuple[str, bool, float]], factor: float) -> None:
    grouped = [
        GroupedAttempts.of([Attempts.of((case, correct, weight * scale) for case, correct, weight in outcomes)])
        for scale in (1.0, factor)
    ]
    for estimator in ESTIMATORS:
        first, second = (estimator.estimate_groups(item, K) for item in grouped)
        np.testing.assert_allclose(first.pass_at_k, second.pass_at_k, atol=1e-9)
        np.testing.assert_allclose(first.pass_pow_k, second.pass_pow_k, atol=1e-9)


@given(WEIGHTED, st.sampled_from(K))
def test_weighted_pooled_estimates_follow_the_written_rules(outcomes: list[tuple[str, bool, float]], k: int) -> None:
    attempts = Attempts.of(outcomes)
    expected, sample = oracle.pooled(outcomes), pooled_sample(attempts)
    assert sample is not None
    assert (expected.p, expected.n, expected.observed) == pytest.approx(
        (sample.p, sample.n, sample.observed), rel=1e-9, abs=1e-12
    )
    assert (expected.degrees is None) == (sample.degrees is None)
    assert sample.degrees is None or expected.degrees == pytest.approx(sample.degrees, rel=1e-6)
    estimate = PluginEstimator().estimate(attempts, [k])
    for rule, result in zip(
        oracle.plugin(outcomes, k, 0.95), (estimate.pass_at_k[k], estimate.pass_pow_k[k]), strict=True
    ):
        assert rule == pytest.approx((result.value, result.lower, result.upper), abs=1e-7)
    estimate = BayesianEstimator().estimate(attempts, [k])
    for rule, result in zip(
        oracle.bayesian(outcomes, k, 0.95, (1.0, 1.0)), (estimate.pass_at_k[k], estimate.pass_pow_k[k]), strict=True
    ):
        assert rule == pytest.approx((result.value, result.lower, result.upper), abs=1e-7)


def test_subsets_take_the_weighted_rate_times_n_for_c() -> None:
    attempts = Attempts.of([("a", True, 5.0), ("b", True, 1.0), ("c", False, 1.0), ("d", False, 1.0)])
    estimate = UnbiasedEstimator().estimate(attempts, [1, 2, 5])
    assert estimate.pass_at_k[1].value == pytest.approx(6 / 8)
    assert estimate.pass_pow_k[2].value == pytest.approx(binom(3, 2) / binom(4, 2))
    assert estimate.pass_pow_k[5].value is None  # four attempts, with any weights


def test_a_case_has_the_estimate_of_its_weighted_rate() -> None:
    outcomes = [("a", True, 5.0), ("a", False, 1.0), ("a", True, 1.0), ("b", True, 1.0), ("b", False, 1.0)]
    estimate = PerCaseEstimator().estimate(Attempts.of(outcomes), [2])
    rate = 6 / 7
    assert estimate.pass_pow_k[2].value == pytest.approx((binom(3 * rate, 2) / binom(3, 2) + 0.0) / 2)
    assert estimate.pass_at_k[2].value == 1.0
    by_traffic = PerCaseEstimator(traffic_weighted=True).estimate(Attempts.of(outcomes), [1])
    assert by_traffic.pass_at_k[1].value == pytest.approx((6 + 1) / 9)


def test_conversations_without_repeats_are_averaged_by_weight_per_case_too() -> None:
    attempts = Attempts.of([("a", True, 1.0), ("b", False, 3.0)])
    assert PerCaseEstimator().estimate(attempts, [1]).pass_at_k[1].value == 0.25


@settings(max_examples=30, deadline=None)
@given(st.lists(WEIGHTED, max_size=3))
def test_weights_survive_the_way_into_groups_and_back(groups: list[list[tuple[str, bool, float]]]) -> None:
    grouped = GroupedAttempts.of([Attempts.of(group) for group in groups])
    again = GroupedAttempts.of([grouped.attempts(position) for position in range(grouped.size)])
    for name in ("group", "n", "c", "cases"):
        np.testing.assert_array_equal(getattr(grouped, name), getattr(again, name))
    assert (grouped.weights is None) == (again.weights is None)
    if grouped.weights is not None and again.weights is not None:
        np.testing.assert_array_equal(grouped.weights, again.weights)


@pytest.mark.parametrize("weight", [0.0, -1.0, inf, nan])
def test_a_weight_that_is_no_number_above_0_is_refused_with_its_case(weight: float) -> None:
    with raises(
        UsageError,
        snapshot("weight <weight> of an attempt of case ('', 'refund'): a weight is a number above 0, 1 / ratio"),
        weight=weight,
    ):
        Attempts.of([("refund", True, weight)])


DRAWS = 2_000
Traffic = Callable[[np.random.Generator], tuple[GroupedAttempts, float]]


def traffic_by_conversation(rng: np.random.Generator) -> tuple[GroupedAttempts, float]:
    """Return samples of 120 conversations that pass at .95, all taken, and 400 at .6, of which a fifth is; and the truth."""
    first, size = rng.binomial(120, 0.95, DRAWS), rng.binomial(400, 0.2, DRAWS)
    second = rng.binomial(size, 0.6)
    kinds = np.stack((120 - first, first, size - second, second), axis=1)
    grouped = GroupedAttempts(
        size=DRAWS,
        group=np.repeat(np.arange(DRAWS), 4),
        n=np.ones(4 * DRAWS, dtype=np.int64),
        c=np.tile([0, 1, 0, 1], DRAWS),
        cases=kinds.ravel(),
        weights=np.tile([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [5.0, 0.0, 25.0], [5.0, 5.0, 25.0]], (DRAWS, 1)),
    )
    return grouped, (120 * 0.95 + 400 * 0.6) / 520


def traffic_by_case(rng: np.random.Generator) -> tuple[GroupedAttempts, float]:
    """Return samples of 40 cases: 4 attempts each at about .9, all taken, then 20 at about .7, of which a fifth is."""
    before = rng.binomial(4, rng.beta(0.9 * 4, 0.1 * 4, (DRAWS, 40)))
    size = rng.binomial(20, 0.2, (DRAWS, 40))
    after = rng.binomial(size, rng.beta(0.7 * 4, 0.3 * 4, (DRAWS, 40)))
    weights = np.stack((4 + 5 * size, before + 5 * after, 4 + 25 * size), axis=-1).reshape(-1, 3).astype(np.float64)
    grouped = GroupedAttempts(
        size=DRAWS,
        group=np.repeat(np.arange(DRAWS), 40),
        n=(4 + size).ravel(),
        c=(before + after).ravel(),
        cases=np.ones(40 * DRAWS, dtype=np.int64),
        weights=weights,
    )
    return grouped, (4 * 0.9 + 20 * 0.7) / 24


@pytest.mark.parametrize("traffic", [traffic_by_conversation, traffic_by_case])
@pytest.mark.parametrize("estimator", [PluginEstimator(), BayesianEstimator()])
def test_weighted_rates_are_unbiased_and_their_intervals_cover_while_unweighted_ones_are_biased(
    traffic: Traffic, estimator: PluginEstimator | BayesianEstimator
) -> None:
    grouped, truth = traffic(np.random.default_rng(2_026))
    value, lower, upper = estimator.estimate_groups(grouped, [1]).pass_at_k[:, 0].T
    slack = 4 * float(value.std()) / DRAWS**0.5 + (0.005 if estimator.name == "bayesian" else 0.0)  # the prior's pull
    assert truth == pytest.approx(float(value.mean()), abs=slack)
    assert ((lower <= truth) & (truth <= upper)).mean() >= 0.92
    value, lower, upper = estimator.estimate_groups(replace(grouped, weights=None), [1]).pass_at_k[:, 0].T
    assert value.mean() > truth + 0.03
    assert ((lower <= truth) & (truth <= upper)).mean() < 0.75
