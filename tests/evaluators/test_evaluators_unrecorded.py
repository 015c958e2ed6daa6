"""Unrecorded data is never taken for silence or inaction, and everything that is judged is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.evaluators.agentest import AgentBehaviorFailure, ToolCallBehaviorFailure
from otel_agentic.evaluators.ragas import GoalAccuracy, GoalAccuracyWithoutReference, TopicAdherence
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.scripted import about, scores_and_questions
from tests.snapshots import ending, passage

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall

CASE = {"goal": "A table is booked", "turns": [{"query": "Book a table", "reference_topics": ["tables"]}]}
BARE_CALL = tool_call("book", result=None, result_captured=False)


@pytest.mark.parametrize("kind", [GoalAccuracy, GoalAccuracyWithoutReference, TopicAdherence])
def test_where_no_answer_was_recorded_the_agent_did_not_fail_its_goal_and_refused_no_topic(kind: Any) -> None:
    silent = conversation(turn("Book a table", None, BARE_CALL, answer_captured=False))
    scores, questions = scores_and_questions(kind, about(silent, CASE), "refused")
    assert [] == questions
    assert {("content_not_captured", None)} == {(score.reason, score.value) for score in scores}


def test_a_goal_is_judged_by_what_tools_answered_where_answers_were_not_recorded() -> None:
    silent = conversation(turn("Book a table", None, tool_call("book", result="booked"), answer_captured=False))
    (score,), _ = scores_and_questions(GoalAccuracy, about(silent, CASE), "achieved")
    assert 1.0 == score.value


def test_an_agent_that_is_known_to_have_been_silent_is_judged() -> None:
    (score,), _ = scores_and_questions(
        GoalAccuracy, about(conversation(turn("Book a table", None)), CASE), "not_achieved"
    )
    assert 0.0 == score.value


def test_names_of_tools_alone_are_not_judged_free_of_failures() -> None:
    nameless = turn(None, None, BARE_CALL, query_captured=False, answer_captured=False)
    for kind in (AgentBehaviorFailure, ToolCallBehaviorFailure):
        scores, questions = scores_and_questions(kind, about(conversation(nameless)), "no_failure")
        assert [] == questions
        assert {("content_not_captured", None)} == {(score.reason, score.label) for score in scores}


def test_a_call_whose_arguments_were_not_recorded_has_no_label() -> None:
    talk = conversation(turn("Book it", "Booked.", tool_call("book", None, result="ok"), tool_call("pay", {"sum": 4})))
    talk = with_calls(talk, lambda call: {"arguments": None} if call.name == "book" else {})
    scores, _ = scores_and_questions(ToolCallBehaviorFailure, about(talk), "no_failure")
    assert [("content_not_captured", None), (None, "no_failure"), (None, "no_failure")] == [
        (score.reason, score.label) for score in scores
    ]
    assert passage(scores[0].explanation) == snapshot("turn 1, call 1 (book): its arguments were not recorded")


def with_calls(talk: Any, change: Any) -> Any:
    """Return a conversation of one turn with its calls changed."""
    (item,) = talk.turns
    return replace(talk, turns=(replace(item, calls=tuple(replace(call, **change(call)) for call in item.calls)),))


def long_calls(count: int) -> list[ToolCall]:
    return [tool_call(f"tool{number}", {"q": f"value {number}"}, result="r" * 900) for number in range(count)]


def test_a_call_left_out_of_its_long_turn_is_shown_separately() -> None:
    _, questions = scores_and_questions(
        ToolCallBehaviorFailure, about(conversation(turn("Go", "Done.", *long_calls(60)))), "no_failure"
    )
    of_calls = [call for _, call in questions if "call" in call]
    assert 60 == len(of_calls)
    assert any('"tool30"' not in json.dumps(call["turn"]) for call in of_calls)
    for number, call in enumerate(of_calls):
        (line,) = call["call_line"]
        assert (f"tool{number}", {"q": f"value {number}"}) == (line["call"], line["arguments"])


def test_a_call_of_a_short_turn_is_shown_once() -> None:
    _, questions = scores_and_questions(
        ToolCallBehaviorFailure, about(conversation(turn("Go", "Done.", *long_calls(3)))), "no_failure"
    )
    assert not any("call_line" in visible for _, visible in questions)


def test_an_explanation_says_how_much_of_the_conversation_was_shown() -> None:
    turns = [turn(f"And {number}?", "w" * 9_000) for number in range(33)]
    scores, _ = scores_and_questions(AgentBehaviorFailure, about(conversation(*turns)), "no_failure")
    assert ending(scores[0].explanation) == snapshot(
        "(the judge saw a shortened conversation: 1 texts cut, 0 lines left out)"
    )
    assert ending(scores[32].explanation) == snapshot("lines left out) (2 earlier turns were not shown)")
