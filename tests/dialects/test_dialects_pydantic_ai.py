"""pydantic-ai: its lists of events and messages, retries, and output tools."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall
from otel_agentic.testing import span
from tests.dialects.reading import read_as, texts_of

SCOPE: Final = "pydantic-ai"
QUESTION: Final = {
    "event.name": "gen_ai.user.message",
    "role": "user",
    "content": "Weather?",
    "gen_ai.message.index": 0,
}
CALLED: Final = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Oslo"}}}],
}
RETRY: Final = "1 validation error: city\n\nFix the errors and try again."


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def chat(**attributes: Any) -> ModelCall:
    given = {key: json.dumps(value) for key, value in attributes.items()}
    return read_as(ModelCall, span(scope=SCOPE, attributes={"gen_ai.operation.name": "chat", **given}))


def run(attributes: dict[str, Any]) -> AgentRun:
    return read_as(AgentRun, span(scope=SCOPE, attributes={"gen_ai.operation.name": "invoke_agent", **attributes}))


def test_events_in_an_attribute_are_the_messages_of_a_model_call() -> None:
    model_call = chat(events=[QUESTION, {"event.name": "gen_ai.choice", "index": 0, "message": CALLED}])

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert model_call.messages_out is not None
    assert [("c1", "weather")] == [(request.call_id, request.name) for request in model_call.messages_out[0].requests]


def test_without_a_choice_the_last_words_of_the_assistant_came_back() -> None:
    before = {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Hello."}
    answer = {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "21 °C."}

    model_call = chat(events=[before, QUESTION, answer])

    assert [("assistant", "Hello."), ("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


@pytest.mark.parametrize("items", [[7, None], [{"event.name": ["x"]}], {"event.name": "gen_ai.choice"}, "x"])
def test_events_that_are_none_are_content_that_was_not_captured(items: Any) -> None:
    assert chat(events=items).messages_out is None


def test_the_messages_of_a_run_are_cut_where_its_own_words_begin() -> None:
    history = [text("user", "Hi."), text("assistant", "Hello."), text("user", "Weather?"), text("assistant", "21 °C.")]

    agent_run = run({"pydantic_ai.all_messages": json.dumps(history), "pydantic_ai.new_message_index": 2})

    assert [("user", "Hi."), ("assistant", "Hello."), ("user", "Weather?")] == texts_of(agent_run.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(agent_run.messages_out)


def test_a_history_without_an_index_cannot_be_cut() -> None:
    history = [text("user", "Hi."), text("assistant", "Hello."), text("user", "Weather?"), text("assistant", "21 °C.")]

    assert run({"pydantic_ai.all_messages": json.dumps(history)}).messages_in is None


def test_the_first_run_needs_no_index() -> None:
    answer = {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "21 °C."}

    agent_run = run({"all_messages_events": json.dumps([QUESTION, answer])})

    assert [("user", "Weather?")] == texts_of(agent_run.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(agent_run.messages_out)


@pytest.mark.parametrize(("result", "is_error"), [(RETRY, True), ("Fix the errors and try again. Done.", False)])
def test_a_result_that_asks_to_try_again_is_an_error(result: str, is_error: bool) -> None:  # noqa: FBT001 — pytest
    part = {"type": "tool_call_response", "id": "c1", "name": "weather", "result": result}
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [part]}]),
    }

    messages = read_as(ModelCall, span(scope=SCOPE, attributes=attributes)).messages_in

    assert messages is not None
    assert [is_error] == [message.is_error for message in messages[0].results]


def test_the_call_of_an_output_tool_is_no_call() -> None:
    parts = [
        {"type": "tool_call", "id": "c1", "name": "trip", "arguments": {}},
        {"type": "tool_call", "id": "c2", "name": "add"},
    ]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
        "model_request_parameters": json.dumps({"output_tools": [{"name": "trip"}]}),
    }

    messages = read_as(ModelCall, span(scope=SCOPE, attributes=attributes)).messages_out

    assert messages is not None
    assert ["add"] == [request.name for request in messages[0].requests]


def test_a_run_of_an_early_release_names_no_operation() -> None:
    read_as(AgentRun, span("agent run", scope=SCOPE, attributes={"agent_name": "desk"}))
    read_as(Ignored, span("running 2 tools", scope=SCOPE, attributes={"tools": ["a", "b"]}))
