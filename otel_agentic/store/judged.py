"""Scores of single conversations read from the store, for looking at the judge's part in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.model import ConversationScore, TurnScore
from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection

    from otel_agentic.scoring.model import Outcome
    from otel_agentic.store.selection import Selection
    from otel_agentic.store.table import Key

#: Of the newest conversation revision, even if another evaluation's score is current.
_SCORES: Final = """
SELECT
    s.environment, s.conversation_id, s.revision, s.dataset, s.case_id, s.case_version, s.match_method, m.confidence,
    s.warning, s.outcome, s.reason, s.outcome_source, s.computed_outcome, s.computed_reason, s.answer_outcome,
    s.tool_outcome, s.both_outcome, s.missing_outputs, s.explanation, s.known_failure
FROM conversation_scores s
JOIN conversations c USING (environment, conversation_id, revision)
LEFT JOIN matches m USING (evaluation_id, environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE s.evaluation_id = $id AND NOT c.superseded
"""
_TURNS: Final = """
SELECT
    t.environment, t.conversation_id, t.turn_index, t.case_turn_index, t.outcome, t.reason, t.answer_score,
    t.answer_outcome, t.answer_reason, t.tool_outcome, t.explanation
FROM turn_scores t
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE t.evaluation_id = $id AND NOT c.superseded
ORDER BY t.turn_index
"""
_MODEL: Final = """
SELECT model FROM judge_calls
WHERE judge = $judge AND judge_version = $version AND model IS NOT NULL
ORDER BY judged_at DESC LIMIT 1
"""
#: The judge behind the newest score of each conversation, and whether it scored an answer.
_ORIGINS: Final = f"""
SELECT
    c.environment, c.conversation_id, e.evaluation_id, e.judge, e.judge_version, coalesce(s.partial, false),
    EXISTS (
        SELECT 1 FROM turn_scores t
        WHERE t.evaluation_id = s.evaluation_id AND t.environment = s.environment
            AND t.conversation_id = s.conversation_id AND t.revision = s.revision AND t.answer_score IS NOT NULL
    ),
    s.revision, s.computed_outcome
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
JOIN evaluations e USING (evaluation_id)
WHERE NOT c.superseded AND s.{IN_EVALUATION} AND NOT s.superseded AND {BOUNDS}
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of the score of a conversation. `has_judged_answer`: the judge scored at least one of its answers.

    `partial`: it is a fail while other required parts were not evaluated. `computed` is the outcome under that judge,
    regardless of any label.
    """

    evaluation_id: str
    judge: str
    judge_version: str
    partial: bool
    has_judged_answer: bool
    revision: int
    computed: Outcome


def origins(con: DuckDBPyConnection, selection: Selection) -> dict[Key, Origin]:
    """Return the origins of the newest scores of some conversations; conversations without a score are omitted."""
    return {
        (row[0], row[1]): Origin(
            evaluation_id=row[2],
            judge=row[3],
            judge_version=row[4],
            partial=row[5],
            has_judged_answer=row[6],
            revision=row[7],
            computed=row[8],
        )
        for row in con.execute(_ORIGINS, bounds(selection)).fetchall()
    }


def stored_scores(con: DuckDBPyConnection, evaluation_id: str, keys: Iterable[Key]) -> dict[Key, ConversationScore]:
    """Return the scores of some conversations under an evaluation, with their turns and without their tools.

    Conversations whose newest revision has no such score are omitted.
    """
    requested, evaluation = key_columns(keys), {"id": evaluation_id}
    turns: dict[Key, list[TurnScore]] = {}
    for row in rows_with(con, requested, _TURNS, evaluation):
        turns.setdefault((row[0], row[1]), []).append(_turn(row))
    return {
        (row[0], row[1]): _conversation(row, tuple(turns.get((row[0], row[1]), ())))
        for row in rows_with(con, requested, _SCORES, evaluation)
    }


def newest_model(con: DuckDBPyConnection, judge: str, version: str) -> str | None:
    """Return the model that last answered for a version of a judge, or None."""
    rows = con.execute(_MODEL, {"judge": judge, "version": version}).fetchall()
    return str(rows[0][0]) if rows else None


def _turn(row: tuple[Any, ...]) -> TurnScore:
    return TurnScore(
        turn_index=row[2],
        case_turn_index=row[3],
        outcome=row[4],
        reason=row[5],
        answer_score=row[6],
        answer_outcome=row[7],
        answer_reason=row[8],
        tool_outcome=row[9],
        explanation=row[10],
    )


def _conversation(row: tuple[Any, ...], turns: tuple[TurnScore, ...]) -> ConversationScore:
    return ConversationScore(
        environment=row[0],
        conversation_id=row[1],
        revision=row[2],
        dataset=row[3],
        case_id=row[4],
        case_version=row[5],
        match_method=row[6],
        match_confidence=row[7],
        warning=row[8],
        outcome=row[9],
        reason=row[10],
        outcome_source=row[11],
        computed_outcome=row[12],
        computed_reason=row[13],
        answer_outcome=row[14],
        tool_outcome=row[15],
        both_outcome=row[16],
        turns=turns,
        tools=(),
        missing_outputs=tuple(row[17]),
        explanation=row[18],
        known_failure=row[19],
    )
