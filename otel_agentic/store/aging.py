"""Data deleted by its own age: spans without a finished conversation, results beyond all windows, unused verdicts of judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.store.definitions import drop_unused
from otel_agentic.store.exports import LOOKED_UNTIL, hour_sql
from otel_agentic.store.kept import TRACE_ID
from otel_agentic.store.table import registered, rows_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.kept import RetentionState

#: Rows deleted in one transaction.
_MOST: Final = 20_000
#: Traces that stay with a conversation: with a closed one, which is kept complete, or with an open one while the trace is young;
#: and traces that were read and wait to be linked.
_HELD: Final = """
    SELECT l.trace_id FROM trace_links l
    JOIN conversations c ON c.environment = l.environment AND c.conversation_id = l.conversation_id AND NOT c.superseded
    WHERE c.closed_by IS NOT NULL OR l.ended_at >= make_timestamp_ns($cut)
    UNION ALL
    SELECT trace_id FROM trace_links
    WHERE conversation_id IS NULL AND events > 0 AND ended_at >= make_timestamp_ns($cut)
"""
#: The age of a span counts from its end; if the sender's clock was ahead, from its arrival. Written so that DuckDB can skip parts
#: of the table.
_OLD: Final = {
    "spans": (
        "start_time < make_timestamp_ns($cut) AND end_time < make_timestamp_ns($cut)",
        "received_at < make_timestamp_ns($cut)",
    ),
    "log_records": ('"time" < make_timestamp_ns($cut)', "received_at < make_timestamp_ns($cut)"),
}
_CLEAN_HOUR: Final = f"""
    AND (NOT $exported OR (
        {{hour}} IN (SELECT hour FROM exports WHERE NOT dirty AND table_name = '{{unit}}') AND received_at <= {LOOKED_UNTIL}
    ))
"""  # noqa: S608 — names of our own schema
_LOOSE: Final = {
    unit: f"""
SELECT rowid, trace_id FROM {unit}
WHERE (({own}) OR {arrived}) {_CLEAN_HOUR.format(hour=hour_sql(time), unit=unit)}
    AND trace_id NOT IN ({_HELD})
"""  # noqa: S608 — names of our own schema
    for unit, time, (own, arrived) in (
        ("spans", "start_time", _OLD["spans"]),
        ("log_records", '"time"', _OLD["log_records"]),
    )
}
_SOME_LOOSE: Final = {unit: f"{sql} LIMIT {_MOST}" for unit, sql in _LOOSE.items()}
_COUNT_LOOSE: Final = {unit: f"SELECT count(*) FROM ({sql})" for unit, sql in _LOOSE.items()}  # noqa: S608 — the same
#: Traces of open conversations that are deleted with their spans: the rest of such a trace must not become a conversation.
_LEFT: Final = """
SELECT DISTINCT trace_id FROM trace_links l
SEMI JOIN requested USING (trace_id)
WHERE conversation_id IS NOT NULL
"""
_TRACE_TOMBSTONES: Final = f"INSERT INTO removed SELECT 'trace', {TRACE_ID}, make_timestamp_ns($now) FROM requested"  # noqa: S608 — a constant of our own
_UNLINK: Final = "DELETE FROM trace_links WHERE trace_id IN (SELECT trace_id FROM requested)"
_DELETE_LOOSE: Final = {
    unit: f"DELETE FROM {unit} WHERE rowid IN (SELECT place FROM doomed) AND trace_id IN (SELECT trace_id FROM doomed)"  # noqa: S608 — the same
    for unit in _OLD
}
_SILENT: Final = """
DELETE FROM trace_links WHERE conversation_id IS NULL AND received_until < make_timestamp_ns($cut)
"""
#: The newest results of each group and tag before a time: count windows that end there contain them, however old they are.
_RESULTS: Final = """
WITH old AS (SELECT rowid AS place, * FROM results WHERE window_time < make_timestamp_ns($cut)), tagged AS (
    SELECT rowid AS place, subject, window_time, environment, conversation_id, CAST(NULL AS VARCHAR) AS tag FROM results
    WHERE window_time < make_timestamp_ns($frozen)
    UNION ALL
    SELECT rowid, subject, window_time, environment, conversation_id, unnest(list_distinct(tags)) FROM results
    WHERE window_time < make_timestamp_ns($frozen)
), counted AS (
    SELECT place FROM tagged
    QUALIFY row_number() OVER (
        PARTITION BY subject, tag ORDER BY window_time DESC, environment DESC, conversation_id DESC
    ) <= $newest
)
SELECT place, environment, conversation_id FROM old
WHERE ($watched_since IS NULL OR window_time < make_timestamp_ns($watched_since) OR subject NOT IN (SELECT unnest($watched)))
    AND ($newest = 0 OR place NOT IN (SELECT place FROM counted))
LIMIT $most
"""
_DELETE_RESULTS: Final = """
DELETE FROM results WHERE rowid IN (SELECT place FROM doomed)
    AND (environment, conversation_id) IN (SELECT (environment, conversation_id) FROM doomed)
    AND window_time < make_timestamp_ns($cut)
