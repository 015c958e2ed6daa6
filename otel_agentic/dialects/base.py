"""Dialects as tables: which attribute has which meaning. Only a convention that differs in more than names needs code.

A dialect plug-in (entry-point group `otel_agentic.dialects`) is a class with `from_settings(settings)` that satisfies
`Dialect`; most subclass `TableDialect` and fill in a `Table`. `RecordedDialect` is for recorders of function calls, `Custom`
is the dialect that a user defines in the settings.

`Reader` reads spans: the first dialect that claims a span reads it, in this order: `[dialects.scopes]` and
`[dialects.custom]` of the settings, plug-ins, built-in dialects.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from otel_agentic import plugins
from otel_agentic.config import ConversationSettings, DialectSettings
from otel_agentic.dialects.events import (
    AgentEvent,
    AgentRun,
    Definitions,
    Header,
    Ignored,
    Message,
    ModelCall,
    Plan,
    Role,
    ToolCall,
    merged_definitions,
    read_definitions,
)
from otel_agentic.dialects.messages import flattened, read_messages
from otel_agentic.dialects.payloads import (
    Spoken,
    call_input,
    call_output,
    model_input,
    model_output,
    run_input,
    run_output,
)
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
from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Attributes of one convention; each meaning lists the paths (see `dialects.values`) that are tried in order.

    `scopes` are prefixes of instrumentation scope names, `marks` prefixes of attribute names: the dialect reads spans
    with either. `kind` distinguishes operations, `kinds` maps its values to meanings (`tool`, `model`, `agent`,
    `maybe_agent`, `plan`, else the reason to ignore the span). `tool_name` makes a span a tool call with any kind;
    `name` is only a name. `input` and `output` are the values that a vendor records for a run, a model call or a tool
    call (`dialects.payloads`); they are read if there is nothing more specific. `flat_in` and `flat_out` are prefixes
    of messages flattened over many attributes (`prefix.0.role`). `input_tokens` and `output_tokens` are those of one
    model call, `usage` contains both as an object. `definitions` are the tools available to a model or agent,
    `flat_definitions` prefixes of flattened ones, `schema` describes the parameters of the called tool.
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
        """Return the event of the span. Never raises, even for malformed values."""
        ...


class TableDialect:
    """A dialect defined by its table; subclasses override what their convention does differently."""

    name: str
    table: Table

    def __init__(self, settings: ConversationSettings) -> None:
        self._conversation_keys = (*settings.conversation_id_attributes, *self.table.conversation_id)
        self._case_keys = settings.case_id_attributes
        self._attempt_keys = settings.attempt_id_attributes
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
            attempt_id=_own_or_resource(span, self._attempt_keys),
            verdict=verdict_of(span, logs),
            ends_conversation=_is_true(span, self._end_keys),
            error=self.error(span),
        )

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id on the span or one of its log records; a redacted id is ignored."""
        for attributes in (span.attributes, *(log.attributes for log in logs)):
            for key in self._conversation_keys:
                value = first(attributes, (key,))
                conversation_id = None if value is None else id_of(value)
                if conversation_id is not None:
                    return conversation_id
        return None

    def case_id(self, span: Span) -> str | None:
        """Return the case id on the span or its resource."""
        return _own_or_resource(span, self._case_keys)

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
        flat_definitions = (read_definitions(flat(span.attributes, prefix)) for prefix in table.flat_definitions)
        return reduce(merged_definitions, flat_definitions, listed)

    def usage(self, span: Span, logs: Sequence[LogRecord]) -> tuple[int | None, int | None]:
        """Return the input and output tokens of a model call, each None if not recorded."""
        table = self.table
        input_tokens = count_of(_recorded(span, logs, table.input_tokens))
        output_tokens = count_of(_recorded(span, logs, table.output_tokens))
        if table.usage and (input_tokens is None or output_tokens is None):
            usage = usage_of(_recorded(span, logs, table.usage))
            return (usage[0] if input_tokens is None else input_tokens), (
                usage[1] if output_tokens is None else output_tokens
            )
        return input_tokens, output_tokens

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


def _is_true(span: Span, keys: tuple[str, ...]) -> bool:
    return any(span.attributes[key] is True for key in keys if key in span.attributes)


def _own_or_resource(span: Span, keys: tuple[str, ...]) -> str | None:
    """Return the text under one of the attributes on a span, else on its resource; None if absent."""
    value = first(span.attributes, keys)
    return text_of(value if value is not None else first(span.resource.attributes, keys))


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
    """A dialect of recorded function calls (LangSmith, Langfuse, MLflow): spans are functions with inputs and outputs.

    The conversation's id may be an argument of the function that runs the agent.
    """

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


