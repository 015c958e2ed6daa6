"""Idle limits after which a conversation or a turn closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings

NS_PER_S: Final = 1_000_000_000


def idle_limit_ns(settings: ConversationSettings, *, has_id: bool) -> int:
    """Return how long, in nanoseconds, a conversation may be idle before it closes.

    People think between turns, so a conversation with an id may be idle longer.
    """
    return int((settings.idle_s if has_id else settings.idle_without_id_s) * NS_PER_S)


def turn_limit_ns(settings: ConversationSettings) -> int:
    """Return how long, in nanoseconds, a turn may be idle before it closes."""
    return int(settings.turn_idle_s * NS_PER_S)
