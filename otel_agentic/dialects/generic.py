"""The fallback for frameworks without a table: reads spans by the common words in the names of attributes and spans.

Dialects that know a span's convention but not its vendor use the same reader for attributes that their own table lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.events import (
    AgentEvent,
    AgentRun,
    CallRequest,
    CallResult,
    Header,
    Message,
    ModelCall,
    Part,
    Text,
    ToolCall,
)
from otel_agentic.dialects.payloads import (
    Spoken,
    call_input,
    call_output,
    model_input,
    model_output,
    run_input,
    run_output,
)
from otel_agentic.dialects.values import asks_for_tools, attribute_of, first, id_of, parsed, span_error, text_of
from otel_agentic.dialects.vocabulary import CommonKeys, bare_name, common_keys, kind_meant, name_meant

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.spans.model import LogRecord, Span

_NO_OPERATION: Final = "no operation"
#: Part of the name of a span into which parallel calls were merged for display.
_MERGED: Final = "(merged"
_THREAD: Final = "thread.id"
#: Kinds of spans, the most specific first; other kinds are reasons to ignore a span.
_SPECIFIC: Final = {"tool": 0, "model": 1, "agent": 2, "maybe_agent": 3}


def claim_of(span: Span) -> str | None:
    """Return the reason why a span looks like an agent's, for `doctor`; None if it does not.

    A request of a protocol (HTTP, a database, a queue) looks like an agent's span only if its kind is unambiguous.
    """
    keys = common_keys(span.attributes)
    kind, is_certain = _kind(span, keys)
    if kind in _SPECIFIC and is_certain:
        return "names its kind"
    if keys.is_request:
        return None
    shape, named = name_meant(span.name)
    if tool_name_of(span, keys) is not None or named:
        return "names a tool" if not named else "is named like a call or a run"
    has_input, has_output = has_content(span, keys.input_keys), has_content(span, keys.output_keys)
    if (has_input or has_output) and (kind in _SPECIFIC or shape is not None):
        return "names its kind and has content"
    return _claim_by_content(span, keys, both=has_input and has_output) if has_input or has_output else None


def _claim_by_content(span: Span, keys: CommonKeys, *, both: bool) -> str | None:
    """Return the reason why a span with content but without a kind looks like an agent's; None if it does not."""
    if first(span.attributes, conversation_paths(span, keys)) is not None:
        return "has a conversation id and content"
    if first(span.attributes, keys.table.model) is not None:
        return "names a model and has content"
    return "has input and output" if both and (keys.is_classified or keys.is_agentic) else None


def conversation_paths(span: Span, keys: CommonKeys) -> tuple[str, ...]:
    """Return the paths to a conversation's id, without the operating system's thread id, which is a number."""
    paths = keys.table.conversation_id
    is_number = isinstance(span.attributes.get(_THREAD), int)
    return tuple(path for path in paths if attribute_of(path) != _THREAD) if is_number else paths


def meaning_of(span: Span) -> str:
    """Return `tool`, `model`, `agent`, `maybe_agent`, or the reason to ignore the span."""
    keys = common_keys(span.attributes)
    kind, _ = _kind(span, keys)
    tool = tool_name_of(span, keys)
    if kind in {None, "tool", "agent", "maybe_agent"} and tool is not None:
        # Kinds can be wrong: a tool with "agent" in its name may be marked as an agent.
        return "tool" if not tool.startswith(_MERGED) else "summary of parallel calls"
    kind = kind or name_meant(span.name)[0]
    if kind is not None:
        return kind
    if not has_content(span, keys.input_keys) and not has_content(span, keys.output_keys):
        return _NO_OPERATION
    return "model" if first(span.attributes, keys.table.model) is not None else "maybe_agent"


def tool_name_of(span: Span, keys: CommonKeys) -> str | None:
    """Return the name of the tool that a span calls, or None if it names no tool."""
    name = first(span.attributes, keys.table.tool_name)
    return name if isinstance(name, str) and name else None


def has_content(span: Span, names: Sequence[str]) -> bool:
    """Return whether one of the attributes may contain content; a prefix of flattened attributes always does."""
    return any(name not in span.attributes or is_content(span.attributes[name]) for name in names)


def _kind(span: Span, keys: CommonKeys) -> tuple[str | None, bool]:
    """Return the kind on the span; of several kinds, the certain one, then the most specific."""
    meanings = [kind_meant(parsed(span.attributes[key])) for key in keys.kinds]
    recognised = [(meaning, is_certain) for meaning, is_certain in meanings if meaning is not None]
    return min(
        recognised, key=lambda kind: (not kind[1], _SPECIFIC.get(kind[0], len(_SPECIFIC))), default=(None, False)
    )


