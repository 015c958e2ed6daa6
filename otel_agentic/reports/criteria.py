"""Outcomes of stored conversations by any criterion, or by several together, from their stored scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.criteria import combined
from otel_agentic.scoring.criteria import CORRECT, rule_of, texts_of
from otel_agentic.store.queries.scores import scores_by_conversation

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.windows import ScoredConversation


def rule(engine: Engine, criterion: str) -> str:
    """Return the conditions of a criterion as part of a sentence."""
    return rule_of(texts_of(criterion, engine.settings.scoring))


def outcomes_by(engine: Engine, scored: Sequence[ScoredConversation], criterion: str) -> list[ScoredConversation]:
    """Return conversations with their outcomes by a criterion instead of the deciding ones.

    Args:
        engine: the opened store.
        scored: closed conversations.
        criterion: `correct`, a criterion, several joined by " and ", or the name of a profile.

    Raises:
        UsageError: the criterion is malformed, its metric is unknown, or no conversation has a score of it.
    """
    if criterion == CORRECT:
        return list(scored)
    criteria = engine.runner.criteria.stored(texts_of(criterion, engine.settings.scoring))
    names = {name for item in criteria for name in item.names}
    with engine.store.read() as con:
        keys = [(conversation.environment, conversation.conversation_id) for conversation in scored]
        stored = scores_by_conversation(con, keys, sorted(names))
    known = {score.name for scores in stored.values() for score in scores}
    missing = [item for item in criteria if not item.criterion.of_case and known.isdisjoint(item.names)]
    if scored and missing and all(not item.criterion.optional for item in missing):
        metrics = ",".join(sorted({name for item in missing for name in item.names}))
        raise UsageError(
            f"--criterion {criterion!r}: no conversation has a score of {metrics}; "
            f"otel-agentic evaluate --metrics {metrics} computes it"
        )
    outcomes = [
        combined(criteria, stored.get(key, ()), conversation.outcome, conversation.reason)
        for key, conversation in zip(keys, scored, strict=True)
    ]
    return [
        replace(
            conversation,
            outcome=part.outcome,
            reason=part.reason,
            known_failure=part.known_failure,
            pass_probability=None,
        )
        for conversation, part in zip(scored, outcomes, strict=True)
    ]
