"""Which turn of the conversation answers which turn of the case, and what decides a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.scoring.parts import Part, combine
from otel_agentic.truth.text import Bag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.config import ScoringSettings
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import NotEvaluatedReason

TurnRule = Literal["answer", "tools", "both"]

#: What a pair is worth beside its similarity: people word the same question differently, so turns that are alike by
#: nothing still belong together by their order. Half: one equal query found elsewhere outweighs one such pair.
PAIR_WORTH: Final = 0.5
#: Sums of similarities are floating-point: totals this close are equal.
_ROUNDING: Final = 1e-9


def unproven_absence(conversation: Conversation, settings: ScoringSettings) -> tuple[NotEvaluatedReason, str] | None:
    """Return why an expected turn that is missing may still exist, as (reason, explanation); None where it cannot.

    Only an end mark, or `strict_turns`, proves that a turn never came: the end of a file and idleness prove nothing, and
    where no span carries a conversation id, the turn may be stored as another conversation.
    """
    if conversation.ended or settings.strict_turns:
        return None
    if conversation.link_method != "explicit":
        return "no_conversation_id", "no span carries a conversation id, so it may be stored as another conversation"
    if conversation.closed_by == "end_of_input":
        return "incomplete", "no end mark proves that the conversation was over at the end of the input"
    return "incomplete", "the conversation went quiet"


def align_turns(expected: Sequence[str | None], made: Sequence[str | None]) -> Mapping[int, int]:
    """Return made turn -> case turn, in order, such that the pairs are worth the most.

    A pair is worth the similarity of its queries and `PAIR_WORTH`. So turns pair in their order, however they are worded,
    and a turn is left out only where that lets others find a clearly better partner: a greeting before the first
    question, a case turn that never came. A query that is None (not annotated, or not captured) is like any other by
    nothing. Among equals the earlier turns are paired.

    >>> dict(align_turns(["book a table", "cancel it"], ["hello", "book a table", "please cancel it"]))
    {1: 0, 2: 1}
    >>> dict(align_turns(["book a table", "cancel it"], ["hello", "book a table"]))
    {1: 0}
    """
    if list(expected) == list(made):
        return {place: place for place in range(len(made))}
    alike = _similarities(expected, made)
    return _walk(_best(alike, len(expected), len(made)), alike)


def _similarities(expected: Sequence[str | None], made: Sequence[str | None]) -> list[list[float]]:
    left, right = ([None if query is None else Bag.of(query) for query in side] for side in (expected, made))
    return [[0.0 if one is None or other is None else one.similarity(other) for other in right] for one in left]


def _best(alike: list[list[float]], rows: int, columns: int) -> list[list[float]]:
    """Return best[i][j]: what the pairs among expected[i:] and made[j:] are worth at most."""
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            best[i][j] = max(alike[i][j] + PAIR_WORTH + best[i + 1][j + 1], best[i][j + 1], best[i + 1][j])
    return best


def _walk(best: list[list[float]], alike: list[list[float]]) -> dict[int, int]:
    found: dict[int, int] = {}
    i = j = 0
    while i < len(best) - 1 and j < len(best[0]) - 1:
        enough = best[i][j] - _ROUNDING
        if alike[i][j] + PAIR_WORTH + best[i + 1][j + 1] >= enough:
            found[j] = i
            i, j = i + 1, j + 1
        elif best[i][j + 1] >= enough:
            j += 1
        else:
            i += 1
    return found


def decide_turn(rule: TurnRule, answer: Part | None, tools: Part | None) -> Part:
    """Return the outcome of a turn under a rule; a part that is not annotated is None.

    >>> from otel_agentic.scoring.parts import failed, passed
    >>> [decide_turn(rule, passed(""), failed("tool_fault", "")).outcome for rule in ("answer", "tools", "both")]
    ['pass', 'fail', 'fail']
    """
    return combine(deciding_parts(rule, answer, tools))


def deciding_parts(rule: TurnRule, answer: Part | None, tools: Part | None) -> list[Part]:
    """Return the parts that decide a turn under a rule.

    Under `answer` the tools decide only where no answer is annotated, under `tools` the other way round.
    """
    order = (tools, answer) if rule == "tools" else (answer, tools)
    annotated = [part for part in order if part is not None]
    return annotated if rule == "both" else annotated[:1]
