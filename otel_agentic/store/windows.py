"""Scored conversations out of the store for groups and windows, and window points into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.evaluations import IN_EVALUATION
from otel_agentic.store.selection import BOUNDS, bounds
from otel_agentic.store.table import registered
from otel_agentic.store.window_rows import rows_of
from otel_agentic.windows.model import ScoredConversation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.selection import Selection
    from otel_agentic.store.window_rows import Columns
    from otel_agentic.windows.columns import WindowTable

#: Every closed conversation with its newest score; one without a score is not evaluated, for the reason `not_scored`.
_SCORED: Final = f"""
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
    c.environment, c.conversation_id, c.revision, c.agent, c.agent_version, c.service, epoch_ns(c.window_time),
    s.dataset, s.case_id, k.tags, coalesce(s.outcome, 'not_evaluated'), coalesce(s.reason, CASE WHEN s.outcome IS NULL THEN 'not_scored' END),
    t.selection, t.parameters, t.sequence, t.utilization, n.tools, coalesce(s.sample_ratio, 1.0),
    c.window_time < c.ended_at, s.known_failure, s.pass_probability
FROM conversations c
LEFT JOIN conversation_scores s
    ON s.environment = c.environment AND s.conversation_id = c.conversation_id AND s.revision = c.revision
    AND s.{IN_EVALUATION} AND NOT s.superseded
LEFT JOIN cases k ON k.dataset = s.dataset AND k.case_id = s.case_id AND k.current
LEFT JOIN tools t ON t.evaluation_id = s.evaluation_id AND t.environment = s.environment
    AND t.conversation_id = s.conversation_id AND t.revision = s.revision
LEFT JOIN named n ON n.evaluation_id = s.evaluation_id AND n.environment = s.environment
    AND n.conversation_id = s.conversation_id AND n.revision = s.revision
WHERE NOT c.superseded AND c.closed_by IS NOT NULL
    AND {BOUNDS}
ORDER BY c.window_time, c.environment, c.conversation_id
"""  # noqa: S608 — a constant of our own
_ENDS: Final = """
SELECT DISTINCT epoch_ns("end") AS ends FROM windows
WHERE "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last) AND "window" IN (SELECT unnest($widths))
ORDER BY ends DESC LIMIT $limit
"""
_NEWEST_END: Final = """
SELECT epoch_ns(max("end")) FROM windows WHERE "end" <= make_timestamp_ns($last) AND epoch_ns("end") % $step = 0
"""
#: What makes a row: its subject, its window, and what it estimates.
_IDENTITY: Final = ("agent", "agent_version", "environment", "service", "tag", "window", "end", "k", "estimator")
_SAME_ROW: Final = """
    s."end" = make_timestamp_ns(f."end") AND s."window" = f."window" AND s.k = f.k AND s.estimator = f.estimator
    AND s.environment IS NOT DISTINCT FROM f.environment AND s.agent IS NOT DISTINCT FROM f.agent
    AND s.agent_version IS NOT DISTINCT FROM f.agent_version AND s.service IS NOT DISTINCT FROM f.service
    AND s.tag IS NOT DISTINCT FROM f.tag
"""
_TOLD: Final = ("interval_method", "n", "c", "not_evaluated", "tier", "leaning")
_RATES: Final = (
    "level", "effective_n", "coverage", "lower_bound", "upper_bound",
    "pass_at_k", "pass_at_k_lower", "pass_at_k_upper", "pass_pow_k", "pass_pow_k_lower", "pass_pow_k_upper",
)  # fmt: skip
#: Sums of weights depend on the order of addition, in the last digits: such rows say the same.
_SAYS_OTHERWISE: Final = " OR ".join(
    (
        *(f"s.{name} IS DISTINCT FROM f.{name}" for name in _TOLD),
        *(
            f"coalesce(abs(s.{name} - nullif(f.{name}, 'nan'::DOUBLE)) > 1e-9, s.{name} IS DISTINCT FROM nullif(f.{name}, 'nan'::DOUBLE))"
            for name in _RATES
        ),
    )
)
#: The stored rows that a computation may have something to say of.
_AT_ENDS: Final = """
    "end" BETWEEN make_timestamp_ns($first) AND make_timestamp_ns($last)
    AND "end" IN (SELECT make_timestamp_ns(unnest($ends)))
