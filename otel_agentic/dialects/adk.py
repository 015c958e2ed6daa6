"""google-adk: its own keys of the first telemetry schema, and the texts that it writes between agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import Message, Redacted, Text
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.payloads import model_input, model_output
from otel_agentic.dialects.values import first, parsed, unwrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import Header, ToolCall
    from otel_agentic.spans.model import LogRecord, Span

_OWN: Final = "gcp.vertex.agent."
_REQUEST: Final = _OWN + "llm_request"
_RESPONSE: Final = _OWN + "llm_response"
_OPERATION: Final = "gen_ai.operation.name"
#: Spans without an operation name that stand for a run: one request of the user, and an agent in releases before 1.17.
_RUNS: Final = ("invocation", "agent_run")
#: What other agents said and did reaches an agent as a message of the user that begins so, and then names its speaker.
_QUOTED: Final = "For context:"
_SPEAKER: Final = "["


class GoogleADK(GenAI):
    """google-adk in both of its schemas.

    In the first, `call_llm` around `generate_content` is the same model call; it holds the content unless its capture was
    switched off.
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
        """Return what the operation says; spans of the first schema without one are told by name and content."""
        if _OPERATION not in span.attributes:
            if span.name.startswith(_RUNS):
                return "agent"
            if _REQUEST in span.attributes and first(span.attributes, self.table.tool_name) is None:
                return "model"
        return super().meaning(span)

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the execution of a tool; Gemini wants every result to be an object, so others were wrapped."""
        found = super().tool_call(header, span)
        return replace(found, result=unwrapped(found.result))

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what went to the model, without what other agents said."""
        found = _captured(super().messages_in(span, logs))
        if found is None:
            request = _payload(span, _REQUEST)
            found = model_input(request) if request is not None else None
        return None if found is None else tuple(message for message in found if not _is_quoted(message))

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what came back."""
        found = _captured(super().messages_out(span, logs))
        if found is not None:
            return found
        response = _payload(span, _RESPONSE)
        return model_output(response) if response is not None else None


def _payload(span: Span, key: str) -> Mapping[str, Any] | None:
    """Return a request or response; None where its capture was off, which leaves an empty object."""
    found = parsed(span.attributes.get(key))
    return found if isinstance(found, Mapping) and found else None


def _captured(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Return messages that say anything: log records keep their place but not their content unless asked to."""
    if messages and all(isinstance(part, Redacted) for message in messages for part in message.parts):
        return None
    return messages


def _is_quoted(message: Message) -> bool:
    """Return whether a message of the user is what another agent said or did, retold."""
    texts = [part.content for part in message.parts if isinstance(part, Text)]
    return message.role == "user" and len(texts) > 1 and texts[0].startswith(_QUOTED) and texts[1].startswith(_SPEAKER)
