"""Langfuse's SDKs: observations with input and output, from decorators, wrappers and LangChain's callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import RecordedDialect, Table
from otel_agentic.dialects.events import Definitions, read_definitions
from otel_agentic.dialects.payloads import Spoken, run_input, run_output
from otel_agentic.dialects.values import first, parsed, session_keys, text_of

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_INPUT: Final = "langfuse.observation.input"
_OWN: Final = "langfuse.observation.metadata."
_SHARED: Final = "langfuse.trace.metadata."
_GRAPH_NODE: Final = f"{_OWN}langgraph_node"
_TRACE_INPUT: Final = ("langfuse.trace.input",)
_TRACE_OUTPUT: Final = ("langfuse.trace.output",)
_LEVEL: Final = "langfuse.observation.level"
_FAILURE: Final = "langfuse.observation.status_message"


class Langfuse(RecordedDialect):
    """Spans of the Langfuse SDKs, releases 3 to 5."""

    name = "langfuse"
    table = Table(
        scopes=("langfuse-sdk",),
        marks=("langfuse.observation.type",),
        kind=("langfuse.observation.type",),
        kinds={
            "agent": "agent",
            "chain": "maybe_agent",
            "span": "maybe_agent",
            "generation": "model",
            "tool": "tool",
            "embedding": "embeddings",
            "retriever": "retrieval",
            "evaluator": "evaluator",
            "guardrail": "guardrail",
            "event": "event",
        },
        conversation_id=(
            "session.id",
            "langfuse.session.id",
            *(f"{key}~" for prefix in (_SHARED, _OWN) for key in session_keys(prefix)),
        ),
        agent_name=(f"{_OWN}lc_agent_name~",),
        model=("langfuse.observation.model.name",),
        input=(_INPUT,),
        output=("langfuse.observation.output",),
        call_id=(f"{_OWN}tool_call_id~",),
        usage=("langfuse.observation.usage_details~", "langfuse.observation.usage~"),
    )

    def definitions(self, span: Span, logs: Sequence[LogRecord]) -> Definitions | None:  # noqa: ARG002 — the base class's
        """Return the tools of a request to a model; LangChain's callbacks list them after the messages, with the role tool."""
        if self.meaning(span) != "model":
            return None
        request = parsed(span.attributes.get(_INPUT))
        if isinstance(request, Mapping):
            return read_definitions(request.get("tools"))
        contents = (
            [item.get("content") for item in request if isinstance(item, Mapping)] if isinstance(request, list) else []
        )
        tools = [content for content in contents if isinstance(content, Mapping) and content.get("type") == "function"]
        return read_definitions(tools) if tools else None

    def meaning(self, span: Span) -> str:
        """Return the meaning of the type; a node of a graph is typed as an agent because of its name only."""
        meaning = super().meaning(span)
        if meaning == "no operation":
            return "maybe_agent"  # a span without a type
        return "maybe_agent" if meaning == "agent" and _GRAPH_NODE in span.attributes else meaning

    def error(self, span: Span) -> str | None:
        """Return the error of the observation, or None; its level may be ERROR although the span's status is not."""
        if span.attributes.get(_LEVEL) == "ERROR":
            return text_of(span.attributes.get(_FAILURE)) or super().error(span) or "error"
        return super().error(span)

    def run_input(self, span: Span) -> Spoken:
        """Return the trace's input if the application set one, else the arguments of the function."""
        trace_input = run_input(first(span.attributes, _TRACE_INPUT))
        return trace_input if trace_input != Spoken() else super().run_input(span)

    def run_output(self, span: Span) -> Spoken:
        """Return the trace's output if the application set one, else the function's return value."""
        trace_output = run_output(first(span.attributes, _TRACE_OUTPUT))
        return trace_output if trace_output != Spoken() else super().run_output(span)