#: The dialect's name in `[dialects.scopes]`, in the store and in `doctor`.
CUSTOM: Final = "custom"
#: Its section of the settings.
_SECTION: Final = "dialects.custom"
#: The meanings that a value of the `kind` attribute may have.
_KINDS: Final = ("agent", "maybe_agent", "model", "tool", "plan", "ignore")
_IGNORED: Final = "ignored by [dialects.custom.kinds]"


class Custom(TableDialect):
    """A dialect with the user's own table. Its scopes are globs; its marks may end in an asterisk."""

    name = CUSTOM
    asks_names_only = True

    def __init__(self, settings: ConversationSettings, table: Table) -> None:
        self.table = table
        super().__init__(settings)

    def claims(self, span: Span) -> str | None:
        """Return the setting by which this dialect reads the span; None if it does not."""
        for glob in self.table.scopes:
            if fnmatchcase(span.scope.name, glob):
                return f"chosen by [{_SECTION}] scopes {glob}"
        for mark in self.table.marks:
            if any(key.startswith(mark.rstrip("*")) for key in span.attributes):
                return f"chosen by [{_SECTION}] marks {mark}"
        return None


def custom_dialect(section: Mapping[str, Any], settings: ConversationSettings) -> Custom | None:
    """Return the dialect that a section of the settings describes, or None if it is empty.

    Raises:
        ConfigError: a meaning or kind is unknown, a value has the wrong type, or the table selects no spans or gives them no
            meaning; the message contains the setting and the allowed values.
    """
    if not section:
        return None
    meanings = [field.name for field in fields(Table)]
    for name in section:
        if name not in meanings:
            raise ConfigError(f"setting {_SECTION}.{name}: unknown setting; allowed: {', '.join(meanings)}")
    paths = {name: _paths(name, value) for name, value in section.items() if name != "kinds"}
    table = Table(kinds=_kinds(section.get("kinds", {})), **paths)
    _require_use(table)
    return Custom(settings, table)


