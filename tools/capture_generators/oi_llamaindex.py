# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: llama-index-core==0.14.25 llama-index-llms-openai-like==0.8.1 openai==2.54.0
# needs: openinference-instrumentation-llama-index==4.6.1 opentelemetry-sdk==1.45.2
# needs: opentelemetry-exporter-otlp-proto-http==1.45.2
"""LlamaIndex under OpenInference: agents that hand off in a session, an agent without streaming and session."""

from __future__ import annotations

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.memory import Memory
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike

from tools.capture_generators.oi_play import KEY, Plan, in_session, instrumented, record, wait
from tools.capture_generators.story import (
    AGENT,
    INSTRUCTIONS,
    REFUND_INSTRUCTIONS,
    REFUND_TOOLS,
    REFUNDS,
    STORY,
    TOOLS,
    transfer,
)

HANDOFF = transfer("handoff", {"to_agent": REFUNDS, "reason": "Pay booking B-17 back."})


def main() -> None:
    """Record the captures."""
    index = instrumented("openinference.instrumentation.llama_index:LlamaIndexInstrumentor")
    record(
        Plan("openinference-llamaindex-handoff-stream", index, in_session(handing_off), (*STORY, HANDOFF)),
        framework="llama-index",
    )
    record(Plan("openinference-llamaindex-bare", index, alone), framework="llama-index", id_in_telemetry=False)


def model(url):
    """Return the scripted model."""
    settings = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 32000}
    return OpenAILike(model="scripted-1", api_base=url, api_key=KEY, **settings)


def agents(url, **options):
    """Return the travel desk's agent and the one that pays back."""
    desk = {"name": AGENT, "description": "Knows trains.", "tools": tools(TOOLS), "system_prompt": INSTRUCTIONS}
    back = {"name": REFUNDS, "description": "Pays back.", "tools": tools(REFUND_TOOLS)}
    return (
        FunctionAgent(llm=model(url), **desk, **options),
        FunctionAgent(llm=model(url), **back, system_prompt=REFUND_INSTRUCTIONS, **options),
    )


def tools(functions):
    """Return the functions as tools."""
    return [FunctionTool.from_defaults(function) for function in functions]


def handing_off(url):
    """Return a speaker over two streaming agents in sessions."""
    workflow = AgentWorkflow(agents=list(agents(url, streaming=True)), root_agent=AGENT)
    contexts, memories = {}, {}

    async def ask(conversation, query):
        memory = memories.setdefault(conversation.id, Memory.from_defaults(session_id=conversation.id))
        context = contexts.setdefault(conversation.id, Context(workflow))
        return str(await workflow.run(user_msg=query, ctx=context, memory=memory))

    return lambda conversation, query: wait(ask(conversation, query))


def alone(url):
    """Return a speaker over one agent."""
    desk, _ = agents(url, streaming=False)
    memories = {}

    async def ask(conversation, query):
        memory = memories.setdefault(conversation.id, Memory.from_defaults(session_id=conversation.id))
        return str(await desk.run(user_msg=query, memory=memory))

    return lambda conversation, query: wait(ask(conversation, query))


if __name__ == "__main__":
    main()
