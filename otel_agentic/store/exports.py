"""The table `exports`: the hours that are exported, that wait, and that changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.export_layout import DAY, DAY_NS, HOUR_NS, UNITS, day_folder
from otel_agentic.store.table import rows_with

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection


def hour_sql(time: str) -> str:
    """Return SQL of the start of the hour of a time."""
    return f"make_timestamp_ns(epoch_ns({time}) // {HOUR_NS} * {HOUR_NS})"


#: For spans or log records: rows committed later were not looked at yet, although their hour may count as written.
LOOKED_UNTIL: Final = """(
    SELECT coalesce(max(looked_until), make_timestamp_ns(0)) FROM export_looks WHERE table_name = '{unit}'
)"""
_ARRIVED: Final = {
    unit: f"""
SELECT epoch_ns({hour_sql(time)}), epoch_ns(max(received_at))
FROM {unit}
WHERE received_at > {LOOKED_UNTIL.format(unit=unit)}
GROUP BY ALL
"""  # noqa: S608 — names of our own schema
    for unit, time in (("spans", "start_time"), ("log_records", '"time"'))
}
#: With a mark per row: any change of a conversation or its score changes the mark of its hour.
MARKS: Final = f"""
    SELECT
        environment, conversation_id, {hour_sql("ended_at")} AS hour,
        hash(environment, conversation_id, revision, superseded, closed_by, content_hash) AS mark
    FROM conversations
    UNION ALL
    SELECT
        environment, conversation_id, {hour_sql("c.ended_at")},
        hash(s.evaluation_id, environment, conversation_id, revision, s.superseded, epoch_ns(s.scored_at))
    FROM conversation_scores s JOIN conversations c USING (environment, conversation_id, revision)
    UNION ALL
    SELECT
        environment, conversation_id, {hour_sql("c.ended_at")},
        hash(s.evaluation_id, environment, conversation_id, revision, 'metrics', epoch_ns(s.metrics_at))
    FROM conversation_scores s JOIN conversations c USING (environment, conversation_id, revision)
    WHERE s.metrics_at IS NOT NULL
"""  # noqa: S608 — the same
_CHANGED: Final = f"""
WITH marks AS ({MARKS}), now AS (SELECT hour, bit_xor(mark) AS digest FROM marks GROUP BY hour)
SELECT epoch_ns(now.hour) FROM now
LEFT JOIN exports x ON x.table_name = 'conversations' AND x.hour = now.hour
WHERE x.hour IS NULL OR (NOT x.dirty AND x.digest IS DISTINCT FROM now.digest)
"""  # noqa: S608 — the same
_DIGEST: Final = f"""
WITH marks AS ({MARKS})
SELECT bit_xor(mark) FROM marks WHERE hour >= make_timestamp_ns($first) AND hour < make_timestamp_ns($last)
"""  # noqa: S608 — the same
_SOIL: Final = "UPDATE exports x SET dirty = true FROM requested w WHERE x.table_name = $unit AND x.hour = make_timestamp_ns(w.hour)"
_EXPECT: Final = """
INSERT INTO exports
SELECT $unit, make_timestamp_ns(w.hour), 0, NULL, NULL, true, NULL FROM requested w
WHERE NOT EXISTS (SELECT 1 FROM exports x WHERE x.table_name = $unit AND x.hour = make_timestamp_ns(w.hour))
"""
_LOOKED: Final = "INSERT INTO export_looks VALUES ($unit, make_timestamp_ns($until))"
_FORGET_LOOK: Final = "DELETE FROM export_looks WHERE table_name = $unit"
#: An hour is complete when its lateness has passed and no conversation that ended in it is open.
_COMPLETE_HOURS: Final = f"""
SELECT epoch_ns(x.hour) FROM exports x
WHERE x.table_name = $unit AND x.dirty AND x.hour <= make_timestamp_ns($final - {HOUR_NS})
    AND x.hour NOT IN (
        SELECT {hour_sql("ended_at")} FROM conversations WHERE closed_by IS NULL AND NOT superseded
    )
ORDER BY x.hour
LIMIT $limit
"""  # noqa: S608 — the same
_FORGET: Final = "DELETE FROM exports WHERE table_name = $table AND hour = make_timestamp_ns($hour)"
_WRITTEN: Final = """
INSERT INTO exports VALUES ($table, make_timestamp_ns($hour), $rows, $file, $digest, false, make_timestamp_ns($now))
"""
_MOVED: Final = """
UPDATE exports SET file = $file
WHERE table_name = $table AND file IS NOT NULL AND hour >= make_timestamp_ns($first) AND hour < make_timestamp_ns($last)
"""
_FILES: Final = "SELECT table_name, epoch_ns(hour), file FROM exports WHERE file IS NOT NULL AND NOT dirty"
#: Days whose hours are all written, in several files or in one that contains an hour only.
_DAYS: Final = f"""
SELECT epoch_ns(hour) // {DAY_NS} * {DAY_NS} AS day FROM exports
WHERE table_name = $unit
GROUP BY day
HAVING NOT bool_or(dirty) AND count(file) FILTER (NOT ends_with(file, $whole)) > 0 AND day <= $final - {DAY_NS}
ORDER BY day
LIMIT $limit
"""  # noqa: S608 — the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """An hour of a table that was just written: `file` is relative to the export folder, None without rows."""

    table: str
    hour_ns: int
    rows: int
    file: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Hours in which something arrived or changed since the last look, by unit; and the new end of that look, ns."""

    hours: Mapping[str, Sequence[int]]
    until_ns: Mapping[str, int]


