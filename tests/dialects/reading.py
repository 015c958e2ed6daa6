"""Spans read with the installed dialects and default settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from otel_agentic.config import ConversationSettings
from otel_agentic.dialects import AgentEvent, Message, Reader

if TYPE_CHECKING:
    from otel_agentic.spans.model import LogRecord, Span

SETTINGS: Final = ConversationSettings()
READER: Final = Reader.from_settings(SETTINGS)
E = TypeVar("E", bound=AgentEvent)


def read_as(kind: type[E], span: Span, *logs: LogRecord) -> E:
    """Return the event that a span became; it must be of that kind."""
    event = READER.read(span, logs).event
    assert isinstance(event, kind)
    return event


def texts_of(messages: tuple[Message, ...] | None) -> list[tuple[str, str | None]] | None:
    """Return role and text of messages."""
    return None if messages is None else [(message.role, message.text) for message in messages]
