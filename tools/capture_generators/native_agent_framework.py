"""Microsoft agent-framework with sessions of its own, which it never names in its telemetry."""
# needs: agent-framework-core==1.23.0 agent-framework-openai==1.17.0 opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version

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
    delegation,
    expected,
    interleaved,
)
from tools.capture_generators.variants import each_alone

_CONVERSATIONS = (*STORY, delegation())
#: Name of the capture -> environment, whether it streams, whether log records are kept.
_CAPTURES = {
    "native-agent-framework-latest-local": ({"ENABLE_MESSAGE_EVENTS": "false"}, False, False),
    "native-agent-framework-latest-stream-both": ({}, True, True),
    "native-agent-framework-v136-local": ({"OTEL_SEMCONV_STABILITY_OPT_IN": ""}, False, True),
}


def _agent(server):
    # The framework reads its environment when it is imported.
    from agent_framework import Agent  # noqa: PLC0415
    from agent_framework.openai import OpenAIChatCompletionClient  # noqa: PLC0415

    client = OpenAIChatCompletionClient(MODEL, api_key="none", base_url=server.url)
    refunds = Agent(client, REFUND_INSTRUCTIONS, name=REFUNDS, tools=list(REFUND_TOOLS))
    refunds_tool = refunds.as_tool(name=REFUNDS, description="Pays bookings back.", arg_name="request")
    return Agent(client, INSTRUCTIONS, name=AGENT, tools=[*TOOLS, refunds_tool])


async def _play(server, *, streamed):
    agent = _agent(server)
    sessions = [agent.create_session() for _ in _CONVERSATIONS]
    for c, t, turn in interleaved(_CONVERSATIONS):
        server.now(c, t)
        if streamed:
            stream = agent.run(turn.query, session=sessions[c], stream=True)
            answer = "".join([update.text async for update in stream])
        else:
            answer = (await agent.run(turn.query, session=sessions[c])).text
        assert answer == turn.answer, answer


def _record(name):
    environment, streamed, logs = _CAPTURES[name]
    with ModelServer(_CONVERSATIONS) as server, recording(name, service="travel-desk", logs=logs) as capture:
        os.environ.update({"ENABLE_INSTRUMENTATION": "true", "ENABLE_SENSITIVE_DATA": "true", **environment})
        capture.providers()
        asyncio.run(_play(server, streamed=streamed))
        capture.truth = expected(
            _CONVERSATIONS,
            framework=f"agent-framework-core {version('agent-framework-core')}, {environment}",
            id_in_telemetry=False,
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
