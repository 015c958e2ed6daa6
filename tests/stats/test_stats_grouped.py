"""Many groups at once: the same as one by one, and as in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_agentic.config import StatsSettings
from otel_agentic.stats import (
    Attempts,
    BayesianEstimator,
    CaseCount,
    Estimate,
    Estimates,
    GroupedAttempts,
    GroupEstimator,
    PerCaseEstimator,
    PluginEstimator,
    UnbiasedEstimator,
    claim_tier,
    claim_tiers,
    estimate_groups,
)
from tests.stats import group_oracle as oracle

ESTIMATORS = (
    PluginEstimator(),
    UnbiasedEstimator(level=0.9),
    PerCaseEstimator(),
    PerCaseEstimator(traffic_weighted=True),
    BayesianEstimator(prior=(0.5, 0.5)),
)
K = (1, 2, 3, 5)
COUNTS = st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
ONCE = st.tuples(st.just(1), st.integers(0, 1))
SOME = st.one_of(
    st.lists(COUNTS, min_size=1, max_size=6),
    st.lists(ONCE, min_size=1, max_size=12),
    COUNTS.map(lambda counts: [counts]),
)
GROUPS: st.SearchStrategy[list[tuple[int, int]]] = st.one_of(SOME, st.just([]))


def attempts_of(counts: list[tuple[int, int]]) -> Attempts:
    return Attempts(cases=tuple(CaseCount(case_id=f"{i:03}", n=n, c=c) for i, (n, c) in enumerate(counts)))


def outcomes_of(counts: list[tuple[int, int]]) -> list[oracle.Outcome]:
    return [(f"{i:03}", position < c, 1.0) for i, (n, c) in enumerate(counts) for position in range(n)]


def numbers(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return estimate.value, estimate.lower, estimate.upper


def pair(estimates: Estimates, k: int) -> list[tuple[float | None, float | None, float | None]]:
    return [numbers(estimates.pass_at_k[k]), numbers(estimates.pass_pow_k[k])]


@given(st.lists(GROUPS, min_size=1, max_size=4))
def test_groups_at_once_are_the_groups_one_by_one(groups: list[list[tuple[int, int]]]) -> None:
    given_groups = [attempts_of(group) for group in groups]
    for estimator in ESTIMATORS:
        assert isinstance(estimator, GroupEstimator)
        estimate = estimate_groups(estimator, GroupedAttempts.of(given_groups), K)
        for position, alone in enumerate(given_groups):
            expected, result = estimator.estimate(alone, K), estimate.of(position)
            assert expected.interval_method == result.interval_method
            assert expected.cases_left_out == result.cases_left_out
            for k in K:
                for ours, theirs in zip(pair(expected, k), pair(result, k), strict=True):
                    assert ours == pytest.approx(theirs, abs=1e-13)


@given(SOME, st.sampled_from(K), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@example([(2, 1), (3, 3)], 1, 0.99)
def test_pooled_estimates_follow_the_written_rules(counts: list[tuple[int, int]], k: int, level: float) -> None:
    attempts, outcomes = attempts_of(counts), outcomes_of(counts)
    estimate = pair(PluginEstimator(level=level).estimate(attempts, [k]), k)
    assert [pytest.approx(item, abs=1e-7) for item in oracle.plugin(outcomes, k, level)] == estimate
    estimate = pair(BayesianEstimator(level=level, prior=(0.5, 2.0)).estimate(attempts, [k]), k)
    assert [pytest.approx(item, abs=1e-7) for item in oracle.bayesian(outcomes, k, level, (0.5, 2.0))] == estimate


@given(st.one_of(st.lists(COUNTS, max_size=3), st.lists(ONCE, max_size=12)), st.sampled_from(K))
def test_subsets_are_those_of_an_enumeration(counts: list[tuple[int, int]], k: int) -> None:
    attempts, outcomes = attempts_of(counts), outcomes_of(counts)
    for estimator, rule in ((UnbiasedEstimator(), oracle.unbiased), (PerCaseEstimator(), oracle.per_case)):
        expected, actual = rule(outcomes, k, 0.95), estimator.estimate(attempts, [k])
        if expected is None:
            assert [(None, None, None)] * 2 == pair(actual, k)
            continue
        (at, at_lower, at_upper), (power, power_lower, power_upper) = pair(actual, k)
        assert [item[0] for item in expected] == pytest.approx([at, power], abs=1e-9)
        assert (expected[0][2], expected[1][1]) == pytest.approx((at_upper, power_lower), abs=1e-7)
        if estimator.name == "unbiased" or k == 1:  # of per_case, the other two ends follow smaller k as well
            assert (expected[0][1], expected[1][2]) == pytest.approx((at_lower, power_upper), abs=1e-7)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_groups_give_no_estimates_and_groups_without_attempts_give_nan(estimator: GroupEstimator) -> None:
    assert estimator.estimate_groups(GroupedAttempts.of([]), K).pass_at_k.shape == (0, 4, 3)
    estimate = estimator.estimate_groups(GroupedAttempts.of([Attempts(), attempts_of([(1, 1)]), Attempts()]), [1])
    for numbers_of in (estimate.pass_at_k, estimate.pass_pow_k):
        assert np.isnan(numbers_of[[0, 2]]).all()
        assert not np.isnan(numbers_of[1]).any()


def test_a_kind_of_case_counts_as_often_as_it_occurs() -> None:
    alone = GroupedAttempts.of([attempts_of([(4, 3)] * 7 + [(2, 0)] * 5)])
    assert (alone.n.tolist(), alone.c.tolist(), alone.cases.tolist()) == ([2, 4], [0, 3], [5, 7])
    assert alone.total(alone.n).tolist() == [38.0]
    assert [(case.n, case.c) for case in alone.attempts(0).cases] == [(2, 0)] * 5 + [(4, 3)] * 7


@given(
    st.lists(st.one_of(GROUPS, st.integers(0, 60).map(lambda n: [(1, 1)] * n + [(1, 0)] * (n // 8))), max_size=5),
    st.sampled_from(["bayesian", "frequentist"]),
    st.sampled_from(["interval", "paper", "docs"]),
)
def test_tiers_are_claimed_group_by_group(groups: list[list[tuple[int, int]]], mode: str, rule: str) -> None:
    chosen = StatsSettings.model_validate({"mode": mode, "tier_rule": rule})
    given_groups = [attempts_of(group) for group in groups]
    claims = claim_tiers(GroupedAttempts.of(given_groups), chosen, needed=True)
    assert [claim_tier(group, chosen) for group in given_groups] == claims


def test_how_many_more_are_needed_is_looked_for_only_where_asked() -> None:
    grouped = GroupedAttempts.of([attempts_of([(1, 1)] * 20), attempts_of([(1, 1)] * 100)])
    claims = claim_tiers(grouped, StatsSettings(), needed=False)
    assert [("insufficient_evidence", "ready", None), ("ready", None, 0)] == [
        (claim.tier, claim.leaning, claim.needed) for claim in claims
    ]
    assert [16, 0] == [claim.needed for claim in claim_tiers(grouped, StatsSettings(), needed=True)]
