"""AutoGen: what the messages of a team's runtime tell."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored
from otel_agentic.testing import span
from tests.dialects.reading import read_as, said

TEAM: Final = "8a7b6c5d-0000-4000-8000-123456789abc"
SCOPE: Final = "autogen SingleThreadedAgentRuntime"
TASK: Final = {"messages": [{"source": "user", "type": "TextMessage", "content": "Weather?"}]}
CALLED: Final = {
    "type": "ToolCallRequestEvent",
    "content": [{"id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}],
}
TOLD: Final = {
    "type": "ToolCallExecutionEvent",
    "content": [{"call_id": "c1", "name": "weather", "content": "{'temp': 21}", "is_error": False}],
}
SAID: Final = {"source": "desk", "type": "TextMessage", "content": "21 °C."}


def processed(
    message: Any, recipient: str = "Swarm_GroupChatManager", name: str = "Swarm", team: str = TEAM
) -> dict[str, Any]:
    return {
        "messaging.operation": "process",
        "messaging.destination": f"{name}_{team}.({team})-A",
        "recipient_agent_type": f"{name}_{team}",
        "recipient_agent_class": recipient,
        "message": json.dumps(message),
    }


def test_the_task_of_a_team_is_a_query_in_the_conversation_of_the_team() -> None:
    found = read_as(AgentRun, span(scope=SCOPE, attributes=processed(TASK)))

    assert (TEAM, "Swarm") == (found.header.conversation_id, found.header.agent_name)
    assert [("user", "Weather?")] == said(found.messages_in)


def test_what_an_agent_did_and_said_is_told_to_the_manager() -> None:
    message = {"response": {"chat_message": SAID, "inner_messages": [CALLED, TOLD]}}

    found = read_as(AgentRun, span(scope=SCOPE, attributes=processed(message)))

    assert found.header.agent_name == "desk"
    assert [("assistant", None), ("tool", None), ("assistant", "21 °C.")] == said(found.messages_out)
    assert found.messages_out is not None
    assert [("c1", "weather", {"city": "Oslo"})] == [
        (request.call_id, request.name, request.arguments) for request in found.messages_out[0].requests
    ]
    assert [("c1", {"temp": 21}, False)] == [
        (result.call_id, result.result, result.is_error) for result in found.messages_out[1].results
    ]


def test_an_agent_that_is_asked_to_speak_runs() -> None:
    found = read_as(AgentRun, span(scope=SCOPE, attributes=processed({}, "ChatAgentContainer", "desk")))

    assert (found.header.agent_name, found.query) == ("desk", None)


@pytest.mark.parametrize(
    "attributes",
    [
        processed(TASK, "ChatAgentContainer"),
        processed({"message": CALLED}),
        {**processed(TASK), "messaging.operation": "publish"},
        {"messaging.operation": "create"},
    ],
)
def test_other_messages_tell_nothing_new(attributes: dict[str, Any]) -> None:
    read_as(Ignored, span(scope=SCOPE, attributes=attributes))


def test_an_agent_without_a_session_names_no_conversation() -> None:
    found = read_as(AgentRun, span(scope=SCOPE, attributes=processed(TASK, team="default")))

    assert found.header.conversation_id is None
