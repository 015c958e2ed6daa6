"""Which turn of the conversation answers which turn of the case, and what decides a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from otel_agentic.scoring.parts import Part, combine
from otel_agentic.truth.text import similarity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TurnRule = Literal["answer", "tools", "both"]


def align_turns(expected: Sequence[str | None], made: Sequence[str | None]) -> Mapping[int, int]:
    """Return made turn -> case turn, in order: as many pairs as there can be, of the greatest total similarity.

    A query that is None (not annotated, or not captured) is like any other by nothing. Among equals the earlier turns
    are paired. Where a conversation has as many turns as its case, they belong together one by one.

    >>> dict(align_turns(["book a table", "cancel it"], ["hello", "book a table", "please cancel it"]))
    {1: 0, 2: 1}
    """
    pairs = min(len(expected), len(made))
    if len(expected) == len(made):
        return {place: place for place in range(pairs)}
    alike = [[_alike(one, other) for other in made] for one in expected]
    # best[i][j]: the greatest similarity of expected[i:] with made[j:] at the most pairs there can be.
    best = [[0.0] * (len(made) + 1) for _ in range(len(expected) + 1)]
    for i in reversed(range(len(expected))):
        for j in reversed(range(len(made))):
            best[i][j] = max(_choices(best, alike, i, j))
    return _walk(best, alike)


def _choices(best: list[list[float]], alike: list[list[float]], i: int, j: int) -> list[float]:
    """Return the similarity reached by pairing i with j, and by leaving out the one of the longer side."""
    left, right = len(best) - 1 - i, len(best[0]) - 1 - j
    choices = [alike[i][j] + best[i + 1][j + 1]]
    # Leaving out one of the shorter side would cost a pair.
    if left > right:
        choices.append(best[i + 1][j])
    elif right > left:
        choices.append(best[i][j + 1])
    return choices


def _walk(best: list[list[float]], alike: list[list[float]]) -> dict[int, int]:
    found: dict[int, int] = {}
    i = j = 0
    while i < len(best) - 1 and j < len(best[0]) - 1:
        choices = _choices(best, alike, i, j)
        if choices[0] >= max(choices):
            found[j] = i
            i, j = i + 1, j + 1
        elif len(best) - i > len(best[0]) - j:
            i += 1
        else:
            j += 1
    return found


def _alike(expected: str | None, made: str | None) -> float:
    return 0.0 if expected is None or made is None else similarity(expected, made)


def decide_turn(rule: TurnRule, answer: Part | None, tools: Part | None) -> Part:
    """Return the outcome of a turn under a rule; a part that is not annotated is None.

    Under `answer` the tools decide only where no answer is annotated, under `tools` the other way round.

    >>> from otel_agentic.scoring.parts import failed, passed
    >>> [decide_turn(rule, passed(""), failed("tool_fault", "")).outcome for rule in ("answer", "tools", "both")]
    ['pass', 'fail', 'fail']
    """
    if rule == "both":
        return combine([part for part in (answer, tools) if part is not None])
    first, second = (answer, tools) if rule == "answer" else (tools, answer)
    deciding = first or second
    return combine([] if deciding is None else [deciding])
