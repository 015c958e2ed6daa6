# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: openai-agents==0.24.0 openai==3.54.0 openinference-instrumentation-openai-agents==2.6.0
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""OpenAI Agents SDK under OpenInference: chat with a hand-off, Responses streamed without a session."""

from __future__ import annotations

import os

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from openai import AsyncOpenAI

from tools.capture_generators.oi_play import KEY, Plan, in_session, instrumented, record, wait
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    TRANSFER,
)


def main() -> None:
    """Record the captures."""
    os.environ["OPENAI_API_KEY"] = KEY
    sdk = instrumented("openinference.instrumentation.openai_agents:OpenAIAgentsInstrumentor")
    record(
        Plan("openinference-openai-agents-chat-handoff", sdk, in_session(chat_with_handoff), (*STORY, TRANSFER)),
        framework="openai-agents",
    )
    record(
        Plan("openinference-openai-agents-stream-bare", sdk, streamed), framework="openai-agents", id_in_telemetry=False
    )


def chat_with_handoff(url):
    """Return a speaker over Chat Completions; the agent that answered last is asked next."""
    model = OpenAIChatCompletionsModel("scripted-1", AsyncOpenAI(base_url=url, api_key=KEY))
    refunds = Agent(name=REFUNDS, model=model, tools=tools(REFUND_TOOLS), instructions=REFUND_INSTRUCTIONS)
    desk = Agent(name=AGENT, model=model, tools=tools(TOOLS), instructions=INSTRUCTIONS, handoffs=[refunds])
    sessions, speaking = {}, {}

    async def ask(conversation, query):
        session = sessions.setdefault(conversation.id, SQLiteSession(conversation.id))
        agent = speaking.get(conversation.id, desk)
        result = await Runner.run(agent, query, session=session, run_config=RunConfig(group_id=conversation.id))
        speaking[conversation.id] = result.last_agent
        return result.final_output

    return lambda conversation, query: wait(ask(conversation, query))


def streamed(url):
    """Return a speaker over streamed Responses; the caller keeps the history."""
    model = OpenAIResponsesModel("scripted-1", AsyncOpenAI(base_url=url, api_key=KEY))
    desk = Agent(name=AGENT, model=model, tools=tools(TOOLS), instructions=INSTRUCTIONS)
    histories = {}

    async def ask(conversation, query):
        history = [*histories.get(conversation.id, ()), {"role": "user", "content": query}]
        result = Runner.run_streamed(desk, history)
        async for _ in result.stream_events():
            pass
        histories[conversation.id] = result.to_input_list()
        return result.final_output

    return lambda conversation, query: wait(ask(conversation, query))


def tools(functions):
    """Return the functions as tools; schemas are not strict: one has an argument of any shape."""
    return [function_tool(function, strict_mode=False) for function in functions]


if __name__ == "__main__":
    main()
