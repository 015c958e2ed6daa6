"""Results of the commands of the console. Times are nanoseconds since 1970, or ISO 8601 text in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otel_agentic.results.codec import JsonObject
from otel_agentic.results.conversations import ConversationRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """A page of a list of conversations, and the cursor of the next page; None on the last one."""

    rows: list[ConversationRow]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow:
    """A span without attributes; `subject` is the tool or the model."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    name: str
    operation: str
    subject: str
    start_ns: int
    end_ns: int
    status: int
    status_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanList:
    """Spans of a conversation, and whether no others follow."""

    spans: list[SpanRow]
    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanDetails:
    """A span with its attributes."""

    trace_id: str
    span_id: str
    name: str
    service: str | None
    environment: str
    scope: str
    dialect: str
    status: int
    status_message: str | None
    start_ns: int
    end_ns: int
    attributes: JsonObject
    resource: JsonObject
    events: list[Any] | None
