"""Deleting data that is older than its retention period, in portions that leave the writer free for spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from otel_agentic.store.export_layout import FAMILY, HOUR_NS
from otel_agentic.store.exports import LOOKED_UNTIL, MARKS, hour_sql
from otel_agentic.store.kept import CONVERSATION_ID, TRACE_ID
from otel_agentic.store.table import LAST_NS, key_columns, registered, rows_with

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.table import Key

#: Spans and conversations deleted in one transaction, so that the writer is busy for some tens of milliseconds only.
MOST_SPANS: Final = 20_000
MOST_KEYS: Final = 250
#: Other spans of a conversation's traces may begin before it, or end after it, by this much; those further away are deleted by
#: their own age.
_AROUND_NS: Final = HOUR_NS

#: A time later than the moment at which it was written comes from a wrong clock of the sender: that moment counts then.
_CLEAN: Final = "SELECT hour FROM exports WHERE NOT dirty AND table_name = '{unit}'"
_ENDED: Final = """
SELECT environment, conversation_id FROM conversations
GROUP BY environment, conversation_id
HAVING bool_and(superseded OR closed_by IS NOT NULL) AND max(least(ended_at, built_at)) < make_timestamp_ns($cut)
ORDER BY max(least(ended_at, built_at)), environment, conversation_id
"""
#: Conversations with an hour that waits to be exported.
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
    table: f"DELETE FROM {table} WHERE rowid IN (SELECT place FROM doomed) AND {guard}"  # noqa: S608 — the same
    for table, guard in (
        *(
            (table, "(environment, conversation_id) IN (SELECT (environment, conversation_id) FROM guarding)")
            for table in FAMILY
        ),
        *((table, "trace_id IN (SELECT trace_id FROM guarding)") for table in ("spans", "log_records")),
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

    `marks` are the contributions of the conversations to the digests of hours. A conversation with too many spans for one
    transaction is in the portion with the last of its spans.
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
    """Yield the rows of some conversations that must be deleted, complete conversations, in portions.

    Args:
        con: a connection in a transaction.
        keys: closed conversations, `MOST_KEYS` at most.
        exported: omit those with an hour that was not exported yet.
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
    marks = {int(hour): int(mark) for hour, mark in rows_with(con, requested, _MARKS)} if exported else {}
    yield Portion(row_ids={**row_ids, **family}, traces=names, keys=tuple(keys), marks=marks)


def _unit_rows(
    con: DuckDBPyConnection, unit: str, traces: Sequence[tuple[str, int, int]]
) -> list[tuple[int, str, bool]]:
    """Return (row id, trace id, whether its hour waits for the export) of the stored rows of some traces."""
    timed = [(first, last) for _, first, last in traces if last]
    if not timed:
        return []
    bound = {
        "first": max(0, min(first for first, _ in timed) - _AROUND_NS),
        "last": min(max(last for _, last in timed) + _AROUND_NS, LAST_NS),
    }
    requested = {"trace_id": sorted(trace_id for trace_id, _, _ in traces)}
    return [(row[0], row[1], row[2]) for row in rows_with(con, requested, _UNIT_ROWS[unit], bound)]


def _waits(unit_rows: Mapping[str, Sequence[tuple[int, str, bool]]]) -> bool:
    return any(waits for rows in unit_rows.values() for _, _, waits in rows)


def remove(con: DuckDBPyConnection, portion: Portion, now_ns: int) -> None:
    """Delete a portion, and record its conversations and traces as removed.

    Args:
        con: a connection in a transaction of the writer's.
        portion: read before. A checkpoint may have changed its row ids since: rows of other conversations are not touched.
        now_ns: the present.
    """
    keys, traces = key_columns(portion.keys), {"trace_id": sorted(portion.traces)}
    for table, row_ids in portion.row_ids.items():
        if row_ids:
            _delete(con, table, row_ids, keys if table in FAMILY else traces)
    if not portion.keys:
        return
    _tombstones(con, "conversation", keys, now_ns)
    _tombstones(con, "trace", traces, now_ns)
    marks: dict[str, Any] = {
        "hour": list(portion.marks),
        "mark": np.array(list(portion.marks.values()), dtype="uint64"),
    }
    rows_with(con, marks, _UNMARK, fetch=False)


def _tombstones(con: DuckDBPyConnection, kind: str, requested: Mapping[str, Sequence[str]], now_ns: int) -> None:
    rows_with(con, requested, _TOMBSTONES[kind], {"now": now_ns}, fetch=False)


def _delete(con: DuckDBPyConnection, table: str, row_ids: Sequence[int], guards: Mapping[str, Sequence[str]]) -> None:
    guarding = {name: np.array(values, dtype=object) for name, values in guards.items()}
    with registered(con, "doomed", {"place": np.array(row_ids, dtype="int64")}), registered(con, "guarding", guarding):
        deleted = con.execute(_DELETE[table]).fetchall()[0][0]
        if deleted == len(row_ids):
            return
        # A checkpoint renumbered rows since the portion was read: search the whole table for them.
        con.execute(_DELETE[table].replace("rowid IN (SELECT place FROM doomed) AND ", ""))
