"""Scores that a judge left open, and whether asking again changed them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.model import OPEN_REASONS
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from duckdb import DuckDBPyConnection

    from otel_agentic.scoring.model import ConversationScore
    from otel_agentic.store.selection import Scored, Selection
    from otel_agentic.store.table import Key

#: The content of a score: outcomes and reasons, then one row per turn and one per tool expectation.
Result = tuple[Any, ...]

#: Newest scores of closed conversations under an evaluation in which the judge failed or was not asked.
_UNSETTLED: Final = f"""
WITH open AS (
    SELECT evaluation_id, environment, conversation_id, revision FROM turn_scores
    WHERE evaluation_id = $id
        AND (reason IN (SELECT unnest($open)) OR answer_reason IN (SELECT unnest($open)))
    UNION
    SELECT evaluation_id, environment, conversation_id, revision FROM tool_scores
    WHERE evaluation_id = $id AND reason IN (SELECT unnest($open))
    UNION
    SELECT evaluation_id, environment, conversation_id, revision FROM conversation_scores
    WHERE evaluation_id = $id
        AND (reason IN (SELECT unnest($open)) OR computed_reason IN (SELECT unnest($open)))
)
SELECT c.environment, c.conversation_id
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
SEMI JOIN open USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND NOT s.superseded AND s.evaluation_id = $id AND {BOUNDS}
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_COMPARED: Final = (
    "outcome",
    "reason",
    "computed_outcome",
    "computed_reason",
    "answer_outcome",
    "tool_outcome",
    "both_outcome",
)
_STORED: Final = """
SELECT
    environment, conversation_id,
    outcome, reason, computed_outcome, computed_reason, answer_outcome, tool_outcome, both_outcome
FROM conversation_scores
SEMI JOIN requested USING (environment, conversation_id)
WHERE evaluation_id = $id AND NOT superseded
"""
_COMPARED_TURNS: Final = """
SELECT t.environment, t.conversation_id, t.turn_index, t.outcome, t.reason, t.answer_score
FROM turn_scores t
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE t.evaluation_id = $id AND NOT s.superseded
"""
_COMPARED_TOOLS: Final = _COMPARED_TURNS.replace("turn_scores", "tool_scores").replace("t.answer_score", "t.overall")


def unsettled(con: DuckDBPyConnection, evaluation_id: str, selection: Selection) -> list[Key]:
    """Return the conversations whose newest score under an evaluation waits for the judge, oldest first."""
    parameters = {"id": evaluation_id, "open": list(OPEN_REASONS), **bounds(selection)}
    rows = con.execute(_UNSETTLED, parameters).fetchall()
    return [(environment, name) for environment, name in rows]


def news(
    con: DuckDBPyConnection, evaluation_id: str, scored: Sequence[Scored], again: AbstractSet[Key]
) -> list[Scored]:
    """Return the scores that differ from the stored ones: one that still waits for the judge is not new.

    Args:
        con: a connection.
        evaluation_id: the evaluation that they belong to.
        scored: scores just made.
        again: the conversations whose scores were open before.
    """
    keys = [(item.score.environment, item.score.conversation_id) for item in scored]
    before = stored_results(con, evaluation_id, [key for key in keys if key in again])
    return [item for key, item in zip(keys, scored, strict=True) if before.get(key) != result_of(item.score)]


def stored_results(con: DuckDBPyConnection, evaluation_id: str, keys: Iterable[Key]) -> Mapping[Key, Result]:
    """Return the content of the newest scores of some conversations under an evaluation; without a score they are omitted."""
    requested, evaluation = key_columns(keys), {"id": evaluation_id}
    parts: dict[Key, list[set[Any]]] = {}
    outcomes = {(row[0], row[1]): row[2:] for row in rows_with(con, requested, _STORED, evaluation)}
    for index, sql in enumerate((_COMPARED_TURNS, _COMPARED_TOOLS)):
        for row in rows_with(con, requested, sql, evaluation):
            parts.setdefault((row[0], row[1]), [set(), set()])[index].add(row[2:])
    return {key: (outcome, *map(frozenset, parts.get(key, [set(), set()]))) for key, outcome in outcomes.items()}


def result_of(score: ConversationScore) -> Result:
    """Return the content of a score, for comparison with a stored one."""
    return (
        tuple(getattr(score, name) for name in _COMPARED),
        frozenset((turn.turn_index, turn.outcome, turn.reason, turn.answer_score) for turn in score.turns),
        frozenset((tools.turn_index, tools.outcome, tools.reason, tools.overall) for tools in score.tools),
    )
