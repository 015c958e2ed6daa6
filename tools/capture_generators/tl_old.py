# mypy: ignore-errors
# The frameworks are not installed where the types are checked.
# needs: traceloop-sdk==0.47.5 wrapt==1.17.3 openai==1.109.1 httpx openai-agents==0.3.3
# needs: langchain==0.3.30 langchain-openai==0.3.35 langgraph==0.6.11
# needs: opentelemetry-sdk==1.37.0 opentelemetry-exporter-otlp-proto-http==1.37.0
"""A release of OpenLLMetry from 2025: decorated tools, a LangGraph agent, the OpenAI Agents SDK, the bare client."""

from __future__ import annotations

import os

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolNode, create_react_agent

from tools.capture_generators.oi_agents import chat_with_handoff, streamed
from tools.capture_generators.oi_openai import chat
from tools.capture_generators.oi_play import KEY, Plan, record
from tools.capture_generators.story import AGENT, INSTRUCTIONS, STORY, TOOLS, TRANSFER
from tools.capture_generators.tl_openai import decorated
from tools.capture_generators.tl_play import associated, in_workflow, traceloop


def main() -> None:
    """Record the captures."""
    os.environ["OPENAI_API_KEY"] = KEY
    client, graphs, sdk = traceloop("OPENAI"), traceloop("LANGCHAIN"), traceloop("OPENAI_AGENTS")
    record(Plan("openllmetry-old-decorators-session", client, associated(decorated)), framework="openai")
    record(
        Plan("openllmetry-old-openai-bare", client, chat),
        framework="openai",
        id_in_telemetry=False,
        not_in_data=["error"],
    )
    record(
        Plan("openllmetry-old-langgraph-workflow", graphs, associated(in_workflow(_react), "conversation_id")),
        framework="langgraph",
    )
    record(
        Plan("openllmetry-old-openai-agents-chat", sdk, associated(chat_with_handoff), (*STORY, TRANSFER)),
        framework="openai-agents",
        # Of chat only the prompts are recorded: calls by name alone, an answer in the history of the turn after it.
        not_in_data=["arguments", "result", "error", "answer_of_last_turn"],
    )
    record(
        Plan("openllmetry-old-openai-agents-stream", sdk, associated(streamed)),
        framework="openai-agents",
        not_in_data=["result"],
    )


def _react(url):
    model = ChatOpenAI(model="scripted-1", base_url=url, api_key=KEY)
    tools = ToolNode(list(TOOLS), handle_tool_errors=True)
    agent = create_react_agent(model, tools, prompt=INSTRUCTIONS, checkpointer=InMemorySaver(), name=AGENT)

    def say(conversation, query):
        config = {"configurable": {"thread_id": conversation.id}}
        return agent.invoke({"messages": [("user", query)]}, config)["messages"][-1].text()

    return say


if __name__ == "__main__":
    main()
