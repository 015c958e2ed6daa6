"""Which layer broke first, and which state changes were wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.evaluators.layers import StateChange, Verdict
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.failing import subjects
from tests.evaluators.ragas_subjects import scores_of
from tests.snapshots import ending, opening

CANCEL = {"tool_name": "cancel", "parameters": {"id": "A"}}
PAY = {"tool_name": "pay", "parameters": {"amount": 5}}
EFFECTS = {"get_*": "read"}


def case(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    tools = {"calls": list(calls), "extra_calls": {"read": "allow", "write": "forbid"}, **fields.pop("tools", {})}
    return {"case_id": "c", "turns": [{"query": "go"}], "tools": tools, "effects": EFFECTS, **fields}


def talk(*calls: Any, **changes: Any) -> Any:
    plans = changes.pop("plans", ())
    return conversation(turn("go", "done", *calls, plans=plans), closed_by="end_mark", case_id="c", **changes)


def verdict(expected: dict[str, Any], actual: Any, *, given: bool | None = None, **scoring: Any) -> Any:
    labels = None if given is None else {str(actual.conversation_id): given}
    (about,) = subjects([expected], [actual], labels, **scoring)
    return scores_of(Verdict(), about)["verdict"]


RIGHT = (tool_call("cancel", {"id": "A"}), tool_call("pay", {"amount": 5}))
PLAN = ("1. get_booking\n2. cancel\n3. pay",)


def test_a_conversation_that_passed_is_none_and_says_what_was_not_perfect() -> None:
    score = verdict(case(CANCEL, PAY), talk(*RIGHT))
    assert ("none", "the conversation passed") == (score.label, score.explanation)
    # A given verdict passes what the calls do not.
    score = verdict(case(CANCEL), talk(), given=True)
    assert "none" == score.label
    assert opening(score.explanation) == snapshot("the conversation passed, although expected call 1, cancel")
    assert {"reasoning": 0, "action": 1, "outcome": 0} == score.details["found"]


@pytest.mark.parametrize(
    ("actual", "kind", "tool", "parameter"),
    [
        ((), "missing", "cancel", None),
        ((RIGHT[0], tool_call("pay", {"amount": 6})), "wrong_parameters", "pay", "amount"),
        ((*RIGHT, tool_call("refund", {})), "spurious", "refund", None),
        ((*RIGHT, tool_call("delete", {})), "forbidden", "delete", None),
    ],
)
def test_wrong_calls_break_the_action_layer_and_are_the_evidence(
    actual: Any, kind: str, tool: str, parameter: str | None
) -> None:
    score = verdict(case(CANCEL, PAY, tools={"forbidden": ["delete"]}), talk(*actual))
    assert ("action", tool, parameter) == (score.label, score.tool_name, score.parameter)
    assert kind == score.details["evidence"][0]["kind"]
    assert score.explanation.startswith("action broke first: ")


def test_wrong_order_breaks_the_action_layer() -> None:
    score = verdict(case(CANCEL, PAY, tools={"order": "exact"}), talk(*reversed(RIGHT)))
    assert ("action", "wrong_order") == (score.label, score.details["evidence"][0]["kind"])


def test_a_plan_without_an_expected_tool_breaks_reasoning_before_the_call_is_missing() -> None:
    score = verdict(case(CANCEL, PAY), talk(RIGHT[0], plans=("1. cancel",)))
    assert ("reasoning", "pay") == (score.label, score.tool_name)
    assert score.explanation == snapshot("reasoning broke first: the plan does not name pay")
    assert {"reasoning": 1, "action": 1, "outcome": 0} == score.details["found"]


def test_a_plan_in_the_wrong_order_or_not_kept_breaks_reasoning() -> None:
    swapped = case(CANCEL, PAY, tools={"order": "relative"})
    score = verdict(swapped, talk(*reversed(RIGHT), plans=("1. pay\n2. cancel",)))
    assert ("reasoning", "planned_order") == (score.label, score.details["evidence"][0]["kind"])
    score = verdict(case(CANCEL, PAY), talk(RIGHT[0], plans=PLAN))
    assert ("reasoning", "pay", "plan_not_kept") == (score.label, score.tool_name, score.details["evidence"][0]["kind"])


def test_a_good_plan_that_was_kept_leaves_the_fault_to_the_action() -> None:
    # The plan has an unexpected step, and that was not done: that is no fault of reasoning.
    actual = talk(RIGHT[0], tool_call("pay", {"amount": 6}), plans=PLAN, tool_definitions={"get_booking": None})
    assert "action" == verdict(case(CANCEL, PAY), actual).label


def test_right_calls_and_a_wrong_end_are_the_outcome() -> None:
    score = verdict(case(CANCEL, outputs=["refund"]), talk(RIGHT[0]))
    assert (score.label, score.explanation) == snapshot(("outcome", "outcome broke first: no answer contains 'refund'"))
    answer = {"case_id": "c", "turns": [{"query": "go", "answer": "42"}]}
    score = verdict(answer, talk())
    assert ("outcome", "wrong_answer") == (score.label, score.details["evidence"][0]["kind"])
    late = {"case_id": "c", "turns": [{"query": "go", "answer": "done"}, {"query": "and then", "answer": "x"}]}
    score = verdict(late, talk())
    assert ("outcome", "missing_turn") == (score.label, score.details["evidence"][0]["kind"])


def test_a_given_fail_of_which_nothing_else_tells_is_the_outcome() -> None:
    score = verdict(case(CANCEL), talk(RIGHT[0]), given=False)
    assert "outcome" == score.label
    assert ending(score.explanation) == snapshot("it failed by the verdict given (labels)")
    state = case(CANCEL, expected_state={"status": "cancelled"})
    score = verdict(state, talk(RIGHT[0], final_state={"status": "open"}), given=False)
    assert ("outcome", "status") == (score.label, score.parameter)


def test_faults_of_tools_that_passed_by_their_threshold_break_nothing() -> None:
    lenient = case(CANCEL, PAY, tool_threshold=0.5, outputs=["refund"])
    assert "outcome" == verdict(lenient, talk(RIGHT[0], tool_call("pay", {"amount": 6}))).label


WRONG_ANSWER = {"case_id": "c", "turns": [{"query": "go", "answer": "42"}]}


@pytest.mark.parametrize(
    ("actual", "kind"),
    [
        ([tool_call("teleport", error="no such tool")], "hallucinated"),
        ([tool_call("pay", {"amount": "5"}, error="no number")], "invalid_arguments"),
        ([tool_call("pay", {"amount": 5}), tool_call("pay", {"amount": 5}, error="down")], "errored"),
    ],
)
def test_without_expected_tools_the_calls_speak_for_themselves(actual: Any, kind: str) -> None:
    definitions = {"pay": {"properties": {"amount": {"type": "number"}}}}
    score = verdict(WRONG_ANSWER, talk(*actual, tool_definitions=definitions))
    assert ("action", kind) == (score.label, score.details["evidence"][0]["kind"])


def test_an_error_or_a_bad_argument_that_was_made_good_breaks_nothing() -> None:
    definitions = {"pay": {"properties": {"amount": {"type": "number"}}}}
    actual = [tool_call("pay", {"amount": "5"}, error="no number"), tool_call("pay", {"amount": 5})]
    assert "outcome" == verdict(WRONG_ANSWER, talk(*actual, tool_definitions=definitions)).label
    # Expected calls that were all right outweigh an additional error.
    actual = [*RIGHT, tool_call("get_weather", error="down")]
    assert "outcome" == verdict(case(CANCEL, PAY, outputs=["refund"]), talk(*actual)).label


def test_what_was_not_evaluated_has_no_verdict() -> None:
    score = verdict({"case_id": "other", "turns": [{"query": "else"}]}, conversation(turn("go")))
    assert (None, "unmatched") == (score.label, score.reason)
    (about,) = subjects([WRONG_ANSWER], [talk()])
    assert "no_data" == scores_of(Verdict(), replace(about, score=None))["verdict"].reason


# State changes


def changes(expected: dict[str, Any], *actual: Any, **more: Any) -> Any:
    talked = talk(*actual)
    labels = {str(talked.conversation_id): more["given"]} if "given" in more else None
    (about,) = subjects([expected], [talked], labels)
    return scores_of(StateChange(), about)["state_changes"]


OTHER = tool_call("refund", {"id": "A"})


@pytest.mark.parametrize(
    ("actual", "label"),
    [
        (RIGHT, "right"),
        ((*RIGHT, tool_call("get_booking", {})), "right"),
        ((RIGHT[0],), "missing"),
        ((*RIGHT, OTHER), "extra"),
        ((*RIGHT, RIGHT[0]), "extra"),
        ((RIGHT[0], OTHER), "missing_and_extra"),
        ((RIGHT[0], tool_call("pay", {"amount": 6})), "wrong_arguments"),
        # A missing call is reported before a wrong argument.
        ((tool_call("cancel", {"id": "B"}),), "missing"),
        # What answered with an error changed nothing: it is missing, and it is not an extra call.
        ((RIGHT[0], tool_call("pay", {"amount": 5}, error="declined")), "missing"),
        ((*RIGHT, replace(OTHER, error="no")), "right"),
        ((RIGHT[0], tool_call("pay", {"amount": 5.0})), "right"),
    ],
)
def test_state_changing_calls_are_compared_as_multisets(actual: Any, label: str) -> None:
    assert label == changes(case(CANCEL, PAY), *actual).label


def test_a_conversation_that_failed_with_the_right_changes_is_other() -> None:
    assert "other" == changes(case(CANCEL, outputs=["refund"]), RIGHT[0]).label
    score = changes(case(), given=False)
    assert (score.label, score.explanation) == snapshot(
        ("other", "no state change was expected, and none was made; the conversation failed all the same")
    )
    # One that passed by a given verdict keeps its difference.
    assert "missing" == changes(case(CANCEL), given=True).label


def test_unexpected_calls_that_only_read_are_no_state_changes() -> None:
    strict = case(CANCEL, {"tool_name": "get_trip", "parameters": {"id": "A"}}, tools={"extra_calls": "forbid"})
    actual = (RIGHT[0], tool_call("get_user", {}), tool_call("get_trip", {"id": "B"}))
    # Two faults, and the conversation failed by them; all expected changes were made.
    assert "other" == changes(strict, *actual).label
    assert "other" == changes(strict, RIGHT[0]).label


def test_explanation_and_details_name_the_calls() -> None:
    score = changes(case(CANCEL, PAY), tool_call("pay", {"amount": 6}), OTHER)
    assert score.explanation == snapshot(
        'not made: cancel(id="A"); not asked for: refund(id="A") in turn 1; other arguments: pay(amount)'
    )
    assert "cancel" == score.tool_name
    assert [{"tool": "refund", "turn_index": 0, "arguments": {"id": "A"}}] == score.details["extra"]
    score = changes(case(PAY), tool_call("pay", {"amount": 6}))
    assert ("pay", "amount") == (score.tool_name, score.parameter)


def test_only_names_are_compared_where_arguments_were_not_recorded() -> None:
    unknown = replace(RIGHT[0], arguments=None)
    assert (None, "content_not_captured") == (
        changes(case(CANCEL), unknown).label,
        changes(case(CANCEL), unknown).reason,
    )
    assert "extra" == changes(case(CANCEL), unknown, OTHER).label
    assert {"no_data", "unmatched"} == {
        changes({"case_id": "c", "turns": [{"query": "go"}]}, *RIGHT).reason,
        changes({"case_id": "d", "turns": [{"query": "else"}], "tools": {"calls": []}}, *RIGHT).reason,
    }


NAMES = st.lists(st.tuples(st.sampled_from(["cancel", "pay"]), st.integers(1, 2)), max_size=3)


@given(expected=NAMES, actual=NAMES)
def test_the_class_is_that_of_the_plain_multisets(
    expected: list[tuple[str, int]], actual: list[tuple[str, int]]
) -> None:
    required, called = Counter(name for name, _ in expected), Counter(name for name, _ in actual)
    lacks, more = bool(required - called), bool(called - required)
    same = Counter(expected) == Counter(actual)
    label = (
        ("missing_and_extra" if lacks and more else "missing" if lacks else "extra")
        if lacks or more
        else ("right" if same else "wrong_arguments")
    )
    calls = [{"tool_name": name, "parameters": {"n": n}} for name, n in expected]
    assert label == changes(case(*calls), *(tool_call(name, {"n": n}) for name, n in actual)).label
