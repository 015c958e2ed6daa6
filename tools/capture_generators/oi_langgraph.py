# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: langchain==1.4.7 langchain-core==1.7.2 langchain-openai==1.7.3 langgraph==1.2.22
# needs: openinference-instrumentation-langchain==0.1.80 opentelemetry-sdk==1.45.2
# needs: opentelemetry-exporter-otlp-proto-http==1.45.2
"""LangGraph under OpenInference: a streaming graph, agents without thread, with a sub-agent, with a list of todos."""

from __future__ import annotations

from dataclasses import replace

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, TodoListMiddleware
from langchain_core.messages import SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tools.capture_generators.oi_play import KEY, Plan, delegated, instrumented, record, wait
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    Call,
)

DELEGATED = delegated(REFUNDS, lambda task: {"request": task}, result="B-17 is paid back: 49.9 euros.")


def main() -> None:
    """Record the captures."""
    langchain = instrumented("openinference.instrumentation.langchain:LangChainInstrumentor")
    record(Plan("openinference-langgraph-stategraph-stream", langchain, state_graph), framework="langgraph")
    record(
        Plan("openinference-langgraph-async-delegation", langchain, with_sub_agent, (*STORY, DELEGATED)),
        framework="langgraph",
    )
    record(
        Plan("openinference-langchain-bare", langchain, without_thread), framework="langchain", id_in_telemetry=False
    )
    conversations = tuple(map(with_todos, STORY))
    record(Plan("openinference-langchain-todos", langchain, planning, conversations), framework="langchain, todo list")


class Forgiving(AgentMiddleware):
    """Lets the model read what went wrong in a tool."""

    def wrap_tool_call(self, request, handler):
        """Return the tool's message, or the message of its error."""
        try:
            return handler(request)
        except ValueError as error:
            return _failed(request, error)

    async def awrap_tool_call(self, request, handler):
        """Return the tool's message, or the message of its error."""
        try:
            return await handler(request)
        except ValueError as error:
            return _failed(request, error)


def _failed(request, error):
    return ToolMessage(f"Failed: {error}", tool_call_id=request.tool_call["id"], status="error")


def model(url, **options):
    """Return the scripted model."""
    return ChatOpenAI(model="scripted-1", base_url=url, api_key=KEY, **options)


def state_graph(url):
    """Return a speaker over a graph of two nodes that streams and keeps its threads."""
    bound = model(url, streaming=True, stream_usage=True).bind_tools(list(TOOLS))

    def respond(state: MessagesState):
        return {"messages": [bound.invoke([SystemMessage(INSTRUCTIONS), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("respond", respond)
    graph.add_node("tools", ToolNode(list(TOOLS), handle_tool_errors=True))
    graph.add_edge(START, "respond")
    graph.add_conditional_edges("respond", tools_condition)
    graph.add_edge("tools", "respond")
    compiled = graph.compile(checkpointer=InMemorySaver(), name=AGENT)

    def say(conversation, query):
        config = {"configurable": {"thread_id": conversation.id}}
        states = list(compiled.stream({"messages": [("user", query)]}, config, stream_mode="values"))
        return states[-1]["messages"][-1].text

    return say


def with_sub_agent(url):
    """Return a speaker over an asynchronous agent whose tool is an agent."""
    member = create_agent(model(url), list(REFUND_TOOLS), system_prompt=REFUND_INSTRUCTIONS, name=REFUNDS)

    @tool(REFUNDS)
    async def refunds(request: str) -> str:
        """Ask the agent that pays bookings back."""
        result = await member.ainvoke({"messages": [("user", request)]})
        return result["messages"][-1].text

    tools = [*TOOLS, refunds]
    agent = create_agent(
        model(url),
        tools,
        system_prompt=INSTRUCTIONS,
        name=AGENT,
        middleware=[Forgiving()],
        checkpointer=InMemorySaver(),
    )

    def say(conversation, query):
        config = {"configurable": {"thread_id": conversation.id}, "metadata": {"tier": "gold"}}
        result = wait(agent.ainvoke({"messages": [("user", query)]}, config))
        return result["messages"][-1].text

    return say


def with_todos(conversation):
    """Return the conversation with a list of todos before the calls of each turn that has several steps."""
    return replace(conversation, turns=tuple(map(_planned, conversation.turns)))


def _planned(turn):
    names = [call.name for step in turn.steps for call in step if call.error is None]
    if len(turn.steps) <= 1:
        return turn
    states = ["in_progress", *["pending"] * len(names)]
    todos = [
        {"content": f"Use {name.replace('_', ' ')}", "status": state}
        for name, state in zip(names, states, strict=False)
    ]
    listed = Call("write_todos", {"todos": todos}, f"Updated todo list to {todos}")
    return replace(turn, steps=((listed,), *turn.steps))


def planning(url):
    """Return a speaker over an agent with a list of todos."""
    todos = TodoListMiddleware(system_prompt="Keep a list of todos.", tool_description="Write the list of todos.")
    agent = create_agent(
        model(url),
        list(TOOLS),
        system_prompt=INSTRUCTIONS,
        name=AGENT,
        middleware=[todos, Forgiving()],
        checkpointer=InMemorySaver(),
    )

    def say(conversation, query):
        config = {"configurable": {"thread_id": conversation.id}}
        return agent.invoke({"messages": [("user", query)]}, config)["messages"][-1].text

    return say


def without_thread(url):
    """Return a speaker over an agent that is given the whole history and no thread."""
    agent = create_agent(model(url), list(TOOLS), system_prompt=INSTRUCTIONS, name=AGENT, middleware=[Forgiving()])
    histories = {}

    def say(conversation, query):
        history = [*histories.get(conversation.id, ()), ("user", query)]
        histories[conversation.id] = agent.invoke({"messages": history})["messages"]
        return histories[conversation.id][-1].text

    return say


if __name__ == "__main__":
    main()
