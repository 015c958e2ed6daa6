"""Vercel AI SDK: operations, the names of the releases, and content in JSON text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.dialects.vercel import Vercel
from otel_agentic.testing import AgentRunScript, VercelVersion, check_dialect, scripted_call, span, speak_vercel
from tests.dialects.reading import READER, SETTINGS, read_as, texts_of


def operation(name: str, **attributes: Any) -> dict[str, Any]:
    """Return the attributes of an operation; a double underscore in a name is a dot, `ai.` comes before it."""
    return {"ai.operationId": name, **{f"ai.{key.replace('__', '.')}": value for key, value in attributes.items()}}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ai.generateText", AgentRun),
        ("ai.streamText", AgentRun),
        ("ai.generateObject", AgentRun),
        ("ai.generateText.doGenerate", ModelCall),
        ("ai.streamText.doStream", ModelCall),
        ("ai.streamObject.doStream", ModelCall),
        ("ai.toolCall", ToolCall),
        ("ai.embed", Ignored),
    ],
)
def test_the_operation_says_what_a_span_is(name: str, expected: type) -> None:
    read_as(expected, span(attributes=operation(name)))


def test_an_object_is_a_run_only_where_nothing_above_it_is_one() -> None:
    assert read_as(AgentRun, span(attributes=operation("ai.streamText"))).certain
    assert not read_as(AgentRun, span(attributes=operation("ai.generateObject"))).certain


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ({"system": "Be kind.", "prompt": "Weather?"}, "Weather?"),
        ({"prompt": "Weather?"}, "Weather?"),
    ],
)
def test_a_prompt_is_the_query(prompt: dict[str, Any], expected: str) -> None:
    agent_run = read_as(AgentRun, span(attributes=operation("ai.generateText", prompt=json.dumps(prompt))))

    assert (expected, None) == (agent_run.query, agent_run.messages_in)


@pytest.mark.parametrize("key", ["messages", "prompt"])
def test_a_prompt_may_be_the_history(key: str) -> None:
    history = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    ]

    agent_run = read_as(
        AgentRun, span(attributes=operation("ai.streamText", prompt=json.dumps({"system": "s", key: history})))
    )

    assert [("user", "Hello"), ("assistant", "Hi."), ("user", "Weather?")] == texts_of(agent_run.messages_in)


@pytest.mark.parametrize(("text", "expected"), [("21 °C.", "21 °C."), ("", None), (None, None)])
def test_the_final_text_is_the_answer_unless_it_is_empty(text: str | None, expected: str | None) -> None:
    agent_run = read_as(AgentRun, span(attributes=operation("ai.generateText", response__text=text)))

    assert expected == agent_run.answer


def test_the_calls_that_a_run_sums_up_are_not_its_own() -> None:
    calls = json.dumps([{"toolCallId": "c1", "toolName": "weather", "input": {}}])

    agent_run = read_as(
        AgentRun, span(attributes=operation("ai.generateText", response__text="21 °C.", response__toolCalls=calls))
    )

    assert ("21 °C.", None) == (agent_run.answer, agent_run.messages_out)


@pytest.mark.parametrize(
    "call",
    [
        {"toolCallType": "function", "toolCallId": "c1", "toolName": "weather", "args": '{"city": "Zürich"}'},
        {"toolCallId": "c1", "toolName": "weather", "input": '{"city": "Zürich"}'},
        {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Zürich"}},
    ],
    ids=["v4", "v5 generate", "v5 stream"],
)
def test_a_model_asks_for_tools_in_the_words_of_each_release(call: dict[str, Any]) -> None:
    attributes = operation(
        "ai.generateText.doGenerate", response__text="", response__toolCalls=json.dumps([call])
    ) | operation("ai.generateText.doGenerate", response__finishReason="tool-calls")

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert model_call.messages_out is not None
    (message,) = model_call.messages_out
    (request,) = message.requests
    assert (None, True) == (message.text, model_call.asks_for_tools)
    assert ("c1", "weather", {"city": "Zürich"}) == (request.call_id, request.name, request.arguments)


def test_a_model_says_text_and_asks_for_tools_in_one_message() -> None:
    calls = json.dumps([{"toolCallId": "c1", "toolName": "weather", "input": {}}])

    model_call = read_as(
        ModelCall,
        span(attributes=operation("ai.streamText.doStream", response__text="Let me look.", response__toolCalls=calls)),
    )

    assert [("assistant", "Let me look.")] == texts_of(model_call.messages_out)


def test_an_object_is_the_answer_of_the_model() -> None:
    attributes = operation("ai.generateObject.doGenerate", response__object='{"route": "refunds"}')

    assert [("assistant", '{"route": "refunds"}')] == texts_of(
        read_as(ModelCall, span(attributes=attributes)).messages_out
    )


def test_a_response_that_was_not_recorded_is_not_an_empty_one() -> None:
    attributes = operation("ai.generateText.doGenerate", response__finishReason="stop")

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert (None, None, False) == (model_call.messages_in, model_call.messages_out, model_call.asks_for_tools)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"result": 19.75}, (19.75, False)),
        ({"output": {"type": "text", "value": "sunny"}}, ("sunny", False)),
        ({"output": {"type": "json", "value": {"t": 21}}}, ({"t": 21}, False)),
        ({"output": {"type": "error-text", "value": "late"}}, ("late", True)),
    ],
)
def test_results_are_sent_to_a_model_in_the_form_of_each_release(
    part: dict[str, Any], expected: tuple[Any, bool]
) -> None:
    message = {"type": "tool-result", "toolCallId": "c1", "toolName": "weather", **part}
    messages = [{"role": "user", "content": "Weather?"}, {"role": "tool", "content": [message]}]

    model_call = read_as(
        ModelCall, span(attributes=operation("ai.generateText.doGenerate", prompt__messages=json.dumps(messages)))
    )

    assert model_call.messages_in is not None
    (result,) = model_call.messages_in[1].results
    assert ("c1", *expected) == (result.call_id, result.result, result.is_error)


@pytest.mark.parametrize(("written", "expected"), [('"18 °C, sunny"', "18 °C, sunny"), ('{"t":21}', {"t": 21})])
def test_a_tool_call_has_name_id_arguments_and_result(written: str, expected: Any) -> None:
    attributes = operation(
        "ai.toolCall",
        toolCall__name="weather",
        toolCall__id="c1",
        toolCall__args='{"city":"Zürich"}',
        toolCall__result=written,
    )

    tool = read_as(ToolCall, span("ai.toolCall", attributes=attributes))

    assert ("weather", "c1", {"city": "Zürich"}) == (tool.name, tool.call_id, tool.arguments)
    assert (expected, True) == (tool.result, tool.result_captured)


@pytest.mark.parametrize("prefix", ["ai.telemetry.metadata.", "ai.settings.context."])
@pytest.mark.parametrize("name", ["sessionId", "conversationId", "chatId", "threadId", "session_id"])
def test_the_conversation_is_named_in_what_the_application_adds(prefix: str, name: str) -> None:
    attributes = {**operation("ai.generateText"), f"{prefix}{name}": "conversation-1", f"{prefix}userId": "user-1"}

    assert read_as(AgentRun, span(attributes=attributes)).header.conversation_id == "conversation-1"


def test_the_function_id_names_the_agent() -> None:
    attributes = operation("ai.toolCall", telemetry__functionId="concierge", toolCall__name="weather")

    assert read_as(ToolCall, span(attributes=attributes)).header.agent_name == "concierge"


def test_the_seventh_release_names_the_conversation_next_to_genai_names() -> None:
    messages = '[{"role":"user","parts":[{"type":"text","content":"Weather?"}]}]'
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "concierge",
        "gen_ai.input.messages": messages,
        "ai.settings.context.sessionId": "conversation-1",
    }

    agent_run = read_as(AgentRun, span(attributes=attributes, scope="gen_ai"))

    assert ("conversation-1", "concierge") == (agent_run.header.conversation_id, agent_run.header.agent_name)
    assert [("user", "Weather?")] == texts_of(agent_run.messages_in)


def test_a_step_of_the_seventh_release_is_no_run() -> None:
    attributes = {"gen_ai.operation.name": "agent_step", "ai.settings.context.sessionId": "conversation-1"}

    assert read_as(Ignored, span(attributes=attributes)).header.conversation_id == "conversation-1"


def test_spans_of_other_sdks_are_left_to_others() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}

    assert READER.dialect_of(span(attributes=attributes))[0].name == "genai"


@pytest.mark.parametrize("version", [4, 6])
def test_the_dialect_conforms(version: VercelVersion) -> None:
    turn = (
        AgentRunScript()
        .ask("Which hotel?")
        .calls(scripted_call("search", {"q": "x"}, result=["Ritz"]))
        .answers("The Ritz.")
    )

    check_dialect(Vercel(SETTINGS), *speak_vercel(turn, version).spans)
