"""AutoGen: the content of the messages of a team's runtime."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored
from otel_agentic.testing import span
from tests.dialects.reading import read_as, texts_of

TEAM: Final = "8a7b6c5d-0000-4000-8000-123456789abc"
SCOPE: Final = "autogen SingleThreadedAgentRuntime"
TASK: Final = {"messages": [{"source": "user", "type": "TextMessage", "content": "Weather?"}]}
CALLED: Final = {
    "type": "ToolCallRequestEvent",
    "content": [{"id": "c1", "name": "weather", "arguments": '{"city": "Oslo"}'}],
}
EXECUTED: Final = {
    "type": "ToolCallExecutionEvent",
    "content": [{"call_id": "c1", "name": "weather", "content": "{'temp': 21}", "is_error": False}],
}
ANSWER: Final = {"source": "desk", "type": "TextMessage", "content": "21 °C."}


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
    agent_run = read_as(AgentRun, span(scope=SCOPE, attributes=processed(TASK)))

    assert (TEAM, "Swarm") == (agent_run.header.conversation_id, agent_run.header.agent_name)
    assert [("user", "Weather?")] == texts_of(agent_run.messages_in)


def test_actions_and_answers_of_an_agent_are_sent_to_the_manager() -> None:
    message = {"response": {"chat_message": ANSWER, "inner_messages": [CALLED, EXECUTED]}}

    agent_run = read_as(AgentRun, span(scope=SCOPE, attributes=processed(message)))

    assert agent_run.header.agent_name == "desk"
    assert [("assistant", None), ("tool", None), ("assistant", "21 °C.")] == texts_of(agent_run.messages_out)
    assert agent_run.messages_out is not None
    assert [("c1", "weather", {"city": "Oslo"})] == [
        (request.call_id, request.name, request.arguments) for request in agent_run.messages_out[0].requests
    ]
    assert [("c1", {"temp": 21}, False)] == [
        (result.call_id, result.result, result.is_error) for result in agent_run.messages_out[1].results
    ]


def test_an_agent_that_is_asked_to_speak_runs() -> None:
    agent_run = read_as(AgentRun, span(scope=SCOPE, attributes=processed({}, "ChatAgentContainer", "desk")))

    assert (agent_run.header.agent_name, agent_run.query) == ("desk", None)


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
    agent_run = read_as(AgentRun, span(scope=SCOPE, attributes=processed(TASK, team="default")))

    assert agent_run.header.conversation_id is None
