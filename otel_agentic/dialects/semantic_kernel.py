"""Semantic Kernel: results as Python reprs, and functions that the application calls itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import CallResult, Header, Message, ToolCall
from otel_agentic.dialects.genai import GenAI
from otel_agentic.dialects.values import read_repr

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

_CALL_ID: Final = "gen_ai.tool.call.id"


class SemanticKernel(GenAI):
    """Semantic Kernel for Python and .NET."""

    name = "semantic-kernel"
    table = replace(
        GenAI.table,
        scopes=("semantic_kernel", "Microsoft.SemanticKernel"),
        marks=("sk.",),
        kinds={**GenAI.table.kinds, "text_completions": "model", "chat.completions": "model"},
    )

    def meaning(self, span: Span) -> str:
        """Return the meaning of the operation; a function without a call id was called by the application (a prompt)."""
        meaning = super().meaning(span)
        return "called by the application" if meaning == "tool" and _CALL_ID not in span.attributes else meaning

    def tool_call(self, header: Header, span: Span) -> ToolCall:
        """Return the execution of a function, with its result parsed."""
        call = super().tool_call(header, span)
        return replace(call, result=_read(call.result))

    def messages_in(self, span: Span, logs: Sequence[LogRecord]) -> tuple[Message, ...] | None:
        """Return the messages to the model, with results parsed."""
        messages = super().messages_in(span, logs)
        return None if messages is None else tuple(_with_results(message) for message in messages)


def _with_results(message: Message) -> Message:
    if not message.results:
        return message
    parts = (
        replace(part, result=_read(part.result)) if isinstance(part, CallResult) else part for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _read(result: Any) -> Any:
    value = read_repr(result)
    return result if value is None else value
