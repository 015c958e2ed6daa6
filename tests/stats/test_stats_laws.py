"""Laws of every estimator for all counts: order of ends, of k, and of counts; up to n of 1e7 and k of 1000."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from otel_agentic.stats import (
    Attempts,
    BayesianEstimator,
    BetaPosterior,
    CaseCount,
    GroupedAttempts,
    GroupEstimator,
    HierarchicalEstimator,
    PerCaseEstimator,
    PluginEstimator,
    UnbiasedEstimator,
)

K = (1, 2, 3, 16, 17, 200, 1000)
#: Ends and points may be out of order by rounding.
ROUNDING = 1e-11
POOLED = (PluginEstimator(), PluginEstimator(level=0.999), UnbiasedEstimator(), UnbiasedEstimator(level=0.5))
BAYESIAN = (
    BayesianEstimator(),
    BayesianEstimator(prior=(0.5, 0.5), level=0.999),
    BayesianEstimator(prior=(1e-6, 1e-6)),
)
COUNTS = st.sampled_from([1, 2, 5, 40, 1_000, 10_000_000]).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def independent(*groups: tuple[int, int]) -> GroupedAttempts:
    """Return groups of n conversations without a case, c of them correct."""
    rows = [
        (position, c, cases) for position, (n, of) in enumerate(groups) for c, cases in ((0, n - of), (1, of)) if cases
    ]
    group, correct, cases = np.array(rows, dtype=np.int64).T
    return GroupedAttempts(size=len(groups), group=group, n=np.ones_like(group), c=correct, cases=cases)


def clustered(*counts: tuple[int, int]) -> GroupedAttempts:
    return GroupedAttempts.of(
        [Attempts(cases=tuple(CaseCount(case_id=f"{i:03}", n=n, c=c) for i, (n, c) in enumerate(counts)))]
    )


@given(COUNTS)
def test_estimates_of_pooled_attempts_are_ordered_in_k_and_hold_their_points(counts: tuple[int, int]) -> None:
    for estimator in (*POOLED, *BAYESIAN):
        estimate = estimator.estimate_groups(independent(counts), K)
        at, power = estimate.pass_at_k[0], estimate.pass_pow_k[0]
        known = ~np.isnan(at[:, 0])
        assert [not isinstance(estimator, UnbiasedEstimator) or k <= counts[0] for k in K] == known.tolist()
        for numbers in (at[known], power[known]):
            assert ((numbers >= 0.0) & (numbers <= 1.0)).all()
            assert (numbers[:, 1] <= numbers[:, 0]).all()
            assert (numbers[:, 0] <= numbers[:, 2]).all()
        assert (np.diff(at[known], axis=0) >= -ROUNDING).all()
        assert (np.diff(power[known], axis=0) <= ROUNDING).all()


@given(COUNTS)
def test_one_more_correct_attempt_lowers_no_number(counts: tuple[int, int]) -> None:
    n, c = counts
    for estimator in (*POOLED, *BAYESIAN):
        estimate = estimator.estimate_groups(independent((n, c), (n, min(c + 1, n))), K)
        for numbers in (estimate.pass_at_k, estimate.pass_pow_k):
            difference = numbers[1] - numbers[0]
            assert (np.isnan(difference) | (difference >= -ROUNDING)).all()


@given(
    st.lists(
        st.one_of(st.integers(1, 40), st.just(2_000)).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
        min_size=1,
        max_size=8,
    )
)
@pytest.mark.parametrize(
    "estimator", [*POOLED, *BAYESIAN, PerCaseEstimator(), PerCaseEstimator(level=0.999, traffic_weighted=True)]
)
def test_estimates_of_repeated_cases_hold_their_points_and_stay_within_0_and_1(
    estimator: GroupEstimator, counts: list[tuple[int, int]]
) -> None:
    estimate = estimator.estimate_groups(clustered(*counts), K)
    promised = len(counts) > 1 and any(n > 1 for n, _ in counts)
    for numbers in (estimate.pass_at_k[0], estimate.pass_pow_k[0]):
        known = numbers[~np.isnan(numbers[:, 0])]
        assert ((known >= 0.0) & (known <= 1.0)).all()
        if promised or not isinstance(estimator, BayesianEstimator):
            assert (known[:, 1] <= known[:, 0]).all()
            assert (known[:, 0] <= known[:, 2]).all()


@pytest.mark.parametrize("estimator", [*POOLED, *BAYESIAN])
def test_ten_million_conversations_and_k_of_a_thousand_keep_their_digits(estimator: GroupEstimator) -> None:
    estimate = estimator.estimate_groups(independent((10_000_000, 9_999_999), (10_000_000, 0)), [1, 1000])
    assert estimate.pass_pow_k[0, :, 0] == pytest.approx([1 - 1e-7, (1 - 1e-7) ** 1000], abs=2e-4)
    assert estimate.pass_at_k[1, :, 0] == pytest.approx([0.0, 0.0], abs=2e-4)


EVERY = (*POOLED, *BAYESIAN, PerCaseEstimator(), PerCaseEstimator(traffic_weighted=True), HierarchicalEstimator())
CASES = st.lists(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=12
)


@settings(max_examples=settings().max_examples // 3)
@given(CASES)
@example([(1, 0)] * 12)  # k = 10: the mean of the posterior lies above its quantiles
@example([(2, 2), (8, 2)])  # scipy has no quantile of Beta(1.02, .74) at 3e-37
def test_every_interval_holds_its_estimate(counts: list[tuple[int, int]]) -> None:
    attempts = clustered(*counts).attempts(0)
    for estimator in EVERY:
        estimates = estimator.estimate(attempts, (1, 3, 10))
        for estimate in (*estimates.pass_at_k.values(), *estimates.pass_pow_k.values()):
            if estimate.value is not None and estimate.lower is not None and estimate.upper is not None:
                assert estimate.lower <= estimate.value <= estimate.upper, estimator


@given(CASES, st.sampled_from([(1.0, 1.0), (0.5, 0.5), (3.0, 2.0)]))
def test_the_bayesian_estimate_is_that_of_the_counts_and_the_prior(
    counts: list[tuple[int, int]], prior: tuple[float, float]
) -> None:
    n, c = (sum(column) for column in zip(*counts, strict=True))
    estimate = BayesianEstimator(prior=prior).estimate(clustered(*counts).attempts(0), (1, 3))
    posterior = BetaPosterior(a=prior[0] + c, b=prior[1] + n - c)
    for k in (1, 3):
        assert estimate.pass_at_k[k].value == pytest.approx(posterior.pass_at_mean(k))
        assert estimate.pass_pow_k[k].value == pytest.approx(posterior.pass_pow_mean(k))
