"""The conversations and removed attempts that the tiers of a report or a gate are based on, for any reporting period."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_agentic.store.evaluations import DEFAULT
from otel_agentic.store.tier_claims import removed_attempts
from otel_agentic.windows import claim_basis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.selection import Selection
    from otel_agentic.windows import ClaimBasis, GroupKey, ScoredConversation


def from_the_beginning(selection: Selection) -> Selection:
    """Return a selection without its start time: a tier claim counts from an agent version's first conversation.

    A chosen or rolling period is no basis for a claim.
    """
    return replace(selection, since_ns=None)


def tier_bases(
    engine: Engine, groups: Mapping[GroupKey, Sequence[ScoredConversation]], selection: Selection
) -> dict[GroupKey, ClaimBasis]:
    """Return the basis of each group's tier.

    Args:
        engine: the opened store.
        groups: the conversations of each group, from the beginning.
        selection: how they were selected.
    """
    removed = []
    if engine.store.evaluation == DEFAULT:  # removed attempts are counted only for the default evaluation
        with engine.store.read() as con:
            removed = removed_attempts(con)
        if selection.until_ns is not None:
            removed = [attempts for attempts in removed if attempts.last_ns < selection.until_ns]
    since_ns = engine.settings.slo.since_ns
    return {key: claim_basis(key, members, removed=removed, since_ns=since_ns) for key, members in groups.items()}