def is_content(value: Any) -> bool:
    """Return whether a value may contain a message."""
    return bool(value) and isinstance(value, (str, list, Mapping))


_RUNS: Final = frozenset({"agent", "maybe_agent"})
#: Outcomes that mean a failure.
_FAILED: Final = frozenset({"error", "failed", "failure", "fail"})


class CommonDialect(TableDialect):
    """Reads spans with one set of attribute names, by the endings of these names."""

    name = "generic"

    def __init__(self, settings: ConversationSettings, span: Span) -> None:
        """Bind the settings and the meanings of the span's attribute names."""
        self._keys = common_keys(span.attributes)
        self.table = self._keys.table
        super().__init__(settings)
        self._conversation_keys = (*settings.conversation_id_attributes, *conversation_paths(span, self._keys))

    def meaning(self, span: Span) -> str:
        """Return the meaning of the span."""
        return meaning_of(span)

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id on the span, else the id among the arguments of its run."""
        conversation_id = super().conversation_id(span, logs)
        if conversation_id is not None or self.meaning(span) not in _RUNS:
            return conversation_id
        argument = first(span.attributes, self._keys.id_arguments)
        return id_of(argument) if isinstance(argument, (str, int)) and not isinstance(argument, bool) else None

    def error(self, span: Span) -> str | None:
        """Return the error of the span, or None if it did not fail; its outcome may be a failure although its status is not."""
        attributes = span.attributes
        error_keys = tuple(key for key in self.table.error if attributes[key] and not isinstance(attributes[key], bool))
        error = span_error(span, error_keys)
        if error is not None:
            return error
        failed = any(_is_failure(attributes[key]) for key in (*self._keys.failed, *self.table.error))
        return (text_of(first(attributes, self._keys.why_failed)) or "error") if failed else None

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return the span as a run: query and answer from named attributes, and the messages that any attribute lists."""
        table = self.table
        inputs = [run_input(value) for value in _texts(span, (*table.query, *table.input))]
        outputs = [run_output(value) for value in _texts(span, (*table.answer, *table.output, *table.result))]
        messages_in = _richest(self.messages_in(span, logs), *(spoken.messages for spoken in inputs))
        messages_out = _richest(self.messages_out(span, logs), *(spoken.messages for spoken in outputs))
        query = _text(inputs) if messages_in is None or has_content(span, table.query) else None
        answer = _text(outputs) if messages_out is None or has_content(span, table.answer) else None
        if answer is None and messages_out is None:
            messages_in, messages_out = _split_record(messages_in)
        return AgentRun(
            header=header,
            certain=certain,
            query=query,
            answer=answer,
            messages_in=messages_in,
            messages_out=messages_out,
            definitions=self.definitions(span, logs),
        )

    def model_call(self, header: Header, span: Span, logs: Sequence[LogRecord]) -> ModelCall:
        """Return the span as a request to a model."""
        table = self.table
        inputs, outputs = _texts(span, (*table.input, *table.query)), _texts(span, (*table.output, *table.answer))
        messages_in = _richest(self.messages_in(span, logs), *map(model_input, inputs))
        messages_out = _richest(self.messages_out(span, logs), *map(model_output, outputs))
        if messages_out is None:
            messages_in, messages_out = _split_record(messages_in)
        input_tokens, output_tokens = self.usage(span, logs)
        return ModelCall(
            header=header,
            messages_in=messages_in,
            messages_out=messages_out,
            model=text_of(first(span.attributes, table.model)),
            response_id=text_of(first(span.attributes, table.response_id)),
            asks_for_tools=asks_for_tools(first(span.attributes, table.finish_reason)),
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            definitions=self.definitions(span, logs),
        )

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the span as an execution of a tool."""
        attributes, table = span.attributes, self.table
        inputs = _values(span, (*table.arguments, *table.input))
        inputs += [value for value in _values(span, self._keys.parameters) if not _is_schema(value)]
        output = next(map(call_output, _values(span, (*table.result, *table.output))), call_output(None))
        return ToolCall(
            header=header,
            name=tool_name_of(span, self._keys) or text_of(first(attributes, table.name)) or bare_name(span.name),
            call_id=id_of(first(attributes, table.call_id)) or output.call_id,
            arguments=next((arguments for value in inputs if (arguments := call_input(value)) is not None), None),
            result=output.result,
            result_captured=output.captured,
            is_error=header.error is not None or output.is_error,
        )


def with_common_run(run: AgentRun, common: AgentRun) -> AgentRun:
    """Return a run, completed with values from its vendor's attributes."""
    has_input = run.query is not None or run.messages_in
    has_output = run.answer is not None or run.messages_out
    return replace(
        run,
        query=run.query if has_input else common.query,
        messages_in=run.messages_in if has_input else common.messages_in or run.messages_in,
        answer=run.answer if has_output else common.answer,
        messages_out=run.messages_out if has_output else common.messages_out or run.messages_out,
        definitions=run.definitions if run.definitions is not None else common.definitions,
    )


