"""Logfire: templates for names, arguments as attributes, scrubbed ids, errors by level."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.testing import event, span
from tests.dialects.reading import READER, read_as, texts_of

AGENTS: Final = "logfire.openai_agents"
SCRUBBED: Final = "[Scrubbed due to 'session']"
ANSWER: Final = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "21 °C."}]}
CALL: Final = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}


def template(text: str, **attributes: Any) -> dict[str, Any]:
    return {"logfire.msg_template": text, "logfire.span_type": "span", **attributes}


def schema(**kinds: str | None) -> str:
    return json.dumps(
        {"type": "object", "properties": {name: {"type": kind} if kind else {} for name, kind in kinds.items()}}
    )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Task: desk", AgentRun),
        ("Agent run: {name!r}", AgentRun),
        ("Function: {name}", ToolCall),
        ("Chat completion with {gen_ai.request.model!r}", ModelCall),
        ("Responses API with {gen_ai.request.model!r}", ModelCall),
        ("Turn {turn} for agent desk", Ignored),
        ("Guardrail {name!r} {triggered=}", Ignored),
    ],
)
def test_the_template_says_what_a_span_of_the_agents_sdk_is(text: str, kind: type) -> None:
    read_as(kind, span(scope=AGENTS, attributes=template(text)))


def test_the_trace_of_the_sdk_may_hold_many_runs_and_names_the_conversation() -> None:
    attributes = template("OpenAI Agents trace: {name}", name="desk", group_id="c-7", session_id=SCRUBBED)

    agent_run = read_as(AgentRun, span(scope=AGENTS, attributes=attributes))

    assert ("c-7", False) == (agent_run.header.conversation_id, agent_run.certain)


@pytest.mark.parametrize("group", ["null", SCRUBBED, ""])
def test_a_group_that_is_none_names_no_conversation(group: str) -> None:
    attributes = template("OpenAI Agents trace: {name}", group_id=group)

    assert read_as(AgentRun, span(scope=AGENTS, attributes=attributes)).header.conversation_id is None


def test_the_raw_response_is_the_result_with_any_other_fields_of_the_call() -> None:
    response = {"output": [{"type": "reasoning", "id": "rs", "summary": []}, CALL]}
    attributes = template(
        "Responses API", raw_input='[{"role": "user", "content": "Hi"}]', response=json.dumps(response)
    )

    model_call = read_as(ModelCall, span(scope=AGENTS, attributes=attributes))

    assert [("user", "Hi")] == texts_of(model_call.messages_in)
    assert model_call.messages_out is not None
    assert ["weather"] == [request.name for message in model_call.messages_out for request in message.requests]


def test_a_streamed_chat_holds_the_whole_response_as_its_output() -> None:
    attributes = template("Chat completion", output=json.dumps([{"object": "response", "output": [ANSWER]}]))

    assert [("assistant", "21 °C.")] == texts_of(
        read_as(ModelCall, span(scope=AGENTS, attributes=attributes)).messages_out
    )


def test_a_failed_function_says_so_by_its_level() -> None:
    error = json.dumps({"message": "Error running tool", "data": {"tool_name": "weather", "error": "timed out"}})
    attributes = template("Function: {name}", name="weather", input='{"city": "Oslo"}', error=error)

    tool_call = read_as(ToolCall, span(scope=AGENTS, attributes={**attributes, "logfire.level_num": 17}))

    assert ("weather", {"city": "Oslo"}, True, "timed out") == (
        tool_call.name,
        tool_call.arguments,
        tool_call.is_error,
        tool_call.header.error,
    )


def test_a_handoff_names_the_agent_that_takes_over() -> None:
    attributes = template("Handoff: {from_agent} → {to_agent}", from_agent="desk", to_agent="refunds")

    assert read_as(ToolCall, span(scope=AGENTS, attributes=attributes)).handoff_to == "refunds"


def test_the_arguments_of_an_instrumented_tool_are_attributes() -> None:
    attributes = template(
        "tool book", wishes='{"floor": 3}', note='{"kept": "as text"}', thread_id="t", **{"return": "[1, 2]"}
    )
    attributes["logfire.json_schema"] = schema(wishes="object", note=None, thread_id=None, **{"return": "array"})

    tool_call = read_as(ToolCall, span("book", scope="logfire", attributes=attributes))

    assert ("book", {"wishes": {"floor": 3}, "note": '{"kept": "as text"}', "thread_id": "t"}, [1, 2]) == (
        tool_call.name,
        tool_call.arguments,
        tool_call.result,
    )
    assert tool_call.header.conversation_id is None


def test_a_function_that_failed_returned_nothing() -> None:
    attributes = template("tool book", **{"logfire.level_num": 17, "logfire.msg": "tool book"})
    failure = event("exception", {"exception.type": "ValueError", "exception.message": "full"})

    tool_call = read_as(ToolCall, span("book", scope="logfire", attributes=attributes, events=[failure], status=2))

    assert (False, True, "ValueError: full") == (tool_call.result_captured, tool_call.is_error, tool_call.header.error)


def test_an_instrumented_agent_is_given_a_query_and_returns_its_answer() -> None:
    attributes = template("agent desk", message="Weather?", history="[]", **{"return": "21 °C."})
    attributes["logfire.json_schema"] = schema(message=None, history="array", **{"return": None})

    agent_run = read_as(AgentRun, span("desk", scope="logfire", attributes=attributes))

    assert ("desk", "Weather?", "21 °C.") == (agent_run.header.agent_name, agent_run.query, agent_run.answer)


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"query": "Weather?", "conversation_id": "c"}, AgentRun),
        ({"query": "Weather?", "answer": "21 °C."}, AgentRun),
        ({"query": "SELECT 1"}, Ignored),
        ({"conversation_id": "c"}, Ignored),
        ({"query": "Weather?", "answer": "21 °C.", "logfire.span_type": "log"}, Ignored),
    ],
)
def test_a_span_made_by_hand_is_a_turn_if_it_says_enough(attributes: dict[str, Any], kind: type) -> None:
    read_as(kind, span("turn", scope="logfire", attributes={**template("turn"), **attributes}))


def test_a_request_with_a_streamed_response_is_read_from_the_log_of_the_response() -> None:
    request = {"gen_ai.operation.name": "chat", "async": False, "gen_ai.input.messages": "[]"}
    response = {**request, "gen_ai.output.messages": "[]"}

    read_as(Ignored, span(scope="logfire.openai", attributes=template("Chat Completion", **request)))
    read_as(ModelCall, span(scope="logfire.openai", attributes=template("streaming response", **response)))


def test_spans_of_other_libraries_stay_with_their_dialect() -> None:
    attributes = template("agent run", **{"gen_ai.operation.name": "invoke_agent"})

    assert READER.dialect_of(span(scope="pydantic-ai", attributes=attributes))[0].name == "pydantic-ai"
