"""The fallback for frameworks nobody wrote a table for: tool-shaped, model-shaped and root spans, by common words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.dialects.base import TableDialect
from otel_agentic.dialects.claims import claim_of
from otel_agentic.dialects.common import CommonDialect
from otel_agentic.dialects.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.spans.model import LogRecord, Span


class Generic(TableDialect):
    """Any other span tree, by the names of its attributes and spans."""

    name = "generic"
    #: The names as people write them who set attributes by hand, without a prefix.
    table = Table(
        kind=("span.kind", "span.type", "type"),
        kinds={"tool": "tool", "llm": "model", "agent": "agent", "chain": "maybe_agent"},
        query=("query", "question", "user_input", "input.text", "input", "prompt"),
        answer=("answer", "final_answer", "output.text", "output", "response", "completion"),
        tool_name=("tool.name", "tool_name", "function.name"),
        arguments=("tool.arguments", "tool.parameters", "tool.input", "arguments", "args", "parameters", "input"),
        result=("tool.result", "tool.output", "result", "output", "response", "return_value"),
    )

    def __init__(self, settings: ConversationSettings) -> None:
        """Bind the user's own attribute names."""
        super().__init__(settings)
        self._settings = settings

    def claims(self, span: Span) -> str | None:
        """Return why the span looks like an agent's; None when it does not."""
        return claim_of(span)

    def read(self, span: Span, logs: Sequence[LogRecord]) -> AgentEvent:
        """Return what the span means."""
        return CommonDialect(self._settings, span).read(span, logs)
