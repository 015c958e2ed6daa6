"""Not captured is not empty: content that was not recorded is unknown."""

from __future__ import annotations

import pytest

from otel_agentic.testing import AgentRunScript, conversation, scripted_call, speak_genai, tool_call, turn
from tests.conversations.rebuilding import asks, assistant, chat, conversation_of, run, turn_of, user

SCRIPT = AgentRunScript().ask("Which?").calls(scripted_call("search", {"q": "x"}, result=["Ritz"])).answers("The Ritz.")


def test_a_conversation_without_content_keeps_its_structure() -> None:
    result = conversation_of(speak_genai(SCRIPT.ask("And?").answers("No."), "none"))

    assert [["search"], []] == [[call.name for call in turn.calls] for turn in result.turns]
    assert [(None, False, None, False)] * 2 == [
        (turn.query, turn.query_captured, turn.answer, turn.answer_captured) for turn in result.turns
    ]
    (call,) = result.turns[0].calls
    assert (None, None, False) == (call.arguments, call.result, call.result_captured)
    assert result.content_captured == "none"


@pytest.mark.parametrize("style", ["text", "structured", "events", "logs", "per_message"])
def test_a_conversation_with_content_in_any_place_is_captured_in_full(style: str) -> None:
    assert conversation_of(speak_genai(SCRIPT, style)).content_captured == "full"  # type: ignore[arg-type]  # pytest knows no Literal


def test_text_parts_without_text_are_not_captured() -> None:
    silent = {"parts": [{"type": "text"}]}
    result = turn_of(chat(0, [{"role": "user", **silent}], [{"role": "assistant", **silent}], id="c1"))

    assert (None, False, None, False) == (result.query, result.query_captured, result.answer, result.answer_captured)


def test_redacted_messages_are_not_captured() -> None:
    result = turn_of(chat(0, [user("__REDACTED__")], [assistant("[REDACTED]")], id="c1"))

    assert (None, False, None, False) == (result.query, result.query_captured, result.answer, result.answer_captured)


def test_a_turn_that_ended_without_an_answer_is_captured() -> None:
    root = run(0, 9, id="c1", query="Which?")
    result = turn_of(root, chat(1, [user("Which?")], [asks(("x1", "search", {}))], parent=root))

    assert (None, True) == (result.answer, result.answer_captured)


def test_a_redacted_answer_is_not_taken_from_an_earlier_message() -> None:
    root = run(0, 9, id="c1", query="Which?")
    spans = [
        chat(1, [user("Which?")], [assistant("Let me think.")], parent=root),
        chat(3, [user("Which?")], [assistant("__REDACTED__")], parent=root),
    ]

    assert (None, False) == (turn_of(root, *spans).answer, turn_of(root, *spans).answer_captured)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (conversation(turn("q", "a", tool_call())), "full"),
        (conversation(turn("q", None)), "full"),
        (conversation(turn("q", "a", tool_call(arguments=None, result_captured=False))), "partial"),
        (conversation(turn(None, None, query_captured=False, answer_captured=False)), "none"),
    ],
)
def test_a_conversation_says_how_much_was_captured(result: object, expected: str) -> None:
    assert expected == result.content_captured  # type: ignore[attr-defined]  # pytest hides the type


def test_a_failed_call_needs_no_result_to_be_captured_in_full() -> None:
    failed = tool_call(error="boom", result=None, result_captured=False)

    assert conversation(turn("q", "a", failed)).content_captured == "full"
