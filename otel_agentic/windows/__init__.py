"""Rates of scored conversations: groups, their summaries, and rolling windows by event time.

Importing this package loads numpy and scipy.special (through `stats`).
"""

from otel_agentic.windows.columns import Tallies, WindowTable, window_table
from otel_agentic.windows.groups import (
    GROUP_BYS,
    attempts_of,
    group_by,
    group_by_subject,
    is_tagged,
    results_of,
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
    ScoredConversation,
    Window,
    WindowPoint,
    claim_basis,
    current_end,
    parse_width,
    parse_window,
    parse_windows,
    time_ns,
    window_ends,
)
from otel_agentic.windows.roll import roll

__all__ = [
    "GROUP_BYS",
    "ClaimBasis",
    "DimensionMean",
    "GroupKey",
    "GroupSummary",
    "ScoredConversation",
    "Tallies",
    "Window",
    "WindowPoint",
    "WindowTable",
    "attempts_of",
    "claim_basis",
    "current_end",
    "group_by",
    "group_by_subject",
    "is_tagged",
    "parse_width",
    "parse_window",
    "parse_windows",
    "results_of",
    "roll",
    "scored_conversation",
    "subject_key",
    "summarise",
    "summarise_all",
    "time_ns",
    "window_ends",
    "window_table",
]
