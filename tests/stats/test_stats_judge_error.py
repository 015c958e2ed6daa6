"""Rates corrected by people's verdicts: formulas by hand, laws, and truth that is known because it was simulated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.stats.cluster import Repeats, repeats_of
from otel_agentic.stats.judge_error import (
    Confusion,
    Unlabelled,
    VerdictPair,
    corrected,
    ppi,
    ppi_rate,
    ppi_variance,
    rogan_gladen,
    rogan_gladen_rate,
    tuned_power,
)
from otel_agentic.stats.model import CaseKey, Estimate

LABELS = Confusion(both_pass=70, false_pass=10, false_fail=2, both_fail=18)
#: Judges by sensitivity and specificity, at true pass rates.
WORLDS = [(p, se, sp) for p in (0.5, 0.8, 0.95) for se in (0.8, 0.95, 0.99) for sp in (0.7, 0.9, 0.98)]


@dataclass(frozen=True, kw_only=True)
class World:
    """A pass rate and a judge of it."""

    p: float
    sensitivity: float
    specificity: float

    @property
    def cells(self) -> list[float]:
        """Probabilities of both pass, false pass, false fail, both fail."""
        p, se, sp = self.p, self.sensitivity, self.specificity
        return [p * se, (1 - p) * (1 - sp), p * (1 - se), (1 - p) * sp]

    def drawn(self, rng: np.random.Generator, humans: int, others: int) -> tuple[Confusion, Unlabelled]:
        """Return labels of `humans` conversations, and the judge's verdicts of `others`."""
        counts = [int(count) for count in rng.multinomial(humans, self.cells)]
        labels = Confusion(both_pass=counts[0], false_pass=counts[1], false_fail=counts[2], both_fail=counts[3])
        return labels, Unlabelled(n=others, passed=int(rng.binomial(others, self.cells[0] + self.cells[1])))


def holds(result: Estimate, truth: float) -> bool:
    """Return whether an interval holds the truth."""
    return result.lower is not None and result.upper is not None and result.lower <= truth <= result.upper


def wilson_holds(verdicts: Unlabelled, truth: float) -> bool:
    """Return whether Wilson's interval of the judge's uncorrected rate contains the truth."""
    z2 = 1.959964**2
    return bool(abs(verdicts.rate - truth) <= (z2 / verdicts.n * truth * (1 - truth)) ** 0.5)


def coverage(world: World, humans: int, others: int, *, times: int, seed: int) -> dict[str, float]:
    """Return how often the intervals hold the true pass rate."""
    rng = np.random.default_rng(seed)
    hits = {"raw": 0, "rogan_gladen": 0, "ppi": 0}
    for _ in range(times):
        labels, verdicts = world.drawn(rng, humans, others)
        hits["raw"] += wilson_holds(verdicts, world.p)
        result = rogan_gladen(labels, verdicts, 0.95)
        hits["rogan_gladen"] += result.value is None or holds(result, world.p)
        hits["ppi"] += holds(ppi(labels, verdicts, tuned_power(labels, verdicts), 0.95), world.p)
    return {name: count / times for name, count in hits.items()}


def test_intervals_of_corrected_rates_hold_the_truth_and_those_of_judged_rates_do_not() -> None:
    result = coverage(World(p=0.8, sensitivity=0.95, specificity=0.7), 100, 2_000, times=1_000, seed=1)

    assert min(result["rogan_gladen"], result["ppi"]) >= 0.92
    assert result["raw"] < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("humans", [20, 50, 100, 200])
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_of_corrected_rates_contain_the_truth_for_any_judge(
    world: tuple[float, float, float], humans: int
) -> None:
    p, sensitivity, specificity = world
    true = World(p=p, sensitivity=sensitivity, specificity=specificity)
    result = coverage(true, humans, 10 * humans, times=4_000, seed=humans)

    assert min(result["rogan_gladen"], result["ppi"]) >= 0.91, result


@pytest.mark.slow
@pytest.mark.parametrize("kappa", [2.0, 10.0])
def test_intervals_hold_the_truth_where_attempts_of_one_case_go_alike(kappa: float) -> None:
    rng = np.random.default_rng(5)
    hits = np.zeros(2)
    times, cases, attempts, p = 1_000, 40, 10, 0.8
    for _ in range(times):
        rates = rng.beta(p * kappa, (1 - p) * kappa, cases)
        case = np.repeat(np.arange(cases), attempts)
        human = rng.random(cases * attempts) < rates[case]
        judge = np.where(human, rng.random(len(case)) < 0.93, rng.random(len(case)) < 0.2)
        labelled = np.zeros(len(case), dtype=bool)
        labelled[rng.choice(len(case), 120, replace=False)] = True
        pairs = [
            VerdictPair(judge=bool(judge[at]), human=bool(human[at]), case=("d", f"{case[at]}"))
            for at in np.flatnonzero(labelled)
        ]
        rest = [(("d", f"{case[at]}"), bool(judge[at])) for at in np.flatnonzero(~labelled)]
        result = corrected(pairs, rest, 0.95)
        hits += holds(result.rogan_gladen, p), holds(result.ppi, p)

    assert hits.min() / times >= 0.92, hits / times


