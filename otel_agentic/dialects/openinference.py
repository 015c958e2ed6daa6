"""OpenInference: `openinference.span.kind` and flattened `llm.*` messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.events import CallRequest, Definitions, Header, Message, ToolCall, read_definitions
from otel_agentic.dialects.payloads import model_input, model_output
from otel_agentic.dialects.values import first, parsed, text_of
from otel_agentic.dialects.vocabulary import bare_name

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_METADATA: Final = "metadata"
_PREPARES: Final = "._prepare_"
#: The customary name of the node that calls the model; the agent is the graph.
_MODEL_NODE: Final = "agent"
_REQUESTED: Final = ("llm.invocation_parameters~.tools", "llm.invocation_parameters~.functions")


class OpenInference(TableDialect):
    """OpenInference instrumentations."""

    name = "openinference"
    table = Table(
        scopes=("openinference.",),
        marks=("openinference.span.kind",),
        kind=("openinference.span.kind",),
        kinds={
            "AGENT": "agent",
            "CHAIN": "maybe_agent",
            "LLM": "model",
            "TOOL": "tool",
            "RETRIEVER": "retrieval",
            "EMBEDDING": "embeddings",
            "RERANKER": "reranking",
            "GUARDRAIL": "guardrail",
            "EVALUATOR": "evaluator",
        },
        conversation_id=("session.id",),
        agent_name=("agent.name", "graph.node.id"),
        model=("llm.model_name",),
        flat_in=("llm.input_messages",),
        flat_out=("llm.output_messages",),
        input=("input.value",),
        output=("output.value",),
        tool_name=("tool.name",),
        call_id=("tool_call.id", "tool.id"),
        input_tokens=("llm.token_count.prompt", "gen_ai.usage.input_tokens"),
        output_tokens=("llm.token_count.completion", "gen_ai.usage.output_tokens"),
        definitions=("gen_ai.tool.definitions", "smolagents.tools_names"),
        flat_definitions=("llm.tools",),
        schema=("tool.json_schema", "tool.parameters"),
    )

    def meaning(self, span: Span) -> str:
        """Return the meaning of the kind.

        LlamaIndex marks a method that only prepares a request as a model call. The LangChain instrumentation marks every run
        with "agent" in its name as an agent, even the node `agent` that calls the model in a graph of LangGraph.
        """
        meaning = super().meaning(span)
        if meaning == "agent" and span.name == _MODEL_NODE and _graph_node(span) == _MODEL_NODE:
            return "maybe_agent"
        return "prepares a request" if meaning == "model" and _PREPARES in span.name else meaning

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header; agent name, case, attempt and conversation id may also be in the JSON of `metadata`."""
        header = super().header(span, logs)
        metadata = parsed(span.attributes.get(_METADATA))
        if not isinstance(metadata, Mapping):
            return header
        agent = header.agent_name or text_of(metadata.get("lc_agent_name"))
        case = header.case_id or text_of(first(metadata, self._case_keys))
        session = header.conversation_id or text_of(first(metadata, ("session_id", "thread_id", "conversation_id")))
        attempt = header.attempt_id or text_of(first(metadata, self._attempt_keys))
        return replace(header, conversation_id=session, agent_name=agent, case_id=case, attempt_id=attempt)

    def definitions(self, span: Span, logs: Sequence[LogRecord]) -> Definitions | None:
        """Return the tools that a request lists, else those in the parameters of the request."""
        definitions = super().definitions(span, logs)
        return read_definitions(first(span.attributes, _REQUESTED)) if definitions is None else definitions

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the tool call; without a tool name, the function in the span's name is used (DSPy)."""
        call = super().tool_call(header, span)
        return (
            replace(call, name=bare_name(call.name)) if first(span.attributes, self.table.tool_name) is None else call
        )

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the flattened messages of a model call; None for a chain, which flattens only its first message."""
        return self._more_complete(span, super().messages_in(span, logs), model_input, self.table.input)

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the flattened messages of a model call."""
        return self._more_complete(span, super().messages_out(span, logs), model_output, self.table.output)

    def _more_complete(
        self,
        span: Span,
        flat: tuple[Message, ...] | None,
        read: Callable[[Any], tuple[Message, ...] | None],
        paths: tuple[str, ...],
    ) -> tuple[Message, ...] | None:
        """Return the flattened messages, or those of the recorded value if flattening lost something."""
        if self.meaning(span) != "model":
            return None
        if flat is None or not any(_is_incomplete(message) for message in flat):
            return flat
        recorded_messages = read(first(span.attributes, paths))
        is_better = (
            recorded_messages is not None
            and len(recorded_messages) >= len(flat)
            and not any(_is_incomplete(message) for message in recorded_messages)
        )
        return recorded_messages if is_better else flat


def _graph_node(span: Span) -> str | None:
    """Return the node of a LangGraph graph that a span ran in; None outside of one."""
    metadata = parsed(span.attributes.get(_METADATA))
    return text_of(metadata.get("langgraph_node")) if isinstance(metadata, Mapping) else None


def _is_incomplete(message: Message) -> bool:
    """Return whether flattening lost something: a complete message, a result or the id of a call (Haystack)."""
    requests_without_id = [part for part in message.parts if isinstance(part, CallRequest) and part.call_id is None]
    return not message.parts or bool(requests_without_id) or any(not result.captured for result in message.results)
