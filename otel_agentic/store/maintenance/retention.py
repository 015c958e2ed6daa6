"""Retention: deletes old data in portions, so that the writer stays responsive.

It also records from when on the store is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from otel_agentic.store.conversations import CONVERSATION_ID, TRACE_ID, drop_unused, retention_state
from otel_agentic.store.maintenance.export import FAMILY, HOUR_NS, LOOKED_UNTIL, MARKS, hour_sql
from otel_agentic.store.results import Columns, fetch_columns
from otel_agentic.store.table import LAST_NS, Key, key_columns, registered, rows_with

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


#: Rows deleted in one transaction.
_MOST: Final = 20_000
#: Traces that are kept: those of a closed conversation, which is kept complete; those of an open one if they are
#: recent; and recent traces that were read and must still be linked.
_HELD: Final = """
    SELECT l.trace_id FROM trace_links l
    JOIN conversations c ON c.environment = l.environment AND c.conversation_id = l.conversation_id AND NOT c.superseded
    WHERE c.closed_by IS NOT NULL OR l.ended_at >= make_timestamp_ns($cut)
    UNION ALL
    SELECT trace_id FROM trace_links
    WHERE conversation_id IS NULL AND events > 0 AND ended_at >= make_timestamp_ns($cut)
"""
#: The age of a span counts from its end or, if the sender's clock was ahead, from its arrival. The conditions let
#: DuckDB skip parts of the table.
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
SELECT rowid AS place, trace_id FROM {unit}
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
#: Traces of open conversations whose spans are deleted: the remaining spans of such a trace must not become a
#: conversation.
_LEFT: Final = """
SELECT DISTINCT trace_id FROM trace_links l
SEMI JOIN requested USING (trace_id)
WHERE conversation_id IS NOT NULL
"""
_TRACE_TOMBSTONES: Final = f"INSERT INTO removed SELECT 'trace', {TRACE_ID}, make_timestamp_ns($now) FROM requested"  # noqa: S608 — a constant of our own
_UNLINK: Final = "DELETE FROM trace_links WHERE trace_id IN (SELECT trace_id FROM requested)"
_DELETE_LOOSE: Final = {
    unit: f"DELETE FROM {unit} WHERE rowid IN (SELECT place FROM deletions) AND trace_id IN (SELECT trace_id FROM deletions)"  # noqa: S608 — the same
    for unit in _OLD
}
_SILENT: Final = """
DELETE FROM trace_links WHERE conversation_id IS NULL AND received_until < make_timestamp_ns($cut)
"""
#: Old results, except the newest ones of each group and tag before `$frozen`: count windows that end there contain
#: these, however old they are.
_RESULTS: Final = """
WITH old AS (SELECT rowid AS place, * FROM results WHERE window_time < make_timestamp_ns($cut)), tagged AS (
    SELECT rowid AS place, subject, window_time, environment, conversation_id, CAST(NULL AS VARCHAR) AS tag FROM results
    WHERE window_time < make_timestamp_ns($frozen)
    UNION ALL
    SELECT rowid, subject, window_time, environment, conversation_id, unnest(list_distinct(list_concat(tags, slices))) FROM results
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
DELETE FROM results WHERE rowid IN (SELECT place FROM deletions)
    AND (environment, conversation_id) IN (SELECT (environment, conversation_id) FROM deletions)
    AND window_time < make_timestamp_ns($cut)
"""
#: The counts of removed results, which claims need: one row per subject, case and tags.
_COUNTED: Final = """
CREATE OR REPLACE TEMP TABLE counted_attempts AS
SELECT subject, case_no, tags, sum(n) AS n, sum(c) AS c, min(first_time) AS first_time, max(last_time) AS last_time
FROM (
    FROM removed_attempts
    UNION ALL
    SELECT subject, case_no, tags, 1, (outcome = 'pass')::BIGINT, window_time, window_time FROM results
    WHERE outcome IN ('pass', 'fail') AND rowid IN (SELECT place FROM deletions)
        AND (environment, conversation_id) IN (SELECT (environment, conversation_id) FROM deletions)
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


#: Rows to delete: row ids as `place`, and the columns that identify the traces or conversations that they belong to.
OldRows: TypeAlias = Columns


def loose_rows(con: DuckDBPyConnection, unit: str, cut_ns: int, *, exported: bool) -> OldRows:
    """Return some rows of spans or log records that are older than a time and belong to no conversation in the store.

    Args:
        con: a connection.
        unit: spans or log_records.
        cut_ns: only rows older than this time, ns.
        exported: only rows of hours that were exported.
    """
    return fetch_columns(con, _SOME_LOOSE[unit], {"cut": cut_ns, "exported": exported})


def count_loose(con: DuckDBPyConnection, unit: str, cut_ns: int, *, exported: bool) -> int:
    """Return how many rows of spans or log records `loose_rows` would return in all portions."""
    return int(con.execute(_COUNT_LOOSE[unit], {"cut": cut_ns, "exported": exported}).fetchall()[0][0])


def remove_loose(con: DuckDBPyConnection, unit: str, rows: OldRows, now_ns: int) -> int:
    """Delete the rows that `loose_rows` returned, in a transaction of the writer; return how many still existed."""
    requested = {"trace_id": sorted(set(rows["trace_id"].tolist()))}
    open_traces = {"trace_id": [trace_id for (trace_id,) in rows_with(con, requested, _LEFT)]}
    rows_with(con, open_traces, _TRACE_TOMBSTONES, {"now": now_ns}, fetch=False)
    rows_with(con, open_traces, _UNLINK, fetch=False)
    with registered(con, "deletions", rows):
        return int(con.execute(_DELETE_LOOSE[unit]).fetchall()[0][0])


def old_results(
    con: DuckDBPyConnection,
    *,
    cut_ns: int,
    frozen_ns: int,
    newest: int,
    watched: Sequence[int],
    watched_since_ns: int,
) -> OldRows:
    """Return some results that are no longer counted anywhere.

    Args:
        con: a connection.
        cut_ns: only results before this time.
        frozen_ns: the newest results before this time are kept.
        newest: how many of each group and tag are kept; 0 if no window counts them.
        watched: groups with an objective: their results from `watched_since_ns` on are kept, because the evidence is
            computed from them.
        watched_since_ns: see `watched`.
    """
    parameters = {
        "cut": cut_ns,
        "frozen": frozen_ns,
        "newest": newest,
        "watched": list(watched),
        "watched_since": watched_since_ns if watched else None,
        "most": _MOST,
    }
    return fetch_columns(con, _RESULTS, parameters)


def remove_results(con: DuckDBPyConnection, rows: OldRows, cut_ns: int) -> int:
    """Delete results that `old_results` returned, and keep the counts of evaluated ones; return how many existed."""
    with registered(con, "deletions", rows):
        con.execute(_COUNTED, {"cut": cut_ns})
        for statement in _KEEP_COUNTED:
            con.execute(statement)
        return int(con.execute(_DELETE_RESULTS, {"cut": cut_ns}).fetchall()[0][0])


def remove_unused(con: DuckDBPyConnection, *, cut_ns: int, verdicts_before_ns: int, tombs_before_ns: int) -> None:
    """Delete verdicts not used for a long time, links of deleted traces, old tombstones, and unused tool definitions.

    Old rows of `not_rebuilt` are deleted, too.
    """
    con.execute(_VERDICTS, {"cut": verdicts_before_ns})
    con.execute(_SILENT, {"cut": cut_ns})
    con.execute(_NOT_REBUILT, {"cut": cut_ns})
    con.execute(_TOMBS, {"before": tombs_before_ns})
    drop_unused(con)


def add_to_retention_state(
    con: DuckDBPyConnection,
    now_ns: int,
    *,
    conversations_from_ns: int = 0,
    results_from_ns: int = 0,
    **counts: int,
) -> None:
    """Add counts of removed items to the stored state, in a transaction of the writer; its times never decrease."""
    before = retention_state(con)
    con.execute(_FORGET)
    con.execute(
        _SAVE_STATE,
        {
            "conversations_from": max(before.conversations_from_ns, conversations_from_ns),
            "results_from": max(before.results_from_ns, results_from_ns),
            **{name: getattr(before, name) + counts.get(name, 0) for name in ("conversations", "spans", "log_records")},
            "now": now_ns,
        },
    )


#: Spans and conversations deleted in one transaction, so that the writer is busy for some tens of milliseconds only.
MOST_SPANS: Final = 20_000
MOST_KEYS: Final = 250
#: Other spans of a conversation's traces may begin before it, or end after it, by this much; those further away are
#: deleted by their own age.
_AROUND_NS: Final = HOUR_NS

_CLEAN: Final = "SELECT hour FROM exports WHERE NOT dirty AND table_name = '{unit}'"
#: If a conversation ends after it was built, the sender's clock was ahead; then the time of the build counts.
_ENDED: Final = """
SELECT environment, conversation_id FROM conversations
GROUP BY environment, conversation_id
HAVING bool_and(superseded OR closed_by IS NOT NULL) AND max(least(ended_at, built_at)) < make_timestamp_ns($cut)
ORDER BY max(least(ended_at, built_at)), environment, conversation_id
"""
#: Conversations with an hour that is not exported yet.
_WAITING: Final = f"""
SELECT DISTINCT environment, conversation_id FROM conversations SEMI JOIN requested USING (environment, conversation_id)
WHERE {hour_sql("ended_at")} NOT IN ({_CLEAN.format(unit="conversations")})
"""  # noqa: S608 — names of our own schema
#: Traces that belong to no other conversation.
_TRACES: Final = """
WITH own AS (SELECT * FROM trace_links SEMI JOIN requested USING (environment, conversation_id))
SELECT trace_id, epoch_ns(min(started_at)), epoch_ns(max(ended_at)) FROM own
WHERE trace_id NOT IN (
    SELECT trace_id FROM trace_links ANTI JOIN requested USING (environment, conversation_id)
    WHERE conversation_id IS NOT NULL AND trace_id IN (SELECT trace_id FROM own)
)
GROUP BY trace_id
"""
_UNIT_ROWS: Final = {
    unit: f"""
SELECT rowid, trace_id, {time_hour} NOT IN ({_CLEAN.format(unit=unit)}) OR received_at > {LOOKED_UNTIL.format(unit=unit)}
FROM {unit}
WHERE {time} >= make_timestamp_ns($first) AND {time} <= make_timestamp_ns($last)
    AND trace_id IN (SELECT trace_id FROM requested)
"""  # noqa: S608 — the same
    for unit, time, time_hour in (
        ("spans", "start_time", hour_sql("start_time")),
        ("log_records", '"time"', hour_sql('"time"')),
    )
}
_FAMILY_ROWS: Final = {
    table: f"SELECT rowid FROM {table} SEMI JOIN requested USING (environment, conversation_id)"  # noqa: S608 — the same
    for table in FAMILY
}
_DELETE: Final = {
    table: f"DELETE FROM {table} WHERE rowid IN (SELECT place FROM deletions) AND {guard}"  # noqa: S608 — the same
    for table, guard in (
        *(
            (table, "(environment, conversation_id) IN (SELECT (environment, conversation_id) FROM owners)")
            for table in FAMILY
        ),
        *((table, "trace_id IN (SELECT trace_id FROM owners)") for table in ("spans", "log_records")),
    )
}
#: The contribution of a portion of conversations to the digests of hours.
_MARKS: Final = f"""
WITH marks AS ({MARKS})
SELECT epoch_ns(hour), bit_xor(mark) FROM marks SEMI JOIN requested USING (environment, conversation_id) GROUP BY hour
"""  # noqa: S608 — the same
_UNMARK: Final = """
UPDATE exports x SET digest = xor(x.digest, w.mark) FROM requested w
WHERE x.table_name = 'conversations' AND x.hour = make_timestamp_ns(w.hour) AND x.digest IS NOT NULL
"""
_TOMBSTONES: Final = {
    kind: f"INSERT INTO removed SELECT '{kind}', {identity}, make_timestamp_ns($now) FROM requested"  # noqa: S608 — the same
    for kind, identity in (("conversation", CONVERSATION_ID), ("trace", TRACE_ID))
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """The rows deleted in one transaction: row ids by table, with their conversations and traces.

    `marks` are the contributions of the conversations to the digests of hours. A conversation with too many spans for
    one transaction is in the portion with the last of its spans.
    """

    row_ids: Mapping[str, Sequence[int]]
    traces: frozenset[str]
    keys: tuple[Key, ...] = ()
    marks: Mapping[int, int] = field(default_factory=dict)

    def count(self, table: str) -> int:
        """Return how many rows of a table are deleted."""
        return len(self.row_ids.get(table, ()))


def ended_before(con: DuckDBPyConnection, cut_ns: int) -> list[Key]:
    """Return the conversations that are closed in all revisions and ended before a time, oldest first."""
    return [(environment, name) for environment, name in con.execute(_ENDED, {"cut": cut_ns}).fetchall()]


def portions(con: DuckDBPyConnection, keys: Sequence[Key], *, exported: bool) -> Iterator[Portion]:
    """Yield the rows of conversations that must be deleted, in portions of complete conversations.

    Args:
        con: a connection in a transaction.
        keys: closed conversations, `MOST_KEYS` at most.
        exported: omit conversations with an hour that was not exported yet.
    """
    waiting = {(row[0], row[1]) for row in rows_with(con, key_columns(keys), _WAITING)} if exported else set()
    yield from _portions(con, [key for key in keys if key not in waiting], exported=exported)


def _portions(con: DuckDBPyConnection, keys: Sequence[Key], *, exported: bool) -> Iterator[Portion]:
    if not keys:
        return
    requested = key_columns(keys)
    traces = rows_with(con, requested, _TRACES)
    unit_rows = {unit: _unit_rows(con, unit, traces) for unit in _UNIT_ROWS}
    total = sum(map(len, unit_rows.values()))
    if len(keys) > 1 and (total > MOST_SPANS or (exported and _waits(unit_rows))):
        middle = len(keys) // 2
        yield from _portions(con, keys[:middle], exported=exported)
        yield from _portions(con, keys[middle:], exported=exported)
        return
    if exported and _waits(unit_rows):
        return
    names = frozenset(trace_id for trace_id, _, _ in traces)
    row_ids = {unit: [row_id for row_id, _, _ in rows] for unit, rows in unit_rows.items()}
    for unit in _UNIT_ROWS:  # of a conversation that is too long for one transaction, the spans are deleted first
        while len(row_ids[unit]) > MOST_SPANS:
            yield Portion(row_ids={unit: row_ids[unit][:MOST_SPANS]}, traces=names)
            row_ids[unit] = row_ids[unit][MOST_SPANS:]
    family = {table: [row_id for (row_id,) in rows_with(con, requested, sql)] for table, sql in _FAMILY_ROWS.items()}
    marks = marks_of(con, requested) if exported else {}
    yield Portion(row_ids={**row_ids, **family}, traces=names, keys=tuple(keys), marks=marks)


def _unit_rows(
    con: DuckDBPyConnection, unit: str, traces: Sequence[tuple[str, int, int]]
) -> list[tuple[int, str, bool]]:
    """Return (row id, trace id, whether its hour waits for the export) of the stored rows of some traces."""
    timed = [(first, last) for _, first, last in traces if last]
    if not timed:
        return []
    parameters = {
        "first": max(0, min(first for first, _ in timed) - _AROUND_NS),
        "last": min(max(last for _, last in timed) + _AROUND_NS, LAST_NS),
    }
    requested = {"trace_id": sorted(trace_id for trace_id, _, _ in traces)}
    return [(row[0], row[1], row[2]) for row in rows_with(con, requested, _UNIT_ROWS[unit], parameters)]


def _waits(unit_rows: Mapping[str, Sequence[tuple[int, str, bool]]]) -> bool:
    return any(waits for rows in unit_rows.values() for _, _, waits in rows)


def remove(con: DuckDBPyConnection, portion: Portion, now_ns: int) -> None:
    """Delete a portion, and record its conversations and traces as removed.

    Args:
        con: a connection in a transaction of the writer.
        portion: the rows, read earlier. A checkpoint may have changed row ids since; rows of other conversations are
            never deleted.
        now_ns: the current time, ns since the epoch.
    """
    keys, traces = key_columns(portion.keys), {"trace_id": sorted(portion.traces)}
    for table, row_ids in portion.row_ids.items():
        if row_ids:
            _delete(con, table, row_ids, keys if table in FAMILY else traces)
    if portion.keys:
        record_removal(con, keys, traces, portion.marks, now_ns)


def record_removal(
    con: DuckDBPyConnection,
    keys: Mapping[str, Sequence[str]],
    traces: Mapping[str, Sequence[str]],
    marks: Mapping[int, int],
    now_ns: int,
) -> None:
    """Record conversations and traces as removed, so that their late spans are not rebuilt.

    Args:
        con: a connection in a transaction of the writer.
        keys: columns `environment` and `conversation_id`.
        traces: the column `trace_id`.
        marks: from `marks_of`, read before the conversations were deleted.
        now_ns: the current time, ns since the epoch.
    """
    _tombstones(con, "conversation", keys, now_ns)
    _tombstones(con, "trace", traces, now_ns)
    columns: dict[str, Any] = {"hour": list(marks), "mark": np.array(list(marks.values()), dtype="uint64")}
    rows_with(con, columns, _UNMARK, fetch=False)


def marks_of(con: DuckDBPyConnection, keys: Mapping[str, Sequence[str]]) -> dict[int, int]:
    """Return the contributions of conversations to the digests of exported hours, by hour, ns."""
    return {int(hour): int(mark) for hour, mark in rows_with(con, keys, _MARKS)}


def _tombstones(con: DuckDBPyConnection, kind: str, requested: Mapping[str, Sequence[str]], now_ns: int) -> None:
    rows_with(con, requested, _TOMBSTONES[kind], {"now": now_ns}, fetch=False)


def _delete(con: DuckDBPyConnection, table: str, row_ids: Sequence[int], guards: Mapping[str, Sequence[str]]) -> None:
    owners = {name: np.array(values, dtype=object) for name, values in guards.items()}
    with registered(con, "deletions", {"place": np.array(row_ids, dtype="int64")}), registered(con, "owners", owners):
        deleted = con.execute(_DELETE[table]).fetchall()[0][0]
        if deleted == len(row_ids):
            return
        # A checkpoint renumbered rows since the portion was read: search the whole table for them.
        con.execute(_DELETE[table].replace("rowid IN (SELECT place FROM deletions) AND ", ""))
