"""Rows into Parquet files: an hour, a day, a whole table; each file is complete or not there at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.store.export_files import exchange, move_durably, sync, work_folder
from otel_agentic.store.export_layout import (
    DAY,
    DAY_NS,
    EXPORTED,
    HOUR_NS,
    SINGLE_FILE,
    UNITS,
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

#: Rows of a row group, which readers may skip; one row group is in memory while it is written.
_ROW_GROUP: Final = 16_384
#: More rows than this are written in the order of their arrival: sorting them would take more memory than the store may use.
_SORTED_ROWS: Final = 200_000
_OPTIONS: Final = f"(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROW_GROUP})"
# A folder named `day=2026-03-01` is not a column of the table.
_READ: Final = "read_parquet($old, hive_partitioning = false, union_by_name = true)"


def write_hour(con: DuckDBPyConnection, folder: Path, unit: str, hour_ns: int) -> tuple[list[Written], int | None]:
    """Write an hour of a unit's tables; return the written files, and the digest of the hour.

    An existing file is replaced atomically. Its rows about subjects that are no longer in the store are kept.

    Args:
        con: a connection in a transaction, so that all tables are read at the same moment.
        folder: the export folder, without symbolic links.
        unit: of `UNITS`.
        hour_ns: start of the hour.

    Raises:
        duckdb.Error: a file cannot be written or read.
        OSError: a file cannot be moved to its target.
    """
    digest = digest_of(con, hour_ns) if unit == "conversations" else None
    return [_hour(con, folder, EXPORTED[table], hour_ns) for table in UNITS[unit]], digest


def _hour(con: DuckDBPyConnection, folder: Path, table: Exported, hour_ns: int) -> Written:
    rows = _count(con, table, hour_ns, hour_ns + HOUR_NS)
    day = f"{day_folder(table.name, hour_ns)}/{DAY}"
    if (folder / day).is_file():  # the hours of the day were merged
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
    """Write the rows of a period, of which the store has `about`, to a file; return whether there were any."""
    target = folder / file
    sql = table.rows
    bound: dict[str, Any] = _bound(*time_ns)
    if target.is_file():
        removed = f"SELECT * FROM {_READ} ANTI JOIN {table.held} h USING ({table.identity})"  # noqa: S608 — names of our own schema
        sql, bound = f"{sql} UNION ALL BY NAME {removed}", {**bound, "old": [str(target)]}
    elif not about:
        return False
    with work_folder(folder) as work:
        draft = work / target.name
        rows = _copy(con, sql, bound, draft, order=table.order, about=about)
        if rows:
            move_durably(draft, target)
        else:
            target.unlink(missing_ok=True)
    return bool(rows)


def _copy(con: DuckDBPyConnection, sql: str, bound: dict[str, Any], draft: Path, *, order: str, about: int) -> int:
    """Write the rows of a query; return how many there were."""
    ordered = f" ORDER BY {order}" if about <= _SORTED_ROWS else ""
    rows = con.execute(f"COPY (SELECT * FROM ({sql}){ordered}) TO $draft {_OPTIONS}", {**bound, "draft": str(draft)})  # noqa: S608 — our own fragments; values are parameters
    return int(rows.fetchall()[0][0])


def _count(con: DuckDBPyConnection, table: Exported, first_ns: int, last_ns: int) -> int:
    return int(con.execute(f"SELECT count(*) FROM ({table.rows})", _bound(first_ns, last_ns)).fetchall()[0][0])  # noqa: S608 — our own fragment


def _bound(first_ns: int, until_ns: int) -> dict[str, Any]:
    """Return a period `[first, until)` as parameters; the last day of DuckDB's range ends with the range."""
    return {"first": first_ns, "last": min(until_ns - 1, LAST_NS)}


def merge_day(con: DuckDBPyConnection, folder: Path, unit: str, day_ns: int) -> list[str]:
    """Merge the hours of a day into one file per table; return the tables for which that was done.

    The folder of the day is swapped with a new one atomically: readers see no row twice and miss none.

    Args:
        con: a connection.
        folder: the export folder, without symbolic links.
        unit: of `UNITS`.
        day_ns: start of the day.

    Raises:
        duckdb.Error: a file cannot be written or read.
        OSError: a folder cannot be moved.
    """
    return [table for table in UNITS[unit] if _merge(con, folder, EXPORTED[table], day_ns)]


def _merge(con: DuckDBPyConnection, folder: Path, table: Exported, day_ns: int) -> bool:
    home = folder / day_folder(table.name, day_ns)
    files = sorted(home.glob("*.parquet"))
    if not files or files == [home / DAY]:
        return bool(files)
    old = {"old": [str(file) for file in files]}
    (about,) = con.execute(f"SELECT count(*) FROM {_READ}", old).fetchall()[0]  # noqa: S608 — our own fragment
    with work_folder(folder) as work:
        _copy(con, f"SELECT * FROM {_READ}", old, work / DAY, order=table.order, about=about)  # noqa: S608 — the same
        sync(work / DAY)
        return exchange(work, home)


def write_whole(con: DuckDBPyConnection, folder: Path, table: str) -> tuple[Path, int]:
    """Write all rows of a table that is not divided by time; return the draft of its file, and the number of its rows."""
    if table not in WHOLES:
        raise ValueError(table)
    draft = folder / f"{table}-{SINGLE_FILE}"
    rows = con.execute(f'COPY (SELECT * FROM "{table}") TO $draft {_OPTIONS}', {"draft": str(draft)}).fetchall()  # noqa: S608 — a name of our own schema
    return draft, int(rows[0][0])


def write_day(con: DuckDBPyConnection, folder: Path, table: str, day_ns: int) -> tuple[Path, int]:
    """Write a day of a table to a file in a folder; return the file, which does not exist without rows, and the row count."""
    exported, draft = EXPORTED[table], folder / f"{table}-{day_ns}.parquet"
    about = _count(con, exported, day_ns, day_ns + DAY_NS)
    bound = _bound(day_ns, day_ns + DAY_NS)
    return draft, _copy(con, exported.rows, bound, draft, order=exported.order, about=about) if about else 0


def days_of(con: DuckDBPyConnection, unit: str, since_ns: int | None, until_ns: int | None) -> Sequence[int]:
    """Return the days with rows of a unit, ascending, ns, from the day of `since` on, that begin before `until`."""
    time = {"spans": "start_time", "log_records": '"time"', "conversations": "ended_at"}[unit]
    rows = con.execute(
        f"SELECT DISTINCT epoch_ns({time}) // {DAY_NS} * {DAY_NS} AS day FROM {unit} ORDER BY day"  # noqa: S608 — names of our own schema
    ).fetchall()
    first_ns = None if since_ns is None else since_ns // DAY_NS * DAY_NS
    return [
        int(day) for (day,) in rows if (first_ns is None or day >= first_ns) and (until_ns is None or day < until_ns)
    ]