def arrived(con: DuckDBPyConnection) -> Arrived:
    """Return the hours that must be written, again or initially; the connection must be in a transaction."""
    hours: dict[str, Sequence[int]] = {}
    until: dict[str, int] = {}
    for unit, sql in _ARRIVED.items():
        rows = con.execute(sql).fetchall()
        hours[unit] = sorted(int(hour) for hour, _ in rows)
        if rows:
            until[unit] = max(int(at) for _, at in rows)
    hours["conversations"] = sorted(int(hour) for (hour,) in con.execute(_CHANGED).fetchall())
    return Arrived(hours=hours, until_ns=until)


def note(con: DuckDBPyConnection, changes: Arrived) -> None:
    """Record the hours that must be written, and the new end of the look."""
    for unit, hours in changes.hours.items():
        soil(con, unit, hours)
        rows_with(con, {"hour": list(hours)}, _EXPECT, {"unit": unit}, fetch=False)
    for unit, until_ns in changes.until_ns.items():
        con.execute(_FORGET_LOOK, {"unit": unit})
        con.execute(_LOOKED, {"unit": unit, "until": until_ns})


def soil(con: DuckDBPyConnection, unit: str, hours: Iterable[int]) -> None:
    """Mark hours of a unit to be written again."""
    rows_with(con, {"hour": sorted(set(hours))}, _SOIL, {"unit": unit}, fetch=False)


def due_hours(con: DuckDBPyConnection, unit: str, final_ns: int, limit: int) -> list[int]:
    """Return the hours of a unit that are complete and wait to be written, oldest first, ns.

    Args:
        con: a connection.
        unit: of `UNITS`.
        final_ns: hours that end at or before this are complete, unless conversations in them are open.
        limit: how many at most.
    """
    bound = {"unit": unit, "final": final_ns, "limit": limit}
    return [int(hour) for (hour,) in con.execute(_COMPLETE_HOURS, bound).fetchall()]


def due_days(con: DuckDBPyConnection, unit: str, final_ns: int, limit: int) -> list[int]:
    """Return the days of a unit whose hours are all written and can be merged, oldest first, ns."""
    bound = {"unit": unit, "final": final_ns, "limit": limit, "whole": f"/{DAY}"}
    return [int(day) for (day,) in con.execute(_DAYS, bound).fetchall()]


def digest_of(con: DuckDBPyConnection, hour_ns: int) -> int | None:
    """Return the digest of the conversations and scores of an hour, or None if it is empty."""
    ((digest,),) = con.execute(_DIGEST, {"first": hour_ns, "last": hour_ns + HOUR_NS}).fetchall()
    return None if digest is None else int(digest)


def record_written(con: DuckDBPyConnection, files: Iterable[Written], digest: int | None, now_ns: int) -> None:
    """Record that an hour was written."""
    for written in files:
        key: dict[str, Any] = {"table": written.table, "hour": written.hour_ns}
        con.execute(_FORGET, key)
        own = digest if written.table == "conversations" else None
        con.execute(_WRITTEN, {**key, "rows": written.rows, "file": written.file, "digest": own, "now": now_ns})


def moved(con: DuckDBPyConnection, unit: str, day_ns: int, tables: Iterable[str]) -> None:
    """Record that the hours of a day of some tables are now in one file."""
    for table in tables:
        assert table in UNITS[unit]  # noqa: S101 — a day is merged by unit
        file = f"{day_folder(table, day_ns)}/{DAY}"
        con.execute(_MOVED, {"table": table, "file": file, "first": day_ns, "last": day_ns + DAY_NS})


def lost(con: DuckDBPyConnection, folder: Path) -> dict[str, set[int]]:
    """Return the hours whose file was removed, by unit."""
    unit_of = {table: unit for unit, tables in UNITS.items() for table in tables}
    hours: dict[str, set[int]] = {}
    there: dict[str, bool] = {}
    for table, hour, file in con.execute(_FILES).fetchall():
        if file not in there:
            there[file] = (folder / file).is_file()
        if not there[file]:
            hours.setdefault(unit_of[table], set()).add(int(hour))
    return hours
