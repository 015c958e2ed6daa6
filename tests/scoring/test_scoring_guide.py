"""The page on tool scoring describes the behaviour of the code."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.config import ScoringSettings
from otel_agentic.scoring import ToolRules, ToolScore, fault_class, scope_of, score_tools
from otel_agentic.testing import tool_call, turn
from otel_agentic.truth import Case, ToolExpectation

GUIDE = Path(__file__).parents[2] / "docs" / "tool-scoring.md"
SEARCH = {"q": "rome", "n": 3}
BOOK = {"name": "Ada", "time": "20:00"}
ACTUAL: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "both": [("search", SEARCH), ("book", BOOK)],
    "search twice, then book": [("search", SEARCH), ("search", SEARCH), ("book", BOOK)],
    "book, then search": [("book", BOOK), ("search", SEARCH)],
    "book at another time": [("search", SEARCH), ("book", {**BOOK, "time": "19:00"})],
    "search alone": [("search", SEARCH)],
    "nothing": [],
}


def ladder() -> list[list[str]]:
    """Return the rows of the table under the heading of the ladder, cell by cell."""
    section = GUIDE.read_text().partition("\n## The ladder\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[1:]]


def score(calls: list[tuple[str, dict[str, Any]]]) -> ToolScore:
    expected = [{"tool_name": "search", "parameters": SEARCH}, {"tool_name": "book", "parameters": BOOK}]
    scope = scope_of([turn("Go", "Done.", *(tool_call(*call, result=None) for call in calls))], turn_index=0)
    expectation = ToolExpectation.model_validate({"calls": tuple(expected), "order": "relative"})
    return score_tools(expectation, scope, ToolRules.of(Case(case_id="ladder"), ScoringSettings()))


def test_the_ladder_has_these_rungs() -> None:
    assert [row[0] for row in ladder()] == list(ACTUAL)


@pytest.mark.parametrize("row", ladder(), ids=lambda row: row[0])
def test_each_rung_has_its_values_its_fault_and_its_sentence(row: list[str]) -> None:
    actual, selection, parameters, sequence, overall, fault, sentence = row
    result = score(ACTUAL[actual])
    dimensions = {"selection": float(selection), "parameters": float(parameters), "sequence": float(sequence)}
    assert {**result.dimensions} == pytest.approx({**dimensions, "utilization": None}, abs=0.0005)
    assert result.overall == pytest.approx(float(overall), abs=0.0005)
    assert (result.outcome, fault_class(result.faults) or "") == ("fail" if fault else "pass", fault)
    assert result.explanation == sentence


def test_the_worked_examples_come_out_as_shown() -> None:
    assert doctest.testfile(str(GUIDE), module_relative=False).failed == 0
