"""Scored conversations out of the store for groups and windows, and window points into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.table import Table, rows_with
from otel_agentic.windows.model import ScoredConversation, WindowPoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.scores import Selection

#: Every closed conversation with its newest score; one that nobody scored is not evaluated and unmatched.
_SCORED: Final = """
WITH tools AS (
    SELECT
        evaluation_id, environment, conversation_id, revision,
        avg(selection) AS selection, avg(parameters) AS parameters, avg(sequence) AS sequence,
        avg(utilization) AS utilization
    FROM tool_scores
    GROUP BY ALL
), expected AS (
    SELECT m.evaluation_id, m.environment, m.conversation_id, m.revision, e.tool_name
    FROM matches m
    JOIN expected_calls e ON e.dataset = m.dataset AND e.case_id = m.case_id AND e.version = m.case_version
    UNION
    SELECT evaluation_id, environment, conversation_id, revision, tool_name FROM tool_faults
), named AS (
    SELECT evaluation_id, environment, conversation_id, revision, list(tool_name ORDER BY tool_name) AS tools
    FROM expected
    GROUP BY ALL
)
SELECT
    c.environment, c.conversation_id, c.revision, c.agent, c.agent_version, c.service, epoch_ns(c.ended_at),
    s.dataset, s.case_id, k.tags, coalesce(s.outcome, 'not_evaluated'), coalesce(s.reason, CASE WHEN s.outcome IS NULL THEN 'unmatched' END),
    t.selection, t.parameters, t.sequence, t.utilization, n.tools
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND NOT s.superseded
LEFT JOIN cases k ON k.dataset = s.dataset AND k.case_id = s.case_id AND k.current
LEFT JOIN tools t ON t.evaluation_id = s.evaluation_id AND t.environment = s.environment
    AND t.conversation_id = s.conversation_id AND t.revision = s.revision
LEFT JOIN named n ON n.evaluation_id = s.evaluation_id AND n.environment = s.environment
    AND n.conversation_id = s.conversation_id AND n.revision = s.revision
WHERE NOT c.superseded AND c.closed_by IS NOT NULL
    AND ($since IS NULL OR c.ended_at >= make_timestamp_ns($since))
    AND ($until IS NULL OR c.ended_at < make_timestamp_ns($until))
    AND ($agent IS NULL OR c.agent GLOB $agent)
ORDER BY c.ended_at, c.environment, c.conversation_id
"""
_ENDS: Final = """
SELECT DISTINCT epoch_ns("end") AS ends FROM windows
WHERE "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
ORDER BY ends DESC LIMIT $limit
"""
#: What makes a row: its subject, its window, and what it estimates.
_IDENTITY: Final = ("agent", "agent_version", "environment", "service", "tag", "window", "end", "k", "estimator")
#: What a row says.
_SAID: Final = (
    "interval_method",
    "level",
    "n",
    "c",
    "not_evaluated",
    "coverage",
    "pass_at_k",
    "pass_at_k_lower",
    "pass_at_k_upper",
    "pass_pow_k",
    "pass_pow_k_lower",
    "pass_pow_k_upper",
    "lower_bound",
    "upper_bound",
    "tier",
    "leaning",
)
_STORED: Final = """
SELECT
    agent, agent_version, environment, service, tag, "window", epoch_ns("end"), k, estimator,
    revision,
    interval_method, level, n, c, not_evaluated, coverage, pass_at_k, pass_at_k_lower, pass_at_k_upper,
    pass_pow_k, pass_pow_k_lower, pass_pow_k_upper, lower_bound, upper_bound, tier, leaning
FROM windows
SEMI JOIN wanted ON "end" = make_timestamp_ns(ends)
"""
_DELETE: Final = """
DELETE FROM windows x USING wanted w
WHERE x.agent IS NOT DISTINCT FROM w.agent AND x.agent_version IS NOT DISTINCT FROM w.agent_version
    AND x.environment IS NOT DISTINCT FROM w.environment AND x.service IS NOT DISTINCT FROM w.service
    AND x.tag IS NOT DISTINCT FROM w.tag AND x."window" = w."window" AND x."end" = make_timestamp_ns(w."end")
    AND x.k = w.k AND x.estimator = w.estimator