def test_the_corrections_are_unbiased_where_the_judged_rate_is_not() -> None:
    rng = np.random.default_rng(3)
    world = World(p=0.7, sensitivity=0.95, specificity=0.75)
    drawn = [world.drawn(rng, 200, 5_000) for _ in range(2_000)]

    ppi_mean = np.mean([ppi_rate(labels, verdicts, tuned_power(labels, verdicts)) for labels, verdicts in drawn])
    rogan_gladen_mean = np.mean([rogan_gladen(labels, verdicts, 0.95).value for labels, verdicts in drawn])
    assert (0.7, 0.7) == pytest.approx((ppi_mean, rogan_gladen_mean), abs=0.005)
    assert 0.74 == pytest.approx(np.mean([verdicts.rate for _, verdicts in drawn]), abs=0.005)


@pytest.mark.parametrize("world", WORLDS[::4])
def test_tuning_never_does_worse_than_the_labels_alone_nor_than_trusting_the_judge(
    world: tuple[float, float, float],
) -> None:
    cells = [round(10_000 * share) for share in World(p=world[0], sensitivity=world[1], specificity=world[2]).cells]
    labels = Confusion(both_pass=cells[0], false_pass=cells[1], false_fail=cells[2], both_fail=cells[3])
    verdicts = Unlabelled(n=100_000, passed=10 * (cells[0] + cells[1]))
    tuned = ppi_variance(labels, verdicts, tuned_power(labels, verdicts))

    assert tuned <= ppi_variance(labels, verdicts, 0.0)
    assert tuned <= ppi_variance(labels, verdicts, 1.0)
    grid = [ppi_variance(labels, verdicts, power) for power in np.linspace(0, 1, 1001)]
    assert min(grid) == pytest.approx(tuned, rel=1e-5)


def test_the_variance_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(4)
    world = World(p=0.8, sensitivity=0.95, specificity=0.7)
    drawn = [world.drawn(rng, 300, 900) for _ in range(4_000)]
    for power in (0.0, 0.6, 1.0):
        stated = np.mean([ppi_variance(labels, verdicts, power) for labels, verdicts in drawn])
        observed = np.var([ppi_rate(labels, verdicts, power) for labels, verdicts in drawn])
        assert observed == pytest.approx(stated, rel=0.1)


def test_a_power_of_zero_is_the_mean_of_peoples_verdicts_and_one_adds_the_judges_error_to_its_rate() -> None:
    verdicts = Unlabelled(n=1_000, passed=700)
    mean_error = (LABELS.false_pass - LABELS.false_fail) / LABELS.n

    assert 0.72 == pytest.approx(ppi_rate(LABELS, verdicts, 0.0))
    assert 0.7 - mean_error == pytest.approx(ppi_rate(LABELS, verdicts, 1.0))


def test_the_interval_is_that_of_lang_and_reiczigel() -> None:
    """Values by the formulas of the paper, step by step on paper: 23 of 150 positive, 48 of 50 and 89 of 100."""
    labels = Confusion(both_pass=48, false_pass=11, false_fail=2, both_fail=89)
    result = rogan_gladen(labels, Unlabelled(n=150, passed=23), 0.95)

    z = 1.959963984540054
    n, nse, nsp = 150 + z**2, 52, 102
    q, se, sp = (23 + z**2 / 2) / n, 49 / 52, 90 / 102
    p = (q + sp - 1) / (se + sp - 1)
    error = (q * (1 - q) / n + p**2 * se * (1 - se) / nse + (1 - p) ** 2 * sp * (1 - sp) / nsp) ** 0.5 / (se + sp - 1)
    shift = 2 * z**2 * (p * se * (1 - se) / nse - (1 - p) * sp * (1 - sp) / nsp)
    expected = ((23 / 150 + 0.89 - 1) / (0.96 + 0.89 - 1), max(0.0, p + shift - z * error), p + shift + z * error)
    assert expected == pytest.approx((result.value, result.lower, result.upper))


