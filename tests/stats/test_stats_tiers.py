"""Tiers: claimed with evidence only, leaning and `needed` otherwise, and the published tables as printed."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import StatsSettings
from otel_agentic.stats import Attempts, CaseCount, Tier, TierClaim, claim_tier, docs_tier, paper_tier

Mode = Literal["bayesian", "frequentist"]
MODES: tuple[Mode, ...] = ("bayesian", "frequentist")


def claim(
    n: int, c: int, mode: Mode = "bayesian", rule: Literal["interval", "paper", "docs"] = "interval"
) -> TierClaim:
    attempts = Attempts.of((f"case {i}", i < c) for i in range(n))
    return claim_tier(attempts, StatsSettings(mode=mode, tier_rule=rule))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("n", "c", "tier", "leaning"),
    [
        (20, 20, "insufficient_evidence", "ready"),
        (100, 100, "ready", None),
        (200, 84, "not_ready", None),
        (200, 160, "inconsistent", None),
        (3, 2, "insufficient_evidence", "not_ready"),
        (2_000, 1_780, "insufficient_evidence", "needs_improvement"),
        (20_000, 17_800, "needs_improvement", None),
    ],
)
def test_tiers_are_claimed_only_with_evidence(mode: Mode, n: int, c: int, tier: Tier, leaning: Tier | None) -> None:
    actual = claim(n, c, mode)
    assert (tier, leaning) == (actual.tier, actual.leaning)


@pytest.mark.parametrize("mode", MODES)
def test_a_settled_tier_needs_no_more_conversations(mode: Mode) -> None:
    assert claim(100, 100, mode).needed == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("n", "c"), [(20, 20), (10, 8), (40, 38), (1, 0), (1, 1)])
def test_needed_is_the_smallest_number_that_settles_it(mode: Mode, n: int, c: int) -> None:
    """Scaling all counts by whole factors keeps the observed rate, so the claim can be looked up directly."""
    needed = claim(n, c, mode).needed
    assert needed is not None
    factor = -(-(n + needed) // n)
    assert claim(n * factor, c * factor, mode).tier != "insufficient_evidence"
    assert claim(n * (factor - 1), c * (factor - 1), mode).tier == "insufficient_evidence"


def test_twenty_of_twenty_needs_more_than_the_best_bet_would() -> None:
    """All on a rate of 1, the quickest bet of all reaches 20 after 26; bets on all rates above .888 take some more."""
    assert 0.70 ** (-25 / 3) < 20 < 0.70 ** (-26 / 3)
    assert claim(20, 20).needed == 16


def test_a_rate_on_the_boundary_never_settles() -> None:
    assert TierClaim(tier="insufficient_evidence", leaning="needs_improvement", needed=None) == claim(
        20, 18, "frequentist"
    )


def test_no_attempts_lean_nowhere() -> None:
    assert TierClaim(tier="insufficient_evidence", leaning=None, needed=None) == claim(0, 0)


def test_many_attempts_of_few_cases_are_no_evidence_about_other_cases() -> None:
    cases = tuple(CaseCount(case_id=str(i), n=50, c=50) for i in range(25))
    claims = claim_tier(Attempts(cases=cases), StatsSettings())
    assert (claims.tier, claims.leaning) == ("insufficient_evidence", "ready")


def test_what_is_withheld_is_not_claimed_and_says_why() -> None:
    attempts = Attempts.of((f"case {i}", True) for i in range(100))
    claims = claim_tier(attempts, StatsSettings(), withheld="the judge is biased")
    assert (
        TierClaim(tier="insufficient_evidence", leaning="ready", needed=None, withheld="the judge is biased") == claims
    )


def test_the_evidence_says_what_is_claimed_and_how_sure_it_is() -> None:
    evidence = claim(100, 100).evidence
    assert evidence is not None
    assert (evidence.n, evidence.c, evidence.cases) == (100, 100, 100)
    assert evidence.statement == snapshot("mean rate over cases above 0.888")
    assert evidence.e_value is not None
    assert evidence.e_value > evidence.e_value_needed == 20.0


def test_claims_rest_on_95_percent_at_any_level_of_the_report() -> None:
    attempts = Attempts.of((f"case {i}", True) for i in range(20))
    assert claim_tier(attempts, StatsSettings()) == claim_tier(attempts, StatsSettings(level=0.5))


@pytest.mark.parametrize(
    ("pass_at_1", "pass_pow_3", "tier"),
    [
        (0.95, 0.86, "ready"),
        (0.95, 0.70, "inconsistent"),
        (0.95, 0.30, "inconsistent"),
        (0.90, 0.729, "needs_improvement"),
        (0.70, 0.343, "needs_improvement"),
        (0.667, 0.296, "not_ready"),
    ],
)
def test_the_papers_table_is_as_printed(pass_at_1: float, pass_pow_3: float, tier: Tier) -> None:
    assert tier == paper_tier(pass_at_1, pass_pow_3)


@pytest.mark.parametrize(
    ("pass_at_3", "pass_pow_3", "tier"),
    [
        (0.99, 0.71, "ready"),
        (0.99, 0.49, "inconsistent"),
        (0.69, 0.01, "needs_improvement"),
        (0.99, 0.60, "no_row"),
        (0.80, 0.07, "no_row"),
    ],
)
def test_the_documentations_table_is_as_printed_gaps_included(pass_at_3: float, pass_pow_3: float, tier: Tier) -> None:
    assert tier == docs_tier(pass_at_3, pass_pow_3)


def test_published_rules_look_at_points_only() -> None:
    assert TierClaim(tier="ready", leaning=None, needed=None) == claim(20, 20, rule="paper")
    assert TierClaim(tier="ready", leaning=None, needed=None) == claim(20, 20, rule="docs")
    assert TierClaim(tier="not_ready", leaning=None, needed=None) == claim(3, 2, "frequentist", rule="paper")


@settings(deadline=None)
@given(st.floats(0.9, 1.0, exclude_min=True))
def test_the_papers_second_row_cannot_be_reached_by_one_rate(p: float) -> None:
    assert paper_tier(p, p**3) == "ready"


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.sampled_from(MODES))
def test_a_claim_is_consistent_with_its_parts(counts: tuple[int, int], mode: Mode) -> None:
    actual = claim(*counts, mode)
    assert (actual.tier == "insufficient_evidence") == (actual.leaning is not None)
    assert (actual.tier == "insufficient_evidence") == (actual.needed != 0)
