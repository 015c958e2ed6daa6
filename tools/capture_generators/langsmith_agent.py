"""The LangGraph agent of the travel desk, for every product that records LangChain."""
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from tools.capture_generators.script import MODEL
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    delegation,
)

#: The conversations that the agent can hold: the story, and the sub-agent behind a tool.
CONVERSATIONS = (*STORY, delegation())


@wrap_tool_call
def report_errors(request: Any, handler: Any) -> Any:
    """Return the error of a tool to the model."""
    try:
        return handler(request)
    except ValueError as error:
        call = request.tool_call
        return ToolMessage(f"Error: {error}", tool_call_id=call["id"], name=call["name"], status="error")


def agent(url: str, *, remembers: bool, streamed: bool = False) -> Any:
    """Return the agent; one that `remembers` keeps the history by thread id."""
    model = ChatOpenAI(model=MODEL, base_url=url, api_key="none", streaming=streamed)
    desk = create_agent(model, list(REFUND_TOOLS), system_prompt=REFUND_INSTRUCTIONS, name=REFUNDS)

    @tool(REFUNDS)
    def refunds(request: str) -> str:
        """Ask the refunds desk."""
        result = desk.invoke({"messages": [{"role": "user", "content": request}]})
        return result["messages"][-1].content

    return create_agent(
        model,
        [*TOOLS, refunds],
        system_prompt=INSTRUCTIONS,
        name=AGENT,
        middleware=[report_errors],
        checkpointer=InMemorySaver() if remembers else None,
    )


class Desk:
    """Sends the queries to the agent. An agent without a memory of its own gets the whole history each time."""

    def __init__(self, url: str, *, remembers: bool, streamed: bool = False) -> None:
        self._agent = agent(url, remembers=remembers, streamed=streamed)
        self._remembers = remembers
        self._streamed = streamed
        self._histories: dict[str, list[Any]] = {}

    def say(self, conversation_id: str, query: str, **config: Any) -> str:
        """Return the answer; `config` is LangChain's."""
        messages = [*self._histories.get(conversation_id, []), {"role": "user", "content": query}]
        if self._remembers:
            config["configurable"] = {"thread_id": conversation_id}
        messages_after = self._invoke({"messages": messages}, config)
        if not self._remembers:
            self._histories[conversation_id] = messages_after
        return messages_after[-1].content

    def _invoke(self, state: dict[str, Any], config: dict[str, Any]) -> list[Any]:
        if not self._streamed:
            return self._agent.invoke(state, config)["messages"]
        *_, last = self._agent.stream(state, config, stream_mode="values")
        return last["messages"]
