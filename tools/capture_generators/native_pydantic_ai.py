"""pydantic-ai, both major versions in use: the one that is installed decides which captures are written.

A tool that fails raises ModelRetry, which this framework reports to the model.
"""
# needs: pydantic-ai-slim[openai]==2.68.0 opentelemetry-exporter-otlp-proto-http==1.45.2
# or:    pydantic-ai-slim[openai]==1.107.10 opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import functools
import inspect
import warnings
from importlib.metadata import version

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tools.capture_generators.model_server import ModelServer
from tools.capture_generators.record import recording
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

_VERSION = version("pydantic-ai-slim")
_CONVERSATIONS = (*STORY, delegation())
#: Name of the capture -> settings, whether it streams, whether the framework's log records are needed.
_CAPTURES = {
    "2": {
        "native-pydantic-ai-2-v5": ({"version": 5}, False, False),
        "native-pydantic-ai-2-v6-stream": ({"version": 6}, True, False),
        "native-pydantic-ai-2-v5-nocontent": ({"version": 5, "include_content": False}, False, False),
    },
    "1": {
        "native-pydantic-ai-1-v1": ({"version": 1}, False, False),
        "native-pydantic-ai-1-v1-logs": ({"version": 1, "event_mode": "logs"}, False, True),
        "native-pydantic-ai-1-v2": ({"version": 2}, False, False),
        "native-pydantic-ai-1-v3-stream": ({"version": 3}, True, False),
    },
}


def _retrying(tool):
    @functools.wraps(tool)
    def run(**arguments):
        try:
            return tool(**arguments)
        except ValueError as error:
            raise ModelRetry(str(error)) from error

    run.__signature__ = inspect.signature(tool)
    return run


def _agent(model):
    refunds = Agent(model, name=REFUNDS, instructions=REFUND_INSTRUCTIONS, tools=list(REFUND_TOOLS))

    async def ask_refunds(request: str) -> str:
        """Ask the refunds desk.

        Args:
            request: The task.
        """
        return (await refunds.run(request)).output

    ask_refunds.__name__ = REFUNDS
    return Agent(model, name=AGENT, instructions=INSTRUCTIONS, tools=[*map(_retrying, TOOLS), ask_refunds], retries=2)


async def _play(server, *, streamed):
    agent = _agent(OpenAIChatModel("scripted-1", provider=OpenAIProvider(base_url=server.url, api_key="none")))
    histories = {}
    for c, t, turn in interleaved(_CONVERSATIONS):
        server.now(c, t)
        known = {"message_history": histories.get(c), "conversation_id": _CONVERSATIONS[c].id}
        if streamed:
            async with agent.run_stream(turn.query, **known) as run:
                answer = await run.get_output()
        else:
            run = await agent.run(turn.query, **known)
            answer = run.output
        assert answer == turn.answer
        histories[c] = run.all_messages()


def _record(name, settings, *, streamed, logs):
    with ModelServer(_CONVERSATIONS) as server, recording(name, service="travel-desk", logs=logs) as capture:
        spans, records = capture.providers(everywhere=False)
        also = {"logger_provider": records} if settings["version"] == 1 else {}
        Agent.instrument_all(InstrumentationSettings(tracer_provider=spans, **also, **settings))
        asyncio.run(_play(server, streamed=streamed))
        capture.truth = expected(
            _CONVERSATIONS,
            framework=f"pydantic-ai {_VERSION}, {settings}",
            id_in_telemetry=True,
            content_in_telemetry=settings.get("include_content", True),
        )


def main() -> None:
    """Write the captures of the installed version."""
    warnings.simplefilter("ignore")
    for name, (settings, streamed, logs) in _CAPTURES[_VERSION[0]].items():
        _record(name, settings, streamed=streamed, logs=logs)


if __name__ == "__main__":
    main()
