"""The page of availability covers every metric, and is what the recordings yield."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.shared import SHARED, why_absent
from tools import metric_availability
from tools.generated import stale
from tools.metric_availability import GOLDEN, PAGE, availability, cases_of, evaluated_recording, page
from tools.metric_reference import evaluators

_ROW: Final = re.compile(r"\| \[`([\w.]+)`\]\(metrics\.md#\w+\) \| ([\d,]+) \| (\d+) \| (.*) \|")
ROWS: Final = {name: (count, source) for name, count, _, source in _ROW.findall(PAGE.read_text(encoding="utf-8"))}
METRICS: Final = sorted(metric.name.removeprefix("agentic.") for item in evaluators() for metric in item.metrics)


def test_the_table_has_every_metric_and_no_other() -> None:
    assert sorted(ROWS) == METRICS


def test_every_metric_has_a_value_in_some_recording_or_the_page_names_what_provides_it() -> None:
    assert [] == [name for name, (count, source) in ROWS.items() if count == "0" and len(source.split()) <= 1]


def test_every_source_is_that_of_a_metric() -> None:
    assert {name.removeprefix("agentic.") for name in metric_availability.PROVIDED_BY} <= set(METRICS)


def test_a_case_has_every_annotation_that_a_recording_allows() -> None:
    call = {"name": "get_seat", "arguments": {"coach": 2}, "result": 7, "step": 1, "error": None}
    failed = {**call, "error": "no"}
    (case,) = cases_of("x", {"conversations": [{"turns": [{"query": "q", "answer": "a", "tools": [failed, call]}]}]})
    expected = {"tool_name": "get_seat", "parameters": {"coach": 2}, "required": True}
    assert case == {
        "case_id": "x-1",
        "turns": [
            {"query": "q", "answer": "a", "tools": {"calls": [expected]}, "reference_topics": ["get seat"]},
        ],
        "goal": "q",
        "minimum_steps": 1,
        "plan": ["get_seat"],
        "expected_state": {"get_seat": 7},
    }


@pytest.mark.parametrize(
    ("capture", "quality", "adherence", "efficiency"),
    [
        # A list of todos in the turns with several steps only; a failed call is a step, the list is not.
        ("openinference-langchain-todos", [1 / 3, 1 / 2, 3 / 5], [1.0, 1.0, 1.0], [3 / 4, 1.0, 1.0]),
        # The plan of each turn names each tool once; a planned `final_answer` is the answer, not a call.
        ("openinference-smolagents-planning", [3 / 4, 1.0], [1.0, 1.0], [3 / 4, 1.0]),
    ],
)
def test_plans_of_real_frameworks_are_read(
    capture: str, quality: list[float], adherence: list[float], efficiency: list[float]
) -> None:
    scores = [score for attempt in evaluated_recording(GOLDEN / capture).attempts for score in attempt.metrics]
    values = {
        name: sorted(
            score.value for score in scores if score.name == f"agentic.layers.{name}" and score.value is not None
        )
        for name in ("plan_quality", "plan_adherence", "step_efficiency")
    }
    assert {"plan_quality": quality, "plan_adherence": adherence, "step_efficiency": efficiency} == values


@pytest.mark.slow
@pytest.mark.skipif(why_absent(SHARED) is not None, reason=str(why_absent(SHARED)))
def test_the_page_is_what_the_recordings_yield() -> None:
    assert stale(PAGE, page(availability())) is None
