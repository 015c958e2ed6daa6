"""Current cases, and the case that each conversation was matched to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, Row, bounds, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Selection

_TRUTH: Final = f"""
SELECT
    k.dataset, k.case_id, k.version, k.agent, k.tags, k.source, coalesce(k.reviewed, true) AS reviewed,
    (SELECT count(*) FROM case_turns t WHERE t.dataset = k.dataset AND t.case_id = k.case_id AND t.version = k.version)
        AS turns,
    (SELECT count(*) FROM expected_calls e
     WHERE e.dataset = k.dataset AND e.case_id = k.case_id AND e.version = k.version) AS expected_calls,
    (SELECT count(*) FROM conversation_scores s
     SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded) USING (environment, conversation_id, revision)
     WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.dataset = k.dataset AND s.case_id = k.case_id) AS attempts
FROM cases k
WHERE k.current
ORDER BY k.dataset, k.case_id
"""  # noqa: S608 — a constant of our own
_MATCHES: Final = f"""
SELECT
    c.environment, c.conversation_id, c.agent, m.dataset, m.case_id, m.method, m.confidence,
    coalesce(m.reason, CASE WHEN m.evaluation_id IS NULL THEN 'not evaluated yet' END) AS reason,
    m.candidates, m.warning, m.suggested_dataset, m.suggested_case_id, m.suggested_confidence, m.suggested_margin
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
LEFT JOIN matches m ON m.evaluation_id = s.evaluation_id AND m.environment = c.environment
    AND m.conversation_id = c.conversation_id AND m.revision = c.revision
WHERE NOT c.superseded AND {BOUNDS} AND ($only IS NULL OR m.reason = $only
    OR ($only = 'warning' AND m.warning IS NOT NULL) OR ($only = 'suggested' AND m.suggested_case_id IS NOT NULL)
    OR ($only = 'text' AND m.method = 'text'))
ORDER BY c.window_time DESC, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_BY_TEXT: Final = f"""
SELECT count(*) FILTER (m.method = 'text'), count(*) FILTER (m.suggested_case_id IS NOT NULL)
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
JOIN matches m USING (evaluation_id, environment, conversation_id, revision)
WHERE NOT c.superseded AND s.{IN_EVALUATION} AND NOT s.superseded AND {BOUNDS}
"""  # noqa: S608 — same


def list_cases(con: DuckDBPyConnection) -> list[Row]:
    """Return the current cases with their number of turns, expected calls and attempts."""
    return rows(con, _TRUTH, {})


def list_matches(con: DuckDBPyConnection, selection: Selection, *, only: str | None) -> list[Row]:
    """Return the case that each conversation was matched to.

    `only` keeps unmatched or ambiguous ones, those with a warning or a suggested case, or those matched by text.
    """
    return rows(con, _MATCHES, {**bounds(selection), "only": only})


def matched_by_text(con: DuckDBPyConnection, selection: Selection) -> tuple[int, int]:
    """Return how many conversations of a selection were matched by text, and how many have a suggested case."""
    row = con.execute(_BY_TEXT, bounds(selection)).fetchone()
    return (0, 0) if row is None else (row[0], row[1])
