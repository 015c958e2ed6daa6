"""What any span says in common words: the reader of frameworks nobody wrote a table for.

The fallback dialect reads whole spans with it; dialects that know a span's convention but not its vendor fill in what their
own table does not find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import TableDialect
from otel_agentic.dialects.claims import conversation_paths, has_content, is_content, meaning_of, tool_name_of
from otel_agentic.dialects.common_keys import common_keys
from otel_agentic.dialects.events import AgentRun, CallRequest, CallResult, ModelCall, Text, ToolCall
from otel_agentic.dialects.fields import asks_for_tools, span_error
from otel_agentic.dialects.kinds import undressed
from otel_agentic.dialects.paths import first
from otel_agentic.dialects.payloads import Spoken, model_input, model_output, run_input, run_output
from otel_agentic.dialects.tool_payloads import call_input, call_output
from otel_agentic.dialects.values import id_of, parsed, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.events import Header, Message, Part
    from otel_agentic.spans.model import LogRecord, Span

_RUNS: Final = frozenset({"agent", "maybe_agent"})
#: What outcomes are called that are none.
_FAILED: Final = frozenset({"error", "failed", "failure", "fail"})


class CommonDialect(TableDialect):
    """Reads spans of one set of attributes, by how their names end."""

    name = "generic"

    def __init__(self, settings: ConversationSettings, span: Span) -> None:
        """Bind the settings and what the names of the span's attributes tell."""
        self._keys = common_keys(span.attributes)
        self.table = replace(self._keys.table, conversation_id=conversation_paths(span, self._keys))
        super().__init__(settings)

    def meaning(self, span: Span) -> str:
        """Return what the span means."""
        return meaning_of(span)

    def conversation_id(self, span: Span, logs: Sequence[LogRecord]) -> str | None:
        """Return the conversation id that the span names, else the one that its run was given."""
        found = super().conversation_id(span, logs)
        if found is not None or self.meaning(span) not in _RUNS:
            return found
        given = first(span.attributes, self._keys.given)
        return id_of(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else None

    def error(self, span: Span) -> str | None:
        """Return why the span failed, None when it did not: its outcome may say so where its status does not."""
        attributes = span.attributes
        told = tuple(key for key in self.table.error if attributes[key] and not isinstance(attributes[key], bool))
        found = span_error(span, told)
        if found is not None:
            return found
        failed = any(_is_failure(attributes[key]) for key in (*self._keys.failed, *self.table.error))
        return (text_of(first(attributes, self._keys.why_failed)) or "error") if failed else None

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return the span as a run: its query and answer by name, and the messages that any attribute lists."""
        table = self.table
        asked = [run_input(value) for value in _texts(span, (*table.query, *table.input))]
        said = [run_output(value) for value in _texts(span, (*table.answer, *table.output, *table.result))]
        messages_in = _richest(self.messages_in(span, logs), *(each.messages for each in asked))
        messages_out = _richest(self.messages_out(span, logs), *(each.messages for each in said))
        query = _text(asked) if messages_in is None or has_content(span, table.query) else None
        answer = _text(said) if messages_out is None or has_content(span, table.answer) else None
        if answer is None and messages_out is None:
            messages_in, messages_out = _divided(messages_in)
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
        given, answered = _texts(span, (*table.input, *table.query)), _texts(span, (*table.output, *table.answer))
        messages_in = _richest(self.messages_in(span, logs), *map(model_input, given))
        messages_out = _richest(self.messages_out(span, logs), *map(model_output, answered))
        if messages_out is None:
            messages_in, messages_out = _divided(messages_in)
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
        given = _values(span, (*table.arguments, *table.input))
        given += [value for value in _values(span, self._keys.parameters) if not _is_schema(value)]
        output = next(map(call_output, _values(span, (*table.result, *table.output))), call_output(None))
        return ToolCall(
            header=header,
            name=tool_name_of(span, self._keys) or text_of(first(attributes, table.name)) or undressed(span.name),
            call_id=id_of(first(attributes, table.call_id)) or output.call_id,
            arguments=next((found for value in given if (found := call_input(value)) is not None), None),
            result=output.result,
            result_captured=output.captured,
            is_error=header.error is not None or output.is_error,
        )


def with_common_run(run: AgentRun, common: AgentRun) -> AgentRun:
    """Return a run with what only its vendor's attributes tell."""
    asked = run.query is not None or run.messages_in
    said = run.answer is not None or run.messages_out
    return replace(
        run,
        query=run.query if asked else common.query,
        messages_in=run.messages_in if asked else common.messages_in or run.messages_in,
        answer=run.answer if said else common.answer,
        messages_out=run.messages_out if said else common.messages_out or run.messages_out,
        definitions=run.definitions if run.definitions is not None else common.definitions,
    )


def with_common_model_call(call: ModelCall, common: ModelCall) -> ModelCall:
    """Return a request to a model with what only its vendor's attributes tell."""
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
    """Return an execution of a tool with what only its vendor's attributes tell."""
    told = call if call.result_captured else common
    return replace(
        call,
        arguments=call.arguments if call.arguments is not None else common.arguments,
        result=told.result,
        result_captured=told.result_captured,
        is_error=call.is_error or common.is_error,
    )


def _values(span: Span, names: Sequence[str]) -> list[Any]:
    return [value for name in names if (value := span.attributes[name]) is not None]


def _texts(span: Span, names: Sequence[str]) -> list[Any]:
    """Return what may hold words: numbers and empty texts do not."""
    return [value for value in _values(span, names) if is_content(value)]


def _richest(*found: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Return the messages that tell most: many recorders spell out some, and keep the whole request as well."""
    captured = [messages for messages in found if messages]
    return max(
        captured, key=lambda messages: sum(_weight(part) for each in messages for part in each.parts), default=None
    )


def _weight(part: Part) -> int:
    """Return how much a part tells: a call with its id and arguments more than its name alone."""
    if isinstance(part, CallRequest):
        return 1 + (part.call_id is not None) + (part.arguments is not None)
    if isinstance(part, CallResult):
        return 1 + (part.call_id is not None) + part.captured
    return int(isinstance(part, Text))


def _text(spoken: Sequence[Spoken]) -> str | None:
    return next((each.text for each in spoken if each.text is not None), None)


def _divided(messages: tuple[Message, ...] | None) -> tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]:
    """Return what went in and what came back, of a record that lists a whole conversation under one name."""
    if not messages or messages[-1].role != "assistant" or messages[-1].requests:
        return messages, None
    asked = next((index for index in range(len(messages) - 1, -1, -1) if messages[index].role == "user"), -1)
    return messages[: asked + 1], messages[asked + 1 :]


def _is_failure(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in _FAILED)


def _is_schema(value: Any) -> bool:
    """Return whether parameters are described rather than given."""
    found = parsed(value)
    return isinstance(found, Mapping) and (isinstance(found.get("properties"), Mapping) or "$schema" in found)
