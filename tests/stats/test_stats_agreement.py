"""Agreement of a judge with people: against the delta method done numerically, and against every table there is."""

from __future__ import annotations

from math import comb, exp, lgamma, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.stats import Attempts, Estimate, quantile, wilson
from otel_agentic.stats.cluster import pooled_sample
from otel_agentic.stats.judge_error import (
    Confusion,
    VerdictPair,
    agreement_of,
    best_threshold,
    confusion_of,
    kappa,
    kappa_standard_error,
    threshold_curve,
)

counts = st.integers(min_value=0, max_value=40)
tables = st.tuples(counts, counts, counts, counts)
scored = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.9, 1.0]), st.booleans()), max_size=40)


def table(*cells: float) -> Confusion:
    return Confusion(both_pass=cells[0], false_pass=cells[1], false_fail=cells[2], both_fail=cells[3])


def pairs_of(*cells: int) -> list[VerdictPair]:
    kinds = [(True, True), (True, False), (False, True), (False, False)]
    answer = [kind for kind, count in zip(kinds, cells, strict=True) for _ in range(count)]
    return [VerdictPair(judge=judge, human=human, case=str(position)) for position, (judge, human) in enumerate(answer)]


@pytest.mark.parametrize("cells", [(20, 5, 10, 15), (40, 3, 9, 2), (5, 5, 5, 5), (11, 1, 1, 87), (3, 9, 8, 2)])
def test_the_standard_error_of_kappa_is_that_of_the_delta_method(cells: tuple[int, ...]) -> None:
    shares = np.array(cells) / sum(cells)
    step = 1e-6
    slope = [
        ((kappa(table(*(shares + step * unit))) or 0) - (kappa(table(*(shares - step * unit))) or 0)) / (2 * step)
        for unit in np.eye(4)
    ]
    covariance = (np.diag(shares) - np.outer(shares, shares)) / sum(cells)
    assert kappa_standard_error(table(*cells)) == pytest.approx((slope @ covariance @ np.array(slope)) ** 0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("prevalence", "sensitivity", "specificity"),
    [
        (0.8, 0.9, 0.7),
        (0.9, 0.99, 0.9),
        *(
            pytest.param(*rates, marks=pytest.mark.slow)
            for rates in ((0.5, 0.95, 0.95), (0.9, 0.8, 0.8), (0.5, 0.8, 0.8))
        ),
    ],
)
def test_the_interval_of_kappa_holds_the_true_one_as_often_as_it_says(
    prevalence: float, sensitivity: float, specificity: float
) -> None:
    """All tables of 20 labels, each with its probability."""
    shares = (
        prevalence * sensitivity,
        (1 - prevalence) * (1 - specificity),
        prevalence * (1 - sensitivity),
        (1 - prevalence) * specificity,
    )
    truth = kappa(table(*shares))
    assert truth is not None
    covered = defined = 0.0
    for cells in all_tables(20):
        weight = chance_of(cells, shares)
        result = agreement_of(pairs_of(*cells), 0.95).kappa if weight > 1e-7 else Estimate.of(None)
        if result.lower is not None and result.upper is not None:
            defined += weight
            covered += weight * (result.lower <= truth <= result.upper)
    assert 0.945 < covered / defined < 0.985


def all_tables(n: int) -> list[tuple[int, int, int, int]]:
    return [
        (first, second, third, n - first - second - third)
        for first in range(n + 1)
        for second in range(n + 1 - first)
        for third in range(n + 1 - first - second)
    ]


def chance_of(cells: tuple[int, ...], shares: tuple[float, ...]) -> float:
    ways = lgamma(sum(cells) + 1) - sum(lgamma(cell + 1) for cell in cells)
    return exp(ways + sum(cell * log(share) for cell, share in zip(cells, shares, strict=True)))


@given(tables)
def test_rates_are_wilsons_and_hold_their_estimate(cells: tuple[int, int, int, int]) -> None:
    result = agreement_of(pairs_of(*cells), 0.9)
    for rate, hits, n in (
        (result.agreement, cells[0] + cells[3], sum(cells)),
        (result.sensitivity, cells[0], cells[0] + cells[2]),
        (result.specificity, cells[3], cells[3] + cells[1]),
    ):
        expected = (hits / n, *wilson(hits / n, n, quantile(0.9))) if n else (None, None, None)
        assert (rate.value, rate.lower, rate.upper) == pytest.approx(expected)
    if result.kappa.value is not None:
        assert result.kappa.lower is not None
        assert result.kappa.upper is not None
        assert -1 <= result.kappa.lower <= result.kappa.value <= result.kappa.upper <= 1


