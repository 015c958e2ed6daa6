"""A script in the OpenInference conventions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.spans.model import SpanBatch
from otel_agentic.testing.builders import NOON_NS
from otel_agentic.testing.genai import exception_events, json_text, spans_of, value_text
from otel_agentic.testing.script import play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import Message
    from otel_agentic.testing.script import Act, AgentRunScript

_KINDS: Final = {"run": "AGENT", "model": "LLM", "tool": "TOOL"}


def speak_openinference(script: AgentRunScript, *, start_ns: int = NOON_NS) -> SpanBatch:
    """Return a script as OpenInference spans: flattened messages, values as text, `session.id` on every span.

    Args:
        script: what the agent did.
        start_ns: when it began, ns since the epoch.
    """
    written = spans_of(
        play(script, start_ns=start_ns),
        name=_name,
        attributes=lambda act: {**_identity(act), **_content(act)},
        events=exception_events,
        scope="openinference.instrumentation.testing",
    )
    return SpanBatch(spans=tuple(found for _, found in written))


def _name(act: Act) -> str:
    if act.made is not None:
        return act.made.name
    return act.script.agent_name if act.does == "run" else "ChatModel"


def _identity(act: Act) -> dict[str, Any]:
    found: dict[str, Any] = {"openinference.span.kind": _KINDS[act.does]}
    if act.does == "run":
        found["agent.name"] = act.script.agent_name
    if act.made is not None:
        found |= {"tool.name": act.made.name, "tool_call.id": act.call_id}
    if act.script.conversation_id is not None:
        found["session.id"] = act.script.conversation_id
    return found


def _content(act: Act) -> dict[str, Any]:
    if act.made is not None:
        found: dict[str, Any] = {"input.value": json_text(dict(act.made.arguments))}
        if act.error is None and act.made.result is not None:
            found["output.value"] = value_text(act.made.result)
        return found
    if act.does == "run":
        said = {"output.value": act.messages_out[0].text} if act.messages_out else {}
        return {"input.value": act.messages_in[-1].text, **said}
    return {
        **_flattened("llm.input_messages", act.messages_in),
        **_flattened("llm.output_messages", act.messages_out or ()),
    }


def _flattened(prefix: str, messages: Sequence[Message]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, message in enumerate(messages):
        start = f"{prefix}.{number}.message"
        found[f"{start}.role"] = message.role
        if message.text is not None:
            found[f"{start}.content"] = message.text
        for result in message.results:
            found[f"{start}.content"] = value_text(result.result)
            found[f"{start}.tool_call_id"] = result.call_id
        for index, request in enumerate(message.requests):
            call = f"{start}.tool_calls.{index}.tool_call"
            found[f"{call}.id"] = request.call_id
            found[f"{call}.function.name"] = request.name
            found[f"{call}.function.arguments"] = json_text(dict(request.arguments or {}))
    return found
