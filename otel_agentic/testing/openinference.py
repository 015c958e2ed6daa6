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
        script: the agent's actions.
        start_ns: its start, ns since the epoch.
    """
    written = spans_of(
        play(script, start_ns=start_ns),
        name=_name,
        attributes=lambda act: {**_identity(act), **_content(act)},
        events=exception_events,
        scope="openinference.instrumentation.testing",
    )
    return SpanBatch(spans=tuple(written_span for _, written_span in written))


def _name(act: Act) -> str:
    if act.call is not None:
        return act.call.name
    return act.script.agent_name if act.does == "run" else "ChatModel"


def _identity(act: Act) -> dict[str, Any]:
    attributes: dict[str, Any] = {"openinference.span.kind": _KINDS[act.does]}
    if act.does == "run":
        attributes["agent.name"] = act.script.agent_name
    if act.call is not None:
        attributes |= {"tool.name": act.call.name, "tool_call.id": act.call_id}
    if act.script.conversation_id is not None:
        attributes["session.id"] = act.script.conversation_id
    return attributes


def _content(act: Act) -> dict[str, Any]:
    if act.call is not None:
        attributes: dict[str, Any] = {"input.value": json_text(dict(act.call.arguments))}
        if act.error is None and act.call.result is not None:
            attributes["output.value"] = value_text(act.call.result)
        return attributes
    if act.does == "run":
        output = {"output.value": act.messages_out[0].text} if act.messages_out else {}
        return {"input.value": act.messages_in[-1].text, **output}
    return {
        **_flattened("llm.input_messages", act.messages_in),
        **_flattened("llm.output_messages", act.messages_out or ()),
    }


def _flattened(prefix: str, messages: Sequence[Message]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for number, message in enumerate(messages):
        start = f"{prefix}.{number}.message"
        attributes[f"{start}.role"] = message.role
        if message.text is not None:
            attributes[f"{start}.content"] = message.text
        for result in message.results:
            attributes[f"{start}.content"] = value_text(result.result)
            attributes[f"{start}.tool_call_id"] = result.call_id
        for index, request in enumerate(message.requests):
            call = f"{start}.tool_calls.{index}.tool_call"
            attributes[f"{call}.id"] = request.call_id
            attributes[f"{call}.function.name"] = request.name
            attributes[f"{call}.function.arguments"] = json_text(dict(request.arguments or {}))
    return attributes
