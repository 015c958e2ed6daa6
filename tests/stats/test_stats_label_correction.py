"""Rates corrected by labels of a sample: limits by hand, laws, a slow method, and truth that is known because it was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.stats.label_correction import (
    LabelCorrected,
    LabelledTraffic,
    corrected_by_labels,
    correlation,
    powers,
)
from otel_agentic.stats.model import Estimate
from otel_agentic.stats.rates import quantile, wilson

if TYPE_CHECKING:
    import numpy.typing as npt

Z: Final = quantile(0.95)
#: Pass rates, and the sensitivity and specificity of the only predictor that is informative.
WORLDS: Final = [
    (p, se, sp) for p in (0.5, 0.8, 0.95) for se, sp in ((0.6, 0.4), (0.8, 0.7), (0.95, 0.9), (0.99, 0.98))
]


def data_of(
    metrics: npt.ArrayLike, labelled: npt.ArrayLike, passed: npt.ArrayLike, attempts: int = 1
) -> LabelledTraffic:
    """Return conversations, `attempts` of each case."""
    values = np.asarray(metrics, dtype=np.float64)
    return LabelledTraffic(
        cases=[("", str(index // attempts)) for index in range(len(values))],
        metrics=values.reshape(len(values), -1),
        labelled=np.asarray(labelled, dtype=np.int64),
        passed=np.asarray(passed, dtype=bool),
    )


def holds(estimate: Estimate, truth: float) -> bool:
    """Return whether an interval contains the truth."""
    return estimate.lower is not None and estimate.upper is not None and estimate.lower <= truth <= estimate.upper


def bounds(estimate: Estimate) -> tuple[float | None, float | None]:
    """Return the bounds of an interval."""
    return estimate.lower, estimate.upper


def test_without_an_informative_metric_the_rate_is_that_of_the_labels() -> None:
    result = corrected_by_labels(data_of(np.ones(100), range(20), [True] * 15 + [False] * 5), 0.95)

    assert (0.75, 0.0, ()) == (result.here.value, result.power, result.used)
    assert result.here == result.people_here
    assert wilson(0.75, 20 / 0.8, Z) == pytest.approx(bounds(result.here))
    assert wilson(0.75, 20, Z) == pytest.approx(bounds(result.traffic))
    assert wilson(0.75, 20, Z) == pytest.approx(bounds(result.people))


def test_if_everything_is_labelled_only_further_traffic_is_uncertain() -> None:
    result = corrected_by_labels(data_of(np.arange(40), range(40), np.arange(40) < 10), 0.95)

    assert Estimate(value=0.25, lower=0.25, upper=0.25) == result.here == result.people_here
    assert wilson(0.25, 40, Z) == pytest.approx(bounds(result.traffic))


def test_labels_of_one_class_keep_the_interval_of_the_labels_alone() -> None:
    result = corrected_by_labels(data_of(np.arange(100), range(0, 100, 5), [True] * 20), 0.95)

    assert (1.0, 0.0, None) == (result.here.value, result.power, result.correlation)
    assert wilson(1.0, 20 / 0.8, Z) == pytest.approx(bounds(result.here))


def test_a_metric_that_only_labelled_conversations_have_predicts_nothing() -> None:
    labelled = np.arange(0, 100, 4)
    metrics = np.full((100, 2), np.nan)
    metrics[labelled, 0] = labelled < 50
    metrics[:, 1] = np.arange(100)

    assert (1,) == corrected_by_labels(data_of(metrics, labelled, labelled < 50), 0.95).used


def test_a_copy_of_a_metric_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    metrics, labelled = rng.normal(size=(90, 3)), np.arange(0, 90, 3)
    passed = metrics[labelled, 0] + rng.normal(size=30) > 0
    copied = np.column_stack([metrics, 7.0 - 2.0 * metrics[:, 1]])

    assert corrected_by_labels(data_of(metrics, labelled, passed), 0.95) == corrected_by_labels(
        data_of(copied, labelled, passed), 0.95
    )


def test_a_conversation_is_predicted_without_its_own_verdict() -> None:
    """The cross-fitted regression, by a slow method: an augmented least-squares problem for each left-out label."""
    rng = np.random.default_rng(11)
    metrics, labelled = rng.normal(size=(60, 2)), np.arange(0, 60, 4)
    passed = metrics[labelled, 0] + rng.normal(size=15) > 0
    ranks = np.argsort(np.argsort(metrics, axis=0), axis=0).astype(float)
    columns = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    own, others, models = [], [], []
    for index, row in enumerate(labelled):
        rest = np.delete(labelled, index)
        design = np.column_stack([np.ones(len(rest)), columns[rest]])
        penalty = np.column_stack([np.zeros(2), np.eye(2) * np.sqrt(9.0 * 2)])
        targets = np.concatenate([np.delete(passed, index).astype(float), np.zeros(2)])
        model = np.linalg.lstsq(np.vstack([design, penalty]), targets, rcond=None)[0][1:]
        own.append(columns[row] @ model)
        models.append(model)
    others = columns[np.setdiff1d(np.arange(60), labelled)] @ np.mean(models, axis=0)
    verdicts = passed.astype(float)
    power = min(1.0, max(0.0, np.cov(verdicts, own, ddof=0)[0, 1] / np.var(own)))
    value = verdicts.mean() + power * 0.75 * (np.mean(others) - np.mean(own))

    result = corrected_by_labels(data_of(metrics, labelled, passed), 0.95)
    assert power == pytest.approx(result.power)
    assert value == pytest.approx(result.here.value)
    assert correlation(verdicts, own) == pytest.approx(result.correlation)


@given(st.integers(0, 10_000), st.integers(3, 40), st.integers(0, 60), st.integers(1, 3))
def test_laws(seed: int, labels: int, more: int, attempts: int) -> None:
    rng = np.random.default_rng(seed)
    size = labels + more
    metrics = rng.normal(size=(size, 3)).round(1)
    metrics[rng.random((size, 3)) < 0.2] = np.nan
    labelled = rng.permutation(size)[:labels]
    passed = rng.random(labels) < 0.6
    result = corrected_by_labels(data_of(metrics, labelled, passed, attempts), 0.95)

    for estimate in (result.here, result.traffic):
        assert estimate.value is not None
        assert estimate.lower is not None
        assert estimate.upper is not None
        assert 0.0 <= estimate.lower <= estimate.value <= estimate.upper <= 1.0
    assert 0.0 <= result.power <= 1.0
    value = result.here.value or 0.0
    if more:
        widest = wilson(value, labels / (1.0 - labels / size), Z)
        assert widest[0] - 1e-9 <= (result.here.lower or 0.0)
        assert (result.here.upper or 0.0) <= widest[1] + 1e-9
    again = corrected_by_labels(data_of(np.exp(metrics) * 3.0, labelled, passed, attempts), 0.95)
    assert result.here.value == pytest.approx(again.here.value)  # neither units nor outliers matter


def test_powers_are_those_of_drawn_conversations() -> None:
    rate = Estimate(value=0.5, lower=0.2, upper=0.9)

    assert [0.125, 0.008, 0.729] == pytest.approx([*vars_of(powers(rate, [3])[3])])
    assert [0.875, 0.488, 0.999] == pytest.approx([*vars_of(powers(rate, [3], at_least_one=True)[3])])


def vars_of(estimate: Estimate) -> tuple[float, float, float]:
    """Return value and bounds of a defined estimate."""
    assert estimate.value is not None
    assert estimate.lower is not None
    assert estimate.upper is not None
    return estimate.value, estimate.lower, estimate.upper


def test_a_correction_needs_labels() -> None:
    with pytest.raises(ValueError, match="needs labels"):
        corrected_by_labels(data_of([1.0], [], []), 0.95)


def drawn(rng: np.random.Generator, world: tuple[float, float, float], size: int, noise: int) -> tuple[np.ndarray, ...]:
    """Return metrics and truth of a population: one predictor, and metrics that mean nothing."""
    p, sensitivity, specificity = world
    truth = rng.random(size) < p
    predictor = np.where(truth, rng.random(size) < sensitivity, rng.random(size) >= specificity)
    return np.column_stack([predictor, rng.normal(size=(size, noise))]).astype(float), truth


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0, 10])
@pytest.mark.parametrize("labels", [20, 40, 100])
def test_intervals_contain_the_truth_with_few_labels(labels: int, noise: int) -> None:
    coverage = []
    for world in WORLDS:
        rng = np.random.default_rng(labels + noise)
        hits = np.zeros(2)
        for _ in range(200):
            metrics, truth = drawn(rng, world, 400, noise)
            labelled = rng.choice(400, labels, replace=False)
            result = corrected_by_labels(data_of(metrics, labelled, truth[labelled]), 0.95)
            hits += holds(result.here, truth.mean()), holds(result.traffic, world[0])
        coverage.append(hits / 200)
    assert np.min(coverage) >= 0.87  # Wilson's own interval of the labels falls to .90 near a rate of 1
    assert np.mean(coverage) >= 0.94


@pytest.mark.slow
def test_intervals_of_traffic_account_for_attempts_of_one_case() -> None:
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        difficulty = np.repeat(rng.beta(1.0, 1.0, 100), 4)  # 100 cases of 4 attempts, mean pass rate .5
        truth = rng.random(400) < difficulty
        metrics = difficulty + rng.normal(size=400)
        labelled = rng.choice(400, 100, replace=False)
        result = corrected_by_labels(data_of(metrics, labelled, truth[labelled], attempts=4), 0.95)
        hits += holds(result.traffic, 0.5)
    assert hits / 200 >= 0.92


def width(result: LabelCorrected) -> float:
    """Return the width of the corrected interval."""
    lower, upper = bounds(result.here)
    return (upper or 0.0) - (lower or 0.0)


@pytest.mark.slow
def test_an_informative_metric_makes_intervals_narrower() -> None:
    rng = np.random.default_rng(9)
    widths = {}
    for specificity in (0.3, 0.9):
        metrics, truth = drawn(rng, (0.7, 0.7 if specificity < 0.5 else 0.95, specificity), 2000, 5)
        results = [
            corrected_by_labels(data_of(metrics, labelled, truth[labelled]), 0.95)
            for labelled in (rng.choice(2000, 100, replace=False) for _ in range(50))
        ]
        widths[specificity] = np.mean([width(result) for result in results])
    assert widths[0.9] < 0.85 * widths[0.3]
