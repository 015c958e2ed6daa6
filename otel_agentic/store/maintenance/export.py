"""Export to Parquet: the layout of the folder, atomic file replacement, pending hours, and the writing of rows."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from otel_agentic.store.durability import sync
from otel_agentic.store.table import LAST_NS, rows_with

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


HOUR_NS: Final = 3_600_000_000_000
DAY_NS: Final = 24 * HOUR_NS
#: The folder of incomplete files, on the same file system as the export; no glob of a table matches it.
WORK: Final = ".work"
#: The one file of a table that is not divided by time.
SINGLE_FILE: Final = "all.parquet"
#: The one file of a day whose hours were merged.
DAY: Final = "day.parquet"

#: Tables that belong to a conversation: their rows are exported, and removed, together with it.
_OF_REVISION: Final = (
    "turns",
    "tool_calls",
    "matches",
    "tool_faults",
    "tool_counts",
    "call_pairs",
    "scores",
)
FAMILY: Final = ("conversations", *_OF_REVISION, "trace_links")
#: Tables that are exported hour by hour; after a change in one table of a unit, the hour of the whole unit is written
#: again.
UNITS: Final = {
    "spans": ("spans",),
    "log_records": ("log_records",),
    "conversations": (*FAMILY, "results"),
}
#: Tables that are exported only in a snapshot of the whole store, as one file each, with the columns that identify a
#: row.
WHOLES: Final = {
    "cases": ("dataset", "case_id", "version"),
    "case_turns": ("dataset", "case_id", "version", "turn_index"),
    "expected_calls": ("dataset", "case_id", "version", "turn_index", "call_index"),
    "annotations": ("annotation_id",),
    "dataset_versions": ("dataset", "version", "imported_at"),
    "dataset_members": ("dataset", "version", "case_id"),
    "evaluations": ("evaluation_id",),
    "judge_calibrations": ("calibration_id",),
    "calibration_verdicts": ("calibration_id", "environment", "conversation_id", "turn_index"),
    "judge_anchors": ("freeze_id", "environment", "conversation_id", "turn_index", "position", "name"),
    "judge_calls": ("content_hash", "judged_at"),
    "windows": ("agent", "agent_version", "environment", "service", "tag", "window", "end", "k", "estimator"),
    "tool_definitions": ("definitions_hash", "name"),
    "retention": (),
}

_KEY: Final = "environment, conversation_id"
#: The rows of a period, `$first` and `$last` included, by the end of their conversation revision.
_REVISION_ROWS: Final = f"""
SELECT t.* FROM "{{table}}" t
JOIN conversations c USING ({_KEY}, revision)
WHERE c.ended_at >= make_timestamp_ns($first) AND c.ended_at <= make_timestamp_ns($last)
"""  # noqa: S608 — names of our own schema
_LINK_ROWS: Final = f"""
SELECT t.* FROM trace_links t
SEMI JOIN (
    SELECT {_KEY} FROM conversations
    GROUP BY {_KEY}
    HAVING max(ended_at) >= make_timestamp_ns($first) AND max(ended_at) <= make_timestamp_ns($last)
) USING ({_KEY})
"""  # noqa: S608 — the same
_TIMED_ROWS: Final = """
SELECT * FROM "{table}" WHERE "{time}" >= make_timestamp_ns($first) AND "{time}" <= make_timestamp_ns($last)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """How a table is exported.

    Attributes:
        name: the table.
        rows: SQL of its rows in a period, `$first` to `$last`.
        order: the sort order of a file, which lets readers skip most of it.
        identity: columns by which a row of an older file is looked up, to find out whether the store still has its
            subject.
        held: the table in which they are looked up.
    """

    name: str
    rows: str
    order: str
    identity: str
    held: str


def _export_of(name: str) -> Exported:
    if name in {"spans", "log_records"}:
        time = "start_time" if name == "spans" else "time"
        identity = "trace_id, span_id" if name == "spans" else "content_hash"
        rows = _TIMED_ROWS.format(table=name, time=time)
        return Exported(name=name, rows=rows, order=f'"{time}", {identity}', identity=identity, held=f"({rows})")
    if name in {"conversations", "results"}:
        rows = _TIMED_ROWS.format(table=name, time="ended_at")
        return Exported(name=name, rows=rows, order=f"ended_at, {_KEY}, revision", identity=_KEY, held=name)
    if name == "trace_links":
        return Exported(name=name, rows=_LINK_ROWS, order="started_at, trace_id", identity=_KEY, held="conversations")
    rows = _REVISION_ROWS.format(table=name)
    order = f"{_KEY}, revision{', turn_index' if name in _BY_TURN else ''}"
    return Exported(name=name, rows=rows, order=order, identity=_KEY, held="conversations")