"""
_CHANGED: Final = f"""
WITH stored AS (SELECT * FROM windows WHERE {_AT_ENDS})
SELECT f.place, coalesce(s.revision, 0) AS revision
FROM fresh f LEFT JOIN stored s ON {_SAME_ROW}
WHERE s.revision IS NULL OR {_SAYS_OTHERWISE}
ORDER BY f.place
"""  # noqa: S608 — our own fragments
_DELETE: Final = f"DELETE FROM windows s USING fresh f WHERE {_SAME_ROW}"  # noqa: S608 — the same
#: Of what was computed at the ends, rows that have nothing to say any more.
_CLEAR: Final = f"""
DELETE FROM windows s WHERE {_AT_ENDS}
    AND "window" IN (SELECT unnest($widths)) AND k IN (SELECT unnest($k)) AND estimator IN (SELECT unnest($estimators))
"""  # noqa: S608 — the same
_CLEAR_GONE: Final = f"{_CLEAR} AND NOT EXISTS (SELECT 1 FROM fresh f WHERE {_SAME_ROW})"  # noqa: S608 — the same
_TIMES: Final = ("end", "computed_at")
_COLUMNS: Final = {
    **{name: f'"{name}"' for name in (*_IDENTITY, *_TOLD, "revision")},
    **{name: f"nullif({name}, 'nan'::DOUBLE)" for name in _RATES},
    **{name: f'make_timestamp_ns("{name}")' for name in _TIMES},
}
_NAMES: Final = ", ".join(f'"{name}"' for name in _COLUMNS)
_INSERT: Final = f"INSERT INTO windows ({_NAMES}) SELECT {', '.join(_COLUMNS.values())} FROM fresh"  # noqa: S608 — the same


def scored_conversations(con: DuckDBPyConnection, selection: Selection) -> list[ScoredConversation]:
    """Return the closed conversations of a selection with their newest scores, by end time."""
    return [_scored(row) for row in con.execute(_SCORED, bounds(selection)).fetchall()]


def stored_ends(
    con: DuckDBPyConnection, widths: Sequence[str], first_ns: int, last_ns: int, *, limit: int
) -> list[int]:
    """Return the newest distinct ends, in a range of times, at which a window of these widths is stored, ascending."""
    bounds = {"widths": list(widths), "first": first_ns, "last": last_ns, "limit": limit}
    return sorted(int(row[0]) for row in con.execute(_ENDS, bounds).fetchall())


def newest_end(con: DuckDBPyConnection, step_ns: int, last_ns: int) -> int | None:
    """Return the newest stored end up to a time, ns, among the whole multiples of a step; None without any."""
    ((newest,),) = con.execute(_NEWEST_END, {"last": last_ns, "step": step_ns}).fetchall()
    return None if newest is None else int(newest)


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
        weight=1.0 / row[17],
        clock_ahead=row[18],
        known_failure=row[19],
        pass_probability=row[20],
    )


def save_windows(con: DuckDBPyConnection, table: WindowTable, ends_ns: Iterable[int], now_ns: int) -> int:
    """Write window points, one row for each k and estimator; return how many rows are new or restated.

    A row that says the same as the stored one is left alone; one that differs replaces it. That counts as a new revision
    once the end of its window has passed: until then the window is filling.

    Args:
        con: a connection in a transaction.
        table: all points at the ends.
        ends_ns: the ends that were computed. A stored row there that has no point any more goes, of the windows, k and
            estimators of the table.
        now_ns: when they were computed.
    """
    ends = sorted(set(ends_ns))
    if not ends:
        return 0
    rows = rows_of(table)
    at_ends = {"ends": ends, "first": ends[0], "last": ends[-1]}
    computed = {"widths": list(table.widths), "k": list(table.k), "estimators": list(table.estimates)}
    if not table.tallies.size:
        con.execute(_CLEAR, {**at_ends, **computed})
        return 0
    with registered(con, "fresh", {"place": np.arange(len(rows["k"])), **rows}):
        con.execute(_CLEAR_GONE, {**at_ends, **computed})
        found = con.execute(_CHANGED, at_ends).fetchnumpy()
    place = np.asarray(found["place"])
    if len(place):
        _replace(con, {name: values[place] for name, values in rows.items()}, np.asarray(found["revision"]), now_ns)
    return len(place)


def _replace(con: DuckDBPyConnection, rows: Columns, revision: np.ndarray[Any, Any], now_ns: int) -> None:
    """Write rows in the place of those with the same identity, whose revision (0: none) is given."""
    passed = rows["end"] <= now_ns
    fresh = {
        **rows,
        "revision": np.where(revision == 0, 1, revision + passed),
        "computed_at": np.full(len(passed), now_ns),
    }
    with registered(con, "fresh", fresh):
        con.execute(_DELETE)
        con.execute(_INSERT)
