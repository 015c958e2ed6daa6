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
    from collections.abc import Collection, Iterator, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.definitions import Definitions
    from otel_agentic.dialects.events import Role
    from otel_agentic.dialects.payloads import Spoken
    from otel_agentic.spans.model import LogRecord, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Attributes of one convention; each meaning lists the paths that are tried in order.

    `scopes` are prefixes of instrumentation scope names, `marks` prefixes of attribute names: either makes a span the
    dialect's. `kind` tells operations apart, `kinds` says what its values mean (`tool`, `model`, `agent`, `maybe_agent`,
    `plan`, else the reason to ignore the span). `tool_name` makes a span a tool call whatever its kind; `name` only names
    what the kind says. `input` and `output` hold whatever a vendor records of a run, a model call or a tool call
    (`dialects.payloads`), and are read where nothing more particular is there. `flat_in` and `flat_out` are prefixes of
    messages spelled out over many attributes (`prefix.0.role`). `input_tokens` and `output_tokens` are those of one model
    call, `usage` holds both as an object. `definitions` are the tools that a model or agent was given, `flat_definitions`
    prefixes of such that are spelled out, `schema` describes the parameters of the tool that was called.
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
        """The attributes that hold what was said, asked and answered; prefixes of those that are spelled out."""
        asked = (*self.query, *self.messages_in, *self.flat_in, *self.input, *self.arguments)
        answered = (*self.answer, *self.messages_out, *self.flat_out, *self.output, *self.result, *self.plan)
        return frozenset(attribute_of(path) for path in (*asked, *answered))


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
        if span.scope.name.startswith(self.table.scopes):
            return f"scope {span.scope.name}"
        if self.table.marks:
            for key in span.attributes:
                if key.startswith(self.table.marks):
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
            return Plan(header=header, text=self.plan_text(span, logs))
        return Ignored(header=header, reason=meaning)

    def meaning(self, span: Span) -> str:
        """Return `tool`, `model`, `agent`, `maybe_agent`, `plan`, or the reason to ignore the span."""
        if first(span.attributes, self.table.tool_name) is not None:
            return "tool"  # kinds lie: a tool with "agent" in its name may say that it is one
        kind = first(span.attributes, self.table.kind)
        if kind is None:
            return "no operation"
        return self.table.kinds.get(str(kind), f"operation {kind}")

    def plan_text(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the plan that the span wrote down: what was said, else what its convention names, else its output."""
        said = [message.text for message in self.messages_out(span, logs) or () if message.text]
        found = "\n".join(said) or first(span.attributes, self.table.plan) or self.run_output(span).text
        return None if found is None or is_redacted(found) else text_of(found)

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
                found = id_of(first(attributes, (key,)))
                if found is not None:
                    return found
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
        attributes = span.attributes
        query, answer = first(attributes, self.table.query), first(attributes, self.table.answer)
        messages_in, messages_out = self.messages_in(span, logs), self.messages_out(span, logs)
        if query is None and not messages_in:
            given = self.run_input(span)
            query, messages_in = given.text, given.messages or messages_in
        if answer is None and not messages_out:
            said = self.run_output(span)
            answer, messages_out = said.text, said.messages or messages_out
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
        """Return the tools that a model or agent was given, by name; None when not told."""
        table = self.table
        found = read_definitions(_told(span, logs, table.definitions)) if table.definitions else None
        if not table.flat_definitions or (found is not None and all(schema is not None for schema in found.values())):
            return found
        listed = (read_definitions(flat(span.attributes, prefix)) for prefix in table.flat_definitions)
        return reduce(merged_definitions, listed, found)

    def usage(self, span: Span, logs: Sequence[LogRecord]) -> tuple[int | None, int | None]:
        """Return how many tokens went into a model and came out of it; None where not told."""
        table = self.table
        given, taken = (count_of(_told(span, logs, paths)) for paths in (table.input_tokens, table.output_tokens))
        if table.usage and (given is None or taken is None):
            both = usage_of(_told(span, logs, table.usage))
            return (both[0] if given is None else given), (both[1] if taken is None else taken)
        return given, taken

    def run_input(self, span: Span) -> Spoken:
        """Return what the vendor recorded as the input of a run."""
        return run_input(first(span.attributes, self.table.input))

    def run_output(self, span: Span) -> Spoken:
        """Return what the vendor recorded as the output of a run."""
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
            messages_out = None  # it asked for tools, and the record does not say for which (LiteLLM)
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
        """Return the names of the parameters of the tool that was called, in order; None when not recorded."""
        for path in self.table.schema:
            found = parsed(first(span.attributes, (path,)))
            if not isinstance(found, Mapping):
                continue
            if isinstance(found.get("properties"), Mapping):
                return list(found["properties"])
            if found and all(isinstance(value, Mapping) and "type" in value for value in found.values()):
                return list(found)  # smolagents describes each parameter under its name
        return None

    def schema(self, span: Span) -> Mapping[str, Any] | None:
        """Return the JSON schema of the parameters of the tool that was called; None when not told."""
        found = parsed(first(span.attributes, self.table.schema)) if self.table.schema else None
        return found if isinstance(found, dict) and ("properties" in found or "$schema" in found) else None

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what went to the model or agent as its convention lists it; None when it does not."""
        return _listed(span, logs, self.table.messages_in, self.table.flat_in, "user")

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what came back as its convention lists it; None when it does not."""
        return _listed(span, logs, self.table.messages_out, self.table.flat_out, "assistant")


def _told(span: Span, logs: Sequence[LogRecord], paths: tuple[str, ...]) -> Any:
    """Return what a span tells, else one of its events or log records; None when none does."""
    found = first(span.attributes, paths)
    if found is None and paths and (span.events or logs):
        return next(filter(_is_told, (first(attributes, paths) for attributes in _beside(span, logs))), None)
    return found


def _is_told(value: object) -> bool:
    return value is not None


def _beside(span: Span, logs: Sequence[LogRecord]) -> Iterator[Mapping[str, Any]]:
    yield from (event.attributes for event in span.events)
    yield from (log.attributes for log in logs)


def _listed(
    span: Span, logs: Sequence[LogRecord], paths: tuple[str, ...], prefixes: tuple[str, ...], role: Role
) -> tuple[Message, ...] | None:
    if paths:
        found = _told(span, logs, paths)
        if found is not None:
            return read_messages(found, role)
    for prefix in prefixes:
        messages = flattened(span.attributes, prefix, role)
        if messages is not None:
            return messages
    return None


#: What openai-agents calls the tool that hands over, unless an application names it.
_TRANSFER: Final = "transfer_to_"
_NOT_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


def handoff(header: Header, *, from_agent: Any, to_agent: Any) -> ToolCall:
    """Return a handoff span as the call of the tool that hands over, under the name that the model knows it by.

    Its result is what openai-agents then tells the model: the agent that control went to.
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
#: Where a recorder puts the arguments: as they are, or beside the positional ones.
_ARGUMENTS: Final = ("", "kwargs.")
#: What a function calls the parameter that takes the conversation's id.
_PARAMETERS: Final = (*session_keys(""), "session")


class RecordedDialect(TableDialect):
    """A dialect of recorded function calls: the function that runs the agent may have been given the conversation's id."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._given = tuple(f"{key}~{at}{name}" for key in cls.table.input for at in _ARGUMENTS for name in _PARAMETERS)

    _given: tuple[str, ...] = ()

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id that the span names, else the one that its function was given.

        Only a run's arguments count: a tool may well be about another conversation.
        """
        found = super().conversation_id(span, logs)
        if found is not None or self.meaning(span) not in _RUNS:
            return found
        given = first(span.attributes, self._given)
        return id_of(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else None
