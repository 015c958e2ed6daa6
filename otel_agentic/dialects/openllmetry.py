"""OpenLLMetry: `traceloop.*` attributes, with flattened messages (releases before 0.50) or the GenAI conventions.

Its instrumentations share scope names with those of OpenTelemetry, so attributes decide which dialect reads a span. The
GenAI dialect reads its spans that have only GenAI attributes, with the same result.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import handoff
from otel_agentic.dialects.events import AgentEvent, AgentRun, CallResult, Header, Ignored, Message, Text, ToolCall
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.payloads import Spoken, run_input, run_output
from otel_agentic.dialects.values import first, id_of, parsed, read_repr, session_keys

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_KIND: Final = "traceloop.span.kind"
_ENTITY_NAME: Final = "traceloop.entity.name"
_INPUT: Final = "traceloop.entity.input"
_OUTPUT: Final = "traceloop.entity.output"
_HANDOFF: Final = "handoff"
_FROM_AGENT: Final = "gen_ai.handoff.from_agent"
_TO_AGENT: Final = "gen_ai.handoff.to_agent"
_UNKNOWN: Final = "unknown"
#: Properties of the request that the application set, and in LangChain all metadata of the run. On every span.
_PROPERTIES: Final = "traceloop.association.properties."
#: The SDK puts its attributes on every span of a process, so they identify its spans only together with the scope.
_OWN: Final = "traceloop."
_SHARED_SCOPES: Final = ("opentelemetry.instrumentation.", "@traceloop/")
#: Kinds of spans that are named after an agent.
_NAMED_AFTER_AGENT: Final = frozenset({"agent", "task"})
#: Texts without content: an empty text and a missing value in JSON.
_NOTHING: Final = frozenset({"", '""', "null"})
#: The Haystack instrumentation writes the keys of a response instead of its texts.
_HAYSTACK: Final = "opentelemetry.instrumentation.haystack"
_RESPONSE_KEYS: Final = frozenset({"replies", "meta"})
#: The result of an agno function is a record with these fields, in Python's notation with spaces between the fields.
_FUNCTION_RECORD: Final = frozenset({"status", "result", "error"})
_RECORD_START: Final = "status="
#: A quoted text (to the end if its closing quote is cut off), or the space before a field.
_TEXT_OR_GAP: Final = re.compile(
    r"""('(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))|\s(?=[A-Za-z_]\w*=)""", re.DOTALL
)


