"""autogen: its own spans and those of the OpenAI client; one agent, and a team that hands over.

Its spans alone contain neither content nor an id that connects the turns.
"""
# needs: autogen-agentchat==0.7.5 autogen-ext[openai]==0.7.5 openai==2.54.0 opentelemetry-util-genai==0.4b0
#        opentelemetry-instrumentation-openai-v2==2.4b0 opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMessageTermination
from autogen_agentchat.teams import Swarm
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

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
    expected,
    interleaved,
)
from tools.capture_generators.variants import each_alone

_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental", _CONTENT: "span_only"}
_HANDED = (*STORY, TRANSFER)
_KNOWN = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}
#: Name of the capture -> conversations, environment of the client's instrumentation, whether logs are kept.
_CAPTURES = {
    "native-autogen-agent-openai-v2-span": (STORY, _LATEST, False),
    "native-autogen-agent-openai-v2-logs": (STORY, {_CONTENT: "true"}, True),
    "native-autogen-swarm-openai-v2-span": (_HANDED, _LATEST, False),
}


def _tools(functions):
    return [FunctionTool(function, description=function.__doc__.split("\n", 1)[0]) for function in functions]


def _assistant(client, name, instructions, functions, **more):
    return AssistantAgent(
        name,
        client,
        tools=_tools(functions),
        system_message=instructions,
        max_tool_iterations=5,
        **more,
    )


def _team(client):
    atlas = _assistant(client, AGENT, INSTRUCTIONS, TOOLS, handoffs=[REFUNDS])
    refunds = _assistant(client, REFUNDS, REFUND_INSTRUCTIONS, REFUND_TOOLS)
    return Swarm(
        [atlas, refunds], termination_condition=TextMessageTermination(AGENT) | TextMessageTermination(REFUNDS)
    )


def _alone(client):
    return _assistant(client, AGENT, INSTRUCTIONS, TOOLS)


async def _play(server, conversations):
    client = OpenAIChatCompletionClient(
        model=MODEL, base_url=server.url, api_key="none", model_info={**_KNOWN, "family": "unknown"}
    )
    make = _team if conversations is _HANDED else _alone
    agents = [make(client) for _ in conversations]
    for c, t, turn in interleaved(conversations):
        # The team announces the hand-over to the second agent in a text, not by the result of the call.
        server.now(c, t, count=conversations is _HANDED)
        result = await agents[c].run(task=turn.query)
        assert result.messages[-1].to_text() == turn.answer, result.messages


def _record(name):
    conversations, environment, logs = _CAPTURES[name]
    with ModelServer(conversations) as server, recording(name, service="travel-desk", logs=logs) as capture:
        os.environ.update(environment)
        spans, records = capture.providers()
        OpenAIInstrumentor().instrument(tracer_provider=spans, logger_provider=records)
        asyncio.run(_play(server, conversations))
        capture.truth = expected(
            conversations,
            framework=f"autogen-agentchat {version('autogen-agentchat')}, OpenAI client: {environment}",
            id_in_telemetry=False,
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