@given(tables)
def test_judge_and_people_may_change_places_for_agreement_and_kappa(cells: tuple[int, int, int, int]) -> None:
    first = agreement_of(pairs_of(*cells), 0.95)
    other = agreement_of(pairs_of(cells[0], cells[2], cells[1], cells[3]), 0.95)
    assert first.agreement == other.agreement
    assert (first.kappa.value, first.kappa.lower, first.kappa.upper) == pytest.approx(
        (other.kappa.value, other.kappa.lower, other.kappa.upper)
    )


def test_kappa_is_agreement_beyond_what_two_coins_would_give() -> None:
    """Enumerated: all ways to deal the judge's passes over the things judged."""
    passes, verdicts, n = 3, 4, 6
    by_chance = sum(
        comb(passes, both) * comb(n - passes, verdicts - both) * (2 * both + n - passes - verdicts) / n
        for both in range(max(0, verdicts + passes - n), min(passes, verdicts) + 1)
    ) / comb(n, verdicts)
    confusion = table(3, 1, 0, 2)
    assert kappa(confusion) == pytest.approx((5 / 6 - by_chance) / (1 - by_chance))


def test_one_class_alone_has_no_kappa_and_no_rate_of_the_other() -> None:
    result = agreement_of(pairs_of(7, 0, 0, 0), 0.95)
    assert (1.0, None, 1.0, None) == (
        result.agreement.value,
        result.kappa.value,
        result.sensitivity.value,
        result.specificity.value,
    )


def test_no_pairs_are_no_zero() -> None:
    result = agreement_of([], 0.95)
    assert {None} == {rate.value for rate in (result.agreement, result.kappa, result.sensitivity, result.specificity)}


def test_perfect_agreement_keeps_an_interval() -> None:
    result = agreement_of(pairs_of(10, 0, 0, 10), 0.95)
    assert (1.0, 1.0) == (result.kappa.value, result.kappa.upper)
    assert result.kappa.lower is not None
    assert 0.5 < result.kappa.lower < 0.8


def test_attempts_of_one_case_weigh_less_than_cases() -> None:
    alike = [VerdictPair(judge=True, human=case < 8, case=str(case)) for case in range(10) for _ in range(5)]
    result = agreement_of(alike, 0.95)
    sample = pooled_sample(Attempts.of((pair.case, pair.judge == pair.human) for pair in alike))
    assert sample is not None
    assert "wilson_effective_n" == result.interval_method
    assert (result.agreement.lower, result.agreement.upper) == wilson(0.8, sample.n, quantile(0.95, 9))
    assert sample.n == pytest.approx(9)


@given(scored)
def test_each_point_of_the_curve_is_what_judging_at_it_would_give(given_scores: list[tuple[float, bool]]) -> None:
    for point in threshold_curve(given_scores):
        pairs = [
            VerdictPair(judge=score >= point.threshold, human=human, case=str(position))
            for position, (score, human) in enumerate(given_scores)
        ]
        result = agreement_of(pairs, 0.95)
        assert (point.agreement, point.sensitivity, point.specificity) == (
            result.agreement.value,
            result.sensitivity.value,
            result.specificity.value,
        )
        assert confusion_of(pairs) == result.confusion


@given(scored, st.sampled_from([0.3, 0.7]))
def test_no_other_threshold_beats_the_best(given_scores: list[tuple[float, bool]], current: float) -> None:
    curve = threshold_curve(given_scores)
    best = best_threshold(curve, current)
    both = len({human for _, human in given_scores}) > 1
    assert both == (best is not None)
    if best is not None and best.youden is not None:
        rivals = [point for point in curve if point.youden == best.youden]
        assert best.youden == max(point.youden for point in curve if point.youden is not None)
        assert abs(best.threshold - current) == min(abs(point.threshold - current) for point in rivals)
