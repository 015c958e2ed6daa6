"""This traffic and a new case: what each target is, its interval, and which estimator answers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.stats import (
    Attempts,
    CaseCount,
    HierarchicalEstimator,
    PerCaseEstimator,
    Targets,
    TrafficEstimator,
    clopper_pearson,
    targets_of,
)

K = (1, 3)
COUNTS = st.lists(
    st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=12
)


def attempts_of(*counts: tuple[int, int]) -> Attempts:
    """Return attempts from (n, c) a case."""
    return Attempts(cases=tuple(CaseCount(case_id=f"case {i}", n=n, c=c) for i, (n, c) in enumerate(counts)))


def targets(attempts: Attempts) -> Targets:
    estimate = {item.name: item.estimate(attempts, K) for item in (PerCaseEstimator(), HierarchicalEstimator())}
    return targets_of(attempts, TrafficEstimator().estimate(attempts, K), estimate)


@given(COUNTS)
@settings(deadline=None)
def test_the_interval_of_this_traffic_is_that_of_the_written_variance(counts: list[tuple[int, int]]) -> None:
    attempts = attempts_of(*counts)
    n, c = attempts.n, attempts.c
    p = c / n
    within = sum((own * (size - own) / size + p * (1 - p)) for size, own in counts) / n**2
    worth = max(n, p * (1 - p) / within) if 0 < p < 1 else n
    expected = clopper_pearson(min(p * worth, worth), worth, 0.95)
    estimate = TrafficEstimator().estimate(attempts, [1]).pass_pow_k[1]
    assert (estimate.value, estimate.lower, estimate.upper) == pytest.approx((p, *expected), abs=1e-9)


def test_cases_that_always_do_the_same_say_more_of_this_traffic_than_cases_alike() -> None:
    always, sometimes = attempts_of(*[(8, 8)] * 5, *[(8, 0)] * 5), attempts_of(*[(8, 4)] * 10)
    apart, alike = (TrafficEstimator().estimate(item, [1]).pass_pow_k[1] for item in (always, sometimes))
    assert apart.value == alike.value == 0.5
    assert apart.lower is not None
    assert alike.lower is not None
    assert apart.lower > alike.lower + 0.05


def test_this_traffic_raises_the_observed_rate_to_k() -> None:
    result = targets(attempts_of((4, 4), (4, 2), (4, 0)))
    assert result.this_traffic[3].pass_pow_k.value == pytest.approx(0.125)
    assert result.this_traffic[3].pass_at_k.value == pytest.approx(0.875)
    assert result.new_case[3].pass_pow_k.value == pytest.approx(1 / 3)
    assert (result.cases, result.fewest, result.most) == (3, 4, 4)


def test_a_new_case_is_answered_per_case_where_every_case_has_k_attempts_and_by_the_model_otherwise() -> None:
    enough, few = targets(attempts_of((4, 4), (3, 1))), targets(attempts_of((4, 4), (2, 1)))
    assert [enough.new_case[k].estimator for k in K] == ["per_case", "per_case"]
    assert [few.new_case[k].estimator for k in K] == ["per_case", "hierarchical"]
    assert few.new_case[3].pass_pow_k.value is not None


def test_what_no_estimator_answers_is_missing() -> None:
    attempts = attempts_of((4, 4), (2, 1))
    estimate = targets_of(attempts, TrafficEstimator().estimate(attempts, K), {})
    assert estimate.new_case == {}


def test_no_attempts_have_no_rate() -> None:
    assert TrafficEstimator().estimate(Attempts(), K).pass_pow_k[3].value is None


@given(COUNTS)
@settings(deadline=None)
def test_the_interval_of_this_traffic_is_never_wider_than_that_of_independent_conversations(
    counts: list[tuple[int, int]],
) -> None:
    attempts = attempts_of(*counts)
    estimate = TrafficEstimator().estimate(attempts, [1]).pass_pow_k[1]
    plain = clopper_pearson(attempts.c, attempts.n, 0.95)
    assert estimate.lower is not None
    assert estimate.upper is not None
    assert plain.lower - 1e-9 <= estimate.lower <= estimate.upper <= plain.upper + 1e-9
