"""The fallback for frameworks nobody wrote a table for: tool-shaped, model-shaped and root spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import Table, TableDialect
from otel_agentic.dialects.paths import first

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span

#: Words that frameworks put before or after the name of what a span does.
_TOOL_WORDS: Final = ("execute_tool ", "tool:", "tool ", "running tool: ", "function: ")
_MODEL_KEYS: Final = ("model", "model_name", "llm.model", "gen_ai.request.model")


class Generic(TableDialect):
    """Any other span tree, by common attribute names."""

    name = "generic"
    table = Table(
        kind=("span.kind", "span.type", "span_kind", "type", "kind", "operation"),
        kinds={
            "tool": "tool",
            "TOOL": "tool",
            "function": "tool",
            "llm": "model",
            "LLM": "model",
            "model": "model",
            "chat": "model",
            "generation": "model",
            "agent": "agent",
            "AGENT": "agent",
            "workflow": "maybe_agent",
            "chain": "maybe_agent",
            "CHAIN": "maybe_agent",
        },
        conversation_id=("conversation.id", "conversation_id", "session.id", "session_id", "thread.id", "thread_id"),
        agent_name=("agent.name", "agent_name", "agent"),
        model=_MODEL_KEYS,
        query=("query", "question", "user_input", "input.text", "input", "prompt"),
        answer=("answer", "final_answer", "output.text", "output", "response", "completion"),
        messages_in=("input.messages", "messages", "llm.prompts", "input", "prompt"),
        messages_out=("output.messages", "llm.completions", "output", "completion", "response"),
        tool_name=("tool.name", "tool_name", "function.name"),
        call_id=("tool.call.id", "tool_call_id", "call_id", "tool.call_id"),
        arguments=("tool.arguments", "tool.parameters", "tool.input", "arguments", "args", "parameters", "input"),
        result=("tool.result", "tool.output", "result", "output", "response", "return_value"),
        error=("error.type", "error.message", "error"),
    )

    def claims(self, span: Span) -> str | None:
        """Return why the span looks like an agent's; any span that says what it is, or names a tool or conversation."""
        if first(span.attributes, self.table.tool_name) is not None:
            return "names a tool"
        if str(first(span.attributes, self.table.kind)) in self.table.kinds:
            return "names its kind"
        if first(span.attributes, self.table.conversation_id) is not None and self._has_content(span):
            return "has a conversation id and content"
        return None

    def meaning(self, span: Span) -> str:
        """Return the meaning by tool name, kind, or, failing both, as a run that counts only at the top."""
        found = super().meaning(span)
        return "maybe_agent" if found == "no operation" and self._has_content(span) else found

    def _has_content(self, span: Span) -> bool:
        return first(span.attributes, (*self.table.query, *self.table.answer)) is not None
