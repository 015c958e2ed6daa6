"""The published table of real agent runs: 50 cases of 4 attempts, labelled."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from otel_agentic import plugins
from otel_agentic.config import StatsSettings
from otel_agentic.stats import Attempts, Estimate, PerCaseEstimator, claim_tier, pooled_sample
from tests.shared import SHARED, why_absent

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
DATA = SHARED / "data" / "tau-airline"
REWARD_THRESHOLD = 1.0 - 1e-6

pytestmark = pytest.mark.skipif(why_absent(DATA) is not None, reason=why_absent(DATA) or "")


@pytest.fixture(scope="module")
def attempts() -> Attempts:
    with (DATA / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return Attempts.of((row["case_id"], float(row["reward"]) >= REWARD_THRESHOLD) for row in rows)


def test_per_case_estimates_give_the_published_row(attempts: Attempts) -> None:
    estimate = PerCaseEstimator().estimate(attempts, [1, 2, 3, 4])
    assert [estimate.pass_pow_k[k].value for k in (1, 2, 3, 4)] == pytest.approx([0.420, 0.273, 0.220, 0.200], abs=5e-4)
    assert [estimate.pass_at_k[k].value for k in (1, 2, 3, 4)] == pytest.approx([0.420, 0.567, 0.660, 0.720], abs=5e-4)
    assert estimate.cases_left_out == {1: 0, 2: 0, 3: 0, 4: 0}


def test_per_case_estimates_equal_the_expected_file_to_the_last_digit(attempts: Attempts) -> None:
    expected = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))["from_labels"]
    estimate = PerCaseEstimator().estimate(attempts, [1, 2, 3, 4])
    for k in (1, 2, 3, 4):
        assert estimate.pass_at_k[k].value == pytest.approx(expected[f"pass@{k}"], abs=1e-9)
        assert estimate.pass_pow_k[k].value == pytest.approx(expected[f"pass^{k}"], abs=1e-9)


def test_attempts_of_one_case_are_worth_less_than_their_number(attempts: Attempts) -> None:
    sample = pooled_sample(attempts)
    assert sample is not None
    assert (attempts.n, attempts.c) == (200, 84)
    assert 50 < sample.n < 120


def test_the_agent_is_not_ready(attempts: Attempts) -> None:
    assert claim_tier(attempts, StatsSettings()).tier == "not_ready"


@pytest.mark.parametrize("name", ["bayesian", "plugin", "unbiased", "per_case", "hierarchical"])
def test_the_table_of_real_data_in_the_guide_is_what_the_estimators_give(attempts: Attempts, name: str) -> None:
    estimate = plugins.get("estimators", name).load().from_settings(StatsSettings()).estimate(attempts, [1, 4])
    cells = [f"`{name}`", *map(formatted, (estimate.pass_pow_k[1], estimate.pass_at_k[4], estimate.pass_pow_k[4]))]
    assert f"| {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8")


def formatted(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} [{estimate.lower:.3f}, {estimate.upper:.3f}]"
