"""A dialect is mostly a table: which attribute holds which meaning. Code stands only where a convention truly differs.

A dialect plug-in (entry-point group `otel_agentic.dialects`) is a class with `from_settings(settings)` that satisfies
`Dialect`; most subclass `TableDialect` and fill in a `Table`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from otel_agentic.dialects.events import (
    AgentEvent,
    AgentRun,
    Header,
    Ignored,
    Message,
    ModelCall,
    Plan,
    ToolCall,
)
from otel_agentic.dialects.fields import agent_version, first, span_error, verdict_of
from otel_agentic.dialects.messages import read_messages
from otel_agentic.dialects.values import arguments_of, id_of, is_redacted, parsed, result_of, text_of, tool_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.events import Role
    from otel_agentic.spans.model import LogRecord, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Attribute names of one convention; each meaning lists the keys that are tried in order.

    `scopes` are prefixes of instrumentation scope names, `marks` prefixes of attribute names: either makes a span the
    dialect's. `kind` is the attribute that tells operations apart, `kinds` what its values mean.
    """

    scopes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    kinds: Mapping[str, str]
    conversation_id: tuple[str, ...] = ()
    agent_name: tuple[str, ...] = ()
    agent_id: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    messages_in: tuple[str, ...] = ()
    messages_out: tuple[str, ...] = ()
    tool_name: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    error: tuple[str, ...] = ("error.type",)
    plan: tuple[str, ...] = ()


@runtime_checkable
class Dialect(Protocol):
    """Reads the spans of one convention."""

    name: str

    @classmethod
    def from_settings(cls, settings: ConversationSettings) -> Dialect:
        """Return the dialect with the user's own attribute names."""
        ...

    def claims(self, span: Span) -> str | None:
        """Return why the span is of this dialect, in words for `doctor`; None when it is not."""
        ...

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return what the span means. Never raises on data."""
        ...


class TableDialect:
    """A dialect given by its table: subclasses override the few things their convention does differently."""

    name: str
    table: Table

    def __init__(self, settings: ConversationSettings) -> None:
        self._conversation_keys = (*settings.conversation_id_attributes, *self.table.conversation_id)
        self._case_keys = settings.case_id_attributes
        self._end_keys = settings.end_attributes

    @classmethod
    def from_settings(cls, settings: ConversationSettings) -> TableDialect:
        """Return the dialect with the user's own attribute names."""
        return cls(settings)

    def claims(self, span: Span) -> str | None:
        """Return why the span is of this dialect; None when it is not."""
        for prefix in self.table.scopes:
            if span.scope.name.startswith(prefix):
                return f"scope {span.scope.name}"
        for mark in self.table.marks:
            for key in span.attributes:
                if key.startswith(mark):
                    return f"attribute {key}"
        return None

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return what the span means."""
        header = self.header(span, logs)
        meaning = self.meaning(span)
        if meaning == "tool":
            return self.tool_call(header, span)
        if meaning == "model":
            return self.model_call(header, span, logs)
        if meaning in {"agent", "maybe_agent"}:
            return self.agent_run(header, span, logs, certain=meaning == "agent")
        if meaning == "plan":
            return Plan(header=header, text=text_of(first(span.attributes, self.table.plan)))
        return Ignored(header=header, reason=meaning)

    def meaning(self, span: Span) -> str:
        """Return `tool`, `model`, `agent`, `maybe_agent`, `plan`, or the reason to ignore the span."""
        if first(span.attributes, self.table.tool_name) is not None:
            return "tool"  # kinds lie: a tool with "agent" in its name may say that it is one
        kind = first(span.attributes, self.table.kind)
        if kind is None:
            return "no operation"
        return self.table.kinds.get(str(kind), f"operation {kind}")

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return what every event carries."""
        return Header(
            span=span,
            dialect=self.name,
            conversation_id=self.conversation_id(span, logs),
            agent_name=text_of(first(span.attributes, self.table.agent_name)),
            agent_version=agent_version(span),
            case_id=self.case_id(span),
            verdict=verdict_of(span, logs),
            ends_conversation=any(span.attributes.get(key) is True for key in self._end_keys),
            error=self.error(span),
        )

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id on the span or one of its log records; a redacted one is none."""
        for attributes in (span.attributes, *(log.attributes for log in logs)):
            for key in self._conversation_keys:
                value = attributes.get(key)
                if value is not None and value != "" and not is_redacted(value):
                    return text_of(value)
        return None

    def case_id(self, span: Span) -> str | None:
        """Return the case id on the span or its resource."""
        found = first(span.attributes, self._case_keys)
        return text_of(found if found is not None else first(span.resource.attributes, self._case_keys))

    def error(self, span: Span) -> str | None:
        """Return why the span failed, None when it did not."""
        return span_error(span, self.table.error)

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return the span as a run of an agent."""
        query = text_of(first(span.attributes, self.table.query))
        answer = text_of(first(span.attributes, self.table.answer))
        return AgentRun(
            header=header,
            certain=certain,
            query=None if is_redacted(query) else query,
            answer=None if is_redacted(answer) else answer,
            messages_in=self.messages_in(span, logs),
            messages_out=self.messages_out(span, logs),
        )

    def model_call(self, header: Header, span: Span, logs: Sequence[LogRecord]) -> ModelCall:
        """Return the span as a request to a model."""
        return ModelCall(
            header=header,
            messages_in=self.messages_in(span, logs),
            messages_out=self.messages_out(span, logs),
            model=text_of(first(span.attributes, self.table.model)),
            response_id=text_of(first(span.attributes, self.table.response_id)),
        )

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the span as an execution of a tool."""
        raw_result = first(span.attributes, self.table.result)
        captured = raw_result is not None and not is_redacted(raw_result)
        message = tool_message(parsed(raw_result)) if captured else None
        result = result_of(message["content"] if message else raw_result) if captured else None
        call_id = id_of(first(span.attributes, self.table.call_id))
        return ToolCall(
            header=header,
            name=text_of(first(span.attributes, self.table.tool_name)) or span.name,
            call_id=call_id or (id_of(message["tool_call_id"]) if message else None),
            arguments=arguments_of(first(span.attributes, self.table.arguments)),
            result=result,
            result_captured=captured and not is_redacted(result),
            is_error=header.error is not None or (message is not None and message.get("status") == "error"),
        )

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what went to the model or agent; None when not captured."""
        return self._messages(span, logs, self.table.messages_in, "user")

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what came back; None when not captured."""
        return self._messages(span, logs, self.table.messages_out, "assistant")

    def _messages(
        self, span: Span, logs: Sequence[LogRecord], keys: tuple[str, ...], default_role: Role
    ) -> tuple[Message, ...] | None:
        places = (span.attributes, *(event.attributes for event in span.events), *(log.attributes for log in logs))
        for attributes in places:
            found = first(attributes, keys)
            if found is not None:
                return read_messages(found, default_role)
        return None
