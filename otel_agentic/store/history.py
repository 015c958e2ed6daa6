"""Stored windows and the health of tools, as pictures of them need it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, Row, bounds, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Selection

#: Of windows, a selection bounds the end: the windows that end after `since`, up to `until`.
_BOUNDS: Final = """
    ($since IS NULL OR "end" > make_timestamp_ns($since))
    AND ($until IS NULL OR "end" <= make_timestamp_ns($until))
    AND ($agent IS NULL OR agent GLOB $agent)
"""
_KINDS: Final = f"""
SELECT "window", estimator, k, count(*) AS points
FROM windows
WHERE {_BOUNDS}
GROUP BY ALL
ORDER BY "window", estimator, k
"""  # noqa: S608 — a constant of our own
#: The series with the most conversations come first; of equals, by name.
_POINTS: Final = f"""
WITH chosen AS (
    SELECT *, max(n) OVER (PARTITION BY agent, agent_version, environment, service, tag) AS most
    FROM windows
    WHERE {_BOUNDS} AND "window" = $window AND estimator = $estimator AND k = $k AND (tag IS NULL) != $tags
), ranked AS (
    SELECT *, dense_rank() OVER (ORDER BY most DESC, agent, agent_version, environment, service, tag) AS place
    FROM chosen
)
SELECT
    agent, agent_version, environment, service, tag,
    epoch_ns("end") AS end_ns, n, c, coverage, level, pass_at_k, pass_at_k_lower, pass_at_k_upper,
    pass_pow_k, pass_pow_k_lower, pass_pow_k_upper, tier, leaning, revision, epoch_ns(computed_at) AS computed_ns,
    (SELECT max(place) FROM ranked) AS series
FROM ranked
WHERE place <= $panels
ORDER BY agent, agent_version, environment, service, tag, "end"
"""  # noqa: S608 — a constant of our own
_TOOLS: Final = f"""
WITH faults AS (
    SELECT v.agent, v.tool, v.dimension, count(*) AS faults
    FROM v_tool_faults v
    JOIN conversations c USING (environment, conversation_id)
    WHERE NOT c.superseded AND {BOUNDS}
    GROUP BY ALL
), health AS (
    SELECT
        c.agent, n.tool_name AS tool,
        count(DISTINCT (c.environment, c.conversation_id)) AS conversations,
        sum(n.paired) AS selection_sum, sum(n.expected + n.unexpected)::BIGINT AS selection_n,
        sum(n.parameters) AS parameters_sum, sum(n.compared)::BIGINT AS parameters_n,
        sum(n.in_order) AS sequence_sum, sum(n.ordered)::BIGINT AS sequence_n,
        sum(n.used) AS utilization_sum, sum(n.known)::BIGINT AS utilization_n
    FROM tool_counts n
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
    GROUP BY ALL
)
SELECT
    h.agent, h.tool, h.conversations,
    h.selection_sum / nullif(h.selection_n, 0) AS selection, h.selection_n,
    h.parameters_sum / nullif(h.parameters_n, 0) AS parameters, h.parameters_n,
    h.sequence_sum / nullif(h.sequence_n, 0) AS sequence, h.sequence_n,
    h.utilization_sum / nullif(h.utilization_n, 0) AS utilization, h.utilization_n,
    coalesce(sum(f.faults) FILTER (f.dimension = 'selection'), 0)::BIGINT AS selection_faults,
    coalesce(sum(f.faults) FILTER (f.dimension = 'parameters'), 0)::BIGINT AS parameters_faults,
    coalesce(sum(f.faults) FILTER (f.dimension = 'sequence'), 0)::BIGINT AS sequence_faults,
    coalesce(sum(f.faults) FILTER (f.dimension = 'utilization'), 0)::BIGINT AS utilization_faults,
    coalesce(sum(f.faults) FILTER (f.dimension IS NULL), 0)::BIGINT AS errored,
    coalesce(sum(f.faults), 0)::BIGINT AS faults
FROM health h
LEFT JOIN faults f ON f.agent IS NOT DISTINCT FROM h.agent AND f.tool = h.tool
GROUP BY ALL
HAVING greatest(h.selection_n, h.parameters_n, h.sequence_n, h.utilization_n, faults) > 0
ORDER BY faults DESC, h.conversations DESC, h.agent, h.tool
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKind:
    """Which of the stored windows: their width, and what they estimate by what."""

    window: str
    estimator: str
    k: int


def window_kinds(con: DuckDBPyConnection, selection: Selection) -> dict[WindowKind, int]:
    """Return how many stored windows of each kind a selection of ends and agents has."""
    return {WindowKind(window=row[0], estimator=row[1], k=row[2]): int(row[3]) for row in _all(con, _KINDS, selection)}


def window_points(
    con: DuckDBPyConnection, selection: Selection, kind: WindowKind, *, panels: int, tags: bool = False
) -> list[Row]:
    """Return the stored windows of one kind, by group and end.

    Each row says under `series` how many groups there are; rows come of the `panels` groups with the most conversations.

    Args:
        con: a connection.
        selection: which agents, and which window ends: after `since_ns`, up to `until_ns`.
        kind: which windows.
        panels: of how many groups at most.
        tags: the windows of case tags instead of those of all cases.
    """
    where = {**bounds(selection), **asdict(kind), "panels": panels, "tags": tags}
    return rows(con, _POINTS, where)


def tool_health(con: DuckDBPyConnection, selection: Selection) -> list[Row]:
    """Return each tool of each agent with its mean score in each dimension and what that is the mean of.

    A dimension is None where it never applied; a tool to which none did, and without a fault, is left out. The tools
    with the most faults come first.
    """
    return rows(con, _TOOLS, bounds(selection))


def _all(con: DuckDBPyConnection, sql: str, selection: Selection) -> list[tuple[Any, ...]]:
    return con.execute(sql, bounds(selection)).fetchall()
