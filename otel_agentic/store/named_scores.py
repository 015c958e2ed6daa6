"""The same results under their evaluation names, where scores of all evaluators are found alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.table import Table
from otel_agentic.store.tool_rows import fields_of, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.scoring.model import ConversationScore, ToolScore


class _Named(NamedTuple):
    """A row of `scores`, beside what it is a score of."""

    score: ConversationScore
    target: str
    turn_index: int | None
    name: str
    value: float | None
    label: str
    explanation: str


def insert_named(con: DuckDBPyConnection, evaluation_id: str, scores: Sequence[ConversationScore]) -> None:
    """Write the results of conversations, turns and tool dimensions."""
    rows = [row for score in scores for row in _named(score)]
    names = ("target", "turn_index", "name", "value", "label", "explanation")
    identity = identity_of(evaluation_id, [row.score for row in rows])
    Table(con, "scores").insert(con, {**identity, **fields_of(rows, *names)})


def _named(score: ConversationScore) -> Iterator[_Named]:
    value = None if score.outcome == "not_evaluated" else float(score.outcome == "pass")
    yield _Named(score, "conversation", None, "agentic.conversation", value, score.outcome, score.explanation)
    for turn in score.turns:
        label, told = turn.answer_outcome, turn.explanation
        yield _Named(score, "turn", turn.turn_index, "agentic.answer", turn.answer_score, label, told)
    for tools in score.tools:
        yield from _dimensions(score, tools)


def _dimensions(score: ConversationScore, tools: ToolScore) -> Iterator[_Named]:
    target = "conversation" if tools.turn_index is None else "turn"
    for name in DIMENSIONS:
        found = tools.dimensions.get(name)
        if found is not None:
            label = "pass" if found >= 1.0 else "fail"
            yield _Named(score, target, tools.turn_index, f"agentic.tool.{name}", found, label, tools.explanation)
