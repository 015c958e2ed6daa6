"""Rows into Parquet files: an hour, a day, a whole table; each file whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.export_files import exchange, put, sync, work_folder
from otel_agentic.store.export_layout import (
    DAY,
    DAY_NS,
    EXPORTED,
    HOUR_NS,
    UNITS,
    WHOLE,
    WHOLES,
    day_folder,
    hour_file,
)
from otel_agentic.store.exports import Written, digest_of
from otel_agentic.store.table import LAST_NS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.export_layout import Exported

#: Rows of a part of a file that a reader may pass over; a part is in memory while it is written.
_ROW_GROUP: Final = 16_384
#: More rows are written in the order of their arrival: to sort them would take more memory than the store may.
_SORTED_ROWS: Final = 200_000
_OPTIONS: Final = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})"
# A folder called `day=2026-03-01` is no column of the table.
_READ: Final = "read_parquet($old, hive_partitioning = false, union_by_name = true)"


def write_hour(con: DuckDBPyConnection, folder: Path, unit: str, hour_ns: int) -> tuple[list[Written], int | None]:
    """Write an hour of a unit's tables; return what was written, and the digest of what the hour holds.

    A file that is there already is replaced at one moment. What it tells of that the store holds no more stays in it.

    Args:
        con: a connection in a transaction, so that all tables are of one moment.
        folder: the export folder, without symbolic links.
        unit: of `UNITS`.
        hour_ns: start of the hour.

    Raises:
        duckdb.Error: a file cannot be written or read.
        OSError: a file cannot be put in its place.
    """
    digest = digest_of(con, hour_ns) if unit == "conversations" else None
    return [_hour(con, folder, EXPORTED[table], hour_ns) for table in UNITS[unit]], digest


def _hour(con: DuckDBPyConnection, folder: Path, table: Exported, hour_ns: int) -> Written:
    rows = _count(con, table, hour_ns, hour_ns + HOUR_NS)
    day = f"{day_folder(table.name, hour_ns)}/{DAY}"
    if (folder / day).is_file():  # the hours of the day were put together
        first_ns = hour_ns // DAY_NS * DAY_NS
        about = _count(con, table, first_ns, first_ns + DAY_NS)
        wrote = _replace(con, folder, table, day, time_ns=(first_ns, first_ns + DAY_NS), about=about)
        return Written(table=table.name, hour_ns=hour_ns, rows=rows, file=day if wrote else None)
    file = hour_file(table.name, hour_ns)
    wrote = _replace(con, folder, table, file, time_ns=(hour_ns, hour_ns + HOUR_NS), about=rows)
    return Written(table=table.name, hour_ns=hour_ns, rows=rows, file=file if wrote else None)


def _replace(
    con: DuckDBPyConnection, folder: Path, table: Exported, file: str, *, time_ns: tuple[int, int], about: int
) -> bool:
    """Write the rows of a time, so many in the store, in the place of a file; return whether there were any."""
    target = folder / file
    sql = table.rows
    bound: dict[str, Any] = _bound(*time_ns)
    if target.is_file():
        gone = f"SELECT * FROM {_READ} ANTI JOIN {table.held} h USING ({table.identity})"  # noqa: S608 — names of our own schema
        sql, bound = f"{sql} UNION ALL BY NAME {gone}", {**bound, "old": [str(target)]}
    elif not about:
        return False
    with work_folder(folder) as made:
        draft = made / target.name
        rows = _copy(con, sql, bound, draft, order=table.order, about=about)
        if rows:
            put(draft, target)
        else:
            target.unlink(missing_ok=True)
    return bool(rows)


def _copy(con: DuckDBPyConnection, sql: str, bound: dict[str, Any], draft: Path, *, order: str, about: int) -> int:
    """Write the rows of a query; return how many."""
    ordered = f" ORDER BY {order}" if about <= _SORTED_ROWS else ""
    found = con.execute(f"COPY (SELECT * FROM ({sql}){ordered}) TO $draft {_OPTIONS}", {**bound, "draft": str(draft)})  # noqa: S608 — our own fragments; values are parameters
    return int(found.fetchall()[0][0])


def _count(con: DuckDBPyConnection, table: Exported, first_ns: int, last_ns: int) -> int:
    return int(con.execute(f"SELECT count(*) FROM ({table.rows})", _bound(first_ns, last_ns)).fetchall()[0][0])  # noqa: S608 — our own fragment


def _bound(first_ns: int, until_ns: int) -> dict[str, Any]:
    """Return a time `[first, until)` as rows are asked for it; the last day of DuckDB's range ends with the range."""
    return {"first": first_ns, "last": min(until_ns - 1, LAST_NS)}


