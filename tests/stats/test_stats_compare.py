"""Two groups against each other: published examples, brute force, and what must hold of any counts."""

from __future__ import annotations

from itertools import combinations
from statistics import mean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from scipy import stats

from otel_agentic.errors import UsageError
from otel_agentic.stats import Attempts, quantile, wilson
from otel_agentic.stats.compare import compare, paired_difference, square_and_add
from otel_agentic.stats.rates import Bounded
from tests.snapshots import raises

Counts = dict[str, tuple[int, int]]


def attempts(counts: Counts) -> Attempts:
    """Return attempts of cases, each `n` with `c` correct ones."""
    return Attempts.of((case, number < c) for case, (n, c) in counts.items() for number in range(n))


def alone(n: int, c: int, name: str) -> Attempts:
    """Return attempts without a case in common with anything."""
    return Attempts.of((f"{name} {number}", number < c) for number in range(n))


def by_subsets(n: int, c: int, k: int) -> tuple[float, float]:
    """Return pass@k and pass^k of a case by looking at every subset of k attempts."""
    drawn = list(combinations([number < c for number in range(n)], k))
    return sum(map(any, drawn)) / len(drawn), sum(map(all, drawn)) / len(drawn)


OLD: Counts = {"a": (6, 6), "b": (6, 5), "c": (4, 4), "d": (6, 6), "e": (3, 1)}
NEW: Counts = {"a": (6, 3), "b": (6, 4), "c": (5, 2), "d": (6, 4), "f": (2, 2)}


@pytest.mark.parametrize(
    ("a", "b", "lower", "upper"),
    [
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((2, 7), (6, 7), 0.0582, 0.8062),
        ((0, 29), (5, 56), -0.0381, 0.1926),
        ((0, 20), (0, 10), -0.1611, 0.2775),
        ((0, 10), (10, 10), 0.6075, 1.0),
    ],
)
def test_unpaired_intervals_are_those_that_newcombe_prints(
    a: tuple[int, int], b: tuple[int, int], lower: float, upper: float
) -> None:
    result = compare(alone(a[1], a[0], "a"), alone(b[1], b[0], "b"), [1], level=0.95)

    difference = result.pooled[1].pass_pow_k
    assert ("unpaired", 0) == (result.method, result.shared)
    assert (b[0] / b[1] - a[0] / a[1], lower, upper) == pytest.approx(
        (difference.value, difference.lower, difference.upper), abs=5.1e-5
    )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_paired_differences_are_means_over_the_cases_that_both_have_attempts_of(k: int) -> None:
    result = compare(attempts(OLD), attempts(NEW), [k], level=0.9).per_case[k]

    values = [
        tuple(new - old for new, old in zip(by_subsets(*NEW[case], k), by_subsets(*OLD[case], k), strict=True))
        for case in "abcd"
    ]
    added = mean(0.25 * k * (1 / OLD[case][0] + 1 / NEW[case][0]) / 2 for case in "abcd")
    for position, difference in enumerate((result.pass_at_k, result.pass_pow_k)):
        column = [value[position] for value in values]
        error = ((3 * stdev(column) ** 2 + 2 * added) / (4 * 3)) ** 0.5
        half = float(stats.t.ppf(0.95, 3)) * error
        assert (mean(column), max(-1.0, mean(column) - half), min(1.0, mean(column) + half)) == pytest.approx(
            (difference.value, difference.lower, difference.upper)
        )
    assert ("paired", 4) == (result.method, result.cases)


def test_the_probability_of_a_paired_comparison_is_that_of_its_t_interval() -> None:
    a, b = attempts(OLD), attempts(NEW)
    worse = compare(a, b, [1], level=0.95).worse

    level = 2 * worse - 1  # at which the interval just touches 0
    assert 0.0 == pytest.approx(compare(a, b, [1], level=level).per_case[1].pass_at_k.upper, abs=1e-9)


def test_the_probability_of_an_unpaired_comparison_is_that_of_the_two_posteriors() -> None:
    rng = np.random.default_rng(11)
    old, new = rng.beta(1 + 45, 1 + 5, 400_000), rng.beta(1 + 40, 1 + 10, 400_000)

    result = compare(alone(50, 45, "a"), alone(50, 40, "b"), [1], level=0.95)

    assert float((new < old).mean()) == pytest.approx(result.worse, abs=0.003)


def test_cases_of_one_side_alone_are_left_out_and_counted() -> None:
    result = compare(attempts(OLD), attempts(NEW), [1], level=0.95)
    only_shared = compare(
        attempts({case: OLD[case] for case in "abcd"}), attempts({case: NEW[case] for case in "abcd"}), [1], level=0.95
    )

    assert (4, 1, 1) == (result.shared, result.only_a, result.only_b)
    assert (only_shared.worse, only_shared.pooled, only_shared.per_case) == (
        result.worse,
        result.pooled,
        result.per_case,
    )


def test_equal_case_ids_of_two_datasets_are_not_shared() -> None:
    old = Attempts.of([(("old", case), True) for case in "abc"])
    new = Attempts.of([(("new", case), True) for case in "abc"])

    assert ("unpaired", 0) == (compare(old, new, [1], level=0.95).method, compare(old, new, [1], level=0.95).shared)


