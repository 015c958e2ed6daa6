"""The ends of per-case intervals agree with each other across k."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.stats import Attempts, CaseCount, PerCaseEstimator

_CASES = st.lists(st.integers(0, 6), min_size=1, max_size=8)


def _attempts(correct: list[int], n: int = 6) -> Attempts:
    return Attempts(cases=tuple(CaseCount(case_id=f"case-{i}", n=n, c=c) for i, c in enumerate(correct)))


@given(_CASES)
def test_of_the_same_cases_a_larger_k_never_lowers_the_ends_of_pass_at_k(correct: list[int]) -> None:
    estimate = PerCaseEstimator().estimate(_attempts(correct), [1, 2, 3, 5])
    lower = [estimate.pass_at_k[k].lower or 0.0 for k in (1, 2, 3, 5)]
    assert lower == sorted(lower)


@given(_CASES)
def test_of_the_same_cases_a_larger_k_never_raises_the_upper_end_of_pass_pow_k(correct: list[int]) -> None:
    estimate = PerCaseEstimator().estimate(_attempts(correct), [1, 2, 3, 5])
    upper = [estimate.pass_pow_k[k].upper or 0.0 for k in (1, 2, 3, 5)]
    assert upper == sorted(upper, reverse=True)


@given(_CASES)
def test_the_estimate_stays_inside_its_interval(correct: list[int]) -> None:
    estimates = PerCaseEstimator().estimate(_attempts(correct), [3])
    for estimate in (estimates.pass_at_k[3], estimates.pass_pow_k[3]):
        assert estimate.value is not None
        assert estimate.lower is not None
        assert estimate.upper is not None
        assert estimate.lower <= estimate.value + 1e-12
        assert estimate.value <= estimate.upper + 1e-12


def test_cases_that_always_succeed_within_three_attempts_keep_the_lower_end_that_one_attempt_gives() -> None:
    estimate = PerCaseEstimator().estimate(_attempts([6, 6, 6, 5]), [1, 3])
    assert estimate.pass_at_k[3].value == 1.0
    assert estimate.pass_at_k[3].lower == estimate.pass_at_k[1].lower


def test_pass_at_one_and_pass_pow_one_are_the_same_number() -> None:
    estimate = PerCaseEstimator().estimate(_attempts([1, 2, 5, 3, 0]), [1])
    assert estimate.pass_at_k[1].value == estimate.pass_pow_k[1].value
