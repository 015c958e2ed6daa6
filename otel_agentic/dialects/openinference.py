"""OpenInference: `openinference.span.kind` and flattened `llm.*` messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.events import AgentRun, Header, Message, Role
from otel_agentic.dialects.fields import first
from otel_agentic.dialects.messages import read_message, read_messages
from otel_agentic.dialects.values import flat, is_redacted, parsed, text_of

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_INPUT: Final = "input.value"
_OUTPUT: Final = "output.value"
_METADATA: Final = "metadata"
#: Where a run's JSON input or output keeps its one interesting text, by framework; tried in order.
_QUERY_KEYS: Final = ("input", "query", "question", "task", "prompt", "text", "content")
_ANSWER_KEYS: Final = ("output", "answer", "response", "result", "raw", "text", "content")


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
        tool_name=("tool.name",),
        call_id=("tool_call.id", "tool.id"),
        arguments=(_INPUT,),
        result=(_OUTPUT,),
    )

    def header(self, span: Span, logs: Sequence[LogRecord]) -> Header:
        """Return the header, with agent name and case id also looked for in the JSON of `metadata`."""
        header = super().header(span, logs)
        metadata = parsed(span.attributes.get(_METADATA))
        if not isinstance(metadata, Mapping):
            return header
        agent = header.agent_name or text_of(metadata.get("lc_agent_name"))
        case = header.case_id or text_of(first(metadata, self._case_keys))
        session = header.conversation_id or text_of(first(metadata, ("session_id", "thread_id", "conversation_id")))
        return Header(
            span=span,
            dialect=header.dialect,
            conversation_id=session,
            agent_name=agent,
            agent_version=header.agent_version,
            case_id=case,
            verdict=header.verdict,
            ends_conversation=header.ends_conversation,
            error=header.error,
        )

    def agent_run(self, header: Header, span: Span, logs: Sequence[LogRecord], *, certain: bool) -> AgentRun:
        """Return the run; its input and output are messages, an object with one text, or plain text."""
        sent, said = parsed(span.attributes.get(_INPUT)), parsed(span.attributes.get(_OUTPUT))
        messages_in, messages_out = self.messages_in(span, logs), self.messages_out(span, logs)
        query = None if messages_in or is_redacted(sent) else _lone_text(sent, _QUERY_KEYS)
        answer = None if messages_out or is_redacted(said) else _lone_text(said, _ANSWER_KEYS)
        return AgentRun(
            header=header,
            certain=certain,
            query=query,
            answer=answer,
            messages_in=messages_in,
            messages_out=messages_out,
        )

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:  # noqa: ARG002 — no content in logs
        """Return the flattened `llm.input_messages` and the messages listed in `input.value`, the surer one first."""
        return self._surer(span, "llm.input_messages", _INPUT, "user")

    def messages_out(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:  # noqa: ARG002 — same
        """Return the flattened `llm.output_messages` and the messages listed in `output.value`, the surer one first."""
        return self._surer(span, "llm.output_messages", _OUTPUT, "assistant")

    def _surer(self, span: Span, prefix: str, key: str, role: Role) -> tuple[Message, ...] | None:
        if self.meaning(span) == "model":
            return _flattened(span, prefix, role) or _listed(span.attributes.get(key), role)
        # On a chain only the first of many messages is flattened.
        return _listed(span.attributes.get(key), role) or _flattened(span, prefix, role)


def _flattened(span: Span, prefix: str, role: Role) -> tuple[Message, ...] | None:
    tree = flat(span.attributes, prefix)
    if not isinstance(tree, list):
        return None
    messages = [read_message(_plain(item.get("message")), role) for item in tree if isinstance(item, Mapping)]
    found = tuple(message for message in messages if message is not None)
    # LangChain's chains flatten the role of their input's first message but not its text.
    return found if any(message.parts for message in found) else None


def _plain(message: Any) -> Any:
    """Return a flattened message in the shape of OpenAI's: content blocks lose their prefix."""
    if not isinstance(message, Mapping):
        return message
    blocks = message.get("contents")
    if not isinstance(blocks, list) or "content" in message:
        return message
    return {
        **message,
        "content": [block.get("message_content", block) for block in blocks if isinstance(block, Mapping)],
    }


def _listed(value: Any, role: Role) -> tuple[Message, ...] | None:
    found = parsed(value)
    if isinstance(found, Mapping) and isinstance(found.get("messages"), list):
        return read_messages(found, role)
    return None


def _lone_text(value: Any, keys: tuple[str, ...]) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if not isinstance(value, Mapping):
        return text_of(value)
    named = [value[key] for key in keys if isinstance(value.get(key), str)]
    if named:
        return str(named[0])
    texts = [item for item in value.values() if isinstance(item, str)]
    return texts[0] if len(texts) == 1 else None
