"""LangChain agents and a LangGraph graph of one's own under OpenTelemetry's GenAI instrumentation."""
# needs: langchain==1.4.7 langgraph==1.2.22 langgraph-swarm==0.1.0 langchain-openai==1.7.3 opentelemetry-instrumentation-genai-langchain==1.3b0
#        opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from importlib.metadata import version

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph_swarm import create_handoff_tool, create_swarm
from opentelemetry import trace
from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    TRANSFER,
    delegation,
    expected,
    interleaved,
)
from tools.capture_generators.variants import each_alone

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@wrap_tool_call
def _report_errors(request, handler):
    try:
        return handler(request)
    except ValueError as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


def _tools(functions):
    return [StructuredTool.from_function(function) for function in functions]


def _refunds(model):
    agent = create_agent(model, _tools(REFUND_TOOLS), system_prompt=REFUND_INSTRUCTIONS, name=REFUNDS)

    @tool(REFUNDS)
    def ask_refunds(request: str) -> str:
        """Ask the refunds desk."""
        return agent.invoke({"messages": [HumanMessage(request)]})["messages"][-1].content

    return ask_refunds


def _agent(model, saver):
    tools = [*_tools(TOOLS), _refunds(model)]
    return create_agent(
        model, tools, system_prompt=INSTRUCTIONS, name=AGENT, middleware=[_report_errors], checkpointer=saver
    )


def _graph(model, saver):
    tools = [*_tools(TOOLS), _refunds(model)]
    bound = model.bind_tools(tools)

    def think(state):
        return {"messages": [bound.invoke([SystemMessage(INSTRUCTIONS), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(checkpointer=saver, name=AGENT)


def _swarm(model, saver):
    handoff = create_handoff_tool(agent_name=REFUNDS)
    tools = [*_tools(TOOLS), handoff]
    atlas = create_agent(model, tools, system_prompt=INSTRUCTIONS, name=AGENT, middleware=[_report_errors])
    refunds = create_agent(model, _tools(REFUND_TOOLS), system_prompt=REFUND_INSTRUCTIONS, name=REFUNDS)
    return create_swarm([atlas, refunds], default_active_agent=AGENT).compile(checkpointer=saver, name="desk")


#: Name of the capture -> how the agent is made, where the content goes, whether the thread is named.
_CAPTURES = {
    "native-genai-langchain-both-stream": (_agent, "SPAN_AND_EVENT", True),
    "native-genai-langchain-span-nothread": (_agent, "SPAN_ONLY", False),
    "native-genai-langgraph-span": (_graph, "SPAN_ONLY", True),
    "native-genai-langgraph-event": (_graph, "EVENT_ONLY", True),
    "native-genai-langgraph-swarm": (_swarm, "SPAN_ONLY", True),
    "native-genai-langchain-onetrace": (_agent, "SPAN_ONLY", False),
}


def _play(server, make, *, named, streamed, around):
    """Play the conversations; `around` is entered around each turn."""
    model = ChatOpenAI(model=MODEL, base_url=server.url, api_key="none", streaming=streamed, stream_usage=True)
    agent = make(model, InMemorySaver() if named else None)
    histories = [[] for _ in server.conversations]
    for c, t, turn in interleaved(server.conversations):
        server.now(c, t)
        config = {"configurable": {"thread_id": server.conversations[c].id}} if named else {}
        known = [] if named else histories[c]
        with around(c):
            state = agent.invoke({"messages": [*known, HumanMessage(turn.query)]}, config)
        histories[c] = state["messages"]
        assert state["messages"][-1].content == turn.answer


@contextmanager
def _visits(tracer, count):
    """Yield what puts turns under one span for each conversation, as a long connection of a web server does."""
    visits = [tracer.start_span("WS /chat", kind=trace.SpanKind.SERVER) for _ in range(count)]
    yield lambda c: trace.use_span(visits[c])
    for visit in visits:
        visit.end()


def _record(name):
    make, mode, named = _CAPTURES[name]
    conversations = (*STORY, TRANSFER if make is _swarm else delegation())
    onetrace = name.endswith("onetrace")
    with (
        ModelServer(conversations) as server,
        recording(name, service="travel-desk", logs="EVENT" in mode) as capture,
    ):
        os.environ.update({_CONTENT: mode})
        spans, records = capture.providers()
        LangChainInstrumentor().instrument(tracer_provider=spans, logger_provider=records)
        visits = _visits(spans.get_tracer("web"), len(conversations)) if onetrace else nullcontext(nullcontext)
        with visits as around:
            _play(server, make, named=named, streamed=name.endswith("stream"), around=around)
        library = "opentelemetry-instrumentation-genai-langchain"
        capture.truth = expected(
            conversations,
            framework=f"langgraph {version('langgraph')}, {library} {version(library)}, {mode}",
            id_in_telemetry=named,
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
