"""The OpenTelemetry GenAI semantic conventions, from the 1.28 names to today's.

Content is in attributes (JSON text or structured values), in one span event or log record per model call
(`gen_ai.client.inference.operation.details`), or, in the releases before 1.37, in one event or record per message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.generic import (
    CommonDialect,
    meaning_of,
    with_common_model_call,
    with_common_run,
    with_common_tool_call,
)
from otel_agentic.dialects.messages import read_message
from otel_agentic.dialects.values import parsed
from otel_agentic.dialects.vocabulary import common_keys, kind_meant

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.events import AgentRun, Header, Message, ModelCall, Role, ToolCall
    from otel_agentic.spans.model import LogRecord, Span

#: One event or log record per message (releases before 1.37): its name contains the role.
_MESSAGE_EVENTS: Final[Mapping[str, Role]] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE_EVENT: Final = "gen_ai.choice"
_KNOWN_EVENTS: Final = frozenset({*_MESSAGE_EVENTS, _CHOICE_EVENT})
#: The same events as a list in one attribute, each with its name (pydantic-ai, Logfire).
_EVENT_LIST: Final = "events"
_EVENT_NAME: Final = "event.name"
#: The index of a record in the history, written by senders with a coarse clock (pydantic-ai, Semantic Kernel).
_INDEX_KEYS: Final = ("gen_ai.message.index", "CHAT_MESSAGE_INDEX")
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
        finish_reason=(
            "gen_ai.response.finish_reasons",
            "gen_ai.response.finish_reason",
            "gen_ai.output.messages~.0.finish_reason",
        ),
        answer=("final_result",),  # pydantic-ai
        messages_in=("gen_ai.input.messages", "gen_ai.prompt"),
        messages_out=("gen_ai.output.messages", "gen_ai.completion"),
        tool_name=("gen_ai.tool.name",),
        call_id=("gen_ai.tool.call.id",),
        arguments=("gen_ai.tool.call.arguments", "tool_arguments"),
        result=("gen_ai.tool.call.result", "tool_response"),
        plan=("gen_ai.output.messages",),
        input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        definitions=("gen_ai.tool.definitions", "gen_ai.agent.tools"),  # the second: strands
        schema=("gen_ai.tool.json_schema",),  # strands
    )

    #: Whether a span may come from a vendor without its own table; subclasses are the tables of vendors.
    _any_vendor: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._any_vendor = False

    def __init__(self, settings: ConversationSettings) -> None:
        """Bind the user's own attribute names."""
        super().__init__(settings)
        self._settings = settings

    def meaning(self, span: Span) -> str:
        """Return the meaning of the operation name; a tool name counts only if there is no other operation name."""
        operation = span.attributes.get("gen_ai.operation.name")
        if operation is None or operation == _TOOL_OPERATION:
            # Parallel calls merged into one span for display (google-adk) are not a call.
            if "(merged" in str(span.attributes.get("gen_ai.tool.name", "")):
                return "summary of parallel calls"
            meaning = super().meaning(span)
            return meaning_of(span) if self._any_vendor and meaning == "no operation" else meaning
        named_meaning = self.table.kinds.get(str(operation)) or (kind_meant(operation)[0] if self._any_vendor else None)
        return named_meaning or f"operation {operation}"

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return the span as a run; values missing in the conventions' attributes may be in the vendor's own."""
        run = super().agent_run(header, span, logs, certain=certain)
        has_input, has_output = run.query or run.messages_in, run.answer or run.messages_out
        if (has_input and has_output) or not self._any_vendor or not common_keys(span.attributes).has_run:
            return run
        return with_common_run(run, self._common(span).agent_run(header, span, logs, certain=certain))

    def model_call(self, header: Header, span: Span, logs: Sequence[LogRecord]) -> ModelCall:
        """Return the span as a request to a model; missing values are completed as in `agent_run`."""
        call = super().model_call(header, span, logs)
        if not self._any_vendor:
            return call
        if call.asks_for_tools and not any(message.text or message.requests for message in call.messages_out or ()):
            call = replace(call, messages_out=None)  # an empty text next to calls that were not recorded
        if call.messages_in is not None and call.messages_out is not None:
            return call
        return with_common_model_call(call, self._common(span).model_call(header, span, logs))

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the span as an execution of a tool; missing values are completed as in `agent_run`."""
        call = super().tool_call(header, span)
        if (call.arguments is not None and call.result_captured) or not self._any_vendor:
            return call
        return with_common_tool_call(call, self._common(span).tool_call(header, span))

    def _common(self, span: Span) -> CommonDialect:
        return CommonDialect(self._settings, span)

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the input messages, from attributes or from events with one message each."""
        messages = super().messages_in(span, logs)
        return messages if messages is not None else _from_events(span, logs, choices=False)

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the output messages, from attributes or from `gen_ai.choice` events."""
        messages = super().messages_out(span, logs)
        return messages if messages is not None else _from_events(span, logs, choices=True)


