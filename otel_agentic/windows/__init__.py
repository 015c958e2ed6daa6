"""Scores become rates: groups of conversations, their summaries, and rolling windows by event time.

Importing this package loads numpy and scipy.special (through `stats`).
"""

from otel_agentic.stats.model import TIERS, Tier
from otel_agentic.windows.columns import Results, Tallies, WindowTable, results_of
from otel_agentic.windows.groups import (
    GROUP_BYS,
    GroupBy,
    attempts_of,
    group_by,
    group_by_subject,
    mean_dimensions,
    pass_rate_bounds,
    scored_conversation,
    subject_key,
    summarise,
    summarise_all,
)
from otel_agentic.windows.model import (
    ClaimBasis,
    DimensionMean,
    GroupKey,
    GroupSummary,
    RemovedAttempts,
    ScoredConversation,
    WindowPoint,
    claim_basis,
)
from otel_agentic.windows.roll import roll, window_table
from otel_agentic.windows.rolling import Window, current_end, parse_width, parse_window, parse_windows, window_ends

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
