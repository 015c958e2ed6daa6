"""The size of a store: statistics of each table, and compaction, which rewrites the file without its free blocks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.connection import FILE_FORMAT, describe
from otel_agentic.store.durability import sync, undo_path
from otel_agentic.store.table import Row, rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


#: Suffix of the new file until it is complete; the draft of a killed process is overwritten.
_DRAFT: Final = ".compacting"
_NEW: Final = f"ATTACH $path AS fresh (STORAGE_VERSION '{FILE_FORMAT}')"


def compact(path: Path) -> tuple[int, int]:
    """Rewrite a DuckDB file compactly and replace the old one; return its size before and after, bytes.

    If this process is killed, either the complete old file or the complete new one exists. No other process can open
    the file in the meantime. Its permissions are kept.

    Raises:
        StoreBusyError: another process holds the file; the message names it.
        StoreUnusableError: the disk has no space for a second file, the file cannot be read, or its log contains data
            that is not in the file yet.
    """
    path = path.resolve()  # a symbolic link is kept; the log is next to the file itself
    # A store that was closed properly has neither; only a process that holds the file may apply the undo file.
    if path.with_name(path.name + ".wal").exists() or undo_path(path).exists():
        raise StoreUnusableError(
            f"{path}: its log is not written into it yet; open and close it first, as `store stats` does"
        )
    draft = path.with_name(path.name + _DRAFT)
    _remove(draft)
    before = path.stat().st_size
    free = shutil.disk_usage(path.absolute().parent).free
    if free < before:
        raise StoreUnusableError(
            f"{path}: rewriting it takes up to {before:,} bytes, and the disk has {free:,}; free some space, or leave the file "
            "as it is: its free blocks are used again"
        )
    try:
        _rewrite(path, draft)
    except duckdb.Error as error:
        raise describe(error, path) from error
    finally:
        _remove(draft)
    return before, path.stat().st_size


def _rewrite(path: Path, draft: Path) -> None:
    with _owner_only(), duckdb.connect(":memory:") as con:
        # Open for writing, so that no other process opens the file until the new one has replaced it.
        con.execute("ATTACH $path AS old", {"path": str(path)})
        con.execute(_NEW, {"path": str(draft)})
        con.execute("COPY FROM DATABASE old TO fresh")
        con.execute("CHECKPOINT fresh")
        con.execute("DETACH fresh")
        _give_same_access(path, draft)
        sync(draft)
        draft.replace(path)
        sync(path.absolute().parent)


@contextmanager
def _owner_only() -> Iterator[None]:
    """Make new files readable by their owner only, so that no one else can read the incomplete copy."""
    old_mask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(old_mask)


def _give_same_access(old: Path, new: Path) -> None:
    status = old.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):  # only root can change the owner
            os.chown(new, status.st_uid, status.st_gid)
    shutil.copymode(old, new)


def _remove(draft: Path) -> None:
    for part in (draft, draft.with_name(draft.name + ".wal")):
        part.unlink(missing_ok=True)


#: The column that contains the age of a row, by table.
_TIMES: Final = {
    "spans": "start_time",
    "log_records": '"time"',
    "conversations": "ended_at",
    "turns": "ended_at",
    "scores": "scored_at",
    "results": "ended_at",
    "judge_calls": "judged_at",
    "windows": '"end"',
}
_TABLES: Final = """
SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() ORDER BY table_name
"""
#: Blocks that contain something of a table. Small tables share blocks: a shared block counts for each of them.
_BLOCKS: Final = """
SELECT count(DISTINCT block) FROM (
    SELECT block_id AS block FROM pragma_storage_info($table)
    UNION ALL
    SELECT unnest(additional_block_ids) FROM pragma_storage_info($table)
)
WHERE block >= 0
"""
_FILE: Final = """
SELECT block_size, total_blocks, free_blocks FROM pragma_database_size() WHERE database_name = current_database()
"""
_CONVERSATIONS: Final = """
SELECT
    count(*) FILTER (closed_by IS NOT NULL) AS closed, count(*) FILTER (closed_by IS NULL) AS open,
    min(ended_at) AS oldest, max(ended_at) AS newest
FROM conversations WHERE NOT superseded
"""
_EXPORT: Final = """
SELECT
    count(*) FILTER (file IS NOT NULL AND NOT dirty) AS written, count(*) FILTER (dirty) AS waiting,
    min(hour) FILTER (NOT dirty) AS oldest_hour, max(hour) FILTER (NOT dirty) AS newest_hour,
    max(exported_at) AS exported_at
FROM exports WHERE table_name IN ('spans', 'log_records', 'conversations')
"""
#: `schema.sql` and all migrations of a new store are applied at the same time.
_SCHEMA: Final = "SELECT name FROM schema_migrations ORDER BY applied_at DESC, name = 'schema.sql', name DESC LIMIT 1"


def table_stats(con: DuckDBPyConnection) -> list[Row]:
    """Return, for each table, its name, rows, bytes of the blocks with its data, oldest and newest time of a row."""
    ((block_size, _, _),) = con.execute(_FILE).fetchall()
    return [_table(con, name, block_size) for (name,) in con.execute(_TABLES).fetchall()]


def _table(con: DuckDBPyConnection, name: str, block_size: int) -> Row:
    time = _TIMES.get(name, "NULL::TIMESTAMP_NS")
    rows = con.execute(f'SELECT count(*), min({time}), max({time}) FROM "{name}"').fetchall()  # noqa: S608 — names of our own schema
    count, oldest, newest = rows[0]
    ((blocks,),) = con.execute(_BLOCKS, {"table": name}).fetchall()
    return {"table": name, "rows": count, "bytes": blocks * block_size, "oldest": oldest, "newest": newest}


def store_stats(con: DuckDBPyConnection) -> dict[str, Any]:
    """Return statistics of the whole store: schema, blocks, conversations, exported and pending hours, tables."""
    ((block_size, blocks, free),) = con.execute(_FILE).fetchall()
    ((schema,),) = con.execute(_SCHEMA).fetchall()
    return {
        "schema": schema,
        "used_bytes": (blocks - free) * block_size,
        "free_bytes": free * block_size,
        "conversations": rows(con, _CONVERSATIONS, {})[0],
        "export": rows(con, _EXPORT, {})[0],
        "tables": table_stats(con),
    }
