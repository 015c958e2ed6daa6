"""OpenLLMetry: `traceloop.*` attributes, beside flattened messages (releases before 0.50) or the GenAI conventions.

Its instrumentations share scope names with OpenTelemetry's own, so that attributes decide. Spans of its that carry
GenAI attributes alone are read by the GenAI dialect to the same end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import handoff
from otel_agentic.dialects.events import AgentEvent, AgentRun, CallResult, Header, Ignored, Message, Text, ToolCall
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.literals import read_repr
from otel_agentic.dialects.payloads import Spoken, run_input, run_output
from otel_agentic.dialects.values import first, id_of, parsed, session_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.spans.model import LogRecord, Span

_KIND: Final = "traceloop.span.kind"
_ENTITY_NAME: Final = "traceloop.entity.name"
_INPUT: Final = "traceloop.entity.input"
_OUTPUT: Final = "traceloop.entity.output"
_HANDOFF: Final = "handoff"
_FROM_AGENT: Final = "gen_ai.handoff.from_agent"
_TO_AGENT: Final = "gen_ai.handoff.to_agent"
_UNKNOWN: Final = "unknown"
#: What the application told the SDK about the request, and in LangChain all metadata of the run. On every span.
_PROPERTIES: Final = "traceloop.association.properties."
#: The SDK puts its attributes on every span of a process. They tell whose span it is only where the scope does too.
_OWN: Final = "traceloop."
_SHARED_SCOPES: Final = ("opentelemetry.instrumentation.", "@traceloop/")
#: Kinds of spans that are named after an agent.
_NAMED_AFTER_AGENT: Final = frozenset({"agent", "task"})
#: Texts that stand for nothing: what an empty text and a missing value are in JSON.
_NOTHING: Final = frozenset({"", '""', "null"})
#: The Haystack instrumentation writes the keys of a response where its texts belong.
_HAYSTACK: Final = "opentelemetry.instrumentation.haystack"
_RESPONSE_KEYS: Final = frozenset({"replies", "meta"})
#: A function of agno comes back as a record of these fields, in Python's notation with blanks between the fields.
_FUNCTION_RECORD: Final = frozenset({"status", "result", "error"})
_RECORD_START: Final = "status="
#: A quoted text (to the end where its other quote is cut off), or the blank before a field.
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
            _HANDOFF: "a handoff to nobody known",
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
        """Return why the span is OpenLLMetry's; None when it is not."""
        found = super().claims(span)
        if found is None and span.scope.name.startswith(_SHARED_SCOPES):
            own = next((key for key in span.attributes if key.startswith(_OWN)), None)
            return f"attribute {own}" if own is not None else None
        return found

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return what the span means. A task (a function, a node of a graph) may run an agent if it got a conversation."""
        if _handed_to(span) is not None:
            from_agent = span.attributes.get(_FROM_AGENT)
            return handoff(self.header(span, logs), from_agent=from_agent, to_agent=_handed_to(span))
        event = super().read(span, logs)
        if isinstance(event, AgentRun) and not event.certain and not event.messages_in and _kind(span) != "workflow":
            return Ignored(header=event.header, reason="a task")
        return event

    def meaning(self, span: Span) -> str:
        """Return what operation, kind or request type say; a span that says nothing but has a prompt asked a model."""
        found = super().meaning(span)
        unclear = found in {"no operation", f"operation {_UNKNOWN}"}
        return "model" if unclear and any(key.startswith(self.table.flat_in) for key in span.attributes) else found

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header; the span of an agent, or of a graph in a graph, is named after it."""
        header = super().header(span, logs)
        name = span.attributes.get(_ENTITY_NAME)
        if header.agent_name is not None or _kind(span) not in _NAMED_AFTER_AGENT or not isinstance(name, str):
            return header
        return replace(header, agent_name=name)

    def run_input(self, span: Span) -> Spoken:
        """Return what the decorated function or the run was given; an argument that is an id of the request is no query."""
        given = parsed(first(span.attributes, self.table.input))
        if not isinstance(given, Mapping) or not isinstance(given.get("args"), list):
            return run_input(given)
        ids = {str(value) for key, value in span.attributes.items() if key.startswith(_PROPERTIES)}
        texts = [item for item in given["args"] if not (isinstance(item, str) and item in ids)]
        return run_input({**given, "args": texts})

    def run_output(self, span: Span) -> Spoken:
        """Return what the function or the run came to; one that returned nothing said nothing."""
        said = first(span.attributes, self.table.output)
        return Spoken() if isinstance(said, str) and said in _NOTHING else run_output(said)

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the span as an execution of a tool."""
        call = super().tool_call(header, span)
        record = _record(call.result)
        if record is None:
            return call
        failed = record["status"] == "failure"
        return replace(call, result=record["error" if failed else "result"], is_error=call.is_error or failed)

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what went to the model, each result under the id that its request goes by."""
        found = super().messages_in(span, logs)
        return None if found is None else _paired(found)

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return what came back; a lone empty text hides the calls that LangChain's releases before 0.50 leave out."""
        found = super().messages_out(span, logs)
        empty = _NOTHING | _RESPONSE_KEYS if span.scope.name == _HAYSTACK else _NOTHING
        return found if found is None or any(_says_more(message, empty) for message in found) else None


def _kind(span: Span) -> str:
    return str(span.attributes.get(_KIND))  # text, but for the hostile


def _handed_to(span: Span) -> str | None:
    """Return the agent that a handoff span names; None for other spans and for a handoff that names nobody."""
    target = id_of(span.attributes.get(_TO_AGENT)) if _kind(span) == _HANDOFF else None
    return None if target == _UNKNOWN else target


def _paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with results that answer no request by id given to the waiting requests, in their order.

    Of the two ids that a call has in OpenAI's Responses API, requests are written down with the one, results with the other.
    """
    answered = {result.call_id for message in messages for result in message.results}
    asked = {request.call_id for message in messages for request in message.requests}
    known = asked | {None}
    if answered <= known:
        return tuple(messages)
    waiting: deque[str | None] = deque()
    found: list[Message] = []
    for message in messages:
        waiting.extend(request.call_id for request in message.requests if request.call_id not in answered)
        parts = tuple(
            replace(part, call_id=waiting.popleft())
            if isinstance(part, CallResult) and part.call_id not in known and waiting
            else part
            for part in message.parts
        )
        found.append(replace(message, parts=parts))
    return tuple(found)


def _record(result: Any) -> Mapping[str, Any] | None:
    if not isinstance(result, str) or not result.startswith(_RECORD_START):
        return None
    found = read_repr(f"Record({_TEXT_OR_GAP.sub(lambda part: part[1] or ', ', result)})")
    return found if isinstance(found, Mapping) and found.keys() >= _FUNCTION_RECORD else None


def _says_more(message: Message, empty: frozenset[str]) -> bool:
    return any(not isinstance(part, Text) or part.content not in empty for part in message.parts)
