"""A dialect is mostly a table: which attribute has which meaning. There is code only where a convention really differs.

A dialect plug-in (entry-point group `otel_agentic.dialects`) is a class with `from_settings(settings)` that satisfies
`Dialect`; most subclass `TableDialect` and fill in a `Table`. `RecordedDialect` is for recorders of function calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from otel_agentic.dialects.definitions import merged_definitions, read_definitions
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
from otel_agentic.dialects.messages import flattened, read_messages
from otel_agentic.dialects.payloads import call_input, call_output, model_input, model_output, run_input, run_output
from otel_agentic.dialects.values import (
    agent_version,
    asks_for_tools,
    attribute_of,
    count_of,
    first,
    flat,
    id_of,
    is_redacted,
    parsed,
    session_keys,
    span_error,
    text_of,
    usage_of,
    verdict_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.definitions import Definitions
    from otel_agentic.dialects.events import Role
    from otel_agentic.dialects.payloads import Spoken
    from otel_agentic.spans.model import LogRecord, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Attributes of one convention; each meaning lists the paths that are tried in order.

    `scopes` are prefixes of instrumentation scope names, `marks` prefixes of attribute names: the dialect reads spans with
    either. `kind` distinguishes operations, `kinds` are the meanings of its values (`tool`, `model`, `agent`, `maybe_agent`,
    `plan`, else the reason to ignore the span). `tool_name` makes a span a tool call with any kind; `name` is only a
    name. `input` and `output` are the values that a vendor records for a run, a model call or a tool call
    (`dialects.payloads`); they are read if there is nothing more specific. `flat_in` and `flat_out` are prefixes of messages
    flattened over many attributes (`prefix.0.role`). `input_tokens` and `output_tokens` are those of one model call, `usage`
    contains both as an object. `definitions` are the tools available to a model or agent, `flat_definitions` prefixes of
    flattened ones, `schema` describes the parameters of the called tool.
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
    finish_reason: tuple[str, ...] = ()
    query: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    messages_in: tuple[str, ...] = ()
    messages_out: tuple[str, ...] = ()
    flat_in: tuple[str, ...] = ()
    flat_out: tuple[str, ...] = ()
    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    tool_name: tuple[str, ...] = ()
    call_id: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    error: tuple[str, ...] = ("error.type",)
    plan: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    flat_definitions: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()

    @property
    def content_attributes(self) -> frozenset[str]:
        """The attributes with inputs and outputs; prefixes of flattened ones."""
        inputs = (*self.query, *self.messages_in, *self.flat_in, *self.input, *self.arguments)
        outputs = (*self.answer, *self.messages_out, *self.flat_out, *self.output, *self.result, *self.plan)
        return frozenset(attribute_of(path) for path in (*inputs, *outputs))


@runtime_checkable
class Dialect(Protocol):
    """Reads the spans of one convention."""

    name: str

    @classmethod
    def from_settings(cls, settings: ConversationSettings) -> Dialect:
        """Return the dialect with the user's own attribute names."""
        ...

    def claims(self, span: Span) -> str | None:
        """Return the reason why this dialect reads the span, for `doctor`; None if it does not."""
        ...

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return the event of the span. Never raises on data."""
        ...


class TableDialect:
    """A dialect defined by its table; subclasses override what their convention does differently."""

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
        """Return the reason why this dialect reads the span; None if it does not."""
        if span.scope.name.startswith(self.table.scopes):
            return f"scope {span.scope.name}"
        if self.table.marks:
            for key in span.attributes:
                if key.startswith(self.table.marks):
                    return f"attribute {key}"
        return None

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return the event of the span."""
        header = self.header(span, logs)
        meaning = self.meaning(span)
        if meaning == "tool":
            return self.tool_call(header, span)
        if meaning == "model":
            return self.model_call(header, span, logs)
        if meaning in {"agent", "maybe_agent"}:
            return self.agent_run(header, span, logs, certain=meaning == "agent")
        if meaning == "plan":
            return Plan(header=header, text=self.plan_text(span, logs))
        return Ignored(header=header, reason=meaning)

    def meaning(self, span: Span) -> str:
        """Return `tool`, `model`, `agent`, `maybe_agent`, `plan`, or the reason to ignore the span."""
        if first(span.attributes, self.table.tool_name) is not None:
            return "tool"  # kinds can be wrong: a tool with "agent" in its name may be marked as an agent
        kind = first(span.attributes, self.table.kind)
        if kind is None:
            return "no operation"
        return self.table.kinds.get(str(kind), f"operation {kind}")

    def plan_text(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the plan of the span: its output messages, else the plan attribute of its convention, else its output."""
        texts = [message.text for message in self.messages_out(span, logs) or () if message.text]
        plan = "\n".join(texts) or first(span.attributes, self.table.plan) or self.run_output(span).text
        return None if plan is None or is_redacted(plan) else text_of(plan)

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the common fields of every event."""
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
        """Return the conversation id on the span or one of its log records; a redacted id is ignored."""
        for attributes in (span.attributes, *(log.attributes for log in logs)):
            for key in self._conversation_keys:
                conversation_id = id_of(first(attributes, (key,)))
                if conversation_id is not None:
                    return conversation_id
        return None

    def case_id(self, span: Span) -> str | None:
        """Return the case id on the span or its resource."""
        case_id = first(span.attributes, self._case_keys)
        return text_of(case_id if case_id is not None else first(span.resource.attributes, self._case_keys))

    def error(self, span: Span) -> str | None:
        """Return the error of the span, or None if it did not fail."""
        return span_error(span, self.table.error)

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return the span as a run of an agent."""
        attributes = span.attributes
        query, answer = first(attributes, self.table.query), first(attributes, self.table.answer)
        messages_in, messages_out = self.messages_in(span, logs), self.messages_out(span, logs)
        if query is None and not messages_in:
            run_input = self.run_input(span)
            query, messages_in = run_input.text, run_input.messages or messages_in
        if answer is None and not messages_out:
            run_output = self.run_output(span)
            answer, messages_out = run_output.text, run_output.messages or messages_out
        return AgentRun(
            header=header,
            certain=certain,
            query=None if is_redacted(query) else text_of(query),
            answer=None if is_redacted(answer) else text_of(answer),
            messages_in=messages_in,
            messages_out=messages_out,
            definitions=self.definitions(span, logs),
        )

    def definitions(self, span: Span, logs: Sequence[LogRecord]) -> Definitions | None:
        """Return the tools available to a model or agent, by name; None if not recorded."""
        table = self.table
        listed = read_definitions(_recorded(span, logs, table.definitions)) if table.definitions else None
        if not table.flat_definitions or (listed is not None and all(schema is not None for schema in listed.values())):
            return listed
        flattened = (read_definitions(flat(span.attributes, prefix)) for prefix in table.flat_definitions)
        return reduce(merged_definitions, flattened, listed)

    def usage(self, span: Span, logs: Sequence[LogRecord]) -> tuple[int | None, int | None]:
        """Return the input and output tokens of a model call, each None if not recorded."""
        table = self.table
        received, sent = (count_of(_recorded(span, logs, paths)) for paths in (table.input_tokens, table.output_tokens))
        if table.usage and (received is None or sent is None):
            both = usage_of(_recorded(span, logs, table.usage))
            return (both[0] if received is None else received), (both[1] if sent is None else sent)
        return received, sent

    def run_input(self, span: Span) -> Spoken:
        """Return the input of a run as the vendor recorded it."""
        return run_input(first(span.attributes, self.table.input))

    def run_output(self, span: Span) -> Spoken:
        """Return the output of a run as the vendor recorded it."""
        return run_output(first(span.attributes, self.table.output))

    def model_call(self, header: Header, span: Span, logs: Sequence[LogRecord]) -> ModelCall:
        """Return the span as a request to a model."""
        messages_in, messages_out = self.messages_in(span, logs), self.messages_out(span, logs)
        if messages_in is None:
            messages_in = model_input(first(span.attributes, self.table.input))
        if messages_out is None:
            messages_out = model_output(first(span.attributes, self.table.output))
        asks = asks_for_tools(first(span.attributes, self.table.finish_reason))
        if asks and messages_out is not None and not any(message.parts for message in messages_out):
            messages_out = None  # it requested tools, but the record does not contain the requests (LiteLLM)
        input_tokens, output_tokens = self.usage(span, logs)
        return ModelCall(
            header=header,
            messages_in=messages_in,
            messages_out=messages_out,
            model=text_of(first(span.attributes, self.table.model)),
            response_id=text_of(first(span.attributes, self.table.response_id)),
            asks_for_tools=asks,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            definitions=self.definitions(span, logs),
        )

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the span as an execution of a tool."""
        attributes, table = span.attributes, self.table
        output = call_output(first(attributes, (*table.result, *table.output)))
        name = text_of(first(attributes, (*table.tool_name, *table.name)))
        return ToolCall(
            header=header,
            name=name or span.name,
            is_named=bool(name),
            call_id=id_of(first(attributes, table.call_id)) or output.call_id,
            arguments=call_input(first(attributes, (*table.arguments, *table.input)), lambda: self.parameters(span)),
            result=output.result,
            result_captured=output.captured,
            is_error=header.error is not None or output.is_error,
            schema=self.schema(span),
        )

    def parameters(self, span: Span) -> Collection[str] | None:
        """Return the parameter names of the called tool, in order; None if not recorded."""
        for path in self.table.schema:
            schema = parsed(first(span.attributes, (path,)))
            if not isinstance(schema, Mapping):
                continue
            if isinstance(schema.get("properties"), Mapping):
                return list(schema["properties"])
            if schema and all(isinstance(value, Mapping) and "type" in value for value in schema.values()):
                return list(schema)  # smolagents describes each parameter under its name
        return None

    def schema(self, span: Span) -> Mapping[str, Any] | None:
        """Return the JSON schema of the parameters of the called tool; None if not recorded."""
        schema = parsed(first(span.attributes, self.table.schema)) if self.table.schema else None
        return schema if isinstance(schema, dict) and ("properties" in schema or "$schema" in schema) else None

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages to the model or agent that its convention lists; None if there is no list."""
        return _listed(span, logs, self.table.messages_in, self.table.flat_in, "user")

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages from the model or agent that its convention lists; None if there is no list."""
        return _listed(span, logs, self.table.messages_out, self.table.flat_out, "assistant")


def _recorded(span: Span, logs: Sequence[LogRecord], paths: tuple[str, ...]) -> Any:
    """Return the first value under the paths on a span, else on one of its events or log records; None if absent."""
    value = first(span.attributes, paths)
    if value is None and paths and (span.events or logs):
        records = [*(event.attributes for event in span.events), *(log.attributes for log in logs)]
        return next((nested for record in records if (nested := first(record, paths)) is not None), None)
    return value


def _listed(
    span: Span, logs: Sequence[LogRecord], paths: tuple[str, ...], prefixes: tuple[str, ...], role: Role
) -> tuple[Message, ...] | None:
    if paths:
        value = _recorded(span, logs, paths)
        if value is not None:
            return read_messages(value, role)
    for prefix in prefixes:
        messages = flattened(span.attributes, prefix, role)
        if messages is not None:
            return messages
    return None


#: The prefix that openai-agents uses for tools that hand over, unless an application names them.
_TRANSFER: Final = "transfer_to_"
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


def handoff(header: Header, *, from_agent: Any, to_agent: Any) -> ToolCall:
    """Return a handoff span as the call of the tool that hands over, under the name by which the model calls it.

    Its result is the one that openai-agents reports to the model: the agent that control was passed to.
    """
    target = text_of(to_agent) or ""
    failed = header.error is not None
    return ToolCall(
        header=replace(header, agent_name=text_of(from_agent) or header.agent_name),
        name=_TRANSFER + _NOT_A_NAME.sub("_", target).lower(),
        call_id=None,
        arguments=None,
        result=None if failed else {"assistant": target},
        result_captured=not failed,
        is_error=failed,
        handoff_to=target,
    )


_RUNS: Final = frozenset({"agent", "maybe_agent"})
#: Paths to the arguments in a record: at the top, or next to the positional ones.
_ARGUMENTS: Final = ("", "kwargs.")
#: Names of a function's parameter for the conversation's id.
_PARAMETERS: Final = (*session_keys(""), "session")


class RecordedDialect(TableDialect):
    """A dialect of recorded function calls: the conversation's id may be an argument of the function that runs the agent."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._id_arguments = tuple(
            f"{key}~{at}{name}" for key in cls.table.input for at in _ARGUMENTS for name in _PARAMETERS
        )

    _id_arguments: tuple[str, ...] = ()

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id on the span, else the id among the arguments of its function.

        Only a run's arguments count: a tool may get the id of another conversation.
        """
        conversation_id = super().conversation_id(span, logs)
        if conversation_id is not None or self.meaning(span) not in _RUNS:
            return conversation_id
        argument = first(span.attributes, self._id_arguments)
        return id_of(argument) if isinstance(argument, (str, int)) and not isinstance(argument, bool) else None