"""
#: Their counts are kept for claims: one row per subject, case and tags.
_COUNTED: Final = """
CREATE OR REPLACE TEMP TABLE counted_attempts AS
SELECT subject, case_no, tags, sum(n) AS n, sum(c) AS c, min(first_time) AS first_time, max(last_time) AS last_time
FROM (
    FROM removed_attempts
    UNION ALL
    SELECT subject, case_no, tags, 1, (outcome = 'pass')::BIGINT, window_time, window_time FROM results
    WHERE outcome IN ('pass', 'fail') AND rowid IN (SELECT place FROM doomed)
        AND (environment, conversation_id) IN (SELECT (environment, conversation_id) FROM doomed)
        AND window_time < make_timestamp_ns($cut)
)
GROUP BY subject, case_no, tags
"""
_KEEP_COUNTED: Final = (
    "DELETE FROM removed_attempts",
    "INSERT INTO removed_attempts FROM counted_attempts",
    "DROP TABLE counted_attempts",
)
_VERDICTS: Final = "DELETE FROM judge_calls WHERE coalesce(used_at, judged_at) < make_timestamp_ns($cut)"
_TOMBS: Final = "DELETE FROM removed WHERE removed_at < make_timestamp_ns($before)"
_NOT_REBUILT: Final = "DELETE FROM not_rebuilt WHERE last_at < make_timestamp_ns($cut)"
_FORGET: Final = "DELETE FROM retention"
_SAVE_STATE: Final = """
INSERT INTO retention VALUES (
    make_timestamp_ns($conversations_from), make_timestamp_ns($results_from), $conversations, $spans, $log_records,
    make_timestamp_ns($now)
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """Rows of spans or log records that are deleted by their own age: row ids, and the trace of each."""

    unit: str
    row_ids: Sequence[int]
    traces: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldResults:
    """Results outside all windows: row ids, and their conversations."""

    row_ids: Sequence[int]
    environments: Sequence[str]
    names: Sequence[str]
    before_ns: int


def loose_rows(con: DuckDBPyConnection, unit: str, cut_ns: int, *, exported: bool) -> Loose:
    """Return some rows of spans or log records that are older than a time and belong to no conversation in the store.

    Args:
        con: a connection.
        unit: spans or log_records.
        cut_ns: the time.
        exported: only rows of hours that were exported.
    """
    rows = con.execute(_SOME_LOOSE[unit], {"cut": cut_ns, "exported": exported}).fetchall()
    return Loose(unit=unit, row_ids=[row[0] for row in rows], traces=[row[1] for row in rows])


def count_loose(con: DuckDBPyConnection, unit: str, cut_ns: int, *, exported: bool) -> int:
    """Return how many rows of spans or log records `loose_rows` would return, portion after portion."""
    return int(con.execute(_COUNT_LOOSE[unit], {"cut": cut_ns, "exported": exported}).fetchall()[0][0])


def remove_loose(con: DuckDBPyConnection, loose: Loose, now_ns: int) -> int:
    """Delete such rows, in a transaction of the writer; return how many still existed."""
    requested = {"trace_id": sorted(set(loose.traces))}
    left = {"trace_id": [trace_id for (trace_id,) in rows_with(con, requested, _LEFT)]}
    rows_with(con, left, _TRACE_TOMBSTONES, {"now": now_ns}, fetch=False)
    rows_with(con, left, _UNLINK, fetch=False)
    doomed = {"place": np.array(loose.row_ids, dtype="int64"), "trace_id": np.array(loose.traces, dtype=object)}
    with registered(con, "doomed", doomed):
        return int(con.execute(_DELETE_LOOSE[loose.unit]).fetchall()[0][0])


def old_results(
    con: DuckDBPyConnection,
    *,
    cut_ns: int,
    frozen_ns: int,
    newest: int,
    watched: Sequence[int],
    watched_since_ns: int,
) -> OldResults:
    """Return some results that are no longer counted anywhere.

    Args:
        con: a connection.
        cut_ns: only results before this time,
        frozen_ns: except the newest ones before this time,
        newest: this many of each group and tag; 0 if no window counts them.
        watched: groups with an objective: their results from `watched_since_ns` on stay, because the evidence is computed from
            them.
        watched_since_ns: see `watched`.
    """
    bound = {
        "cut": cut_ns,
        "frozen": frozen_ns,
        "newest": newest,
        "watched": list(watched),
        "watched_since": watched_since_ns if watched else None,
        "most": _MOST,
    }
    rows = con.execute(_RESULTS, bound).fetchall()
    return OldResults(
        row_ids=[row[0] for row in rows],
        environments=[row[1] for row in rows],
        names=[row[2] for row in rows],
        before_ns=cut_ns,
    )


def remove_results(con: DuckDBPyConnection, old: OldResults) -> int:
    """Delete such results, and keep the counts of the evaluated ones; return how many still existed."""
    doomed = {
        "place": np.array(old.row_ids, dtype="int64"),
        "environment": np.array(old.environments, dtype=object),
        "conversation_id": np.array(old.names, dtype=object),
    }
    with registered(con, "doomed", doomed):
        con.execute(_COUNTED, {"cut": old.before_ns})
        for statement in _KEEP_COUNTED:
            con.execute(statement)
        return int(con.execute(_DELETE_RESULTS, {"cut": old.before_ns}).fetchall()[0][0])


def remove_small(con: DuckDBPyConnection, *, cut_ns: int, verdicts_before_ns: int, tombs_before_ns: int) -> None:
    """Delete unused data: verdicts not used for long, links of deleted traces, tombstones, and unused tool definitions.

    Old rows of `not_rebuilt` are deleted, too.
    """
    con.execute(_VERDICTS, {"cut": verdicts_before_ns})
    con.execute(_SILENT, {"cut": cut_ns})
    con.execute(_NOT_REBUILT, {"cut": cut_ns})
    con.execute(_TOMBS, {"before": tombs_before_ns})
    drop_unused(con)


def save_retention_state(con: DuckDBPyConnection, now: RetentionState, now_ns: int) -> None:
    """Store from when on the store is complete, and how much was removed so far."""
    con.execute(_FORGET)
    con.execute(
        _SAVE_STATE,
        {
            "conversations_from": now.conversations_from_ns,
            "results_from": now.results_from_ns,
            "conversations": now.conversations,
            "spans": now.spans,
            "log_records": now.log_records,
            "now": now_ns,
        },
    )
