"""Scores become rates: groups of conversations, their summaries, and rolling windows by event time.

Importing this room loads numpy and scipy.special (by `stats`).
"""

from otel_agentic.windows.group import GROUP_BYS, GroupBy, group_by, group_by_subject, subject_key
from otel_agentic.windows.model import (
    TIERS,
    DimensionMean,
    GroupKey,
    GroupSummary,
    ScoredConversation,
    Tier,
    WindowPoint,
)
from otel_agentic.windows.rolling import current_end, parse_width, roll, window_ends
from otel_agentic.windows.scored import scored_conversation
from otel_agentic.windows.summarise import attempts_of, pass_rate_bounds, summarise

__all__ = [
    "GROUP_BYS",
    "TIERS",
    "DimensionMean",
    "GroupBy",
    "GroupKey",
    "GroupSummary",
    "ScoredConversation",
    "Tier",
    "WindowPoint",
    "attempts_of",
    "current_end",
    "group_by",
    "group_by_subject",
    "parse_width",
    "pass_rate_bounds",
    "roll",
    "scored_conversation",
    "subject_key",
    "summarise",
    "window_ends",
]
