"""Scores become rates: groups of conversations, their summaries, and rolling windows by event time.

Importing this room loads numpy and scipy.special (by `stats`).
"""

from otel_agentic.windows.claims import ClaimBasis, RemovedAttempts, claim_basis
from otel_agentic.windows.columns import Results, Tallies, WindowTable
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
from otel_agentic.windows.results import results_of
from otel_agentic.windows.roll import roll
from otel_agentic.windows.rolling import Window, current_end, parse_width, parse_window, parse_windows, window_ends
from otel_agentic.windows.scored import mean_dimensions, scored_conversation
from otel_agentic.windows.summarise import attempts_of, pass_rate_bounds, summarise, summarise_all
from otel_agentic.windows.tables import window_table

__all__ = [
    "GROUP_BYS",
    "TIERS",
    "ClaimBasis",
    "DimensionMean",
    "GroupBy",
    "GroupKey",
    "GroupSummary",
    "RemovedAttempts",
    "Results",
    "ScoredConversation",
    "Tallies",
    "Tier",
    "Window",
    "WindowPoint",
    "WindowTable",
    "attempts_of",
    "claim_basis",
    "current_end",
    "group_by",
    "group_by_subject",
    "mean_dimensions",
    "parse_width",
    "parse_window",
    "parse_windows",
    "pass_rate_bounds",
    "results_of",
    "roll",
    "scored_conversation",
    "subject_key",
    "summarise",
    "summarise_all",
    "window_ends",
    "window_table",
]