def merge_day(con: DuckDBPyConnection, folder: Path, unit: str, day_ns: int) -> list[str]:
    """Put the hours of a day into one file a table; return the tables where that was done.

    The folder of the day changes places with a new one, at one moment: no reader finds a row twice, or misses one.

    Args:
        con: a connection.
        folder: the export folder, without symbolic links.
        unit: of `UNITS`.
        day_ns: start of the day.

    Raises:
        duckdb.Error: a file cannot be written or read.
        OSError: a folder cannot be put in its place.
    """
    return [table for table in UNITS[unit] if _merge(con, folder, EXPORTED[table], day_ns)]


def _merge(con: DuckDBPyConnection, folder: Path, table: Exported, day_ns: int) -> bool:
    home = folder / day_folder(table.name, day_ns)
    files = sorted(home.glob("*.parquet"))
    if not files or files == [home / DAY]:
        return bool(files)
    old = {"old": [str(file) for file in files]}
    (about,) = con.execute(f"SELECT count(*) FROM {_READ}", old).fetchall()[0]  # noqa: S608 — our own fragment
    with work_folder(folder) as made:
        _copy(con, f"SELECT * FROM {_READ}", old, made / DAY, order=table.order, about=about)  # noqa: S608 — the same
        sync(made / DAY)
        return exchange(made, home)


def write_whole(con: DuckDBPyConnection, folder: Path, table: str) -> tuple[Path, int]:
    """Write all rows of a table that is not divided by time; return the draft of its file, and how many rows it has."""
    if table not in WHOLES:
        raise ValueError(table)
    draft = folder / f"{table}-{WHOLE}"
    found = con.execute(f'COPY (SELECT * FROM "{table}") TO $draft {_OPTIONS}', {"draft": str(draft)}).fetchall()  # noqa: S608 — a name of our own schema
    return draft, int(found[0][0])


def write_day(con: DuckDBPyConnection, folder: Path, table: str, day_ns: int) -> tuple[Path, int]:
    """Write a day of a table into a file of a folder; return the file, and how many rows it has: without any it is not there."""
    found, draft = EXPORTED[table], folder / f"{table}-{day_ns}.parquet"
    about = _count(con, found, day_ns, day_ns + DAY_NS)
    bound = _bound(day_ns, day_ns + DAY_NS)
    return draft, _copy(con, found.rows, bound, draft, order=found.order, about=about) if about else 0


def days_of(con: DuckDBPyConnection, unit: str, since_ns: int | None, until_ns: int | None) -> Sequence[int]:
    """Return the days of which a unit has rows, ascending, ns; of those from the day of `since` on that begin before `until`."""
    time = {"spans": "start_time", "log_records": '"time"', "conversations": "ended_at"}[unit]
    found = con.execute(
        f"SELECT DISTINCT epoch_ns({time}) // {DAY_NS} * {DAY_NS} AS day FROM {unit} ORDER BY day"  # noqa: S608 — names of our own schema
    ).fetchall()
    first_ns = None if since_ns is None else since_ns // DAY_NS * DAY_NS
    return [
        int(day) for (day,) in found if (first_ns is None or day >= first_ns) and (until_ns is None or day < until_ns)
    ]
