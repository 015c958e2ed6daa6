"""google-adk: its own attributes of the first telemetry schema, and the texts that it writes between agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import Header, Message, Redacted, Text, ToolCall
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.payloads import model_input, model_output
from otel_agentic.dialects.values import first, parsed, unwrapped

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_OWN: Final = "gcp.vertex.agent."
_REQUEST: Final = _OWN + "llm_request"
_RESPONSE: Final = _OWN + "llm_response"
_OPERATION: Final = "gen_ai.operation.name"
#: Spans without an operation name that are runs: one request of the user, and an agent in releases before 1.17.
_RUNS: Final = ("invocation", "agent_run")
#: Messages and actions of other agents reach an agent as a message of the user that begins with this and names the speaker.
_QUOTED: Final = "For context:"
_SPEAKER: Final = "["


class GoogleADK(GenAI):
    """google-adk in both of its schemas.

    In the first, `call_llm` around `generate_content` is the same model call; it has the content unless capture was off.
    """

    name = "adk"
    table = replace(
        GenAI.table,
        scopes=("gcp.vertex.agent",),
        marks=(_OWN,),
        conversation_id=(*GenAI.table.conversation_id, _OWN + "session_id"),
        arguments=(*GenAI.table.arguments, _OWN + "tool_call_args"),
        result=(*GenAI.table.result, _OWN + "tool_response"),
        definitions=(*GenAI.table.definitions, _REQUEST + "~.config.tools"),
    )

    def meaning(self, span: Span) -> str:
        """Return the meaning of the operation; spans of the first schema without one are recognised by name and content."""
        if _OPERATION not in span.attributes:
            if span.name.startswith(_RUNS):
                return "agent"
            if _REQUEST in span.attributes and first(span.attributes, self.table.tool_name) is None:
                return "model"
        return super().meaning(span)

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the tool call; Gemini requires results to be objects, so ADK wrapped other results."""
        call = super().tool_call(header, span)
        return replace(call, result=unwrapped(call.result))

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages to the model without those of other agents."""
        messages = _captured(super().messages_in(span, logs))
        if messages is None:
            request = _payload(span, _REQUEST)
            messages = model_input(request) if request is not None else None
        return None if messages is None else tuple(message for message in messages if not _is_quoted(message))

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages from the model."""
        messages = _captured(super().messages_out(span, logs))
        if messages is not None:
            return messages
        response = _payload(span, _RESPONSE)
        return model_output(response) if response is not None else None


def _payload(span: Span, key: str) -> Mapping[str, Any] | None:
    """Return a request or response, or None if its capture was off, which leaves an empty object."""
    payload = parsed(span.attributes.get(key))
    return payload if isinstance(payload, Mapping) and payload else None


def _captured(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Return messages if any has content: without content capture, log records are written without their content."""
    if messages and all(isinstance(part, Redacted) for message in messages for part in message.parts):
        return None
    return messages


def _is_quoted(message: Message) -> bool:
    """Return whether a message of the user describes what another agent did."""
    texts = [part.content for part in message.parts if isinstance(part, Text)]
    return message.role == "user" and len(texts) > 1 and texts[0].startswith(_QUOTED) and texts[1].startswith(_SPEAKER)