_BY_TURN: Final = {"turns", "tool_calls", "tool_faults", "tool_counts", "call_pairs", "scores"}
EXPORTED: Final = {name: _export_of(name) for unit in UNITS.values() for name in unit}


def day_folder(table: str, time_ns: int) -> str:
    """Return the folder of a day of a table, relative to the export folder.

    >>> day_folder("spans", 1_772_442_000_000_000_000)
    'spans/day=2026-03-02'
    """
    return f"{table}/day={datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d}"


def hour_file(table: str, hour_ns: int) -> str:
    """Return the file of an hour of a table, relative to the export folder.

    >>> hour_file("spans", 1_772_442_000_000_000_000)
    'spans/day=2026-03-02/hour-09.parquet'
    """
    return f"{day_folder(table, hour_ns)}/hour-{hour_ns % DAY_NS // HOUR_NS:02d}.parquet"


_AT_FDCWD: Final = -100
_EXCHANGE: Final = 2


@contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """Provide a separate folder for incomplete files; it is always removed on exit."""
    work = folder / WORK / uuid4().hex
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        remove_work(work)


def remove_work(work: Path) -> None:
    """Remove a work folder, and its parents if they are empty."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        work.parent.rmdir()
        work.parent.parent.rmdir()


def clear_work(folder: Path) -> None:
    """Remove the incomplete files of a killed process."""
    shutil.rmtree(folder / WORK, ignore_errors=True)


def move_durably(draft: Path, target: Path) -> None:
    """Move a complete file to its target, durably and atomically: readers see either the previous file or this one.

    Raises:
        OSError: the file cannot be moved; the target is unchanged.
    """
    sync(draft)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
    sync(target.parent)


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically; return False if the system does not support that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    sync(first)
    exchanged = bool(renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0)
    if exchanged:
        sync(first.parent)
        sync(second.parent)
    return exchanged


def hour_sql(time: str) -> str:
    """Return SQL of the start of the hour of a time."""
    return f"make_timestamp_ns(epoch_ns({time}) // {HOUR_NS} * {HOUR_NS})"


#: SQL of the commit time up to which spans or log records were examined: later rows are new, even if their hour counts
#: as written.
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
#: A hash per row, `mark`: any change of a conversation or its score changes the combined hash of its hour.
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
_MARK_DIRTY: Final = "UPDATE exports x SET dirty = true FROM requested w WHERE x.table_name = $unit AND x.hour = make_timestamp_ns(w.hour)"
_ADD_HOURS: Final = """
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
    """The hours with arrivals or changes since the last look, and the end of the next look, by unit, ns."""

    hours: Mapping[str, Sequence[int]]
    until_ns: Mapping[str, int]


def find_changed_hours(con: DuckDBPyConnection) -> Arrived:
    """Return the hours that must be written for the first time or again; the connection must be in a transaction."""
    hours: dict[str, Sequence[int]] = {}
    until: dict[str, int] = {}
    for unit, sql in _ARRIVED.items():
        rows = con.execute(sql).fetchall()
        hours[unit] = sorted(int(hour) for hour, _ in rows)
        if rows:
            until[unit] = max(int(at) for _, at in rows)
    hours["conversations"] = sorted(int(hour) for (hour,) in con.execute(_CHANGED).fetchall())
    return Arrived(hours=hours, until_ns=until)


def record_changes(con: DuckDBPyConnection, changes: Arrived) -> None:
    """Record the hours that must be written, and the commit times up to which rows were examined."""
    for unit, hours in changes.hours.items():
        mark_dirty(con, unit, hours)
        rows_with(con, {"hour": list(hours)}, _ADD_HOURS, {"unit": unit}, fetch=False)
    for unit, until_ns in changes.until_ns.items():
        con.execute(_FORGET_LOOK, {"unit": unit})
        con.execute(_LOOKED, {"unit": unit, "until": until_ns})


def mark_dirty(con: DuckDBPyConnection, unit: str, hours: Iterable[int]) -> None:
    """Mark hours of a unit to be written again."""
    rows_with(con, {"hour": sorted(set(hours))}, _MARK_DIRTY, {"unit": unit}, fetch=False)


def due_hours(con: DuckDBPyConnection, unit: str, final_ns: int, limit: int) -> list[int]:
    """Return the hours of a unit that are complete and wait to be written, oldest first, ns.

    Args:
        con: a connection.
        unit: a key of `UNITS`.
        final_ns: hours that end at or before this time are complete, unless conversations in them are open.
        limit: maximum number of hours.
    """
    parameters = {"unit": unit, "final": final_ns, "limit": limit}
    return [int(hour) for (hour,) in con.execute(_COMPLETE_HOURS, parameters).fetchall()]


