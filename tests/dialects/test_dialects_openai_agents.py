"""openai-agents of OpenTelemetry: reprs of the SDK's objects inside text parts, and handoffs."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.testing import span
from tests.dialects.reading import read_as, texts_of

SCOPE: Final = "opentelemetry.instrumentation.openai_agents"
RESPONSES: Final = (
    """ResponseFunctionToolCall(arguments='{"city": "Oslo"}', call_id='c1', name='weather', type='function_call', """
    """id='fc_1', caller=None, status='completed')"""
)
CHAT: Final = str(
    {
        "content": None,
        "role": "assistant",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
        ],
    }
)
STREAMED: Final = str(
    {
        "id": "r1",
        "object": "response",
        "output": [{"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}],
    }
)


def model_call(spoken: str, role: str = "assistant") -> ModelCall:
    messages = json.dumps([{"role": role, "parts": [{"type": "text", "content": spoken}]}])
    attributes: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages}
    return read_as(ModelCall, span(scope=SCOPE, attributes=attributes))


@pytest.mark.parametrize("text", [RESPONSES, CHAT, STREAMED], ids=["responses", "chat", "streamed chat"])
def test_a_call_in_a_repr_is_a_call(text: str) -> None:
    messages = model_call(text).messages_out

    assert messages is not None
    assert [("c1", "weather", {"city": "Oslo"})] == [
        (request.call_id, request.name, request.arguments) for message in messages for request in message.requests
    ]
    assert messages[0].text is None


def test_a_content_block_in_a_repr_is_its_text() -> None:
    text = "{'annotations': [], 'text': 'It\\'s 21 °C.', 'type': 'output_text', 'logprobs': []}"

    assert [("assistant", "It's 21 °C.")] == texts_of(model_call(text).messages_out)


@pytest.mark.parametrize("text", ["{'city': 'Oslo'}", "Response (short): yes.", "{'a': 1", "21 °C."])
def test_the_answer_of_the_model_stays(text: str) -> None:
    assert [("assistant", text)] == texts_of(model_call(text).messages_out)


def test_a_handoff_is_the_call_of_the_tool_that_hands_over() -> None:
    attributes = {
        "gen_ai.operation.name": "agent_handoff",
        "gen_ai.handoff.from_agent": "desk",
        "gen_ai.handoff.to_agent": "Refund desk",
    }

    tool_call = read_as(ToolCall, span(scope=SCOPE, attributes=attributes))

    assert ("transfer_to_refund_desk", "Refund desk", "desk") == (
        tool_call.name,
        tool_call.handoff_to,
        tool_call.header.agent_name,
    )
    assert tool_call.result == {"assistant": "Refund desk"}


def test_tasks_and_turns_of_the_sdk_mean_nothing() -> None:
    read_as(Ignored, span(scope=SCOPE, attributes={"gen_ai.operation.name": "unknown"}))
    read_as(AgentRun, span("Desk", scope=SCOPE, attributes={"gen_ai.operation.name": "invoke_agent"}))
