"""Ids and targets of scores: the same evaluation of the same conversation revision always gives the same ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.scoring.model import ConversationScore


def core_score_id(
    score: ConversationScore, evaluation_id: str, name: str, key: tuple[int | str | None, ...] = ()
) -> str:
    """Return the id of a core score, 32 hex characters, the same for the same evaluation of the same revision.

    Args:
        score: the conversation's score.
        evaluation_id: the id of the evaluation.
        name: the name of the score, such as agentic.answer.
        key: distinguishes scores of one name.
    """
    parts = (evaluation_id, score.environment, score.conversation_id, score.revision, name, *key)
    # `repr` distinguishes "1" from 1, and delimits names that contain separators; surrogates have no UTF-8 encoding.
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def target_of(score: MetricScore) -> str:
    """Return the target of a score: call, turn or conversation."""
    if score.position is not None:
        return "call"
    return "conversation" if score.turn_index is None else "turn"


def score_ids_of(
    evaluation_id: str, environment: str, conversation_id: str, revision: int, scores: Sequence[MetricScore]
) -> list[str]:
    """Return an id for each score, 32 hex characters, the same for the same evaluation of the same revision.

    Scores of the same metric and location are distinguished by their order.
    """
    base_hash = hashlib.sha256(
        repr((evaluation_id, environment, conversation_id, revision)).encode("utf-8", "backslashreplace")
    )
    counts: dict[tuple[Any, ...], int] = {}
    ids = []
    for score in scores:
        key = (score.name, score.turn_index, score.position, score.tool_name, score.parameter)
        score_hash = base_hash.copy()
        count = counts.get(key, 0)
        score_hash.update(repr((*key, count)).encode("utf-8", "backslashreplace"))
        counts[key] = count + 1
        ids.append(score_hash.hexdigest()[:32])
    return ids