def due_days(con: DuckDBPyConnection, unit: str, final_ns: int, limit: int) -> list[int]:
    """Return the days of a unit whose hours are all written and can be merged, oldest first, ns."""
    parameters = {"unit": unit, "final": final_ns, "limit": limit, "whole": f"/{DAY}"}
    return [int(day) for (day,) in con.execute(_DAYS, parameters).fetchall()]


def digest_of(con: DuckDBPyConnection, hour_ns: int) -> int | None:
    """Return the digest of the conversations and scores of an hour, or None if it is empty."""
    ((digest,),) = con.execute(_DIGEST, {"first": hour_ns, "last": hour_ns + HOUR_NS}).fetchall()
    return None if digest is None else int(digest)


def record_written(con: DuckDBPyConnection, files: Iterable[Written], digest: int | None, now_ns: int) -> None:
    """Record that an hour was written."""
    for written in files:
        key: dict[str, Any] = {"table": written.table, "hour": written.hour_ns}
        con.execute(_FORGET, key)
        hour_digest = digest if written.table == "conversations" else None
        con.execute(_WRITTEN, {**key, "rows": written.rows, "file": written.file, "digest": hour_digest, "now": now_ns})


def record_merged_day(con: DuckDBPyConnection, unit: str, day_ns: int, tables: Iterable[str]) -> None:
    """Record that the hours of a day of some tables are now in one file."""
    for table in tables:
        assert table in UNITS[unit]  # noqa: S101 — a day is merged by unit
        file = f"{day_folder(table, day_ns)}/{DAY}"
        con.execute(_MOVED, {"table": table, "file": file, "first": day_ns, "last": day_ns + DAY_NS})


def find_missing_files(con: DuckDBPyConnection, folder: Path) -> dict[str, set[int]]:
    """Return the hours whose file was removed, by unit."""
    unit_of = {table: unit for unit, tables in UNITS.items() for table in tables}
    hours: dict[str, set[int]] = {}
    exists: dict[str, bool] = {}
    for table, hour, file in con.execute(_FILES).fetchall():
        if file not in exists:
            exists[file] = (folder / file).is_file()
        if not exists[file]:
            hours.setdefault(unit_of[table], set()).add(int(hour))
    return hours


#: Rows of a row group, which readers may skip; one row group is in memory while it is written.
_ROW_GROUP: Final = 16_384
#: More rows than this are written in the order of their arrival: sorting them would take more memory than the store may
#: use.
_SORTED_ROWS: Final = 200_000
_OPTIONS: Final = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})"
# A folder named `day=2026-03-01` is not a column of the table.
READ: Final = "read_parquet($old, hive_partitioning = false, union_by_name = true)"


def write_hour(con: DuckDBPyConnection, folder: Path, unit: str, hour_ns: int) -> tuple[list[Written], int | None]:
    """Write an hour of a unit's tables; return the written files, and the digest of the hour.

    An existing file is replaced atomically. Its rows about subjects that are no longer in the store are kept.

    Args:
        con: a connection in a transaction, so that all tables are read at the same moment.
        folder: the export folder, without symbolic links.
        unit: a key of `UNITS`.
        hour_ns: start of the hour.

    Raises:
        duckdb.Error: a file cannot be written or read.
        OSError: a file cannot be moved to its target.
    """
    digest = digest_of(con, hour_ns) if unit == "conversations" else None
    return [_write_table(con, folder, EXPORTED[table], hour_ns) for table in UNITS[unit]], digest


def _write_table(con: DuckDBPyConnection, folder: Path, table: Exported, hour_ns: int) -> Written:
    rows = _count(con, table, hour_ns, hour_ns + HOUR_NS)
    day = f"{day_folder(table.name, hour_ns)}/{DAY}"
    if (folder / day).is_file():  # the hours of the day were merged
        first_ns = hour_ns // DAY_NS * DAY_NS
        day_rows = _count(con, table, first_ns, first_ns + DAY_NS)
        has_rows = _replace(con, folder, table, day, period_ns=(first_ns, first_ns + DAY_NS), row_count=day_rows)
        return Written(table=table.name, hour_ns=hour_ns, rows=rows, file=day if has_rows else None)
    file = hour_file(table.name, hour_ns)
    has_rows = _replace(con, folder, table, file, period_ns=(hour_ns, hour_ns + HOUR_NS), row_count=rows)
    return Written(table=table.name, hour_ns=hour_ns, rows=rows, file=file if has_rows else None)


def _replace(
    con: DuckDBPyConnection, folder: Path, table: Exported, file: str, *, period_ns: tuple[int, int], row_count: int
) -> bool:
    """Write the rows of a period to a file; return whether there are any. The store has `row_count` of them."""
    target = folder / file
    sql = table.rows
    parameters: dict[str, Any] = _period(*period_ns)
    if target.is_file():
        removed = f"SELECT * FROM {READ} ANTI JOIN {table.held} h USING ({table.identity})"  # noqa: S608 — names of our own schema
        sql, parameters = f"{sql} UNION ALL BY NAME {removed}", {**parameters, "old": [str(target)]}
    elif not row_count:
        return False
    with work_folder(folder) as work:
        draft = work / target.name
        rows = copy_rows(con, sql, parameters, draft, order=table.order, row_count=row_count)
        if rows:
            move_durably(draft, target)
        else:
            target.unlink(missing_ok=True)
    return bool(rows)


