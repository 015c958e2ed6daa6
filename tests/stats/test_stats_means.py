"""Differences of means: by case where both sides have the same ones, and never without a width where values have bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind, ttest_rel

from otel_agentic.stats import Attempts
from otel_agentic.stats.compare import Values, compare, mean_difference

NUMBERS = st.floats(-100, 100).map(lambda value: round(value, 3))


def of_cases(*values: float) -> Values:
    result = Values.of((("d", f"case {position:02}"), value) for position, value in enumerate(values))
    assert result is not None
    return result


def alone(*values: float) -> Values:
    result = Values.of((None, value) for value in values)
    assert result is not None
    return result


def test_conversations_of_one_case_count_as_one() -> None:
    result = Values.of([(("d", "a"), 1.0), (("d", "a"), 3.0), (("d", "b"), 4.0), (None, 6.0)])
    assert result is not None
    # Units 2, 4 and 6: mean 4, variance 4.
    assert (4, 3, 4.0, 4.0) == (result.n, result.units, result.mean, result.variance)
    assert {("d", "a"): (2.0, 2), ("d", "b"): (4.0, 1)} == result.cases


def test_without_values_there_is_nothing() -> None:
    assert Values.of([]) is None


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2, max_size=12))
def test_the_paired_interval_is_that_of_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if len({round(b - a, 6) for a, b in pairs}) == 1:
        return  # scipy warns of differences without a spread
    result = mean_difference(of_cases(*before), of_cases(*after), 0.95)
    expected = ttest_rel(after, before).confidence_interval(0.95)
    assert ("paired", len(pairs)) == (result.method, result.units)
    assert [pytest.approx(end, abs=1e-6) for end in expected] == [result.lower, result.upper]


@given(st.lists(NUMBERS, min_size=2, max_size=9, unique=True), st.lists(NUMBERS, min_size=2, max_size=9, unique=True))
def test_the_unpaired_interval_is_that_of_welch(before: list[float], after: list[float]) -> None:
    result = mean_difference(alone(*before), alone(*after), 0.95)
    expected = ttest_ind(after, before, equal_var=False).confidence_interval(0.95)
    assert "unpaired" == result.method
    assert [pytest.approx(end, abs=1e-6) for end in expected] == [result.lower, result.upper]


def test_with_one_unit_there_is_no_interval() -> None:
    result = mean_difference(alone(1.0), alone(2.0, 3.0), 0.95)
    assert (1.5, None, None) == (result.value, result.lower, result.upper)


def test_few_cases_that_all_fall_alike_do_not_prove_anything_where_values_have_bounds() -> None:
    before, after = of_cases(1.0, 1.0), of_cases(0.5, 0.5)
    without = mean_difference(before, after, 0.95)
    assert (-0.5, -0.5) == (without.lower, without.upper)
    bounded = mean_difference(before, after, 0.95, width=1.0)
    assert bounded.upper is not None
    assert bounded.upper > 0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=12))
def test_of_rights_and_wrongs_it_says_what_the_comparison_of_rates_says(pairs: list[tuple[bool, bool]]) -> None:
    names = [f"case {position:02}" for position in range(len(pairs))]
    first = Attempts.of((("d", name), pair[0]) for name, pair in zip(names, pairs, strict=True))
    other = Attempts.of((("d", name), pair[1]) for name, pair in zip(names, pairs, strict=True))
    rate = compare(first, other, [1], level=0.95).per_case[1].pass_pow_k
    result = mean_difference(
        of_cases(*(float(pair[0]) for pair in pairs)), of_cases(*(float(pair[1]) for pair in pairs)), 0.95, width=1.0
    )
    # The comparison of rates cuts its ends at -1 and 1.
    assert result.lower is not None
    assert result.upper is not None
    expected = [rate.value, rate.lower, rate.upper]
    assert [pytest.approx(item) for item in expected] == [result.value, max(-1.0, result.lower), min(1.0, result.upper)]


def test_two_sides_without_a_spread_have_an_interval_where_values_have_bounds() -> None:
    result = mean_difference(alone(*np.ones(10)), alone(*np.ones(10)), 0.95, width=1.0)
    # Each side: 2 x 1/4 spread over 9, of 10: s^2 = .0556 / 10; both together s = .105, t of 18 degrees = 2.10.
    assert [pytest.approx(-0.2215, abs=1e-3), pytest.approx(0.2215, abs=1e-3)] == [result.lower, result.upper]
