"""semantic-kernel: spans of its own, the messages in log records of Python's `logging`.

Its tools are named after their plug-in: `desk-multiply`.
"""
# needs: semantic-kernel==1.45.0 opentelemetry-exporter-otlp-proto-http==1.45.2
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
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

_FLAG = "SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"
_CONVERSATIONS = (*STORY, delegation())
#: Name of the capture -> whether it streams.
_CAPTURES = {"native-semantic-kernel-content": False, "native-semantic-kernel-content-stream": True}


def _agent(service):
    # The framework reads its environment when it is imported.
    from semantic_kernel.agents import ChatCompletionAgent  # noqa: PLC0415
    from semantic_kernel.functions import KernelPlugin, kernel_function  # noqa: PLC0415

    refund_tools = KernelPlugin.from_object("money", {f.__name__: kernel_function(f) for f in REFUND_TOOLS})
    refunds = ChatCompletionAgent(
        service=service, name=REFUNDS, instructions=REFUND_INSTRUCTIONS, plugins=[refund_tools]
    )

    @kernel_function(name=REFUNDS, description="Asks the refunds desk.")
    async def ask_refunds(request: str) -> str:
        return str((await refunds.get_response(request)).content)

    functions = {**{f.__name__: kernel_function(f) for f in TOOLS}, REFUNDS: ask_refunds}
    desk = KernelPlugin.from_object("desk", functions)
    return ChatCompletionAgent(service=service, name=AGENT, instructions=INSTRUCTIONS, plugins=[desk])


async def _play(server, *, streamed):
    from openai import AsyncOpenAI  # noqa: PLC0415
    from semantic_kernel.agents import ChatHistoryAgentThread  # noqa: PLC0415
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion  # noqa: PLC0415

    client = AsyncOpenAI(base_url=server.url, api_key="none")
    agent = _agent(OpenAIChatCompletion(ai_model_id=MODEL, async_client=client))
    threads = [ChatHistoryAgentThread() for _ in _CONVERSATIONS]
    for c, t, turn in interleaved(_CONVERSATIONS):
        server.now(c, t)
        if streamed:
            answer = "".join([str(item.content) async for item in agent.invoke_stream(turn.query, thread=threads[c])])
        else:
            answer = str((await agent.get_response(turn.query, thread=threads[c])).content)
        assert answer == turn.answer, answer


def _log_to(records):
    from opentelemetry.sdk._logs import LoggingHandler  # noqa: PLC0415

    handler = LoggingHandler(logger_provider=records)
    handler.addFilter(logging.Filter("semantic_kernel"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)


def _record(name):
    with ModelServer(_CONVERSATIONS) as server, recording(name, service="travel-desk", logs=True) as capture:
        os.environ[_FLAG] = "true"
        _, records = capture.providers()
        _log_to(records)
        asyncio.run(_play(server, streamed=_CAPTURES[name]))
        capture.truth = expected(
            _CONVERSATIONS,
            aka=lambda tool: f"{'money' if tool == 'refund' else 'desk'}-{tool}",
            framework=f"semantic-kernel {version('semantic-kernel')}",
            id_in_telemetry=False,
            content_in_telemetry=True,
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
