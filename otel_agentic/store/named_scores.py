"""The core scores under their evaluation names, as rows of the table with the scores of all evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_agentic.evaluators.base import CORE
from otel_agentic.evaluators.identity import core_score_id
from otel_agentic.scoring.judged_calls import faulty, judged_calls
from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.table import Table
from otel_agentic.store.tool_rows import fields_of, identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.scoring.model import ConversationScore, ToolScore


class _Named(NamedTuple):
    """A row of `scores`; `location` distinguishes rows of one name, as `core_score_id` requires."""

    score: ConversationScore
    target: str
    name: str
    value: float | None
    label: str
    reason: str | None
    explanation: str
    location: tuple[int | str | None, ...] = ()
    turn_index: int | None = None
    position: int | None = None
    tool_name: str | None = None


def insert_named(
    con: DuckDBPyConnection,
    evaluation_id: str,
    evaluation: str,
    scored: Sequence[tuple[Conversation, ConversationScore]],
) -> None:
    """Write the scores of conversations, turns, tool dimensions and faulty calls, each with the id of its event."""
    rows = [row for conversation, score in scored for row in _named(conversation, score)]
    names = ("target", "turn_index", "position", "tool_name", "name", "value", "label", "reason", "explanation")
    Table(con, "scores").insert(
        con,
        {
            **identity_of(evaluation_id, [row.score for row in rows]),
            **fields_of(rows, *names),
            "evaluation": [evaluation] * len(rows),
            "evaluator": [CORE] * len(rows),
            "evaluator_version": [evaluation_id] * len(rows),
            "score_id": [core_score_id(row.score, evaluation_id, row.name, row.location) for row in rows],
            "superseded": [False] * len(rows),
        },
    )


def _named(conversation: Conversation, score: ConversationScore) -> Iterator[_Named]:
    open_ = score.outcome == "not_evaluated"
    value = None if open_ else float(score.outcome == "pass")
    reason = score.reason if open_ else None
    yield _Named(score, "conversation", "agentic.conversation", value, score.outcome, reason, score.explanation)
    for turn in score.turns:
        open_ = turn.answer_outcome == "not_evaluated"
        yield _Named(
            score,
            "turn",
            "agentic.answer",
            None if open_ else turn.answer_score,
            turn.answer_outcome,
            turn.answer_reason if open_ else None,
            turn.explanation,
            (turn.turn_index,),
            turn.turn_index,
        )
    for tools in score.tools:
        yield from _dimensions(score, tools)
    for call, fault in faulty(judged_calls(conversation, score)):
        yield _Named(
            score,
            "call",
            "agentic.tool.call",
            0.0,
            "fail",
            None,
            fault.explanation,
            call.place(fault),
            call.turn_index,
            call.made_position,
            call.tool_name,
        )


def _dimensions(score: ConversationScore, tools: ToolScore) -> Iterator[_Named]:
    target = "conversation" if tools.turn_index is None else "turn"
    open_ = tools.outcome == "not_evaluated"
    for name in DIMENSIONS:
        value = tools.dimensions.get(name)
        if value is not None:
            yield _Named(
                score,
                target,
                f"agentic.tool.{name}",
                value,
                "not_evaluated" if open_ else "pass" if value >= 1.0 else "fail",
                tools.reason if open_ else None,
                tools.explanation,
                (tools.turn_index,),
                tools.turn_index,
            )
