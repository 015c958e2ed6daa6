"""Summaries: counts, coverage, bounds, estimates, tool dimensions and tier of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.config import StatsSettings
from otel_agentic.errors import UsageError
from otel_agentic.stats import BayesianEstimator, Estimator, PerCaseEstimator, PluginEstimator, UnbiasedEstimator
from otel_agentic.windows import DimensionMean, GroupKey, GroupSummary, ScoredConversation, attempts_of, summarise

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import FailReason, NotEvaluatedReason, Outcome

ALL: tuple[Estimator, ...] = (BayesianEstimator(), PerCaseEstimator(), PluginEstimator(), UnbiasedEstimator())
KEY = GroupKey(agent="booking")


def scored(
    number: int,
    outcome: Outcome = "pass",
    *,
    case_id: str | None = None,
    reason: FailReason | NotEvaluatedReason | None = None,
) -> ScoredConversation:
    return ScoredConversation(
        environment="production",
        conversation_id=f"conversation {number}",
        revision=1,
        agent="booking",
        agent_version=None,
        service=None,
        ended_ns=number,
        dataset=case_id and "shop",
        case_id=case_id,
        tags=(),
        outcome=outcome,
        reason=reason,
    )


def group(passed: int, failed: int, not_evaluated: int = 0) -> list[ScoredConversation]:
    counts: tuple[tuple[Outcome, int], ...] = (("pass", passed), ("fail", failed), ("not_evaluated", not_evaluated))
    outcomes = [outcome for outcome, count in counts for _ in range(count)]
    return [scored(number, outcome) for number, outcome in enumerate(outcomes)]


def summary_of(
    conversations: Sequence[ScoredConversation],
    *,
    estimators: Sequence[Estimator] = ALL,
    configured: StatsSettings | None = None,
) -> GroupSummary:
    return summarise(KEY, conversations, estimators=estimators, settings=configured or StatsSettings(), k=(1, 3, 5))


def test_seven_of_ten_gives_the_worked_numbers_of_every_estimator() -> None:
    summary = summary_of(group(7, 3))
    bayesian = summary.estimates["bayesian"]
    assert (summary.n, summary.c, summary.coverage, summary.bounds) == (10, 7, 1.0, (0.7, 0.7))
    assert bayesian.pass_at_k[3].value == pytest.approx(0.9451, abs=5e-5)
    assert bayesian.pass_pow_k[3].upper == pytest.approx(0.7067, abs=5e-5)
    assert summary.estimates["plugin"].pass_pow_k[3].value == pytest.approx(0.343)
    assert summary.estimates["unbiased"].pass_pow_k[3].value == pytest.approx(0.2917, abs=5e-5)
    assert summary.estimates["per_case"].cases_left_out == {1: 0, 3: 10, 5: 10}
    assert summary.default_estimator == "bayesian"


def test_what_was_not_evaluated_leaves_n_and_lowers_the_coverage_by_reason() -> None:
    conversations = [
        *group(6, 2),
        scored(8, "not_evaluated", reason="unmatched"),
        scored(9, "not_evaluated", reason="judge_error"),
        scored(10, "not_evaluated", reason="unmatched"),
        scored(11, "not_evaluated"),
    ]
    summary = summary_of(conversations)
    assert (summary.n, summary.c, summary.coverage) == (8, 6, 8 / 12)
    assert summary.bounds == (6 / 12, 10 / 12)
    assert summary.not_evaluated == {"judge_error": 1, "no_data": 1, "unmatched": 2}


@pytest.mark.parametrize("conversations", [[], group(0, 0, 3)])
def test_nothing_evaluated_is_null_everywhere_and_never_zero(conversations: list[ScoredConversation]) -> None:
    summary = summary_of(conversations)
    points = [
        estimate.value
        for estimates in summary.estimates.values()
        for estimate in (*estimates.pass_at_k.values(), *estimates.pass_pow_k.values())
    ]
    assert points == [None] * 24
    assert (summary.tier, summary.leaning, summary.needed) == ("insufficient_evidence", None, None)
    assert (summary.coverage, summary.bounds) == ((0.0, (0.0, 1.0)) if conversations else (None, None))


def test_conversations_without_a_case_are_cases_of_their_own() -> None:
    alike = [scored(1), replace(scored(1), environment="staging"), scored(2), scored(3, case_id="conversation 2")]
    assert [case.n for case in attempts_of(alike).cases] == [1, 1, 1, 1]


def test_equal_case_ids_of_two_datasets_are_two_cases() -> None:
    attempts = [scored(n, case_id="hotel") for n in range(6)]
    of_two = [replace(row, dataset=("old", "new")[index % 2]) for index, row in enumerate(attempts)]
    assert [(case.dataset, case.n) for case in attempts_of(of_two).cases] == [("new", 3), ("old", 3)]
    assert summary_of(of_two).estimates["per_case"].cases_left_out == {1: 0, 3: 0, 5: 2}


def test_attempts_of_one_case_are_counted_together_and_shown_per_case() -> None:
    conversations = [scored(n, "pass" if n % 5 else "fail", case_id=f"case {n // 5}") for n in range(20)]
    summary = summary_of(conversations)
    assert summary.default_estimator == "bayesian"  # for any data
    assert summary.estimates["per_case"].pass_pow_k[3].value == pytest.approx(0.4)
    assert summary.estimates["plugin"].interval_method == "wilson_effective_n"


@pytest.mark.parametrize(
    ("passed", "failed", "tier", "leaning"),
    [(20, 0, "insufficient_evidence", "ready"), (100, 0, "ready", None), (84, 116, "not_ready", None)],
)
def test_tiers_look_at_the_estimator_that_is_shown(passed: int, failed: int, tier: str, leaning: str | None) -> None:
    for estimator in (BayesianEstimator(), UnbiasedEstimator()):
        summary = summary_of(group(passed, failed), estimators=[estimator])
        assert (summary.tier, summary.leaning) == (tier, leaning)
        assert summary.tier_evidence is not None
        assert summary.tier_evidence.estimator == estimator.name
        estimates = estimator.estimate(attempts_of(group(passed, failed)), [1, 3])
        assert summary.tier_evidence.rates["pass_pow_3"] == estimates.pass_pow_k[3].value


def test_a_default_estimator_that_was_not_given_is_stood_in_for() -> None:
    repeated = [scored(n, case_id=f"case {n % 2}") for n in range(12)]
    assert summary_of(repeated, estimators=[UnbiasedEstimator(), BayesianEstimator()]).default_estimator == "bayesian"
    assert summary_of(repeated, estimators=[UnbiasedEstimator()]).default_estimator == "unbiased"
    wished = StatsSettings(estimator="plugin")
    assert summary_of(repeated, configured=wished).default_estimator == "plugin"


def test_tool_dimensions_are_means_over_the_conversations_where_they_apply() -> None:
    conversations = [
        replace(scored(1), dimensions={"selection": 1.0, "parameters": 0.5}),
        replace(scored(2, "fail"), dimensions={"selection": 0.5}),
        replace(scored(3, "not_evaluated"), dimensions={"selection": 0.0}),
        scored(4),
    ]
    assert summary_of(conversations).tool_dimensions == {
        "selection": DimensionMean(mean=0.5, n=3),
        "parameters": DimensionMean(mean=0.5, n=1),
    }


def test_a_k_that_is_not_allowed_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="k=0"):
        summarise(KEY, group(1, 1), estimators=ALL, settings=StatsSettings(), k=(0,))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_bounds_hold_the_pass_rate_and_are_as_wide_as_the_coverage_is_short(
    passed: int, failed: int, not_evaluated: int
) -> None:
    summary = summary_of(group(passed, failed, not_evaluated), estimators=[])
    if summary.bounds is None or summary.coverage is None:
        assert passed + failed + not_evaluated == 0
        return
    lower, upper = summary.bounds
    assert 0.0 <= lower <= upper <= 1.0
    assert upper - lower == pytest.approx(1.0 - summary.coverage)
    if summary.n:
        assert lower - 1e-12 <= summary.c / summary.n <= upper + 1e-12
