"""LiveKit Agents, two generations of its tracing: the one that is installed decides which capture is written.

Sessions take text instead of speech: the spans of turns, model calls and tools are the same. Each session is one trace.
"""
# needs: livekit-agents==1.8.9
# or:    livekit-agents==1.3.12 httpx openai
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import logging
from importlib.metadata import version

from livekit.agents import Agent, AgentSession, function_tool, llm
from livekit.agents.telemetry import set_tracer_provider
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS

from tools.capture_generators.record import recording
from tools.capture_generators.script import Message, Script
from tools.capture_generators.story import AGENT, INSTRUCTIONS, STORY, TOOLS, expected

_VERSION = version("livekit-agents")
_GREETING = "This is the travel desk, atlas speaking."


class _Scripted(llm.LLM):
    def __init__(self, script):
        super().__init__()
        self.script = script
        self.greets = True

    @property
    def model(self):
        return "scripted-1"

    @property
    def provider(self):
        return "loopback"

    def chat(self, *, chat_ctx, tools=None, conn_options=DEFAULT_API_CONNECT_OPTIONS, **_):
        return _Stream(self, chat_ctx=chat_ctx, tools=tools or [], conn_options=conn_options)


class _Stream(llm.LLMStream):
    async def _run(self):
        greets, self._llm.greets = self._llm.greets, False
        if greets:
            self._say(content=_GREETING)
            return
        reply = self._llm.script.reply(list(_messages(self._chat_ctx.items)))
        calls = [
            llm.FunctionToolCall(name=call.name, arguments=json.dumps(call.arguments), call_id=call_id)
            for call_id, call in reply.calls
        ]
        self._say(content=reply.text, tool_calls=calls)

    def _say(self, **delta):
        message = llm.ChoiceDelta(role="assistant", **delta)
        self._event_ch.send_nowait(llm.ChatChunk(id="scripted", delta=message))
        usage = llm.CompletionUsage(completion_tokens=5, prompt_tokens=20, total_tokens=25)
        self._event_ch.send_nowait(llm.ChatChunk(id="scripted", usage=usage))


def _messages(items):
    for item in items:
        if item.type == "message":
            yield Message(item.role, item.text_content or "")
        elif item.type == "function_call_output":
            yield Message("tool", item.output)


def _tool(function):
    @functools.wraps(function)
    async def run(*arguments, **named):
        return function(*arguments, **named)

    return function_tool(run)


async def _session(script, number, conversation):
    settings = {"record": False} if "record" in inspect.signature(AgentSession.start).parameters else {}
    async with AgentSession(llm=_Scripted(script)) as session:
        await session.start(Agent(id=AGENT, instructions=INSTRUCTIONS, tools=list(map(_tool, TOOLS))), **settings)
        await session.generate_reply(instructions="Greet the caller.")
        for index, turn in enumerate(conversation.turns):
            script.now(number, index)
            await session.run(user_input=turn.query)


async def _play():
    script = Script(STORY)
    for number, conversation in enumerate(STORY):
        # In a task of its own: a session's span stays the current one.
        await asyncio.create_task(_session(script, number, conversation))


def main() -> None:
    """Write the capture of the installed version."""
    logging.disable(logging.CRITICAL)
    with recording(f"native-livekit-{_VERSION.rpartition('.')[0]}", service="travel-desk") as capture:
        spans, _ = capture.providers(everywhere=False)
        known = inspect.signature(set_tracer_provider).parameters
        set_tracer_provider(spans, **({"allow_pii": True} if "allow_pii" in known else {}))
        asyncio.run(_play())
        capture.truth = expected(STORY, framework=f"livekit-agents {_VERSION}", id_in_telemetry=False)


if __name__ == "__main__":
    main()
