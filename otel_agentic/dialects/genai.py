"""The OpenTelemetry GenAI semantic conventions, from the 1.28 names to today's.

Content sits in attributes (JSON text or structured values), in one span event or log record per model call
(`gen_ai.client.inference.operation.details`), or, in the releases before 1.37, in one event or record per message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.messages import read_message
from otel_agentic.dialects.values import parsed

if TYPE_CHECKING:
    from otel_agentic.dialects.events import Message, Role
    from otel_agentic.spans.model import LogRecord, Span

#: One event or log record per message (releases before 1.37): its name says the role.
_MESSAGE_EVENTS: Final[Mapping[str, Role]] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE_EVENT: Final = "gen_ai.choice"
_TOOL_OPERATION: Final = "execute_tool"


class GenAI(TableDialect):
    """GenAI semantic conventions, and the frameworks that follow them."""

    name = "genai"
    table = Table(
        marks=("gen_ai.",),
        kind=("gen_ai.operation.name",),
        kinds={
            "chat": "model",
            "generate_content": "model",
            "text_completion": "model",
            "invoke_agent": "agent",
            "invoke_workflow": "agent",
            "execute_tool": "tool",
            "plan": "plan",
            "create_agent": "creates an agent, runs nothing",
            "embeddings": "embeddings",
            "retrieval": "retrieval",
        },
        conversation_id=("gen_ai.conversation.id", "session.id"),
        agent_name=("gen_ai.agent.name",),
        agent_id=("gen_ai.agent.id",),
        model=("gen_ai.response.model", "gen_ai.request.model"),
        response_id=("gen_ai.response.id",),
        answer=("final_result",),  # pydantic-ai
        messages_in=("gen_ai.input.messages",),
        messages_out=("gen_ai.output.messages",),
        tool_name=("gen_ai.tool.name",),
        call_id=("gen_ai.tool.call.id",),
        arguments=("gen_ai.tool.call.arguments", "tool_arguments"),
        result=("gen_ai.tool.call.result", "tool_response"),
        plan=("gen_ai.output.messages",),
    )

    def meaning(self, span: Span) -> str:
        """Return what the operation name says; a tool name only counts where no other operation is named."""
        operation = span.attributes.get("gen_ai.operation.name")
        if operation is None or operation == _TOOL_OPERATION:
            # Parallel calls merged into one span for display (google-adk) are no call of their own.
            if "(merged" in str(span.attributes.get("gen_ai.tool.name", "")):
                return "summary of parallel calls"
            return super().meaning(span)
        return self.table.kinds.get(str(operation), f"operation {operation}")

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the input messages, from attributes or from events that hold one message each."""
        found = super().messages_in(span, logs)
        return found if found is not None else _from_events(span, logs, choices=False)

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the output messages, from attributes or from `gen_ai.choice` events."""
        found = super().messages_out(span, logs)
        return found if found is not None else _from_events(span, logs, choices=True)


def _from_events(span: Span, logs: Sequence[LogRecord], *, choices: bool) -> tuple[Message, ...] | None:
    found: list[Message] = []
    seen = False
    for name, fields in _message_events(span, logs):
        if (name == _CHOICE_EVENT) != choices:
            continue
        seen = True
        message = _choice(fields) if choices else read_message(_with_role(fields, _MESSAGE_EVENTS[name]))
        if message is not None:
            found.append(message)
    return tuple(found) if seen else None


def _message_events(span: Span, logs: Sequence[LogRecord]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (event name, its fields): the body of a log record, or the attributes of a span event."""
    known = {*_MESSAGE_EVENTS, _CHOICE_EVENT}
    found: list[tuple[str, Mapping[str, Any]]] = []
    for log in logs:
        body = parsed(log.body)
        if log.event_name in known and isinstance(body, Mapping):
            found.append((log.event_name, body))
    if not found:  # a sender that writes both writes the same content twice
        found = [(event.name, event.attributes) for event in span.events if event.name in known]
    return found


def _with_role(fields: Mapping[str, Any], role: Role) -> dict[str, Any]:
    return {**fields, "role": fields.get("role") or role}


def _choice(fields: Mapping[str, Any]) -> Message | None:
    inner = parsed(fields.get("message"))
    if isinstance(inner, Mapping):
        merged = {**inner, "tool_calls": inner.get("tool_calls") or fields.get("tool_calls")}
    else:
        merged = {
            "content": inner if inner is not None else fields.get("content"),
            "tool_calls": fields.get("tool_calls"),
        }
    return read_message(_with_role(merged, "assistant"), "assistant")
