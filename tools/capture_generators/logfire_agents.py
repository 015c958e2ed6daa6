"""Logfire's instrumentation of the OpenAI Agents SDK, scrubbing as it comes, with and without a group id."""
# needs: logfire==5.2.0 openai-agents==0.24.0 openai==3.54.0
# The framework is not installed where types are checked:
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from typing import Any

import agents
import logfire
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
    expected,
    interleaved,
)

#: Capture -> the model's interface, whether it streams, whether a group id is given, whether Logfire scrubs.
_VARIANTS = {
    "logfire-agents-chat": (agents.OpenAIChatCompletionsModel, False, True, None),
    "logfire-agents-stream-noid": (agents.OpenAIResponsesModel, True, False, None),
    "logfire-agents-session-unscrubbed": (agents.OpenAIResponsesModel, False, True, False),
}


def _agent(model: Any) -> Any:
    def tools(plain):
        return [agents.function_tool(tool, strict_mode=False) for tool in plain]

    refunds = agents.Agent(name=REFUNDS, instructions=REFUND_INSTRUCTIONS, model=model, tools=tools(REFUND_TOOLS))
    return agents.Agent(name=AGENT, instructions=INSTRUCTIONS, model=model, tools=tools(TOOLS), handoffs=[refunds])


async def _run(agent: Any, messages: list[Any], *, streamed: bool) -> Any:
    if not streamed:
        return await agents.Runner.run(agent, messages)
    result = agents.Runner.run_streamed(agent, messages)
    async for _ in result.stream_events():
        pass
    return result


async def _play(server: ModelServer, model: Any, *, streamed: bool, with_id: bool, scrubbed: bool) -> None:
    first = _agent(model)
    histories: dict[int, tuple[Any, list[Any]]] = {}
    for index, turn_index, turn in interleaved(server.conversations):
        server.now(index, turn_index)
        agent, history = histories.get(index, (first, []))
        session = server.conversations[index].id
        around = logfire.set_baggage(session_id=session) if with_id else nullcontext()
        # Scrubbed baggage leaves the group id; unscrubbed baggage is the only id there is.
        group = {"group_id": session} if with_id and scrubbed else {}
        with around, agents.trace("travel desk", **group):
            result = await _run(agent, [*history, {"role": "user", "content": turn.query}], streamed=streamed)
        if result.final_output != turn.answer:
            raise ValueError(f"{turn.query!r} was answered by {result.final_output!r}")
        histories[index] = (result.last_agent, result.to_input_list())


def _record(name: str) -> None:
    interface, streamed, with_id, scrubbing = _VARIANTS[name]
    conversations = (*STORY, TRANSFER)
    with ModelServer(conversations) as server, recording(name, service="travel-desk") as capture:
        logfire.configure(
            send_to_logfire=False,
            console=False,
            metrics=False,
            service_name=capture.service,
            service_version="1",
            scrubbing=scrubbing,
        )
        agents.set_trace_processors([])
        logfire.instrument_openai_agents()
        model = interface(MODEL, openai_client=AsyncOpenAI(base_url=server.url, api_key="none"))
        played = _play(server, model, streamed=streamed, with_id=with_id, scrubbed=scrubbing is None)
        asyncio.run(played)
        logfire.shutdown()
        notes = {} if with_id else {"id_in_telemetry": False}
        capture.truth = expected(conversations, framework=name, **notes)


def main() -> None:
    """Record the capture that is named on the command line: the SDK can be instrumented once a process."""
    _record(sys.argv[1])


if __name__ == "__main__":
    main()
