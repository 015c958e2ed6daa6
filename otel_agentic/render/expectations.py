"""What a case expects of a conversation: the turns that it is aligned with, and the calls that were scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_agentic.results import JsonObject
    from otel_agentic.results.conversations import CallPair, ConversationScore


def aligned_turns(case: JsonObject, score: ConversationScore | None) -> dict[int, JsonObject]:
    """Return the expected turn of each turn of the conversation, by index."""
    expected = case.get("turns") or []
    pairs = [(turn.turn_index, turn.case_turn_index) for turn in (score.turn_scores if score is not None else ())]
    return {turn: expected[index] for turn, index in pairs if index is not None and index < len(expected)}


def pairs_of(score: ConversationScore | None, turn_index: int | None) -> list[CallPair]:
    """Return the pairs of the expectation of a turn, or of the expectation on the whole conversation (None)."""
    return [] if score is None else [pair for pair in score.call_pairs if pair.turn_index == turn_index]


def counted_calls(tools: JsonObject, pairs: Sequence[CallPair]) -> list[JsonObject]:
    """Return the expected calls of the alternative that was scored, or of the expectation itself."""
    alternative = pairs[0].alternative if pairs else None
    counted = tools if alternative is None else tools["alternatives"][alternative]
    return counted.get("calls") or []