"""

RowKey = tuple[Any, ...]


def scored_conversations(con: DuckDBPyConnection, selection: Selection) -> list[ScoredConversation]:
    """Return the closed conversations of a selection with their newest scores, by end time."""
    parameters = {"since": selection.since_ns, "until": selection.until_ns, "agent": selection.agent}
    return [_scored(row) for row in con.execute(_SCORED, parameters).fetchall()]


def stored_ends(con: DuckDBPyConnection, first_ns: int, last_ns: int, *, limit: int) -> list[int]:
    """Return the newest distinct window ends in a range of times, ascending."""
    bounds = {"first": first_ns, "last": last_ns, "limit": limit}
    return sorted(int(row[0]) for row in con.execute(_ENDS, bounds).fetchall())


def _scored(row: tuple[Any, ...]) -> ScoredConversation:
    values = dict(zip(DIMENSIONS, row[12:16], strict=True))
    return ScoredConversation(
        environment=row[0],
        conversation_id=row[1],
        revision=row[2],
        agent=row[3],
        agent_version=row[4],
        service=row[5],
        ended_ns=row[6],
        dataset=row[7],
        case_id=row[8],
        tags=tuple(row[9] or ()),
        outcome=row[10],
        reason=row[11],
        dimensions={name: value for name, value in values.items() if value is not None},
        tools=tuple(row[16] or ()),
    )


def save_windows(con: DuckDBPyConnection, points: Sequence[WindowPoint], ends_ns: Iterable[int], now_ns: int) -> int:
    """Write window points, one row for each k and estimator; return how many rows are new or restated.

    A row that says the same as the stored one is left alone; one that differs replaces it with the next revision.

    Args:
        con: a connection in a transaction.
        points: all points at the ends.
        ends_ns: the ends that were computed. A stored row there whose subject has no point any more goes.
        now_ns: when they were computed.
    """
    rows = {_identity(row): row for point in points for row in _rows(point)}
    stored = _stored_rows(con, ends_ns)
    changed = [
        {**row, "revision": stored[key][0] + 1 if key in stored else 1, "computed_at": now_ns}
        for key, row in rows.items()
        if key not in stored or stored[key][1] != [row[name] for name in _SAID]
    ]
    series = {_series(key) for key in rows}
    gone = [key for key in stored if key not in rows and _series(key) in series]
    _delete(con, [*gone, *(_identity(row) for row in changed)])
    if changed:
        Table(con, "windows").insert(con, {name: [row[name] for row in changed] for name in changed[0]})
    return len(changed)


def _identity(row: dict[str, Any]) -> RowKey:
    return tuple(row[name] for name in _IDENTITY)


def _series(key: RowKey) -> RowKey:
    """Return width, k and estimator of a row: what one computation covers."""
    return (key[5], *key[7:])


def _stored_rows(con: DuckDBPyConnection, ends_ns: Iterable[int]) -> dict[RowKey, tuple[int, list[Any]]]:
    """Return revision and content of the stored rows at some ends, by identity."""
    found = {}
    width = len(_IDENTITY)
    for row in rows_with(con, {"ends": sorted(set(ends_ns))}, _STORED):
        said = dict(zip(_SAID, row[width + 1 :], strict=True))
        said["not_evaluated"] = orjson.loads(said["not_evaluated"])
        found[row[:width]] = (int(row[width]), list(said.values()))
    return found


def _delete(con: DuckDBPyConnection, keys: Sequence[RowKey]) -> None:
    columns = {name: [key[place] for key in keys] for place, name in enumerate(_IDENTITY)}
    rows_with(con, columns, _DELETE, fetch=False)


def _rows(point: WindowPoint) -> list[dict[str, Any]]:
    summary = point.summary
    return [
        {
            "agent": summary.key.agent,
            "agent_version": summary.key.agent_version,
            "environment": summary.key.environment,
            "service": summary.key.service,
            "tag": summary.key.tag,
            "window": point.window,
            "end": point.end_ns,
            "k": k,
            "estimator": name,
            "interval_method": estimates.interval_method,
            "level": estimates.level,
            "n": summary.n,
            "c": summary.c,
            "not_evaluated": dict(summary.not_evaluated),
            "coverage": summary.coverage,
            "pass_at_k": estimates.pass_at_k[k].value,
            "pass_at_k_lower": estimates.pass_at_k[k].lower,
            "pass_at_k_upper": estimates.pass_at_k[k].upper,
            "pass_pow_k": estimates.pass_pow_k[k].value,
            "pass_pow_k_lower": estimates.pass_pow_k[k].lower,
            "pass_pow_k_upper": estimates.pass_pow_k[k].upper,
            "lower_bound": summary.bounds[0] if summary.bounds else None,
            "upper_bound": summary.bounds[1] if summary.bounds else None,
            "tier": summary.tier,
            "leaning": summary.leaning,
        }
        for name, estimates in summary.estimates.items()
        for k in estimates.pass_at_k
    ]
