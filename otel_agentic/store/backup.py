"""Backups of a store: a copy of its file, made while it is open, and the way back."""

from __future__ import annotations

import glob
import logging
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import OverloadedError, StoreBusyError, StoreUnusableError
from otel_agentic.store.checkpoints import sync_folder
from otel_agentic.store.clone import clone_file, clone_open_file
from otel_agentic.store.database import describe
from otel_agentic.store.migrations import pending_migrations
from otel_agentic.store.undo import lock_like_duckdb, undo_path
from otel_agentic.store.write_ahead_log import log_path

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from otel_agentic.store.undo import UndoFile
    from otel_agentic.store.writer import Writer

_log = logging.getLogger(__name__)
#: A checkpoint may have to wait for a reader: how often it is tried, and the wait in between, seconds.
_BACKUP_TRIES: Final = 150
_WAIT_S: Final = 0.2
_FOLDER: Final = ".backup-"
_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
_VERIFYING: Final = {"memory_limit": "256MB", "threads": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A file that was found to be a store: its rows by table, and the migrations that it lacks."""

    rows: dict[str, int]
    pending: tuple[str, ...]


@contextmanager
def copy_of_open_file(path: Path, writer: Writer, undo: UndoFile, closing: threading.Event) -> Iterator[IO[bytes]]:
    """Return a copy of an open database file, complete without a log, for reading; it takes disk space while the block runs.

    Everything acknowledged before the call is in it. Commits go on meanwhile; the log grows until the copy is made.

    Args:
        path: the database.
        writer: makes checkpoints, and holds them back.
        undo: has the database open for reading.
        closing: set when the copy is to be given up, because the store is being closed.

    Raises:
        OverloadedError: readers left no moment for a checkpoint.
        StoreUnusableError: the file cannot be used, or there is no room for a copy.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}{_FOLDER}", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        for _ in range(_BACKUP_TRIES):
            if _copied_file(path, copy, writer, undo, closing):
                break
            if closing.wait(_WAIT_S):
                raise StoreUnusableError(f"{path} is closing; try again when the collector is up")
        else:
            raise OverloadedError(
                f"{path} is too busy for a backup: readers and writers left no moment for a checkpoint; try again"
            )
        with copy.open("rb") as file:
            copy.unlink()  # gone with this process, however that ends
            yield file


def _copied_file(path: Path, copy: Path, writer: Writer, undo: UndoFile, closing: threading.Event) -> bool:
    """Copy a file between two checkpoints; return False where there was no moment for it."""
    try:
        with writer.holding_checkpoints() as is_held, undo.handle() as source:
            clone_open_file(source, copy, lambda: is_held() and not closing.is_set())
            return is_held()
    except (OverloadedError, InterruptedError) as error:
        _log.debug("no backup yet: %s", error)
        return False
    except OSError as error:
        raise describe(error, path) from error


def verify(path: Path) -> Verified:
    """Open a file as a store and count what it holds.

    Raises:
        StoreUnusableError: it is no store of this release or an earlier one, or is damaged.
    """
    try:
        with duckdb.connect(str(path), read_only=True, config=dict(_VERIFYING)) as con:
            pending, exists = pending_migrations(con, str(path))
            if not exists:
                raise StoreUnusableError(f"{path} is a DuckDB file, but no store of otel-agentic")
            tables = [str(name) for (name,) in con.execute(_TABLES).fetchall()]
            rows = {name: _count(con, name) for name in tables}
    except duckdb.Error as error:
        raise describe(error, path) from error
    return Verified(rows=rows, pending=tuple(migration.name for migration in pending))


def _count(con: duckdb.DuckDBPyConnection, table: str) -> int:
    ((count,),) = con.execute(f'SELECT count(*) FROM "{table}"').fetchall()  # noqa: S608 — a name from the file's catalog
    return int(count)


def restore_backup(backup: Path, db: Path, *, overwrite: bool) -> Verified:
    """Put a backup in the place of a store; return what it holds.

    Killed at any moment it leaves the old file or the new one; a log of the old file may then lie aside as `….wal.replaced`.

    Raises:
        StoreBusyError: a process holds the store.
        StoreUnusableError: the backup is missing, damaged or of another release; the store exists and may not be
            overwritten; or there is no room.
    """
    if not backup.is_file():
        raise StoreUnusableError(f"{backup}: no such backup")
    if log_path(backup).exists():
        raise StoreUnusableError(f"{backup} has a log, {log_path(backup).name}: it is a store in use, not a backup")
    found = verify(backup)
    db = db.resolve()
    if db.exists() and backup.resolve() == db:
        raise StoreUnusableError(f"{backup} is the store itself; give the path of a backup")
    leftovers = [path for path in (db, log_path(db), undo_path(db)) if path.exists()]
    if leftovers and not overwrite:
        raise StoreUnusableError(f"{leftovers[0]} exists already; give --force to lose what it holds, or another --db")
    try:
        with _held(db):
            _replace(backup, db)
    except OSError as error:
        raise describe(error, db) from error
    return found


def _replace(backup: Path, db: Path) -> None:
    draft = db.with_name(f"{db.name}.restoring")
    clone_file(backup, draft)
    aside = db.with_name(f"{db.name}.wal.replaced")  # a log of the old file may fit the new one, and would be replayed
    if log_path(db).exists():
        log_path(db).replace(aside)
    undo_path(db).unlink(missing_ok=True)
    draft.replace(db)
    aside.unlink(missing_ok=True)
    sync_folder(db.parent)


@contextmanager
def _held(db: Path) -> Iterator[None]:
    """Hold the lock of a database file, where there is one, so that nobody opens it meanwhile.

    Raises:
        StoreBusyError: another process holds it.
    """
    if not db.exists():
        yield
        return
    with db.open("r+b") as file:
        if not lock_like_duckdb(file.fileno()):
            raise StoreBusyError(f"{db} is held by another process: stop the collector before you restore a backup")
        yield


def remove_leftover_copies(db: Path) -> None:
    """Remove what backups of a process that died left next to a database."""
    for folder in db.parent.glob(f".{glob.escape(db.name)}{_FOLDER}*"):
        shutil.rmtree(folder, ignore_errors=True)
