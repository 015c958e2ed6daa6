"""Which tool fails, in which dimension and parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.store.browse import BOUNDS, Row, bounds, parsed, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.scores import Selection

_FAILING: Final = f"""
WITH faults AS (
    SELECT f.*, c.agent, c.agent_version, c.ended_at
    FROM tool_faults f
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE NOT s.superseded AND NOT c.superseded AND {BOUNDS}
)
SELECT
    agent, agent_version, nullif(environment, '') AS environment, tool_name AS tool, dimension, fault, parameter,
    count(*) AS faults, count(DISTINCT (environment, conversation_id)) AS conversations,
    count(*) / sum(count(*)) OVER (PARTITION BY agent, agent_version, faults.environment) AS share,
    arg_max(conversation_id, ended_at) AS example_conversation,
    arg_max(explanation, ended_at) AS example,
    arg_max(expected, ended_at) AS expected, arg_max(made, ended_at) AS made,
    arg_max(trace_id, ended_at) AS trace_id, arg_max(span_id, ended_at) AS span_id,
    min(ended_at) AS first_seen, max(ended_at) AS last_seen
FROM faults
GROUP BY agent, agent_version, faults.environment, tool_name, dimension, fault, parameter
ORDER BY faults DESC, agent, agent_version, tool, fault, parameter
"""  # noqa: S608 — a constant of our own


def failing_tools(con: DuckDBPyConnection, selection: Selection) -> list[Row]:
    """Return what is wrong with which tool, most frequent first, with one example each."""
    found = rows(con, _FAILING, bounds(selection))
    for row in found:
        row["expected"], row["made"] = (parsed(row[name]) for name in ("expected", "made"))
    return found
