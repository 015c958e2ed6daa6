"""The spans of version 7 of the Vercel AI SDK: GenAI attributes, and a run whose output is one message of all its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.testing.dress import json_text
from otel_agentic.testing.genai import genai_message, genai_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import Message
    from otel_agentic.testing.walk import Act

GENAI_SCOPE: Final = "gen_ai"
_MODEL: Final = "scripted-1"
_PROVIDER: Final = "scripted"
_OPERATIONS: Final = {"run": "invoke_agent", "frame": "agent_step", "model": "chat", "tool": "execute_tool"}


def genai_name(act: Act) -> str:
    """Return the name of an act's span; that of a run names the model, not the agent."""
    if act.does == "frame":
        return f"step {act.number}"
    return f"{_OPERATIONS[act.does]} {act.made.name if act.made is not None else _MODEL}"


def genai_attributes(act: Act, *, runtime_context: bool) -> dict[str, Any]:
    """Return the attributes of an act's span.

    Args:
        act: what was done.
        runtime_context: whether the application lets runs and steps tell their conversation.
    """
    found: dict[str, Any] = {"gen_ai.operation.name": _OPERATIONS[act.does]}
    if runtime_context and act.does in {"run", "frame"} and act.script.conversation_id is not None:
        found["ai.settings.context.sessionId"] = act.script.conversation_id
    if act.does == "frame":
        return found
    if act.made is not None:
        return {**found, **_of_tool(act)}
    found |= {"gen_ai.provider.name": _PROVIDER, "gen_ai.request.model": _MODEL}
    if act.does == "run":
        found["gen_ai.agent.name"] = act.script.agent_name
    heard = [*act.history, *act.messages_in]
    found["gen_ai.system_instructions"] = json_text([{"type": "text", "content": "You are a helpful assistant."}])
    found["gen_ai.input.messages"] = json_text(_messages(heard))
    if act.messages_out is not None:
        found["gen_ai.output.messages"] = json_text([_output(act, act.messages_out[0])])
    return found


def _of_tool(act: Act) -> dict[str, Any]:
    assert act.made is not None  # noqa: S101 — the caller has seen it
    found = {
        "gen_ai.tool.name": act.made.name,
        "gen_ai.tool.call.id": act.call_id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": json_text(dict(act.made.arguments)),
    }
    if act.error is None and act.made.result is not None:
        found["gen_ai.tool.call.result"] = json_text(act.made.result)
    return found


def _output(act: Act, message: Message) -> dict[str, Any]:
    """Return what came back: of a run the last text, then the calls of all steps, then their results."""
    asked = [part for said in act.worked for part in said.requests]
    told = [part for said in act.worked for part in said.results if not part.is_error]
    parts = [genai_part(part) for part in (*message.parts, *asked, *told)]
    return {"role": message.role, "parts": parts, "finish_reason": "tool_call" if message.requests else "stop"}


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages with the results of one step in one message."""
    found: list[dict[str, Any]] = []
    for message in messages:
        written = genai_message(message)
        if message.results and found and found[-1]["role"] == "tool":
            found[-1]["parts"] += written["parts"]
        else:
            found.append(written)
    return found