class OpenLLMetry(GenAI):
    """OpenLLMetry's instrumentations and the decorators of its SDK."""

    name = "openllmetry"
    asks_names_only = True
    table = replace(
        GenAI.table,
        scopes=("traceloop.",),
        marks=(_KIND, "traceloop.entity.", "llm.request.type", "gen_ai.prompt.", "gen_ai.completion.", "crewai."),
        kind=("gen_ai.operation.name", _KIND, "llm.request.type"),
        kinds={
            **GenAI.table.kinds,
            "workflow": "maybe_agent",
            "agent": "agent",
            "task": "maybe_agent",
            "tool": "tool",
            "completion": "model",
            "response": "model",
            "embedding": "embeddings",
            "rerank": "reranking",
            _HANDOFF: "a handoff without a known target",
            "execute_task": "maybe_agent",
        },
        conversation_id=("gen_ai.conversation.id", *session_keys(_PROPERTIES), "session.id"),
        agent_name=(
            "gen_ai.agent.name",
            "agno.team.name",
            "crewai.agent.role",
            "crewai.crew.agents~.0.role",
            f"{_PROPERTIES}lc_agent_name",
        ),
        finish_reason=(*GenAI.table.finish_reason, "gen_ai.completion.0.finish_reason"),
        query=(*GenAI.table.query, "crewai.task.description"),
        answer=(*GenAI.table.answer, "crewai.crew.result"),
        flat_in=("gen_ai.prompt",),
        flat_out=("gen_ai.completion",),
        input=(_INPUT,),
        output=(_OUTPUT,),
        name=(_ENTITY_NAME,),
        tool_name=(*GenAI.table.tool_name, "tool.name"),
        call_id=(*GenAI.table.call_id, f"{_OUTPUT}~.tool_id"),
        arguments=(*GenAI.table.arguments, "tool.arguments"),
        result=(*GenAI.table.result, f"{_OUTPUT}~.tool_output"),
        input_tokens=(*GenAI.table.input_tokens, "llm.usage.prompt_tokens"),
        output_tokens=(*GenAI.table.output_tokens, "llm.usage.completion_tokens"),
        definitions=(*GenAI.table.definitions, "crewai.agent.tools"),
        flat_definitions=("llm.request.functions",),
    )

    def claims(self, span: Span) -> str | None:
        """Return the reason why the span is OpenLLMetry's; None if it is not."""
        reason = super().claims(span)
        if reason is None and span.scope.name.startswith(_SHARED_SCOPES):
            own = next((key for key in span.attributes if key.startswith(_OWN)), None)
            return f"attribute {own}" if own is not None else None
        return reason

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return the event of the span; a task (a function, a node of a graph) is a run only if its input has messages."""
        if _handoff_target(span) is not None:
            from_agent = span.attributes.get(_FROM_AGENT)
            return handoff(self.header(span, logs), from_agent=from_agent, to_agent=_handoff_target(span))
        event = super().read(span, logs)
        if isinstance(event, AgentRun) and not event.certain and not event.messages_in and _kind(span) != "workflow":
            return Ignored(header=event.header, reason="a task")
        return event

    def meaning(self, span: Span) -> str:
        """Return the meaning of operation, kind or request type; a span without them but with a prompt is a model call."""
        meaning = super().meaning(span)
        unclear = meaning in {"no operation", f"operation {_UNKNOWN}"}
        return "model" if unclear and any(key.startswith(self.table.flat_in) for key in span.attributes) else meaning

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header; the span of an agent, or of a graph in a graph, has the agent's name."""
        header = super().header(span, logs)
        name = span.attributes.get(_ENTITY_NAME)
        if header.agent_name is not None or _kind(span) not in _NAMED_AFTER_AGENT or not isinstance(name, str):
            return header
        return replace(header, agent_name=name)

    def run_input(self, span: Span) -> Spoken:
        """Return the arguments of the decorated function or the input of the run, without ids of the request."""
        call = parsed(first(span.attributes, self.table.input))
        if not isinstance(call, Mapping) or not isinstance(call.get("args"), list):
            return run_input(call)
        ids = {str(value) for key, value in span.attributes.items() if key.startswith(_PROPERTIES)}
        texts = [item for item in call["args"] if not (isinstance(item, str) and item in ids)]
        return run_input({**call, "args": texts})

    def run_output(self, span: Span) -> Spoken:
        """Return the result of the function or the run; without a return value, it is not captured."""
        result = first(span.attributes, self.table.output)
        return Spoken() if isinstance(result, str) and result in _NOTHING else run_output(result)

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the span as an execution of a tool."""
        call = super().tool_call(header, span)
        record = _record(call.result)
        if record is None:
            return call
        failed = record["status"] == "failure"
        return replace(call, result=record["error" if failed else "result"], is_error=call.is_error or failed)

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages to the model, each result with the id of its request."""
        messages = super().messages_in(span, logs)
        return None if messages is None else _paired(messages)

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages from the model; a lone empty text means calls that LangChain before 0.50 does not record."""
        messages = super().messages_out(span, logs)
        empty = _NOTHING | _RESPONSE_KEYS if span.scope.name == _HAYSTACK else _NOTHING
        return messages if messages is None or any(_has_content(message, empty) for message in messages) else None


def _kind(span: Span) -> str:
    return str(span.attributes.get(_KIND))  # text, except in malicious spans


def _handoff_target(span: Span) -> str | None:
    """Return the agent that a handoff span names; None for other spans and for a handoff without a target."""
    target = id_of(span.attributes.get(_TO_AGENT)) if _kind(span) == _HANDOFF else None
    return None if target == _UNKNOWN else target


def _paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages, with the id of the next waiting request for each result whose id matches no request.

    A call has two ids in OpenAI's Responses API: requests are recorded with one of them, results with the other.
    """
    result_ids = {result.call_id for message in messages for result in message.results}
    request_ids = {request.call_id for message in messages for request in message.requests}
    known_ids = request_ids | {None}
    if result_ids <= known_ids:
        return tuple(messages)
    waiting: deque[str | None] = deque()
    paired: list[Message] = []
    for message in messages:
        waiting.extend(request.call_id for request in message.requests if request.call_id not in result_ids)
        parts = tuple(
            replace(part, call_id=waiting.popleft())
            if isinstance(part, CallResult) and part.call_id not in known_ids and waiting
            else part
            for part in message.parts
        )
        paired.append(replace(message, parts=parts))
    return tuple(paired)


def _record(result: Any) -> Mapping[str, Any] | None:
    if not isinstance(result, str) or not result.startswith(_RECORD_START):
        return None
    record = read_repr(f"Record({_TEXT_OR_GAP.sub(lambda part: part[1] or ', ', result)})")
    return record if isinstance(record, Mapping) and record.keys() >= _FUNCTION_RECORD else None


def _has_content(message: Message, empty: frozenset[str]) -> bool:
    return any(not isinstance(part, Text) or part.content not in empty for part in message.parts)
