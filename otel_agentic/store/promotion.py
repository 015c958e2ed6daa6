"""Conversations that may become cases: what was asked, how they ended, and what they were held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds, rows
from otel_agentic.store.table import key_columns, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Selection
    from otel_agentic.store.table import Key

Kind = Literal["failing", "unmatched", "ambiguous", "warning", "suggested", "text"]

_CHOSEN: Final = f"""
SELECT
    c.environment, c.conversation_id, c.agent, epoch_ns(c.ended_at) AS ended_ns, c.closed_by IS NULL AS open,
    s.outcome, s.reason, s.explanation, s.dataset, s.case_id, m.warning
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
LEFT JOIN matches m ON m.evaluation_id = s.evaluation_id AND m.environment = c.environment
    AND m.conversation_id = c.conversation_id AND m.revision = c.revision
WHERE NOT c.superseded AND {BOUNDS} AND ($environment IS NULL OR c.environment = $environment)
    AND ($id IS NULL OR c.conversation_id = $id)
    AND ($kind IS NULL OR ($kind = 'failing' AND s.outcome = 'fail') OR m.reason = $kind
        OR ($kind = 'warning' AND m.warning IS NOT NULL) OR ($kind = 'suggested' AND m.suggested_case_id IS NOT NULL)
        OR ($kind = 'text' AND m.method = 'text'))
ORDER BY c.window_time DESC, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_QUERIES: Final = """
SELECT t.environment, t.conversation_id, list(t.query ORDER BY t.turn_index)
FROM turns t
JOIN conversations c USING (environment, conversation_id, revision)
SEMI JOIN requested USING (environment, conversation_id)
WHERE NOT c.superseded
GROUP BY t.environment, t.conversation_id
"""
_UNSCORED: Final = f"""
SELECT count(*) FROM conversations c
ANTI JOIN (SELECT * FROM conversation_scores WHERE {IN_EVALUATION} AND NOT superseded) USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND {BOUNDS} AND ($environment IS NULL OR c.environment = $environment)
"""  # noqa: S608 — same


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A conversation in its newest revision, with its newest score; `queries` has one entry a turn, None without one."""

    environment: str
    conversation_id: str
    agent: str | None
    ended_ns: int
    open: bool
    outcome: str | None
    reason: str | None
    explanation: str | None
    dataset: str | None
    case_id: str | None
    warning: str | None
    queries: tuple[str | None, ...]

    @property
    def key(self) -> tuple[str, str]:
        """The identity: environment and conversation id."""
        return (self.environment, self.conversation_id)


def candidates(
    con: DuckDBPyConnection,
    selection: Selection,
    *,
    kind: Kind | None = None,
    environment: str | None = None,
    conversation_id: str | None = None,
) -> list[Candidate]:
    """Return the conversations of a selection, newest first; `kind` keeps those of one kind."""
    where = {**bounds(selection), "kind": kind, "environment": environment, "id": conversation_id}
    found = rows(con, _CHOSEN, where)
    queries = _queries(con, [(row["environment"], row["conversation_id"]) for row in found])
    for row in found:
        row["queries"] = queries.get((row["environment"], row["conversation_id"]), ())
    return [Candidate(**row) for row in found]


def _queries(con: DuckDBPyConnection, keys: Iterable[Key]) -> dict[Key, tuple[str | None, ...]]:
    return {(row[0], row[1]): tuple(row[2]) for row in rows_with(con, key_columns(keys), _QUERIES)}


def unscored(con: DuckDBPyConnection, selection: Selection, environment: str | None) -> int:
    """Return how many conversations of a selection have no score in their newest revision."""
    found = con.execute(_UNSCORED, {**bounds(selection), "environment": environment}).fetchall()
    return int(found[0][0])