def test_one_shared_case_is_no_pair() -> None:
    result = compare(attempts({"a": (5, 4), "b": (5, 5)}), attempts({"a": (5, 1), "c": (5, 2)}), [1], level=0.95)

    assert ("unpaired", 1) == (result.method, result.shared)


def test_pooled_rates_are_compared_for_every_k_and_cases_where_enough_have_k_attempts() -> None:
    a = attempts({"a": (1, 1), "b": (1, 1), "c": (1, 1), "x": (9, 0)})
    b = attempts({"a": (1, 0), "b": (1, 1), "c": (1, 1), "y": (9, 9)})
    result = compare(a, b, [1, 3], level=0.95)

    z = quantile(0.95)
    old, new = (Bounded(p**3, *(end**3 for end in wilson(p, 3, z))) for p in (1.0, 2 / 3))
    third = result.pooled[3]
    assert ("paired", "paired", 3, {1}) == (result.method, third.method, third.cases, set(result.per_case))
    assert square_and_add(old, new) == pytest.approx(
        (third.pass_pow_k.value, third.pass_pow_k.lower, third.pass_pow_k.upper)
    )


@pytest.mark.parametrize("k", [1, 3])
def test_cases_that_all_do_alike_leave_an_interval_with_a_width(k: int) -> None:
    perfect = attempts(dict.fromkeys("abcde", (4, 4)))
    result = compare(perfect, perfect, [k], level=0.95)

    difference = result.per_case[k].pass_pow_k
    assert 0.0 == difference.value
    assert difference.lower is not None
    assert difference.upper is not None
    assert difference.lower < -0.05
    assert difference.upper > 0.05
    assert 0.5 == pytest.approx(result.worse)


def test_a_group_without_attempts_cannot_be_compared() -> None:
    with raises(UsageError, snapshot("needs an attempt in each")):
        compare(Attempts(), attempts(OLD), [1], level=0.95)


def test_cases_that_were_sampled_unequally_count_by_their_weights() -> None:
    weighted = Attempts.of([*((case, True, 3.0) for case in "ab"), *((case, False, 1.0) for case in "ab")])
    plain = Attempts.of((case, number < 2) for case in "ab" for number in range(2))

    assert -0.25 == pytest.approx(compare(plain, weighted, [1], level=0.95).per_case[1].pass_at_k.value)


counted = st.dictionaries(
    st.sampled_from("abcdefg"),
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    min_size=1,
)


@given(counted, counted)
def test_exchanging_the_sides_turns_every_sign(a: Counts, b: Counts) -> None:
    first = compare(attempts(a), attempts(b), [1, 3], level=0.9)
    other = compare(attempts(b), attempts(a), [1, 3], level=0.9)

    assert first.worse == pytest.approx(1.0 - other.worse, abs=1e-8)
    for k in (1, 3):
        for name in ("pass_at_k", "pass_pow_k"):
            for result, mirrored in ((first.pooled, other.pooled), (first.per_case, other.per_case)):
                if k in result:
                    difference, turned = getattr(result[k], name), getattr(mirrored[k], name)
                    assert (difference.value, difference.lower, difference.upper) == pytest.approx(
                        (-turned.value, -turned.upper, -turned.lower)
                    )


@given(counted, counted, st.sampled_from([1, 2, 3, 5]))
def test_an_interval_holds_its_difference_and_stays_within_what_differences_can_be(
    a: Counts, b: Counts, k: int
) -> None:
    actual = compare(attempts(a), attempts(b), [k], level=0.95)

    for difference in (
        rate
        for result in (actual.pooled, actual.per_case)
        if k in result
        for rate in (result[k].pass_at_k, result[k].pass_pow_k)
    ):
        assert difference.value is not None
        assert difference.lower is not None
        assert difference.upper is not None
        assert -1.0 <= difference.lower <= difference.value <= difference.upper <= 1.0


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30), st.floats(0.001, 0.25))
def test_a_higher_level_gives_a_wider_interval(values: list[float], added: float) -> None:
    narrow, wide = (paired_difference(np.array(values), added, level) for level in (0.5, 0.95))

    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper


def test_cases_of_unequal_difficulty_make_the_pooled_interval_of_shared_cases_narrower() -> None:
    easy_and_hard = {f"case {position}": (6, 6 if position % 2 else 1) for position in range(20)}
    worse = {case: (6, 5 if c == 6 else 0) for case, (_, c) in easy_and_hard.items()}
    shared = compare(attempts(easy_and_hard), attempts(worse), [1, 3], level=0.95)
    apart = compare(
        attempts(easy_and_hard), attempts({f"other {case}": c for case, c in worse.items()}), [1, 3], level=0.95
    )

    for k in (1, 3):
        near, far = shared.pooled[k].pass_pow_k, apart.pooled[k].pass_pow_k
        assert near.value == pytest.approx(far.value)
        assert (near.upper or 0) - (near.lower or 0) < 0.6 * ((far.upper or 0) - (far.lower or 0))


def test_more_attempts_of_some_cases_do_not_change_which_estimator_is_compared() -> None:
    few = attempts(dict.fromkeys("abc", (2, 1)))
    many = attempts(dict.fromkeys("abc", (9, 4)))

    values = [compare(few, other, [1, 5], level=0.95).pooled[5].pass_pow_k.value for other in (few, many)]
    assert values == pytest.approx([0.0, (4 / 9) ** 5 - 0.5**5])
