"""Expectations of turns together with one of the whole conversation, and the faults that made the tools fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.config import ScoringSettings
from otel_agentic.judges import ExactJudge
from otel_agentic.scoring import ConversationScore, score_conversation
from otel_agentic.scoring.model import impacts_of
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import CaseIndex, parse_cases

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall


def score(actual: Conversation, **case: Any) -> ConversationScore:
    index = CaseIndex(parse_cases("d.jsonl", json.dumps({"case_id": "x", **case})).require())
    return score_conversation(actual, index.match(actual), judge=ExactJudge(), settings=ScoringSettings())


def expects(*names: str, **rules: Any) -> dict[str, Any]:
    return {"calls": [{"tool_name": name} for name in names], **rules}


def trip(*more: ToolCall) -> Conversation:
    """Return a conversation that finds in its first turn and books in its second one."""
    return conversation(
        turn("Find", "ok", tool_call("find", {}, result="1")),
        turn("Book", "done", tool_call("book", {}, result="2"), *more),
        closed_by="end_of_input",
    )


@pytest.mark.parametrize("second", [{}, {"tools": {"calls": []}}])
def test_what_a_turn_expects_is_no_extra_call_to_the_conversation_and_the_other_way_round(second: Any) -> None:
    result = score(
        trip(), turns=[{"query": "Find", "tools": expects("find")}, {"query": "Book", **second}], tools=expects("book")
    )
    assert "pass" == result.outcome
    assert {1.0} == {tools.dimensions["selection"] for tools in result.tools}


def test_a_call_that_neither_expects_is_extra_to_the_conversation() -> None:
    actual = trip(tool_call("drop", {}, result="3", position=1))
    match = score(actual, turns=[{"query": "Find", "tools": expects("find")}, {"query": "Book"}], tools=expects("book"))
    assert [("spurious", "drop")] == [(fault.kind, fault.tool_name) for tools in match.tools for fault in tools.faults]


def test_what_the_conversation_forbids_stays_forbidden_where_a_turn_expects_it() -> None:
    turns = [{"query": "Find", "tools": expects("find")}, {"query": "Book"}]
    result = score(trip(), turns=turns, tools=expects("book", forbidden=["find"]))
    assert ("fail", "tool_fault") == (result.outcome, result.reason)


def test_a_stated_value_that_a_call_of_the_turn_found_contradicts_nothing_for_the_conversation() -> None:
    actual = conversation(
        turn(
            "Go",
            "The total is 330.",
            tool_call("find", {}, result={"total": 330}),
            tool_call("book", {}, result={"total": 327}, position=1),
        ),
        closed_by="end_of_input",
    )
    match = score(actual, turns=[{"query": "Go", "tools": expects("find")}], tools=expects("book"))
    assert [] == [fault.kind for tools in match.tools for fault in tools.faults]


def busy(**fields: Any) -> ToolCall:
    return tool_call("book", {}, result=None, error="Error: busy", **fields)


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        # Never made: the error counts, and the missing call states that it was tried.
        ([busy()], [("missing", True, 1), ("errored", True, None)]),
        # Made good, although the tools failed by something else.
        (
            [busy(), tool_call("book", {}, result="ok", position=1), tool_call("drop", {}, result="", position=2)],
            [("spurious", True, None), ("errored", False, None)],
        ),
        # Made good, and nothing failed.
        ([busy(), tool_call("book", {}, result="ok", position=1)], [("errored", False, None)]),
        # An error after the call was made is not made good; it failed nothing by itself either.
        ([tool_call("book", {}, result="ok"), busy(position=1)], [("errored", False, None)]),
    ],
)
def test_an_error_counts_where_no_later_call_made_it_good(calls: list[ToolCall], message: list[Any]) -> None:
    actual = conversation(turn("Book", "ok", *calls), closed_by="end_of_input")
    (tools,) = score(actual, turns=[{"query": "Book"}], tools=expects("book")).tools
    impacts = zip(tools.faults, impacts_of(tools), strict=True)
    assert message == [(fault.kind, impact.failed, impact.tried) for fault, impact in impacts]


def test_a_fault_of_tools_that_could_not_be_evaluated_failed_nothing() -> None:
    actual = conversation(
        turn("Book", "ok", tool_call("drop", None, result=None, result_captured=False)), closed_by="end_of_input"
    )
    (tools,) = score(actual, turns=[{"query": "Book"}], tools=expects("book")).tools
    assert "not_evaluated" == tools.outcome
    assert {False} == {impact.failed for impact in impacts_of(tools)}
