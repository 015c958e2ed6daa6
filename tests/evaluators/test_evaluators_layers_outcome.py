"""Task completion and step efficiency: where the state comes from, and how it is compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.evaluators.layers import Outcome
from otel_agentic.scoring.state import FinalState, differing
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from tests.evaluators.ragas_subjects import scores_of, subject
from tests.snapshots import opening, passage

EFFECTS = {"get_*": "read"}


def completion(expected: Any, *calls: Any, state: Any = None, **changes: Any) -> Any:
    case = Case.model_validate({"case_id": "c", "expected_state": expected, "effects": EFFECTS})
    talk = conversation(turn("go", "done", *calls), final_state=state)
    return scores_of(Outcome(), subject(talk, case, **changes))["task_completion"]


STATE = {"order": {"id": 7, "status": "sent", "items": [{"sku": "a", "n": 1}]}, "paid": True, "note": None}


@pytest.mark.parametrize(
    ("expected", "paths"),
    [
        ({}, []),
        ({"order": {"status": "sent"}}, []),
        ({"order": {"id": 7.0, "items": [{"n": 1.0}]}, "paid": True}, []),
        ({"order": {"status": "draft", "carrier": "x"}}, ["order.status", "order.carrier"]),
        ({"order": {"items": [{"sku": "b"}]}}, ["order.items[0].sku"]),
        ({"order": {"items": []}}, ["order.items"]),
        ({"order": "sent"}, ["order"]),
        ({"paid": 1}, ["paid"]),
        ({"order": {"id": "7"}}, ["order.id"]),
        ({"note": None}, []),
        # Null is not absent.
        ({"error": None}, ["error"]),
    ],
)
def test_the_expected_state_is_part_of_the_final_one_at_any_depth(expected: Any, paths: list[str]) -> None:
    score = completion(expected, state=STATE)
    assert (float(not paths), paths) == (score.value, [item["path"] for item in score.details["differing"]])


def test_a_value_that_the_sender_took_out_may_be_the_expected_one() -> None:
    state = {"email": "[REDACTED]", "paid": False}
    unknown = completion({"email": "ann@example.org"}, state=state)
    assert (None, "content_not_captured") == (unknown.value, unknown.reason)
    assert unknown.explanation == snapshot("in the recorded state, email was redacted before it was recorded")
    assert 0.0 == completion({"email": "ann@example.org", "paid": True}, state=state).value


def test_the_explanation_names_the_first_paths_that_differ() -> None:
    expected = {"order": {"status": "draft"}, "a": 1, "b": 2, "c": 3}
    score = completion(expected, state=STATE)
    assert score.explanation == snapshot(
        'in the recorded state, order.status is "sent", expected "draft"; a is absent, expected 1; b is absent, expected 2; 1 more'
    )
    assert "order.status" == score.parameter
    assert completion({"paid": True}, state=STATE).explanation == snapshot(
        "in the recorded state, 1 of 1 expected values are there"
    )


def test_without_a_recorded_state_the_last_results_of_writing_tools_are_it() -> None:
    calls = (
        tool_call("update", {}, result='{"status": "draft", "id": 1}'),
        tool_call("get_status", {}, result={"status": "unknown"}),
        tool_call("update", {}, result={"status": "sent", "id": 1}),
        tool_call("pay", {}, result={"paid": True, "id": 2}),
        tool_call("pay", {}, result={"paid": False}, error="declined"),
    )
    assert 1.0 == completion({"status": "sent", "paid": True, "id": 2}, *calls).value
    # Only the last result of a tool counts, and of two tools the later call wins.
    assert [0.0, 0.0] == [completion(item, *calls).value for item in ({"status": "draft"}, {"id": 1})]
    assert 1.0 == completion({"update": {"status": "sent"}, "pay": {"paid": True}}, *calls).value
    assert opening(completion({"id": 2}, *calls).explanation) == snapshot("in the last results of update, pay, ")
    # The settings apply to tools that the case leaves out; a tool that neither names writes.
    read = {"effects": {"update": "read"}}
    assert 0.0 == completion({"status": "sent"}, *calls, **read).value


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ((), "state_not_recorded"),
        ((tool_call("get_status", {}, result={"status": "sent"}),), "state_not_recorded"),
        ((tool_call("update", {}, error="no"),), "state_not_recorded"),
        ((tool_call("update", {}, result="done"),), "state_not_recorded"),
        ((tool_call("update", {}, result=None, result_captured=False),), "content_not_captured"),
    ],
)
def test_an_unrecorded_state_is_not_a_failure(calls: Any, reason: str) -> None:
    score = completion({"status": "sent"}, *calls)
    assert (None, reason) == (score.value, score.reason)
    assert passage(score.explanation) == snapshot("no span records the final state")


@pytest.mark.parametrize(("result", "value"), [("done", 1.0), ("failed", 0.0), ("5", 0.0)])
def test_a_result_that_is_no_object_is_the_state_of_its_tool(result: str, value: float) -> None:
    assert value == completion({"update": "done"}, tool_call("update", {}, result=result)).value


def test_a_case_without_a_state_or_a_number_of_steps_says_nothing() -> None:
    scores = scores_of(Outcome(), subject(conversation(), Case.model_validate({"case_id": "c"})))
    assert {(None, "no_data")} == {(item.value, item.reason) for item in scores.values()}
    assert "`expected_state`" in scores["task_completion"].explanation
    assert "`minimum_steps`" in scores["step_efficiency"].explanation
    assert {"unmatched"} == {item.reason for item in scores_of(Outcome(), subject(conversation(), None)).values()}


def test_a_state_whose_newest_part_was_not_recorded_is_not_a_failure() -> None:
    lost = tool_call("update", {}, result=None, result_captured=False)
    calls = (tool_call("update", {}, result={"status": "draft"}), lost, tool_call("pay", {}, result={"paid": True}))
    score = completion({"status": "sent", "paid": True}, *calls)
    assert (None, "content_not_captured") == (score.value, score.reason)
    assert score.explanation == snapshot(
        'the last result of update was not recorded, and status is absent, expected "sent" in the others'
    )
    # The result of an earlier call is no longer the state; results of other tools remain.
    results = completion({"status": "draft"}, *calls[:2])
    assert (None, "content_not_captured") == (results.value, results.reason)
    assert 1.0 == completion({"paid": True}, *calls).value


def test_a_large_state_is_compared_to_its_end() -> None:
    ids = list(range(10_100))
    assert 1.0 == completion({"ids": ids}, state={"ids": ids}).value
    assert ["ids[10099]"] == [
        item["path"] for item in completion({"ids": ids}, state={"ids": [*ids[:-1], 0]}).details["differing"]
    ]


LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from("ab")
HELD = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.sampled_from("xyz"), LEAVES, max_size=3)
JSON = HELD | st.lists(HELD, max_size=2) | st.dictionaries(st.sampled_from("xyz"), HELD, max_size=3)
OBJECTS = st.dictionaries(st.sampled_from("xyz"), JSON, max_size=3)


@given(state=OBJECTS, more=OBJECTS, without=st.sampled_from("xyz"))
def test_a_state_is_part_of_itself_of_more_fields_and_has_its_fields_as_parts(
    state: dict[str, Any], more: dict[str, Any], without: str
) -> None:
    held = FinalState(fields=state, source="", by_tool={})
    assert [] == differing(state, held)
    assert [] == differing({key: value for key, value in state.items() if key != without}, held)
    assert [] == differing(state, FinalState(fields={**more, **state}, source="", by_tool={}))


def efficiency(minimum: int, *calls: Any) -> Any:
    case = Case.model_validate({"case_id": "c", "minimum_steps": minimum})
    return scores_of(Outcome(), subject(conversation(turn("go", "done", *calls)), case))["step_efficiency"]


@pytest.mark.parametrize(("minimum", "actual", "worked_out"), [(2, 4, 0.5), (2, 2, 1.0), (3, 1, 1.0), (1, 3, 1 / 3)])
def test_step_efficiency_is_the_fewest_calls_over_those_made_and_at_most_1(
    minimum: int, actual: int, worked_out: float
) -> None:
    assert worked_out == efficiency(minimum, *[tool_call()] * actual).value


def test_calls_that_failed_are_steps_transfers_are_none_and_no_call_is_no_data() -> None:
    calls = (tool_call(error="no"), tool_call(kind="agent"), tool_call(kind="transfer"))
    assert 0.5 == efficiency(1, *calls).value
    assert (None, "no_data") == (efficiency(1).value, efficiency(1).reason)


TODOS = tool_call("write_todos", {"todos": [{"content": "search"}, {"content": "book"}]})
THOUGHT = tool_call("think", {"thought": "The first hotel is cheaper."})


@pytest.mark.parametrize(
    "planning", [TODOS, THOUGHT, tool_call("update_plan", {"plan": [{"step": "book", "status": "pending"}]})]
)
def test_a_call_that_records_a_plan_or_a_thought_is_no_step(planning: Any) -> None:
    assert 1.0 == efficiency(3, planning, tool_call("search"), tool_call("book"), planning, tool_call("pay")).value


def test_a_planning_call_is_a_step_where_the_case_expects_it_or_it_is_about_another_kind_of_plan() -> None:
    assert 0.5 == efficiency(1, tool_call("update_plan", {"plan": "Premium"}), tool_call("pay")).value
    case = Case.model_validate({"case_id": "c", "minimum_steps": 1, "tools": {"calls": [{"tool_name": "write_todos"}]}})
    about = subject(conversation(turn("go", "done", TODOS, tool_call("pay"))), case)
    assert 0.5 == scores_of(Outcome(), about)["step_efficiency"].value
