"""Langfuse's SDKs: observations with input and output, from decorators, wrappers and LangChain's callbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import RecordedDialect, Table
from otel_agentic.dialects.definitions import read_definitions
from otel_agentic.dialects.payloads import Spoken, run_input, run_output
from otel_agentic.dialects.values import first, parsed, session_keys, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.definitions import Definitions
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
        """Return the tools of a request to a model; LangChain's callbacks list them behind the messages, as if of role tool."""
        if self.meaning(span) != "model":
            return None
        given = parsed(span.attributes.get(_INPUT))
        if isinstance(given, Mapping):
            return read_definitions(given.get("tools"))
        contents = (
            [item.get("content") for item in given if isinstance(item, Mapping)] if isinstance(given, list) else []
        )
        listed = [content for content in contents if isinstance(content, Mapping) and content.get("type") == "function"]
        return read_definitions(listed) if listed else None

    def meaning(self, span: Span) -> str:
        """Return what the type says; a graph's node is called an agent for its name only."""
        found = super().meaning(span)
        if found == "no operation":
            return "maybe_agent"  # a span that was given no type
        return "maybe_agent" if found == "agent" and _GRAPH_NODE in span.attributes else found

    def error(self, span: Span) -> str | None:
        """Return why the observation failed: its level says it where the span's status does not."""
        if span.attributes.get(_LEVEL) == "ERROR":
            return text_of(span.attributes.get(_FAILURE)) or super().error(span) or "error"
        return super().error(span)

    def run_input(self, span: Span) -> Spoken:
        """Return the trace's input where the application gave it one, else what the function was given."""
        given = run_input(first(span.attributes, _TRACE_INPUT))
        return given if given != Spoken() else super().run_input(span)

    def run_output(self, span: Span) -> Spoken:
        """Return the trace's output where the application gave it one, else what the function returned."""
        said = run_output(first(span.attributes, _TRACE_OUTPUT))
        return said if said != Spoken() else super().run_output(span)
