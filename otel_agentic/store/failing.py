"""Which tool fails: in which dimension and parameter, how often, since when, in which version, and one to look at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, Row, bounds, parsed, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Selection

#: Columns that hold JSON.
_JSON: Final = ("expected", "actual", "versions", "wrong_values", "expected_call", "actual_call")
#: The numbers that a version begins with, so that 1.9 comes before 1.10; null where there is none.
NUMBERS: Final = "try_cast(nullif(regexp_extract_all(regexp_extract(agent_version, '^v?([0-9]+([.][0-9]+)*)', 1), '[0-9]+'), []) AS HUGEINT[])"
#: Of a selection what `v_failing_tools` says of all. `introduced_in`, `is_new` and `clean_before` are about all that is
#: stored: whether a fault is new cannot be seen in a selection. In which order versions follow each other, too.
_FAILING: Final = f"""
WITH faults AS (
    SELECT
        v.* REPLACE (CASE WHEN $by_version THEN v.agent_version END AS agent_version),
        v.agent_version AS of_version, c.window_time
    FROM v_tool_faults v
    JOIN conversations c USING (environment, conversation_id)
    WHERE NOT c.superseded AND {BOUNDS}
), health AS (
    SELECT
        c.agent, CASE WHEN $by_version THEN c.agent_version END AS agent_version,
        c.environment, n.tool_name AS tool,
        count(DISTINCT c.conversation_id) FILTER (n.expected > 0) AS expected_conversations,
        sum(n.expected)::BIGINT AS expected, sum(n.actual)::BIGINT AS actual, sum(n.errored)::BIGINT AS errored,
        sum(n.paired)::BIGINT AS paired
    FROM tool_counts n
    JOIN conversation_scores s USING (evaluation_id, environment, conversation_id, revision)
    JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.{IN_EVALUATION} AND NOT s.superseded AND NOT c.superseded AND {BOUNDS}
    GROUP BY ALL
), problems AS (
    SELECT
        agent, agent_version, environment, tool, dimension, fault, parameter, count(*) AS faults,
        count(DISTINCT conversation_id) AS conversations,
        count(DISTINCT conversation_id) FILTER (failed) AS failed, count(*) FILTER (tried > 0) AS tried,
        min(ended_at) AS first_seen, max(ended_at) AS last_seen
    FROM faults
    GROUP BY ALL
), newest AS (
    SELECT *
    FROM faults
    QUALIFY row_number() OVER (
        PARTITION BY agent, agent_version, environment, tool, dimension, fault, parameter
        ORDER BY window_time DESC, conversation_id DESC, turn_index DESC, step DESC, explanation
    ) = 1
), counted AS (
    SELECT agent, environment, tool, fault, parameter, of_version, count(*) AS n, min(ended_at) AS since
    FROM faults
    GROUP BY ALL
), versions AS (
    SELECT
        n.agent, n.environment, n.tool, n.fault, n.parameter, min(n.since) AS since,
        to_json(list(
            {{'agent_version': n.of_version, 'faults': n.n}}
            ORDER BY list_position(json_extract_string(y.versions, '$[*].agent_version'), n.of_version)
        )) AS versions
    FROM counted n
    JOIN v_fault_history y ON y.agent IS NOT DISTINCT FROM n.agent AND y.environment = n.environment
        AND y.tool = n.tool AND y.fault = n.fault AND y.parameter IS NOT DISTINCT FROM n.parameter
    GROUP BY ALL
), pairs AS (
    SELECT agent, agent_version, environment, tool, fault, parameter, expected, actual, count(*) AS n
    FROM faults
    WHERE parameter IS NOT NULL
    GROUP BY ALL
), frequent AS (
    SELECT
        agent, agent_version, environment, tool, fault, parameter,
        to_json(list({{'actual': actual, 'expected': expected, 'count': n}} ORDER BY n DESC, actual, expected)[:5])
            AS wrong_values
    FROM pairs
    GROUP BY ALL
), found AS (
    SELECT
        p.agent, p.agent_version, p.environment, p.tool, p.dimension, p.fault, p.parameter, p.faults, p.conversations,
        p.failed, CASE p.fault WHEN 'missing' THEN p.tried END AS tried,
        p.faults / sum(p.faults) OVER (PARTITION BY p.agent, p.agent_version, p.environment) AS share,
        CASE p.fault
            WHEN 'missing' THEN h.expected
            WHEN 'errored' THEN h.actual + h.errored
            WHEN 'spurious' THEN h.actual
            WHEN 'forbidden' THEN h.actual
            ELSE h.paired
        END AS calls,
        p.faults / nullif(calls, 0) AS rate,
        h.expected_conversations, p.first_seen, p.last_seen, w.since, y.introduced_in,
        y.is_new AND (NOT $by_version OR y.introduced_in IS NOT DISTINCT FROM p.agent_version) AS is_new,
        y.clean_before, w.versions, q.wrong_values, e.conversation_id AS example_conversation,
        e.explanation AS example, e.expected, e.actual, e.expected_call, e.actual_call, e.error, e.trace_id, e.span_id,
        e.evaluation_id
    FROM problems p
    JOIN newest e ON e.agent IS NOT DISTINCT FROM p.agent AND e.agent_version IS NOT DISTINCT FROM p.agent_version
        AND e.environment = p.environment AND e.tool = p.tool AND e.fault = p.fault
        AND e.parameter IS NOT DISTINCT FROM p.parameter
    JOIN v_fault_history y ON y.agent IS NOT DISTINCT FROM p.agent AND y.environment = p.environment
        AND y.tool = p.tool AND y.fault = p.fault AND y.parameter IS NOT DISTINCT FROM p.parameter
    JOIN versions w ON w.agent IS NOT DISTINCT FROM p.agent AND w.environment = p.environment AND w.tool = p.tool
        AND w.fault = p.fault AND w.parameter IS NOT DISTINCT FROM p.parameter
    LEFT JOIN health h ON h.agent IS NOT DISTINCT FROM p.agent AND h.agent_version IS NOT DISTINCT FROM p.agent_version
        AND h.environment = p.environment AND h.tool = p.tool
    LEFT JOIN frequent q ON q.agent IS NOT DISTINCT FROM p.agent AND q.agent_version IS NOT DISTINCT FROM p.agent_version
        AND q.environment = p.environment AND q.tool = p.tool AND q.fault = p.fault
        AND q.parameter IS NOT DISTINCT FROM p.parameter
)
SELECT * EXCLUDE (evaluation_id)
FROM found
WHERE ($tool IS NULL OR tool GLOB $tool) AND ($dimension IS NULL OR dimension = $dimension)
    AND ($fault IS NULL OR fault = $fault) AND ($parameter IS NULL OR parameter = $parameter)
