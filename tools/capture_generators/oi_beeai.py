# mypy: ignore-errors
# The framework is not installed where the types are checked.
# needs: beeai-framework==0.1.85 openinference-instrumentation-beeai==0.1.30
# needs: opentelemetry-sdk==1.45.2 opentelemetry-exporter-otlp-proto-http==1.45.2
"""BeeAI under OpenInference: an agent in a session, whose model makes parallel calls and whose tools fail."""

from __future__ import annotations

import asyncio
import json
import warnings

from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.backend import AssistantMessage, ChatModel, ChatModelOutput
from beeai_framework.backend.message import MessageToolCallContent
from beeai_framework.memory import UnconstrainedMemory
from beeai_framework.tools import tool
from openinference.instrumentation import using_session
from openinference.instrumentation.beeai import BeeAIInstrumentor

from tools.capture_generators.record import recording
from tools.capture_generators.script import reply_at
from tools.capture_generators.story import AGENT, INSTRUCTIONS, STORY, TOOLS, expected, interleaved


class _Scripted(ChatModel):
    """Returns the next reply of the script, by counting: the framework rewrites its history."""

    def __init__(self):
        super().__init__(allow_parallel_tool_calls=True)
        self.replies = iter(())

    @property
    def model_id(self):
        return "scripted-1"

    @property
    def provider_id(self):
        return "openai"

    async def _create(self, input, run):  # noqa: A002, ARG002 — the framework's signature
        reply = next(self.replies)
        answer = [("done", "final_answer", {"response": reply.text})] if reply.text else []
        calls = [(call_id, call.name, call.arguments) for call_id, call in reply.calls]
        messages = [
            MessageToolCallContent(id=call_id, tool_name=name, args=json.dumps(arguments))
            for call_id, name, arguments in (*calls, *answer)
        ]
        return ChatModelOutput(output=[AssistantMessage(messages)], finish_reason="tool_calls")

    async def _create_stream(self, input, run):  # noqa: A002 — the framework's signature
        yield await self._create(input, run)


async def _play():
    agents = {}
    for c, t, turn in interleaved(STORY):
        model = _Scripted()
        options = {"instructions": INSTRUCTIONS, "name": AGENT, "memory": UnconstrainedMemory(), "llm": model}
        if c not in agents:
            agents[c] = (RequirementAgent(tools=list(map(tool, TOOLS)), **options), model)
        agent, model = agents[c]
        model.replies = (reply_at(f"{c + 1}_{t + 1}", turn, step) for step in range(len(turn.steps) + 1))
        with using_session(STORY[c].id):
            answer = (await agent.run(turn.query)).last_message.text
        assert answer == turn.answer


def main() -> None:
    """Record the capture."""
    warnings.simplefilter("ignore")
    with recording("openinference-beeai-session", service="travel-desk") as capture:
        spans, _ = capture.providers()
        BeeAIInstrumentor().instrument(tracer_provider=spans)
        asyncio.run(_play())
        capture.truth = expected(STORY, framework="beeai-framework 0.1.85")


if __name__ == "__main__":
    main()