def with_common_model_call(call: ModelCall, common: ModelCall) -> ModelCall:
    """Return a request to a model, completed with values from its vendor's attributes."""
    return replace(
        call,
        messages_in=call.messages_in if call.messages_in is not None else common.messages_in,
        messages_out=call.messages_out if call.messages_out is not None else common.messages_out,
        model=call.model or common.model,
        input_tokens=call.input_tokens if call.input_tokens is not None else common.input_tokens,
        output_tokens=call.output_tokens if call.output_tokens is not None else common.output_tokens,
        definitions=call.definitions if call.definitions is not None else common.definitions,
    )


def with_common_tool_call(call: ToolCall, common: ToolCall) -> ToolCall:
    """Return an execution of a tool, completed with values from its vendor's attributes."""
    source = call if call.result_captured else common
    return replace(
        call,
        arguments=call.arguments if call.arguments is not None else common.arguments,
        result=source.result,
        result_captured=source.result_captured,
        is_error=call.is_error or common.is_error,
    )


def _values(span: Span, names: Sequence[str]) -> list[Any]:
    return [value for name in names if (value := span.attributes[name]) is not None]


def _texts(span: Span, names: Sequence[str]) -> list[Any]:
    """Return the values that may contain text, without numbers and empty texts."""
    return [value for value in _values(span, names) if is_content(value)]


def _richest(*candidates: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Return the most complete messages; many recorders flatten some messages and also record the full request."""
    captured = [messages for messages in candidates if messages]
    return max(
        captured,
        key=lambda messages: sum(_weight(part) for message in messages for part in message.parts),
        default=None,
    )


def _weight(part: Part) -> int:
    """Return how informative a part is: a call with its id and arguments counts more than its name alone."""
    if isinstance(part, CallRequest):
        return 1 + (part.call_id is not None) + (part.arguments is not None)
    if isinstance(part, CallResult):
        return 1 + (part.call_id is not None) + part.captured
    return int(isinstance(part, Text))


def _text(spoken: Sequence[Spoken]) -> str | None:
    return next((item.text for item in spoken if item.text is not None), None)


def _split_record(
    messages: tuple[Message, ...] | None,
) -> tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]:
    """Return the input and output messages of a record that lists a complete conversation under one name."""
    if not messages or messages[-1].role != "assistant" or messages[-1].requests:
        return messages, None
    last_query = next((index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "user"), -1)
    return messages[: last_query + 1], messages[last_query + 1 :]


def _is_failure(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in _FAILED)


def _is_schema(value: Any) -> bool:
    """Return whether a value is a schema of parameters instead of arguments."""
    schema = parsed(value)
    return isinstance(schema, Mapping) and (isinstance(schema.get("properties"), Mapping) or "$schema" in schema)


class Generic(TableDialect):
    """Any other span tree, by the names of its attributes and spans."""

    name = "generic"
    #: Names without a prefix, typical of attributes that are set by hand.
    table = Table(
        kind=("span.kind", "span.type", "type"),
        kinds={"tool": "tool", "llm": "model", "agent": "agent", "chain": "maybe_agent"},
        query=("query", "question", "user_input", "input.text", "input", "prompt"),
        answer=("answer", "final_answer", "output.text", "output", "response", "completion"),
        tool_name=("tool.name", "tool_name", "function.name"),
        arguments=("tool.arguments", "tool.parameters", "tool.input", "arguments", "args", "parameters", "input"),
        result=("tool.result", "tool.output", "result", "output", "response", "return_value"),
    )

    def __init__(self, settings: ConversationSettings) -> None:
        """Bind the user's own attribute names."""
        super().__init__(settings)
        self._settings = settings

    def claims(self, span: Span) -> str | None:
        """Return the reason why the span looks like an agent's; None if it does not."""
        return claim_of(span)

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return the event of the span."""
        return CommonDialect(self._settings, span).read(span, logs)
