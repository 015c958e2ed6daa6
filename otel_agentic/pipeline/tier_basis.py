"""What the tiers of a report or a gate rest on, whatever period they are about."""

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
    """Return a selection without its earliest time: a claim counts from an agent version's first conversation.

    A period that somebody chose, or that rolls, is no ground for a claim.
    """
    return replace(selection, since_ns=None)


def tier_bases(
    engine: Engine, groups: Mapping[GroupKey, Sequence[ScoredConversation]], selection: Selection
) -> dict[GroupKey, ClaimBasis]:
    """Return what the tier of each group rests on.

    Args:
        engine: the opened store.
        groups: the conversations of each from the beginning.
        selection: what they were selected by.
    """
    removed = []
    if engine.store.evaluation == DEFAULT:  # what is removed is counted of this one only
        with engine.store.read() as con:
            removed = removed_attempts(con)
        if selection.until_ns is not None:
            removed = [each for each in removed if each.last_ns < selection.until_ns]
    since_ns = engine.settings.slo.since_ns
    return {key: claim_basis(key, members, removed=removed, since_ns=since_ns) for key, members in groups.items()}