ORDER BY failed DESC, faults DESC, agent, {NUMBERS}, agent_version, environment, tool, fault, parameter
"""  # noqa: S608 — a constant of our own
_EXAMPLE: Final = f"""
SELECT v.* EXCLUDE (evaluation_id, made, made_call)
FROM v_tool_faults v
JOIN conversations c USING (environment, conversation_id)
WHERE NOT c.superseded AND {BOUNDS} AND v.agent IS NOT DISTINCT FROM $of_agent AND v.environment = $environment
    AND (NOT $by_version OR v.agent_version IS NOT DISTINCT FROM $version) AND v.tool = $tool AND v.fault = $fault
    AND v.parameter IS NOT DISTINCT FROM $parameter
ORDER BY c.window_time DESC, v.conversation_id DESC, v.turn_index DESC, v.step DESC, v.explanation
LIMIT 1
"""  # noqa: S608 — a constant of our own
_TOOL_COUNTS: Final = f"""
SELECT
    count(*) AS conversations, count(s.outcome) AS scored,
    count(*) FILTER (EXISTS (
        SELECT 1 FROM tool_scores t
        WHERE t.evaluation_id = s.evaluation_id AND t.environment = s.environment
            AND t.conversation_id = s.conversation_id AND t.revision = s.revision
    )) AS with_tools,
    count(*) FILTER (EXISTS (
        SELECT 1 FROM tool_scores t
        WHERE t.evaluation_id = s.evaluation_id AND t.environment = s.environment
            AND t.conversation_id = s.conversation_id AND t.revision = s.revision AND t.outcome = 'not_evaluated'
    )) AS unknown_tools,
    count(*) FILTER (EXISTS (
        SELECT 1 FROM tool_scores t
        WHERE t.evaluation_id = s.evaluation_id AND t.environment = s.environment
            AND t.conversation_id = s.conversation_id AND t.revision = s.revision AND t.outcome = 'fail'
    )) AS failed_tools,
    coalesce(sum((
        SELECT count(*) FROM tool_faults f
        WHERE f.evaluation_id = s.evaluation_id AND f.environment = s.environment
            AND f.conversation_id = s.conversation_id AND f.revision = s.revision
    )), 0)::BIGINT AS faults
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
WHERE NOT c.superseded AND c.closed_by IS NOT NULL AND {BOUNDS}
"""  # noqa: S608 — a constant of our own


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFilter:
    """Which faults a question is about; None means any. `tool` is a name or glob."""

    tool: str | None = None
    dimension: str | None = None
    fault: str | None = None
    parameter: str | None = None


def failing_tools(
    con: DuckDBPyConnection,
    selection: Selection,
    only: FaultFilter | None = None,
    *,
    by_version: bool = True,
) -> list[Row]:
    """Return what is wrong with which tool, with one example each: first what most conversations failed by.

    Args:
        con: a connection.
        selection: the conversations to look at.
        only: which faults are returned; the shares stay those of all.
        by_version: a row for each agent version; else one for all of them, whose `agent_version` is None.
    """
    where = {**bounds(selection), **asdict(only or FaultFilter()), "by_version": by_version}
    return [_read(row) for row in rows(con, _FAILING, where)]


def example_of(con: DuckDBPyConnection, selection: Selection, row: Mapping[str, Any], *, by_version: bool) -> Row:
    """Return the newest fault that a row of `failing_tools` counts, with both calls."""
    where = {name: row[name] for name in ("environment", "tool", "fault", "parameter")}
    given = {**bounds(selection), **where, "of_agent": row["agent"]}
    given |= {"version": row["agent_version"], "by_version": by_version}
    (found,) = rows(con, _EXAMPLE, given)
    return _read(found)


def scored_with_tools(con: DuckDBPyConnection, selection: Selection) -> Row:
    """Return how many closed conversations there are, are scored, have expected tools, and how many faults these have.

    `unknown_tools` counts those of which some tools could not be evaluated, `failed_tools` those whose tools failed: other
    systems' arithmetic names no faults.
    """
    return rows(con, _TOOL_COUNTS, bounds(selection))[0]


def _read(row: Row) -> Row:
    return {name: parsed(value) if name in _JSON else value for name, value in row.items()}
