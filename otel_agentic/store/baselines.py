"""Baselines of gates in the store, by name, and the values that they are computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds, parsed, rows
from otel_agentic.store.table import Raw, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Row, Selection

_FORGET: Final = "DELETE FROM gate_baselines WHERE name = $name"
_READ: Final = "SELECT definition FROM gate_baselines WHERE name = $name"
_LIST: Final = """
SELECT name, epoch_ns(saved_at) AS saved_ns, conversations, evaluations FROM gate_baselines ORDER BY saved_at DESC, name
"""
_EVALUATIONS: Final = f"""
SELECT DISTINCT s.evaluation_id
FROM conversations c
JOIN conversation_scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND s.{IN_EVALUATION} AND NOT s.superseded AND {BOUNDS}
ORDER BY s.evaluation_id
"""  # noqa: S608 — a constant of our own
#: The mean over the turns or calls of each conversation.
_CONVERSATION_MEANS: Final = f"""
SELECT c.environment, c.conversation_id, s.name, avg(s.value)
FROM conversations c
JOIN scores s USING (environment, conversation_id, revision)
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND s.{IN_EVALUATION} AND NOT s.superseded AND s.evaluator <> 'core' AND isfinite(s.value)
    AND {BOUNDS}
GROUP BY ALL
ORDER BY ALL
"""  # noqa: S608 — the same


def save_baseline(
    con: DuckDBPyConnection,
    name: str,
    definition: str,
    *,
    conversations: int,
    evaluations: Sequence[str],
    now_ns: int,
) -> None:
    """Write a baseline, `definition` as JSON text, replacing one with the same name."""
    con.execute(_FORGET, {"name": name})
    Table(con, "gate_baselines").insert(
        con,
        {
            "name": [name],
            "saved_at": [now_ns],
            "conversations": [conversations],
            "evaluations": [list(evaluations)],
            "definition": [Raw(definition)],
        },
    )


def load_baseline(con: DuckDBPyConnection, name: str) -> Any | None:
    """Return the definition of a baseline, parsed from JSON, or None if it does not exist."""
    rows = con.execute(_READ, {"name": name}).fetchall()
    return parsed(rows[0][0]) if rows else None


def list_baselines(con: DuckDBPyConnection) -> list[Row]:
    """Return name, time (ns), conversations and evaluations of each baseline, newest first."""
    return rows(con, _LIST, {})


def evaluations_of(con: DuckDBPyConnection, selection: Selection) -> tuple[str, ...]:
    """Return the evaluations that the newest scores of a selection belong to."""
    return tuple(str(row[0]) for row in con.execute(_EVALUATIONS, bounds(selection)).fetchall())


def metric_means(con: DuckDBPyConnection, selection: Selection) -> list[tuple[str, str, str, float]]:
    """Return environment, conversation id, metric and mean value of each conversation that has values of a metric."""
    return [
        (row[0], row[1], row[2], float(row[3]))
        for row in con.execute(_CONVERSATION_MEANS, bounds(selection)).fetchall()
    ]