@pytest.mark.parametrize(
    "labels",
    [
        Confusion(both_pass=5, false_pass=5, false_fail=5, both_fail=5),
        Confusion(both_pass=2, false_pass=8, false_fail=8, both_fail=2),
        Confusion(both_pass=10, false_pass=0, false_fail=0, both_fail=0),
        Confusion(both_pass=0, false_pass=3, false_fail=0, both_fail=9),
    ],
)
def test_a_judge_that_tells_nothing_and_labels_of_one_class_give_no_rogan_gladen(labels: Confusion) -> None:
    assert Estimate(value=None) == rogan_gladen(labels, Unlabelled(n=100, passed=60), 0.95)


def test_where_everything_is_labelled_the_rate_is_that_of_people() -> None:
    pairs = [VerdictPair(judge=number < 8, human=number < 6, case=f"{number}") for number in range(20)]
    result = corrected(pairs, [], 0.95)

    assert (20, 0, 0.0) == (result.n_human, result.n_judge, result.power)
    assert (0.3, None) == (result.ppi.value, result.rogan_gladen.value)


def test_a_judge_that_agrees_always_leaves_its_rate_and_still_no_certainty() -> None:
    pairs = [VerdictPair(judge=number < 40, human=number < 40, case=f"{number}") for number in range(50)]
    result = corrected(pairs, [(("", f"other {number}"), number < 800) for number in range(1_000)], 0.95)

    assert 0.8 == pytest.approx(result.ppi.value)
    assert result.ppi.lower is not None
    assert result.ppi.upper is not None
    assert result.ppi.upper - result.ppi.lower > 2 * 1.96 * (0.16 / 1_000) ** 0.5
    assert (1.0, 1.0, 0.8) == (result.sensitivity, result.specificity, result.rogan_gladen.value)


def test_conversations_that_go_alike_within_a_case_widen_the_intervals() -> None:
    answer = [(case < 7, case < 6) for case in range(10) for _ in range(10)]
    apart = [
        VerdictPair(judge=judge, human=human, case=f"{position}") for position, (judge, human) in enumerate(answer)
    ]
    alike = [
        VerdictPair(judge=judge, human=human, case=f"{position // 10}")
        for position, (judge, human) in enumerate(answer)
    ]

    def width(pairs: list[VerdictPair], rest: list[tuple[CaseKey, bool]]) -> float:
        estimate = corrected(pairs, rest, 0.95).ppi
        assert estimate.lower is not None
        assert estimate.upper is not None
        return estimate.upper - estimate.lower

    rest_apart = [(("", f"rest {position}"), judge) for position, (judge, _) in enumerate(answer)]
    rest_alike = [(("", f"{position // 10}"), judge) for position, (judge, _) in enumerate(answer)]
    assert width(alike, rest_alike) > 2 * width(apart, rest_apart)


def test_the_design_effect_is_one_where_no_case_repeats() -> None:
    assert Repeats() == repeats_of([("a", 0.3), ("b", -0.3)], ["a", "b"])
    assert Repeats() == repeats_of([("a", 0.3), ("a", -0.3)], ["a", "a"])
    assert Repeats(degrees=1.0, clusters_only=2.0) == repeats_of([("a", 0.0)] * 2 + [("b", 0.0)] * 2, list("aabb"))


counts = st.integers(0, 200)
tables = st.builds(Confusion, both_pass=counts, false_pass=counts, false_fail=counts, both_fail=counts)
unlabelled = st.integers(0, 5_000).flatmap(lambda n: st.builds(Unlabelled, n=st.just(n), passed=st.integers(0, n)))


@given(tables.filter(lambda table: table.n > 0), unlabelled)
def test_corrected_rates_are_rates_within_their_intervals(labels: Confusion, verdicts: Unlabelled) -> None:
    power = tuned_power(labels, verdicts)
    assert 0.0 <= power <= 1.0
    for result in (ppi(labels, verdicts, power, 0.95), rogan_gladen(labels, verdicts, 0.95)):
        if result.value is not None:
            assert result.lower is not None
            assert result.upper is not None
            assert 0.0 <= result.lower <= result.value <= result.upper <= 1.0


@given(st.floats(0, 1), st.floats(0.51, 1), st.floats(0.51, 1))
def test_correcting_undoes_what_a_judge_does(p: float, sensitivity: float, specificity: float) -> None:
    observed = p * sensitivity + (1 - p) * (1 - specificity)

    assert p == pytest.approx(rogan_gladen_rate(observed, sensitivity, specificity), abs=1e-9)
