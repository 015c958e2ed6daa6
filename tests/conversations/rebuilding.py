"""Spans and log records -> conversations, in memory, with default settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from otel_agentic.config import ConversationSettings
from otel_agentic.conversations import (
    Conversation,
    Linked,
    Segment,
    ToolCall,
    Turn,
    assemble,
    link_segments,
    read_segments,
)
from otel_agentic.dialects import Reader
from otel_agentic.spans.model import LogRecord, Span, SpanBatch, StatusCode
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, span

SETTINGS: Final = ConversationSettings()
READER: Final = Reader.from_settings(SETTINGS)


def segments(*items: Span | LogRecord | SpanBatch) -> list[Segment]:
    """Return the segments of spans and log records."""
    everything = batch(*items)
    return read_segments(everything.spans, everything.logs, READER)


def linked(*items: Span | LogRecord | SpanBatch) -> list[Linked]:
    """Return the linked segments."""
    return link_segments(segments(*items), SETTINGS)


def conversations(*items: Span | LogRecord | SpanBatch) -> list[Conversation]:
    """Return the conversations of spans and log records."""
    return [assemble(conversation, SETTINGS, closed_by="end_of_input") for conversation in linked(*items)]


def conversation_of(*items: Span | LogRecord | SpanBatch) -> Conversation:
    """Return the only conversation of spans and log records."""
    (conversation,) = conversations(*items)
    return conversation


def turn_of(*items: Span | LogRecord | SpanBatch) -> Turn:
    """Return the one turn of the one conversation."""
    (turn,) = conversation_of(*items).turns
    return turn


def call_of(*items: Span | LogRecord | SpanBatch) -> ToolCall:
    """Return the one call of the one turn."""
    (call,) = turn_of(*items).calls
    return call


def at(seconds: float) -> int:
    """Return a time, seconds after noon, ns since the epoch."""
    return NOON_NS + int(seconds * SECOND_NS)


def act(operation: str, start_s: float, end_s: float | None = None, **more: Any) -> Span:
    """Return a GenAI span. `more` are arguments of `span`; `attributes` are added to the operation."""
    attributes = {"gen_ai.operation.name": operation, **more.pop("attributes", {})}
    end_s = start_s + 1 if end_s is None else end_s
    return span(f"{operation} {start_s}", start_ns=at(start_s), end_ns=at(end_s), attributes=attributes, **more)


def run(start_s: float, end_s: float | None = None, *, agent: str = "travel", **more: Any) -> Span:
    """Return an `invoke_agent` span; `id`, `query` and `answer` are its own attributes."""
    attributes = {"gen_ai.agent.name": agent, **_named(more), **more.pop("attributes", {})}
    attributes |= _spoken(more.pop("query", None), more.pop("answer", None))
    return act("invoke_agent", start_s, end_s, attributes=attributes, **more)


def chat(
    start_s: float,
    received: Iterable[dict[str, Any]] | None = None,
    answer: Iterable[dict[str, Any]] | None = None,
    **more: Any,
) -> Span:
    """Return a `chat` span with input and output messages, None if they were not captured."""
    attributes = {**_named(more), **more.pop("attributes", {})}
    if received is not None:
        attributes["gen_ai.input.messages"] = list(received)
    if answer is not None:
        attributes["gen_ai.output.messages"] = list(answer)
    return act("chat", start_s, attributes=attributes, **more)


def tool(
    start_s: float, name: str = "search", *, call_id: str | None = None, failed: bool = False, **more: Any
) -> Span:
    """Return an `execute_tool` span; `arguments` and `result` are absent unless given."""
    attributes = {"gen_ai.tool.name": name, **({} if call_id is None else {"gen_ai.tool.call.id": call_id})}
    for key in ("arguments", "result"):
        if key in more:
            attributes[f"gen_ai.tool.call.{key}"] = more.pop(key)
    attributes |= more.pop("attributes", {})
    status = StatusCode.ERROR if failed else StatusCode.UNSET
    return act("execute_tool", start_s, attributes=attributes, status=status, **more)


def user(text: str) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def assistant(text: str) -> dict[str, Any]:
    """Return an answer."""
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def asks(*calls: tuple[str | None, str, Any], text: str | None = None) -> dict[str, Any]:
    """Return a response that asks for calls: (call id, tool, arguments) each."""
    texts = [] if text is None else [{"type": "text", "content": text}]
    return {
        "role": "assistant",
        "parts": [
            *texts,
            *({"type": "tool_call", "id": call, "name": name, "arguments": value} for call, name, value in calls),
        ],
    }


def tool_result(call_id: str | None, result: Any, role: str = "tool") -> dict[str, Any]:
    """Return a message that carries a tool's result."""
    return {"role": role, "parts": [{"type": "tool_call_response", "id": call_id, "response": result}]}


def _named(more: dict[str, Any]) -> dict[str, Any]:
    name = more.pop("id", None)
    return {} if name is None else {"gen_ai.conversation.id": name}


def _spoken(query: str | None, answer: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if query is not None:
        result["gen_ai.input.messages"] = [user(query)]
    if answer is not None:
        result["gen_ai.output.messages"] = [assistant(answer)]
    return result