def _paths(name: str, value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed or not all(isinstance(item, str) and item for item in listed):
        raise ConfigError(f'setting {_SECTION}.{name}: give a list of names, such as ["acme.text"], got {value!r}')
    return tuple(listed)


def _kinds(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(f'setting {_SECTION}.kinds: give a table, such as {{ agent_loop = "agent" }}, got {value!r}')
    for name, meaning in value.items():
        if meaning not in _KINDS:
            raise ConfigError(
                f"setting {_SECTION}.kinds.{name}: there is no kind {meaning!r}; allowed: {', '.join(_KINDS)}"
            )
    return {str(name): _IGNORED if meaning == "ignore" else meaning for name, meaning in value.items()}


def _require_use(table: Table) -> None:
    if not table.scopes and not table.marks:
        raise ConfigError(
            f"setting {_SECTION}: it selects no spans; set scopes (globs of instrumentation scopes) or marks (prefixes "
            "of attribute names)"
        )
    if not table.tool_name and not (table.kind and table.kinds):
        raise ConfigError(
            f"setting {_SECTION}: spans have no meaning; set kind (the attribute with the kind of a span) and kinds (the "
            "meanings of its values), or tool_name"
        )


_log = logging.getLogger(__name__)
#: Built-in dialects in the order of selection: the most specific first, the fallback last. Plug-ins come before.
_ORDER: Final = (
    "openinference",
    "openllmetry",
    "vercel",
    "langsmith",
    "langfuse",
    "mlflow",
    "logfire",
    "adk",
    "pydantic-ai",
    "openai-agents",
    "semantic-kernel",
    "autogen",
    "genai",
    "generic",
)

#: (name of the scope, names of the attributes): shared by the spans of one kind from one instrumentation.
_Names = tuple[str, tuple[str, ...]]
#: Maximum number of these that are cached with their dialect.
_MOST_KEPT: Final = 4096
#: The dialect name of spans that no dialect claims.
UNKNOWN: Final = "none"


class _Unknown(TableDialect):
    """A span that no dialect claims; it may still have a session, a case id, a verdict or the end mark."""

    name = UNKNOWN
    table = Table(kinds={}, conversation_id=("session.id", "conversation.id"))

    def meaning(self, span: Span) -> str:  # noqa: ARG002 — the signature is the base class's
        return "no dialect knows it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The event of a span, and the reason why its dialect was selected."""

    event: AgentEvent
    why: str


class Reader:
    """Reads spans with the installed dialects."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        settings: ConversationSettings,
        overrides: Mapping[str, Dialect | None] | None = None,
    ) -> None:
        """Bind the dialects.

        Args:
            dialects: the dialects in the order of selection.
            settings: the user's own attribute names.
            overrides: the dialect for each glob of instrumentation scopes, regardless of their spans; None ignores
                them.
        """
        self._dialects = tuple(dialects)
        self._unknown = _Unknown(settings)
        self._overrides = {glob: dialect or self._unknown for glob, dialect in (overrides or {}).items()}
        self._faults: dict[str, str] = {}
        self._by_names: dict[_Names, tuple[Dialect, str]] = {}

    @classmethod
    def from_settings(cls, settings: ConversationSettings, dialects: DialectSettings | None = None) -> Reader:
        """Return a reader with every installed dialect and their settings.

        Raises:
            PluginError: two plug-ins share a name, or one fails to load.
            ConfigError: a setting names an unknown dialect, meaning or kind; the message contains the known ones.
        """
        chosen = dialects or DialectSettings()
        installed = plugins.find("dialects")
        names = sorted(installed, key=lambda name: (_ORDER.index(name) if name in _ORDER else -1, name))
        loaded = [installed[name].load().from_settings(settings) for name in names]
        custom = custom_dialect(chosen.custom, settings)
        by_name: dict[str, Dialect | None] = {
            dialect.name: dialect for dialect in (*loaded, *([custom] if custom else []))
        }
        by_name[UNKNOWN] = None
        return cls([*([custom] if custom else []), *loaded], settings, _overrides(chosen.scopes, by_name))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dialects, in the order of selection."""
        return tuple(dialect.name for dialect in self._dialects)

    @property
    def faults(self) -> tuple[str, ...]:
        """The errors inside dialects, one sentence per dialect."""
        return tuple(self._faults.values())

    def dialect_of(self, span: Span) -> tuple[Dialect, str]:
        """Return the dialect that reads the span, and the reason."""
        for glob, chosen in self._overrides.items():
            if fnmatchcase(span.scope.name, glob):
                return chosen, f"chosen by [dialects.scopes] {glob}"
        names = (span.scope.name, tuple(span.attributes))
        selection = self._by_names.get(names)
        if selection is not None:
            return selection
        by_names = True
        for dialect in self._dialects:
            by_names = by_names and _asks_names_only(dialect)
            try:
                why = dialect.claims(span)
            except Exception:  # noqa: BLE001 — logged; a plug-in's fault must not keep spans from being stored
                self._log_fault(dialect.name)
                continue
            if why is not None:
                if by_names:
                    self._cache_selection(names, (dialect, why))
                return dialect, why
        return self._unknown, "no dialect claims it"

    def _cache_selection(self, names: _Names, selection: tuple[Dialect, str]) -> None:
        if len(self._by_names) >= _MOST_KEPT:
            self._by_names.clear()
        self._by_names[names] = selection

    def _log_fault(self, name: str) -> None:
        """Log the fault of a dialect once, because it may recur for every span."""
        if name not in self._faults:
            message = f"dialect {name!r} failed to decide which spans it reads; it is skipped for these spans"
            self._faults[name] = message
            _log.exception(message)

    def read(self, span: Span, logs: Sequence[LogRecord] = ()) -> Reading:
        """Return the reading of a span with its log records."""
        dialect, why = self.dialect_of(span)
        try:
            return Reading(event=dialect.read(span, logs), why=why)
        except Exception as error:  # noqa: BLE001 — one plug-in's fault on one span must not cost all others
            reason = f"dialect {dialect.name!r} failed: {type(error).__name__}: {error}"
            self._faults.setdefault(dialect.name, reason)
            return Reading(event=Ignored(header=self._unknown.header(span, logs), reason=reason), why=why)

    def read_all(self, spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Reading]:
        """Return the readings of spans, joined with log records by (trace id, span id)."""
        return [self.read(span, logs.get((span.trace_id, span.span_id), ())) for span in spans]


def _asks_names_only(dialect: Dialect) -> bool:
    """Return whether the dialect is selected by scope and attribute names alone."""
    return getattr(dialect, "asks_names_only", False) or type(dialect).claims is TableDialect.claims


def _overrides(scopes: Mapping[str, str], known: Mapping[str, Dialect | None]) -> dict[str, Dialect | None]:
    for glob, name in scopes.items():
        if name not in known:
            raise ConfigError(
                f"setting dialects.scopes: unknown dialect {name!r} for {glob!r}; allowed: {', '.join(known)}"
            )
    return {glob: known[name] for glob, name in scopes.items()}
