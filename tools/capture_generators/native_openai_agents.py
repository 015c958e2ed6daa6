"""The OpenAI Agents SDK under two instrumentations: the one that is installed decides which captures are written.

The SDK reports a failed tool to the model in its own words.
"""
# needs: openai-agents==0.24.0 openai==3.54.0 opentelemetry-instrumentation-genai-openai-agents==1.3b0
#        opentelemetry-instrumentation-genai-openai==1.3b0 opentelemetry-exporter-otlp-proto-http==1.45.2
# or:    openai-agents==0.24.0 openai==3.54.0 opentelemetry-instrumentation-openai-agents-v2==0.1.0
#        opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
from importlib.metadata import PackageNotFoundError, version

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_trace_processors,
)
from openai import AsyncOpenAI

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
_HANDED = (*STORY, TRANSFER)
_CONVERSATIONS = (*STORY, delegation(argument="input"))
#: Name of the capture -> conversations, the model's interface, whether it streams.
_V2 = {
    "native-openai-agents-v2-chat": (_HANDED, OpenAIChatCompletionsModel, False),
    "native-openai-agents-v2-responses-stream": (_CONVERSATIONS, OpenAIResponsesModel, True),
}
_GENAI = {
    "native-genai-openai-agents-chat": (_HANDED, OpenAIChatCompletionsModel, False),
    "native-genai-openai-agents-responses-stream": (_CONVERSATIONS, OpenAIResponsesModel, True),
}


def _instrument(spans):
    set_trace_processors([])
    if _has_genai():
        from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor  # noqa: PLC0415
        from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor  # noqa: PLC0415

        OpenAIInstrumentor().instrument(tracer_provider=spans)
        OpenAIAgentsInstrumentor().instrument(tracer_provider=spans, disable_openai_trace_export=True)
    else:
        from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor  # noqa: PLC0415

        OpenAIAgentsInstrumentor().instrument(tracer_provider=spans, capture_message_content="span_only")


def _has_genai():
    try:
        version("opentelemetry-instrumentation-genai-openai-agents")
    except PackageNotFoundError:
        return False
    return True


def _tools(functions):
    return [function_tool(function, strict_mode=False) for function in functions]


def _agent(model, *, handed):
    refunds = Agent(name=REFUNDS, instructions=REFUND_INSTRUCTIONS, model=model, tools=_tools(REFUND_TOOLS))
    refunds_tools = [] if handed else [refunds.as_tool(tool_name=REFUNDS, tool_description="Pays bookings back.")]
    tools = [*_tools(TOOLS), *refunds_tools]
    handoffs = [refunds] if handed else []
    return Agent(name=AGENT, instructions=INSTRUCTIONS, model=model, tools=tools, handoffs=handoffs)


async def _play(server, conversations, interface, *, streamed):
    model = interface(MODEL, openai_client=AsyncOpenAI(base_url=server.url, api_key="none"))
    agents = [_agent(model, handed=conversations is _HANDED) for _ in conversations]
    sessions = [SQLiteSession(conversation.id) for conversation in conversations]
    for c, t, turn in interleaved(conversations):
        server.now(c, t)
        config = RunConfig(workflow_name="travel desk", group_id=conversations[c].id)
        if streamed:
            run = Runner.run_streamed(agents[c], turn.query, session=sessions[c], run_config=config)
            async for _ in run.stream_events():
                pass
        else:
            run = await Runner.run(agents[c], turn.query, session=sessions[c], run_config=config)
        assert run.final_output == turn.answer, run.final_output
        agents[c] = run.last_agent


def _record(name):
    conversations, interface, streamed = (_V2 | _GENAI)[name]
    with ModelServer(conversations) as server, recording(name, service="travel-desk") as capture:
        os.environ.update({_CONTENT: "SPAN_ONLY"})
        spans, _ = capture.providers()
        _instrument(spans)
        asyncio.run(_play(server, conversations, interface, streamed=streamed))
        library = "genai-openai-agents" if _has_genai() else "openai-agents-v2"
        capture.truth = expected(
            conversations,
            framework=f"openai-agents {version('openai-agents')}, opentelemetry-instrumentation-{library}",
            id_in_telemetry=_has_genai(),
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures of the installed instrumentation."""
    each_alone(__spec__.name, _GENAI if _has_genai() else _V2, _record)


if __name__ == "__main__":
    main()
