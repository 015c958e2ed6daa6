"""No evidence: drafts, unrecorded data, turns that may still come, and steps rightly skipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inline_snapshot import snapshot

from otel_agentic.evaluators.layers import StateChange, Tools, Verdict
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.failing import subjects
from tests.evaluators.ragas_subjects import scores_of

CANCEL = {"tool_name": "cancel", "parameters": {"id": "A"}}
TALK: dict[str, Any] = {"closed_by": "end_mark", "case_id": "c"}


def case(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    tools = {"calls": list(calls), "extra_calls": {"read": "allow", "write": "forbid"}, **fields.pop("tools", {})}
    return {"case_id": "c", "turns": [{"query": "go"}], "tools": tools, "effects": {"get_*": "read"}, **fields}


def about(expected: dict[str, Any], *turns: Any, given: bool | None = False, **changes: Any) -> Any:
    talk = conversation(*turns, **{**TALK, **changes})
    labels = None if given is None else {str(talk.conversation_id): given}
    return subjects([expected], [talk], labels)[0]


def verdict(expected: dict[str, Any], *turns: Any, **changes: Any) -> Any:
    return scores_of(Verdict(), about(expected, *turns, **changes))["verdict"]


def changes_of(expected: dict[str, Any], *turns: Any, **changes: Any) -> Any:
    return scores_of(StateChange(), about(expected, *turns, **changes))["state_changes"]


def test_a_draft_is_no_evidence_against_a_conversation_that_failed_by_its_label() -> None:
    draft = case(CANCEL, reviewed=False, outputs=["refund"])
    draft["turns"][0]["answer"] = "42"
    score = verdict(draft, turn("go", "done"))
    assert ("outcome", {"reasoning": 0, "action": 0, "outcome": 0}) == (score.label, score.details["found"])
    # The calls still speak for themselves.
    strange = verdict(
        draft, turn("go", "done", tool_call("teleport", error="no such tool")), tool_definitions={"cancel": None}
    )
    assert ("action", "hallucinated") == (strange.label, strange.details["evidence"][0]["kind"])


def test_a_call_that_could_not_be_recorded_is_not_missing() -> None:
    silent = turn(None, None, query_captured=False, answer_captured=False)
    score = verdict(case(CANCEL), silent)
    assert ("outcome", []) == (score.label, score.details["evidence"])
    score = scores_of(Tools(), about(case(CANCEL), silent))["tool_recall"]
    assert (None, "content_not_captured") == (score.value, score.reason)


def test_a_call_that_may_still_come_is_not_missing() -> None:
    two = case(CANCEL, turns=[{"query": "go"}, {"query": "yes, please"}])
    score = verdict(two, turn("go", "shall I?"), closed_by="idle")
    assert ("outcome", []) == (score.label, score.details["evidence"])
    # A forbidden call was made.
    score = verdict(two, turn("go", "shall I?", tool_call("pay", {})), closed_by="idle")
    assert ("action", "spurious") == (score.label, score.details["evidence"][0]["kind"])


def test_a_turn_that_never_came_lacks_its_calls_though_no_other_turn_expects_any() -> None:
    turns = [{"query": "go"}, {"query": "on", "tools": {"calls": [CANCEL]}}]
    score = scores_of(Tools(), about({"case_id": "c", "turns": turns}, turn("go", "done")))["tool_recall"]
    assert 0.0 == score.value


def test_a_planned_call_that_the_case_does_not_want_may_be_left_out() -> None:
    plan = ("1. get_trip\n2. cancel",)
    given = {"get_trip": None, "cancel": None}
    none_wanted = case(outputs=["no refund"])
    actual = turn("go", "done", tool_call("get_trip", {}), plans=plan)
    assert "outcome" == verdict(none_wanted, actual, given=None, tool_definitions=given).label
    # Without expected tools in the case, the plan is the only known requirement.
    silent = {"case_id": "c", "turns": [{"query": "go", "answer": "42"}]}
    score = verdict(silent, actual, given=None, tool_definitions=given)
    assert ("reasoning", "cancel") == (score.label, score.tool_name)


def test_one_step_of_a_plan_may_stand_for_several_calls() -> None:
    trips = [{"tool_name": "get_trip", "parameters": {"id": item}} for item in "AB"]
    actual = [tool_call("get_trip", {"id": "A"}), tool_call("get_trip", {"id": "C"}), tool_call("cancel", {"id": "A"})]
    plan = ("1. get_trip for both\n2. cancel",)
    score = verdict(case(*trips, CANCEL), turn("go", "done", *actual, plans=plan), given=None)
    assert ("action", 0) == (score.label, score.details["found"]["reasoning"])


def test_a_call_planned_twice_and_executed_once_is_evidence() -> None:
    both = [{"tool_name": "cancel", "parameters": {"id": item}} for item in "AB"]
    plan = ("1. cancel A\n2. cancel B",)
    score = verdict(case(*both), turn("go", "done", tool_call("cancel", {"id": "A"}), plans=plan), given=None)
    assert score.explanation == snapshot("reasoning broke first: cancel was planned for 2 calls and called 1 times")


# State changes


def test_a_call_that_reads_and_was_not_recorded_hides_no_state_change() -> None:
    look = {"tool_name": "get_trip", "parameters": {"id": "A"}}
    unrecorded = replace(tool_call("get_trip"), arguments=None)
    cancelled = tool_call("cancel", {"id": "A"})
    assert "right" == changes_of(case(CANCEL, look), turn("go", "done", cancelled, unrecorded), given=True).label


def test_a_known_wrong_argument_counts_although_a_call_is_unrecorded() -> None:
    both = [{"tool_name": "cancel", "parameters": {"id": item}} for item in "AB"]
    actual = (tool_call("cancel", {"id": "C"}), replace(tool_call("cancel"), arguments=None))
    assert "wrong_arguments" == changes_of(case(*both), turn("go", "done", *actual), given=True).label


def test_a_parameter_that_was_not_compared_is_not_right() -> None:
    judge_results = {**CANCEL, "match": {"id": "judge"}}
    score = changes_of(case(judge_results), turn("go", "done", tool_call("cancel", {"id": "a"})), given=True)
    assert (None, "no_data") == (score.label, score.reason)
    assert "for a judge" in score.explanation
    assert (
        "right"
        == changes_of(case(judge_results), turn("go", "done", tool_call("cancel", {"id": "A"})), given=True).label
    )


def test_calls_that_a_turn_asks_for_choose_no_alternative_of_the_conversation() -> None:
    # Of the whole, either one cancels, or does nothing; the expectation of its turn does not matter.
    expected = {
        "case_id": "c",
        "turns": [{"query": "go", "tools": {"calls": [{"tool_name": "pay"}]}}],
        "tools": {"calls": [CANCEL], "alternatives": [{"calls": []}]},
    }
    actual = turn("go", "done", tool_call("pay", {}))
    assert "right" == changes_of(expected, actual, given=None).label
    assert 1.0 == scores_of(Tools(), about(expected, actual, given=None))["tool_routing_accuracy"].value
