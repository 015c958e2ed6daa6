"""The hierarchical estimator against scipy on a fine grid, on what it must give exactly, and on known truth."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import norm

from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.stats import (
    Attempts,
    Estimate,
    GroupedAttempts,
    HierarchicalEstimator,
    PerCaseEstimator,
    PluginEstimator,
    estimate_groups,
    hierarchical,
)
from otel_agentic.stats.hierarchical import RisingFactorials
from tests.shared import SHARED, why_absent
from tests.stats.beta_binomial_oracle import HIGHEST, LOWEST, Oracle, attempts_of, pass_at, pass_pow

if TYPE_CHECKING:
    Kinds = Mapping[tuple[int, int], int]

LABELS = SHARED / "data" / "tau-airline" / "labels.csv"

#: (attempts, correct) -> cases.
KINDS: dict[str, Kinds] = {
    "mixed": {(4, 4): 3, (4, 3): 2, (4, 0): 1, (2, 1): 2, (1, 1): 4},
    "far apart": {(4, 0): 14, (4, 1): 12, (4, 2): 10, (4, 3): 4, (4, 4): 10},
    "all pass": {(3, 3): 8},
    "all fail": {(3, 0): 8},
    "once each": {(1, 1): 14, (1, 0): 6},
    "one case": {(10, 7): 1},
    "alike": {(20, 18): 12, (20, 17): 5, (20, 19): 6},
    "many attempts": {(150, 140): 2, (90, 12): 1, (40, 39): 2},
}

some_kinds = st.dictionaries(
    st.integers(1, 20).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
    st.integers(1, 6),
    min_size=1,
    max_size=6,
)


def estimated(kinds: Kinds, k: int, *, level: float = 0.95) -> tuple[Estimate, Estimate]:
    """Return pass@k and pass^k."""
    estimate = HierarchicalEstimator(level=level).estimate(attempts_of(kinds), [k])
    return estimate.pass_at_k[k], estimate.pass_pow_k[k]


def numbers(estimate: Estimate) -> tuple[float, float, float]:
    """Return lower bound, value, upper bound of a defined estimate."""
    assert estimate.value is not None
    assert estimate.lower is not None
    assert estimate.upper is not None
    return estimate.lower, estimate.value, estimate.upper


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in {"far apart", "all fail", "alike", "many attempts"}
        else name
        for name in KINDS
    ],
)
def test_values_and_bounds_equal_those_of_scipy_on_ever_finer_grids(name: str) -> None:
    oracle = Oracle(KINDS[name])
    for actual, functional, level in (
        (estimated(KINDS[name], 2, level=0.95)[0], pass_at(2), 0.95),
        (estimated(KINDS[name], 3, level=0.8)[1], pass_pow(3), 0.8),
    ):
        value = oracle.mean(functional)
        lower, upper = min(value, oracle.bound(functional, level, 1)), max(value, oracle.bound(functional, level, -1))
        assert (lower, value, upper) == pytest.approx(numbers(actual), abs=1e-4)


@pytest.mark.parametrize(("n", "c"), [(20, 14), (5, 5), (7, 0), (400, 371)])
def test_with_one_attempt_a_case_pass_at_1_is_the_rule_of_succession(n: int, c: int) -> None:
    at, power = estimated({(1, 1): c, (1, 0): n - c}, 1)
    assert (c + 1) / (n + 2) == pytest.approx(numbers(at)[1], abs=1e-7)
    assert numbers(at) == pytest.approx(numbers(power), abs=1e-9)


def test_with_one_attempt_a_case_pass_pow_3_is_what_the_prior_of_kappa_says() -> None:
    """The rate has a Beta posterior, kappa keeps its prior: two integrals, one after the other."""
    a, b = 15, 7

    def over_mu(kappa: float) -> float:
        moment = [a / (a + b), a * (a + 1) / ((a + b) * (a + b + 1))]
        moment.append(moment[1] * (a + 2) / (a + b + 2))
        polynomial = np.array([2 / (kappa * kappa), 3 / kappa, 1.0]) * kappa * kappa  # mu (mu + 1/kappa) (mu + 2/kappa)
        return float(polynomial @ moment) / ((kappa + 1) * (kappa + 2))

    def weight(log_kappa: float) -> float:
        return float(norm.pdf(log_kappa, np.log(2), 2))

    mean = quad(lambda x: over_mu(np.exp(x)) * weight(x), LOWEST, HIGHEST)[0] / quad(weight, LOWEST, HIGHEST)[0]
    assert mean == pytest.approx(numbers(estimated({(1, 1): 14, (1, 0): 6}, 3)[1])[1], abs=1e-6)


def test_with_one_attempt_a_case_the_bounds_hold_cases_that_differ_wholly_and_cases_that_are_alike() -> None:
    lower, _, upper = numbers(estimated({(1, 1): 700, (1, 0): 300}, 3)[1])
    assert lower < 0.7**3  # kappa without end
    assert upper > 0.7 * (0.7 * 0.1 + 1) / 1.1 * (0.7 * 0.1 + 2) / 2.1  # kappa .1, where the prior is cut


@pytest.mark.parametrize("cases", [1, 8, 500])
def test_where_all_pass_the_value_is_below_1_and_the_upper_bound_is_1(cases: int) -> None:
    for actual in estimated({(3, 3): cases}, 3):
        lower, value, upper = numbers(actual)
        assert 0.0 < lower < value < 1.0
        assert upper == pytest.approx(1.0, abs=1e-9)


@settings(max_examples=settings().max_examples // 6)
@given(some_kinds, st.integers(1, 8))
def test_exchanging_pass_and_fail_exchanges_pass_pow_k_with_what_pass_at_k_leaves(kinds: Kinds, k: int) -> None:
    mirrored = {(n, n - c): cases for (n, c), cases in kinds.items()}
    lower, value, upper = numbers(estimated(kinds, k)[1])
    assert (1 - upper, 1 - value, 1 - lower) == pytest.approx(numbers(estimated(mirrored, k)[0]), abs=2e-5)


@settings(max_examples=settings().max_examples // 6)
@given(some_kinds)
def test_estimates_are_coherent_and_ordered_in_k(kinds: Kinds) -> None:
    estimate = HierarchicalEstimator().estimate(attempts_of(kinds), [1, 2, 5, 40])
    at, power = ([numbers(item[k]) for k in (1, 2, 5, 40)] for item in (estimate.pass_at_k, estimate.pass_pow_k))
    for lower, value, upper in (*at, *power):
        assert 0.0 <= lower <= value <= upper <= 1.0
    for position in range(3):
        assert [item[position] for item in at] == pytest.approx(sorted(item[position] for item in at), abs=1e-6)
        assert [item[position] for item in power] == pytest.approx(
            sorted((item[position] for item in power), reverse=True)
        )


def test_ten_times_as_many_cases_alike_in_make_up_narrow_the_interval() -> None:
    few, many = ({(4, 4): 3 * f, (4, 3): 2 * f, (4, 0): f} for f in (1, 10))
    for position in range(2):
        wide, narrow = (numbers(estimated(kinds, 3)[position]) for kinds in (few, many))
        assert narrow[2] - narrow[0] < 0.5 * (wide[2] - wide[0])


def test_many_attempts_of_cases_alike_give_about_the_interval_of_independent_attempts() -> None:
    apart, alike = attempts_of({(1, 1): 720, (1, 0): 80}), attempts_of({(20, 18): 40})
    estimate = numbers(HierarchicalEstimator().estimate(alike, [3]).pass_pow_k[3])
    plain = numbers(PluginEstimator().estimate(apart, [3]).pass_pow_k[3])
    assert plain == pytest.approx(estimate, abs=0.01)


def test_a_million_conversations_of_their_own_have_a_narrow_success_rate() -> None:
    grouped = GroupedAttempts(
        size=1,
        group=np.array([0, 0]),
        n=np.array([1, 1]),
        c=np.array([0, 1]),
        cases=np.array([100_000, 900_000]),
    )
    value, lower, upper = HierarchicalEstimator().estimate_groups(grouped, [1]).pass_at_k[0, 0]
    half = 1.959964 * (0.9 * 0.1 / 1e6) ** 0.5
    assert (lower, value, upper) == pytest.approx((0.9 - half, 0.9, 0.9 + half), abs=5e-6)


def test_groups_at_once_equal_each_alone_and_an_empty_group_is_undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hierarchical, "_CHUNK", 64)
    rng = np.random.default_rng(3)
    groups = [Attempts()] + [
        Attempts.of((f"case {i}", bool(rng.random() < 0.8)) for i in rng.integers(0, 12, size=rng.integers(1, 40)))
        for _ in range(70)
    ]
    estimate = estimate_groups(HierarchicalEstimator(), GroupedAttempts.of(groups), [1, 3])
    assert estimate.of(0).pass_at_k[1].value is None
    assert np.isnan(estimate.pass_pow_k[0]).all()
    for position in (1, 64, 65, 70):
        alone = HierarchicalEstimator().estimate(groups[position], [1, 3])
        for k in (1, 3):
            assert numbers(alone.pass_at_k[k]) == pytest.approx(numbers(estimate.of(position).pass_at_k[k]), abs=1e-9)
            assert numbers(alone.pass_pow_k[k]) == pytest.approx(numbers(estimate.of(position).pass_pow_k[k]), abs=1e-9)


def test_groups_with_equal_counts_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = [Attempts.of(("a", attempt < c) for attempt in range(5)) for c in range(6)]
    twice = Attempts.of([("a", True), ("b", True)])
    groups = [Attempts(), *kinds, twice, *reversed(kinds), Attempts(), twice]
    alone = {attempts: HierarchicalEstimator().estimate(attempts, [1, 3]) for attempts in groups}
    sizes = []
    numbers_of = HierarchicalEstimator._numbers

    def counted(self: HierarchicalEstimator, grouped: GroupedAttempts, k: list[int]) -> object:
        sizes.append(grouped.size)
        return numbers_of(self, grouped, k)

    monkeypatch.setattr(HierarchicalEstimator, "_numbers", counted)
    estimate = HierarchicalEstimator().estimate_groups(GroupedAttempts.of(groups), [1, 3])
    assert [alone[attempts] for attempts in groups] == [estimate.of(position) for position in range(len(groups))]
    assert sizes == [7]


def test_no_groups_give_no_estimates() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    grouped = GroupedAttempts(size=0, group=nothing, n=nothing, c=nothing, cases=nothing)
    assert HierarchicalEstimator().estimate_groups(grouped, [1]).pass_at_k.shape == (0, 1, 3)


def test_without_attempts_the_prior_is_not_passed_off_as_a_finding() -> None:
    estimate = HierarchicalEstimator().estimate(Attempts(), [1, 3])
    assert [estimate.pass_at_k[1].value, estimate.pass_pow_k[3].value] == [None, None]
    assert estimate.interval_method == "profile_likelihood"


def test_the_level_comes_from_the_settings_and_lies_between_0_and_1() -> None:
    assert HierarchicalEstimator(level=0.8) == HierarchicalEstimator.from_settings(StatsSettings(level=0.8))
    with pytest.raises(UsageError, match="level"):
        HierarchicalEstimator(level=1.0).estimate(attempts_of({(1, 1): 2}), [1])


@pytest.mark.parametrize(("mean", "kappa"), [(0.8, 4.0), (0.5, 0.5), (0.93, 30.0)])
def test_many_cases_recover_what_they_were_drawn_from(mean: float, kappa: float) -> None:
    rng = np.random.default_rng(11)
    correct = rng.binomial(8, rng.beta(mean * kappa, (1 - mean) * kappa, size=4_000))
    kinds = {(8, c): int(cases) for c, cases in enumerate(np.bincount(correct, minlength=9)) if cases}
    truth = float(pass_pow(3)(mean, np.log(kappa)))
    lower, value, upper = numbers(estimated(kinds, 3)[1])
    assert truth == pytest.approx(value, abs=0.02)
    assert lower <= truth <= upper
    assert upper - lower < 0.05


@pytest.mark.skipif(why_absent(LABELS.parent) is not None, reason=why_absent(LABELS.parent) or "")
def test_the_published_runs_of_real_agents_lie_within_the_interval_near_the_value() -> None:
    with LABELS.open(encoding="utf-8", newline="") as file:
        attempts = Attempts.of((row["case_id"], float(row["reward"]) > 0.99) for row in csv.DictReader(file))
    actual, published = (
        item.estimate(attempts, [1, 2, 3, 4]) for item in (HierarchicalEstimator(), PerCaseEstimator())
    )
    for k in (1, 2, 3, 4):
        for new, expected in (
            (actual.pass_at_k[k], published.pass_at_k[k]),
            (actual.pass_pow_k[k], published.pass_pow_k[k]),
        ):
            lower, value, upper = numbers(new)
            assert expected.value == pytest.approx(value, abs=0.03)
            assert lower < (expected.value or 0.0) < upper


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=8), st.floats(0.05, 500.0))
def test_sums_of_rising_factorials_equal_the_gamma_function_on_both_sides_of_16_factors(
    counts: list[int], a: float
) -> None:
    rows = np.array(sorted(counts))
    grouped = GroupedAttempts(
        size=1, group=np.zeros_like(rows), n=np.maximum(rows, 1), c=rows, cases=np.arange(len(rows)) + 1
    )
    sums, points = RisingFactorials.of(grouped, rows), np.array([[a * (1 - 1e-5), a, a * (1 + 1e-5)]])
    expected = float(((gammaln(a + rows) - gammaln(a)) * grouped.cases).sum())
    below, at, above = sums.log(points)[0]
    assert expected == pytest.approx(at, rel=1e-9, abs=1e-7)
    assert (above - below) / (2e-5 * a) == pytest.approx(sums.slope(points)[0, 1], rel=1e-3, abs=1e-3)
