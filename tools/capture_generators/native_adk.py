"""google-adk, both major versions and both telemetry schemas, with a hand-off or an agent as a tool.

The version that is installed decides which captures are written.

The model class is replaced: the framework's own speaks to one vendor only.
"""
# needs: google-adk==2.13.0 opentelemetry-exporter-otlp-proto-http==1.44.0
# or:    google-adk==1.39.1 opentelemetry-exporter-otlp-proto-http==1.41.1
# The framework is not installed where types are checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from tools.capture_generators.record import recording
from tools.capture_generators.script import MODEL, Message, Script
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
    transfer,
)
from tools.capture_generators.variants import each_alone

_LATEST = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"}
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_HANDED = (*STORY, transfer("transfer_to_agent", {"agent_name": REFUNDS}))
_CONVERSATIONS = (*STORY, delegation())
#: Name of the capture -> environment, conversations, whether the content is in log records.
_FIRST = {
    "native-adk-1-handed": ({}, _HANDED, False),
    "native-adk-1-asked-logs": ({_CONTENT: "true"}, _CONVERSATIONS, True),
}
_SECOND = {
    "native-adk-2-schema2-span": ({**_LATEST, _CONTENT: "SPAN_ONLY"}, _CONVERSATIONS, False),
    "native-adk-2-schema2-event": ({**_LATEST, _CONTENT: "EVENT_ONLY"}, _HANDED, True),
    "native-adk-2-schema1": ({"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"}, _HANDED, False),
    "native-adk-2-schema1-asked": ({"ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1"}, _CONVERSATIONS, False),
    "native-adk-2-default": ({}, _CONVERSATIONS, False),
}
_VERSION = version("google-adk")
_CAPTURES = _FIRST if _VERSION.startswith("1.") else _SECOND


class ScriptedLlm(BaseLlm):
    """The story as a model of this framework."""

    script: Script

    async def generate_content_async(self, llm_request, stream=False):  # noqa: FBT002, ARG002 - the framework's signature
        """Yield the one response."""
        reply = self.script.reply([_messages(content) for content in llm_request.contents])
        calls = [
            types.Part(function_call=types.FunctionCall(id=call_id, name=call.name, args=call.arguments))
            for call_id, call in reply.calls
        ]
        yield LlmResponse(
            content=types.Content(role="model", parts=calls or [types.Part(text=reply.text)]),
            finish_reason=types.FinishReason.STOP,
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=12, candidates_token_count=9),
        )


def _messages(content):
    if any(part.function_response for part in content.parts):
        return Message("tool", "")
    role = "assistant" if content.role == "model" else "user"
    return Message(role, "\n".join(part.text for part in content.parts if part.text))


def _error_result(tool, args, tool_context, error):
    return {"error": str(error)}


def _agent(script, conversations):
    model = ScriptedLlm(model=MODEL, script=script)
    refunds = LlmAgent(
        name=REFUNDS,
        model=model,
        instruction=REFUND_INSTRUCTIONS,
        description="Pays bookings back.",
        tools=list(REFUND_TOOLS),
    )
    handed = conversations is _HANDED
    return LlmAgent(
        name=AGENT,
        model=model,
        instruction=INSTRUCTIONS,
        tools=[*TOOLS, *([] if handed else [AgentTool(refunds)])],
        sub_agents=[refunds] if handed else [],
        on_tool_error_callback=_error_result,
    )


async def _play(conversations):
    script = Script(conversations)
    runner = InMemoryRunner(_agent(script, conversations), app_name="desk")
    for conversation in conversations:
        await runner.session_service.create_session(app_name="desk", user_id="u", session_id=conversation.id)
    for c, t, turn in interleaved(conversations):
        script.now(c, t, count=True)
        message = types.Content(role="user", parts=[types.Part(text=turn.query)])
        answer = ""
        async for event in runner.run_async(user_id="u", session_id=conversations[c].id, new_message=message):
            if event.is_final_response() and event.content:
                answer = "".join(part.text or "" for part in event.content.parts)
        assert answer == turn.answer, (answer, turn)


def _record(name):
    environment, conversations, logs = _CAPTURES[name]
    with recording(name, service="travel-desk", logs=logs) as capture:
        os.environ.update(environment)
        capture.providers()
        asyncio.run(_play(conversations))
        capture.truth = expected(
            conversations,
            framework=f"google-adk {_VERSION}, {environment}",
            id_in_telemetry=True,
            content_in_telemetry=name != "native-adk-2-default",
        )


def main() -> None:
    """Write the captures."""
    each_alone(__spec__.name, _CAPTURES, _record)


if __name__ == "__main__":
    main()
