# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: agno==3.1.10 openai==3.54.0 openinference-instrumentation-agno==1.0.15
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""Agno under OpenInference: an agent with sessions, a streaming team whose member pays refunds, no session given."""

from __future__ import annotations

from functools import partial

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.message import Message
from agno.models.openai.like import OpenAILike
from agno.run.agent import RunOutput
from agno.run.team import TeamRunOutput
from agno.team import Team

from tools.capture_generators.oi_play import HIDDEN, KEY, Plan, delegated, hiding, instrumented, record
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
)

DELEGATED = delegated("delegate_task_to_member", lambda task: {"member_id": REFUNDS, "task": task})


def main() -> None:
    """Record the captures."""
    agno = instrumented("openinference.instrumentation.agno:AgnoInstrumentor")
    record(Plan("openinference-agno-session", agno, with_session), framework="agno")
    record(
        Plan("openinference-agno-team-stream", agno, partial(team, stream=True), (*STORY, DELEGATED)), framework="agno"
    )
    quiet = hiding(agno, OPENINFERENCE_HIDE_INPUTS="true", OPENINFERENCE_HIDE_OUTPUTS="true")
    record(Plan("openinference-agno-redacted", quiet, with_session), framework="agno", not_in_data=list(HIDDEN))
    record(Plan("openinference-agno-bare", agno, without_session), framework="agno", id_in_telemetry=False)


def with_session(url):
    """Return a speaker over an agent that gets the session id."""
    common = {"add_history_to_context": True, "db": InMemoryDb(), "telemetry": False, "model": _model(url)}
    agent = Agent(name=AGENT, tools=list(TOOLS), instructions=INSTRUCTIONS, **common)
    return lambda conversation, query: agent.run(query, session_id=conversation.id, user_id="u-7").content


def streaming(url):
    """Return a speaker over a streaming agent."""
    common = {"add_history_to_context": True, "db": InMemoryDb(), "telemetry": False, "model": _model(url)}
    agent = Agent(name=AGENT, tools=list(TOOLS), instructions=INSTRUCTIONS, **common)

    def say(conversation, query):
        events = agent.run(query, session_id=conversation.id, stream=True, yield_run_output=True)
        return next(event.content for event in events if isinstance(event, RunOutput))

    return say


def team(url, *, stream=False):
    """Return a speaker over a team."""
    common = {"add_history_to_context": True, "db": InMemoryDb(), "telemetry": False, "model": _model(url)}
    member = Agent(name=REFUNDS, id=REFUNDS, tools=list(REFUND_TOOLS), instructions=REFUND_INSTRUCTIONS, **common)
    desk = Team(name=AGENT, members=[member], tools=list(TOOLS), instructions=INSTRUCTIONS, **common)

    def say(conversation, query):
        if not stream:
            return desk.run(query, session_id=conversation.id).content
        events = desk.run(query, session_id=conversation.id, stream=True, yield_run_output=True)
        return next(event.content for event in events if isinstance(event, TeamRunOutput))

    return say


def without_session(url):
    """Return a speaker over agents that are given the whole history."""
    agents, histories = {}, {}

    def say(conversation, query):
        agent = Agent(name=AGENT, model=_model(url), tools=list(TOOLS), instructions=INSTRUCTIONS, telemetry=False)
        agent, history = agents.setdefault(conversation.id, agent), histories.setdefault(conversation.id, [])
        history.append(Message(role="user", content=query))
        output = agent.run(list(history))
        history[:] = [message for message in output.messages if message.role != "system"]
        return output.content

    return say


def _model(url):
    return OpenAILike(id="scripted-1", base_url=url, api_key=KEY)


if __name__ == "__main__":
    main()
