"""google-adk: keys of its first telemetry schema, and messages between its agents."""

from __future__ import annotations

import json
from typing import Any, Final

from inline_snapshot import snapshot

from otel_agentic.dialects import AgentRun, ModelCall, ToolCall
from otel_agentic.testing import log_record, span
from tests.dialects.reading import read_as, texts_of

SCOPE: Final = "gcp.vertex.agent"
OWN: Final = "gcp.vertex.agent."
CALL: Final = {"function_call": {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}}


def call_llm(contents: list[Any], response: Any) -> dict[str, Any]:
    return {
        OWN + "session_id": "s1",
        OWN + "llm_request": json.dumps({"model": "m", "config": {}, "contents": contents}),
        OWN + "llm_response": json.dumps(response),
    }


def text(content: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": content}]}


def test_a_request_of_the_user_is_a_run() -> None:
    assert read_as(AgentRun, span("invocation", scope=SCOPE)).certain


def test_call_llm_is_a_model_call_with_request_and_response() -> None:
    attributes = call_llm([text("Weather?")], {"content": {"role": "model", "parts": [CALL]}})

    model_call = read_as(ModelCall, span("call_llm", scope=SCOPE, attributes=attributes))

    assert model_call.header.conversation_id == "s1"
    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert model_call.messages_out is not None
    assert [("c1", "weather", {"city": "Oslo"})] == [
        (request.call_id, request.name, request.arguments) for request in model_call.messages_out[0].requests
    ]


def test_empty_payloads_are_content_that_was_not_captured() -> None:
    attributes = {OWN + "llm_request": "{}", OWN + "llm_response": "{}"}

    model_call = read_as(ModelCall, span("call_llm", scope=SCOPE, attributes=attributes))

    assert (model_call.messages_in, model_call.messages_out) == (None, None)


def test_elided_log_records_are_content_that_was_not_captured() -> None:
    call = span("generate_content", scope=SCOPE, attributes={"gen_ai.operation.name": "generate_content"})
    logs = [log_record(call, name, {"content": "<elided>"}) for name in ("gen_ai.user.message", "gen_ai.choice")]

    model_call = read_as(ModelCall, call, *logs)

    assert (model_call.messages_in, model_call.messages_out) == (None, None)


def test_an_answer_of_another_agent_is_no_message_of_the_user() -> None:
    quoted = {"role": "user", "parts": [{"text": "For context:"}, {"text": "[desk] said: Hello."}]}
    attributes = call_llm([text("Weather?"), quoted], {})

    model_call = read_as(ModelCall, span("call_llm", scope=SCOPE, attributes=attributes))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)


def test_a_user_may_begin_with_the_same_words() -> None:
    attributes = call_llm([text("For context: I am in Oslo.")], {})

    model_call = read_as(ModelCall, span("call_llm", scope=SCOPE, attributes=attributes))

    assert texts_of(model_call.messages_in) == snapshot([("user", "For context: I am in Oslo.")])


def test_a_tools_own_keys_are_read_and_its_scalar_result_unwrapped() -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "<not specified>",
        OWN + "llm_request": "{}",
        OWN + "tool_call_args": '{"a": 1}',
        OWN + "tool_response": '{"result": 3}',
    }

    tool_call = read_as(ToolCall, span(scope=SCOPE, attributes=attributes))

    assert ("add", None, {"a": 1}, 3) == (tool_call.name, tool_call.call_id, tool_call.arguments, tool_call.result)


def test_thoughts_of_the_model_are_not_its_answer() -> None:
    parts = [{"text": "Hm.", "thought": True}, {"text": "21 °C."}]
    attributes = call_llm([text("Weather?")], {"content": {"role": "model", "parts": parts}})

    model_call = read_as(ModelCall, span("call_llm", scope=SCOPE, attributes=attributes))

    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)
