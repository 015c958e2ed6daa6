"""The content of an export to another tool, and the losses that it reports."""

from __future__ import annotations

import json

import pytest

from otel_agentic.truth.formats import read_document, write_document
from otel_agentic.truth.model import Case, CaseTurn, ExpectedCall, ToolExpectation

COMPLETE = Case(
    case_id="a",
    dataset="d",
    turns=(
        CaseTurn(
            query="Hi",
            answer="Hello",
            tools=ToolExpectation(
                calls=(
                    ExpectedCall(tool_name="get_it", parameters={"q": "x.*", "n": 1}, match={"q": "regex"}),
                    ExpectedCall(tool_name="book", required=False),
                ),
                forbidden=("drop",),
            ),
        ),
    ),
)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("native", []),
        ("yaml", []),
        ("csv", []),
        ("fair-forge", ["turns.0.tools.calls", "turns.0.tools.forbidden"]),
        ("ragas", ["turns.0.tools", "tools"]),
        ("outcome", ["turns.0.tools", "tools"]),
        ("adk", ["turns.0.tools.calls", "turns.0.tools.order", "turns.0.tools.forbidden"]),
        ("tau-bench", ["turns", "tools", "effects"]),
    ],
)
def test_what_a_format_cannot_hold_is_named(name: str, fields: list[str]) -> None:
    assert fields == [loss.field for loss in write_document([COMPLETE], name).losses]


@pytest.mark.parametrize(
    ("name", "retained", "lost"),
    [
        *((name, ("Hello", "Hi there"), []) for name in ("native", "yaml", "csv", "outcome")),
        *((name, ("Hello",), ["turns.0.answer"]) for name in ("fair-forge", "ragas", "adk")),
        ("tau-bench", (), ["turns"]),
    ],
)
def test_accepted_answers_come_back_or_the_first_one_does_and_the_loss_is_named(
    name: str, retained: tuple[str, ...], lost: list[str]
) -> None:
    case = Case(case_id="a", dataset="d", turns=(CaseTurn(query="Hi", answer=("Hello", "Hi there")),))
    written = write_document([case], name)
    (back,) = read_document("", written.text, name).cases
    assert retained == tuple(answer for turn in back.turns for answer in turn.accepted_answers)
    assert lost == [loss.field for loss in written.losses if loss.field.startswith("turns")]


def test_a_pattern_is_not_passed_off_as_an_argument_nor_an_optional_call_as_a_required_one() -> None:
    (exported,) = json.loads(write_document([COMPLETE], "fair-forge").text)
    assert [{"tool_name": "get_it", "parameters": {"n": 1}}] == exported["conversation"][0]["ground_truth_agentic"][
        "expected_tools"
    ]


def test_calls_expected_of_turns_go_to_the_conversation_where_a_format_has_only_that() -> None:
    row = json.loads(write_document([COMPLETE], "ragas").text)
    assert [{"name": "get_it", "args": {"n": 1}}] == row["reference_tool_calls"]
    (task,) = json.loads(write_document([COMPLETE], "tau-bench").text)
    assert [{"name": "get_it", "kwargs": {"n": 1}}] == task["actions"]


def test_calls_expected_of_the_conversation_go_to_its_only_turn_where_a_format_has_only_those() -> None:
    case = Case(case_id="a", turns=(CaseTurn(query="Hi"),), tools=ToolExpectation(calls=(ExpectedCall(tool_name="x"),)))
    (exported,) = json.loads(write_document([case], "fair-forge").text)
    assert "x" == exported["conversation"][0]["ground_truth_agentic"]["expected_tools"][0]["tool_name"]
    eval_set = json.loads(write_document([case], "adk").text)
    assert [{"name": "x", "args": {}}] == eval_set["eval_cases"][0]["conversation"][0]["intermediate_data"]["tool_uses"]


def test_cases_of_several_datasets_keep_theirs_in_one_file() -> None:
    cases = [Case(case_id="a", dataset="x"), Case(case_id="a", dataset="y")]
    for name in ("fair-forge", "ragas", "outcome", "adk", "tau-bench"):
        back = read_document("all.json", write_document(cases, name).text, name)
        assert [("x", "a"), ("y", "a")] == [case.key for case in back.cases]
