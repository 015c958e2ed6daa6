"""Ids and targets of scores: the same evaluation of the same conversation revision always gives the same ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.scoring.model import ConversationScore

#: Number of parts of ids that are cached: metrics and locations recur in all conversations of an agent.
_CACHED: Final = 4096


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
    return core_score_ids(score, evaluation_id, [(name, *key)])[0]


def core_score_ids(
    score: ConversationScore, evaluation_id: str, keys: Sequence[tuple[int | str | None, ...]]
) -> list[str]:
    """Return the ids of core scores; each key is the name of a score, followed by what `core_score_id` calls its key."""
    prefix = _encoded(evaluation_id, score.environment, score.conversation_id, score.revision)[:-1] + b", "
    return _digests(prefix, [_items(*key) for key in keys])


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
    prefix = _encoded(evaluation_id, environment, conversation_id, revision)
    keys = list(map(_KEY, scores))
    if len(set(keys)) == len(keys):
        return _digests(prefix, [_part(*key, 0) for key in keys])
    counts: dict[tuple[Any, ...], int] = {}
    parts = []
    for key in keys:
        count = counts.get(key, 0)
        counts[key] = count + 1
        parts.append(_part(*key, count))
    return _digests(prefix, parts)


#: What distinguishes the scores of an evaluator.
_KEY: Final = attrgetter("name", "turn_index", "position", "tool_name", "parameter")


def _digests(prefix: bytes, parts: Iterable[bytes]) -> list[str]:
    """Return a hash of each part after the prefix, which is read once: that takes half of the time."""
    start, digests = sha256(prefix), []
    for part in parts:
        digest = start.copy()
        digest.update(part)
        digests.append(digest.hexdigest()[:32])
    return digests


def _encoded(*parts: object) -> bytes:
    # `repr` distinguishes "1" from 1, and delimits names that contain separators; surrogates have no UTF-8 encoding.
    return repr(parts).encode("utf-8", "backslashreplace")


#: Cached by the values and their types, because `True` and 1 are equal.
_part: Final = lru_cache(maxsize=_CACHED, typed=True)(_encoded)


@lru_cache(maxsize=_CACHED, typed=True)
def _items(*parts: object) -> bytes:
    """Return the encoding of the last items of a tuple."""
    return (", ".join(map(repr, parts)) + ")").encode("utf-8", "backslashreplace")
