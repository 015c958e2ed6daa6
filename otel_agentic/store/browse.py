"""What people ask the store for: lists of conversations, their scores, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds, parsed, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Row, Selection

_LIST: Final = f"""
SELECT v.* FROM v_conversations v
JOIN conversations c USING (environment, conversation_id)
WHERE NOT c.superseded AND {BOUNDS} AND ($outcome IS NULL OR v.outcome = $outcome)
ORDER BY c.window_time DESC, c.conversation_id
LIMIT $limit
"""  # noqa: S608 — a constant of our own
_WRONG_CLOCKS: Final = """
SELECT service, count(*) AS conversations, max(ended_at) AS latest
FROM conversations WHERE NOT superseded AND window_time < ended_at
GROUP BY service ORDER BY conversations DESC, service
"""
_KEYS: Final = """
SELECT environment, conversation_id FROM conversations
WHERE NOT superseded AND conversation_id = $id AND ($environment IS NULL OR environment = $environment)
ORDER BY environment
"""
_ALL_KEYS: Final = f"""
SELECT c.environment, c.conversation_id FROM conversations c
WHERE NOT c.superseded AND {BOUNDS}
ORDER BY c.started_at, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_PARTS: Final = {
    table: f"""
SELECT t.* EXCLUDE (evaluation_id, environment, conversation_id, revision)
FROM {table} t
JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND t.environment = $environment AND t.conversation_id = $id
ORDER BY t.turn_index
"""  # noqa: S608 — our own table names
    for table in ("turn_scores", "tool_scores", "tool_faults")
}
_CONVERSATION_SCORE: Final = f"""
SELECT s.* EXCLUDE (environment, conversation_id), m.confidence AS match_confidence, m.candidates
FROM conversation_scores s
SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded) USING (environment, conversation_id, revision)
LEFT JOIN matches m USING (evaluation_id, environment, conversation_id, revision)
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.environment = $environment AND s.conversation_id = $id
"""  # noqa: S608 — a constant of our own
_DEFINITION: Final = f"""
SELECT k.definition
FROM conversation_scores s
JOIN matches m USING (evaluation_id, environment, conversation_id, revision)
JOIN cases k ON k.dataset = m.dataset AND k.case_id = m.case_id AND k.version = m.case_version
WHERE s.{IN_EVALUATION} AND NOT s.superseded AND s.environment = $environment AND s.conversation_id = $id
"""  # noqa: S608 — a constant of our own

_METRICS: Final = f"""
SELECT
    s.name, s.evaluator, s.evaluator_version, s.target, s.turn_index, s.position, s.tool_name, s.parameter,
    s.value, s.label, s.reason, s.explanation, s.details, s.score_id
FROM scores s
JOIN conversations c USING (environment, conversation_id, revision)
WHERE s.evaluator <> 'core' AND s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded
    AND s.environment = $environment AND s.conversation_id = $id
ORDER BY s.turn_index NULLS FIRST, s.position NULLS FIRST, s.evaluator, s.name, s.parameter NULLS FIRST
"""  # noqa: S608 — a constant of our own


def list_conversations(con: DuckDBPyConnection, selection: Selection, *, outcome: str | None, limit: int) -> list[Row]:
    """Return conversations in their newest revision, newest first."""
    return rows(con, _LIST, {**bounds(selection), "outcome": outcome, "limit": limit})


def find_conversation(con: DuckDBPyConnection, name: str, environment: str | None) -> list[tuple[str, str]]:
    """Return the identities of the conversations of that id: one for each environment that has it."""
    return [(row[0], row[1]) for row in con.execute(_KEYS, {"id": name, "environment": environment}).fetchall()]


def all_conversations(con: DuckDBPyConnection, selection: Selection) -> list[tuple[str, str]]:
    """Return the identities of all conversations of a selection, by start time."""
    return [(row[0], row[1]) for row in con.execute(_ALL_KEYS, bounds(selection)).fetchall()]


def score_of(con: DuckDBPyConnection, key: tuple[str, str]) -> Row | None:
    """Return the newest score of a conversation with its turns, tools, faults and case; None when it has none."""
    where = {"environment": key[0], "id": key[1]}
    found = rows(con, _CONVERSATION_SCORE, where)
    if not found:
        return None
    definition = con.execute(_DEFINITION, where).fetchall()
    parts = {table: rows(con, sql, where) for table, sql in _PARTS.items()}
    for fault in parts["tool_faults"]:
        fault["expected"], fault["actual"] = (parsed(fault[name]) for name in ("expected", "actual"))
    for tools in parts["tool_scores"]:
        tools["evidence"] = parsed(tools["evidence"])
    return {**found[0], **parts, "case": parsed(definition[0][0]) if definition else None}


def metrics_of(con: DuckDBPyConnection, key: tuple[str, str]) -> list[Row]:
    """Return what evaluators say of a conversation: of the whole first, then turn by turn; with what they abstained from."""
    found = rows(con, _METRICS, {"environment": key[0], "id": key[1]})
    for row in found:
        row["details"] = parsed(row["details"])
    return found


def outcomes_of(con: DuckDBPyConnection) -> dict[tuple[str, str], tuple[str | None, str, str | None]]:
    """Return (case id, outcome, reason) of the newest score of each conversation."""
    rows = con.execute(
        f"""
        SELECT environment, conversation_id, case_id, outcome, reason
        FROM conversation_scores
        SEMI JOIN (SELECT * FROM conversations WHERE NOT superseded) USING (environment, conversation_id, revision)
        WHERE {IN_EVALUATION} AND NOT superseded
        """  # noqa: S608 — a constant of our own
    ).fetchall()
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}


def coverage(con: DuckDBPyConnection) -> list[Row]:
    """Return what the instrumentation records, by service, dialect and instrumentation scope."""
    return rows(con, "SELECT * FROM v_coverage ORDER BY service, dialect, scope", {})


def received(con: DuckDBPyConnection) -> list[Row]:
    """Return how many spans of each instrumentation scope are stored, and which dialect reads them; the most first."""
    sql = """
    SELECT service, scope, dialect, count(*) AS spans, max(received_at) AS last_received
    FROM spans GROUP BY service, scope, dialect ORDER BY spans DESC, service, scope, dialect
    """
    return rows(con, sql, {})


def counts(con: DuckDBPyConnection) -> Row:
    """Return how many conversations, turns and calls there are in their newest revisions."""
    sql = """
    SELECT
        count(*) AS conversations, coalesce(sum(turn_count), 0)::BIGINT AS turns,
        coalesce(sum(call_count), 0)::BIGINT AS tool_calls, count(*) FILTER (closed_by IS NULL) AS open,
        count(*) FILTER (ambiguous_link) AS ambiguous_links
    FROM conversations WHERE NOT superseded
    """
    return rows(con, sql, {})[0]


def wrong_clocks(con: DuckDBPyConnection) -> list[Row]:
    """Return, by service, how many conversations a sender dated later than they were received; the most first."""
    return rows(con, _WRONG_CLOCKS, {})