def messages_of_events(events: Iterable[Any]) -> tuple[Message, ...]:
    """Return the messages of a list of message events, the output last.

    Args:
        events: the fields of each event, its name under `event.name`.
    """
    named = [(str(fields.get(_EVENT_NAME)), fields) for fields in events if isinstance(fields, Mapping)]
    return tuple(message for name, fields in named if (message := _message_of_event(name, fields)) is not None)


def _from_events(span: Span, logs: Sequence[LogRecord], *, choices: bool) -> tuple[Message, ...] | None:
    if not span.events and not logs and _EVENT_LIST not in span.attributes:
        return None
    events = [(name, fields) for name, fields in _message_events(span, logs) if (name == _CHOICE_EVENT) == choices]
    messages = tuple(message for name, fields in events if (message := _message_of_event(name, fields)) is not None)
    return messages if events else None


def _message_of_event(name: str, fields: Mapping[str, Any]) -> Message | None:
    if name == _CHOICE_EVENT:
        return _choice_message(fields)
    role = _MESSAGE_EVENTS.get(name)
    return read_message(_with_role(fields, role)) if role is not None else None


def _message_events(span: Span, logs: Sequence[LogRecord]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (event name, fields) from one source only, since a sender that uses several sources repeats all events.

    The fields are the body of a log record, the attributes of a span event, or an item of a list in an attribute.
    """
    records: list[tuple[str, Mapping[str, Any]]] = []
    for log in sorted(logs, key=_time_and_index):
        body = parsed(log.body)
        if log.event_name in _KNOWN_EVENTS and isinstance(body, Mapping):
            records.append((log.event_name, body))
    if not records:
        records = [(event.name, event.attributes) for event in span.events if event.name in _KNOWN_EVENTS]
    return records or _listed_events(parsed(span.attributes.get(_EVENT_LIST)))


def _time_and_index(log: LogRecord) -> tuple[int, int]:
    """Return the sort key of a record: its time, then its index in the history if the sender recorded one."""
    index = next((log.attributes[key] for key in _INDEX_KEYS if isinstance(log.attributes.get(key), int)), -1)
    return (log.time_ns, index)


def _listed_events(items: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the events of a list; without a choice event, the last assistant messages are the choice."""
    events = [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    named = [(str(event.get(_EVENT_NAME)), event) for event in events]
    known = [(name, event) for name, event in named if name in _KNOWN_EVENTS]
    if any(name == _CHOICE_EVENT for name, _ in known):
        return known
    last = len(known)
    while last and _MESSAGE_EVENTS.get(known[last - 1][0]) == "assistant":
        last -= 1
    return [*known[:last], *((_CHOICE_EVENT, fields) for _, fields in known[last:])]


def _with_role(fields: Mapping[str, Any], role: Role) -> dict[str, Any]:
    return {**fields, "role": fields.get("role") or role}


def _choice_message(fields: Mapping[str, Any]) -> Message | None:
    inner = parsed(fields.get("message"))
    if isinstance(inner, Mapping):
        merged = {**inner, "tool_calls": inner.get("tool_calls") or fields.get("tool_calls")}
    else:
        merged = {
            "content": inner if inner is not None else fields.get("content"),
            "tool_calls": fields.get("tool_calls"),
        }
    return read_message(_with_role(merged, "assistant"), "assistant")