def copy_rows(
    con: DuckDBPyConnection, sql: str, parameters: dict[str, Any], draft: Path, *, order: str, row_count: int
) -> int:
    """Write the rows of a query, about `row_count`; return their exact number."""
    values = {**parameters, "draft": str(draft)}
    ordered = f" ORDER BY {order}" if row_count <= _SORTED_ROWS else ""
    rows = con.execute(f"COPY (SELECT * FROM ({sql}){ordered}) TO $draft {_OPTIONS}", values)  # noqa: S608 — our own fragments; values are parameters
    return int(rows.fetchall()[0][0])


def _count(con: DuckDBPyConnection, table: Exported, first_ns: int, last_ns: int) -> int:
    return int(con.execute(f"SELECT count(*) FROM ({table.rows})", _period(first_ns, last_ns)).fetchall()[0][0])  # noqa: S608 — our own fragment


def _period(first_ns: int, until_ns: int) -> dict[str, Any]:
    """Return a period `[first, until)` as query parameters, cut at the latest time that DuckDB can store."""
    return {"first": first_ns, "last": min(until_ns - 1, LAST_NS)}


def merge_day(con: DuckDBPyConnection, folder: Path, unit: str, day_ns: int) -> list[str]:
    """Merge the hours of a day into one file per table; return the tables for which that was done.

    The folder of the day is swapped with a new one atomically: readers see no row twice and miss none.

    Args:
        con: a connection.
        folder: the export folder, without symbolic links.
        unit: a key of `UNITS`.
        day_ns: start of the day.

    Raises:
        duckdb.Error: a file cannot be written or read.
        OSError: a folder cannot be moved.
    """
    return [table for table in UNITS[unit] if _merge(con, folder, EXPORTED[table], day_ns)]


def _merge(con: DuckDBPyConnection, folder: Path, table: Exported, day_ns: int) -> bool:
    day_path = folder / day_folder(table.name, day_ns)
    files = sorted(day_path.glob("*.parquet"))
    if not files or files == [day_path / DAY]:
        return bool(files)
    old = {"old": [str(file) for file in files]}
    (row_count,) = con.execute(f"SELECT count(*) FROM {READ}", old).fetchall()[0]  # noqa: S608 — our own fragment
    with work_folder(folder) as work:
        copy_rows(con, f"SELECT * FROM {READ}", old, work / DAY, order=table.order, row_count=row_count)  # noqa: S608 — the same
        sync(work / DAY)
        return exchange(work, day_path)


def write_whole(con: DuckDBPyConnection, folder: Path, table: str) -> tuple[Path, int]:
    """Write all rows of a table that is not divided by time; return the path of the file and the number of rows."""
    if table not in WHOLES:
        raise ValueError(table)
    draft = folder / f"{table}-{SINGLE_FILE}"
    rows = con.execute(f'COPY (SELECT * FROM "{table}") TO $draft {_OPTIONS}', {"draft": str(draft)}).fetchall()  # noqa: S608 — a name of our own schema
    return draft, int(rows[0][0])


def write_day(con: DuckDBPyConnection, folder: Path, table: str, day_ns: int) -> tuple[Path, int]:
    """Write a day of a table to a file; return its path and the number of rows. Without rows, no file is written."""
    exported, draft = EXPORTED[table], folder / f"{table}-{day_ns}.parquet"
    row_count = _count(con, exported, day_ns, day_ns + DAY_NS)
    if not row_count:
        return draft, 0
    period = _period(day_ns, day_ns + DAY_NS)
    return draft, copy_rows(con, exported.rows, period, draft, order=exported.order, row_count=row_count)


def days_of(con: DuckDBPyConnection, unit: str, since_ns: int | None, until_ns: int | None) -> Sequence[int]:
    """Return the days in which a unit has rows, from the day of `since_ns` on, that begin before `until_ns`; ns."""
    time = {"spans": "start_time", "log_records": '"time"', "conversations": "ended_at"}[unit]
    rows = con.execute(
        f"SELECT DISTINCT epoch_ns({time}) // {DAY_NS} * {DAY_NS} AS day FROM {unit} ORDER BY day"  # noqa: S608 — names of our own schema
    ).fetchall()
    first_ns = None if since_ns is None else since_ns // DAY_NS * DAY_NS
    return [
        int(day) for (day,) in rows if (first_ns is None or day >= first_ns) and (until_ns is None or day < until_ns)
    ]
