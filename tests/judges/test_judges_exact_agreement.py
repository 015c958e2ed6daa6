"""The measured agreement of the exact judge: enough pairs, both halves similar, and the page states the measured figures."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.answer_pairs import WRITTEN, changed, of_captures, tau_answers, written
from benchmarks.bench_exact_judge import changes, row, verdicts
from tests.shared import SHARED, why_absent

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "exact-judge.md"
RESULTS: Final = ROOT / "benchmarks" / "results" / "exact_judge.md"
CAPTURES: Final = SHARED / "captures"
TAU: Final = SHARED / "data" / "tau-airline"


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in WRITTEN.read_text(encoding="utf-8").splitlines()]


def test_there_are_enough_different_pairs_and_each_half_has_its_share_of_every_kind() -> None:
    result = rows()
    assert 150 <= len(result) == len({(item["query"], item["expected"], item["answer"]) for item in result})
    tuned, held_out = (
        Counter((item["kind"], item["right"]) for item in result if item["half"] == half) for half in HALVES
    )
    assert all(abs(tuned[key] - held_out[key]) <= 1 for key in {*tuned, *held_out})


HALVES: Final = ("tuned", "held_out")
TITLES: Final = {
    "tuned": "written by hand, half that the judge was improved with",
    "held_out": "**written by hand, held-out half**",
}


@pytest.mark.parametrize("half", HALVES)
def test_the_page_says_what_is_measured_of_the_written_pairs(half: Any) -> None:
    assert row(TITLES[half], written(half)) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("half", HALVES)
def test_the_judge_agrees_with_at_least_85_percent_of_either_half(half: Any) -> None:
    pairs = written(half)
    agreed = sum(passed == pair.right for pair, passed in zip(pairs, verdicts(pairs), strict=True))
    assert 0.85 * len(pairs) <= agreed


@pytest.mark.skipif(why_absent(CAPTURES) is not None, reason=why_absent(CAPTURES) or "")
@pytest.mark.slow
def test_the_page_says_what_is_measured_of_the_captures() -> None:
    message = row("recorded answers of 59 framework captures", of_captures(CAPTURES))
    assert message in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.skipif(why_absent(TAU) is not None, reason=why_absent(TAU) or "")
@pytest.mark.slow
def test_the_page_says_what_is_measured_of_tau_airline() -> None:
    page = RESULTS.read_text(encoding="utf-8").splitlines()
    pairs = list(changed(tau_answers(TAU)))
    assert row("answers of tau-airline, changed by rule", pairs) in page
    assert [] == [message for message in changes(pairs) if message not in page]
