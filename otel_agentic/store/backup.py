"""Backups of a store: a copy of its file, made while it is open, and restoring it."""

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
#: A checkpoint may have to wait for a reader: number of tries, and the wait between them, seconds.
_BACKUP_TRIES: Final = 150
_WAIT_S: Final = 0.2
_FOLDER: Final = ".backup-"
_TABLES: Final = "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
_VERIFYING: Final = {"memory_limit": "256MB", "threads": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A file that was verified as a store: its rows by table, and the migrations that it lacks."""

    rows: dict[str, int]
    pending: tuple[str, ...]


@contextmanager
def copy_of_open_file(path: Path, writer: Writer, undo: UndoFile, closing: threading.Event) -> Iterator[IO[bytes]]:
    """Provide a copy of an open database file for reading, complete without a log; it uses disk space while the block runs.

    Everything acknowledged before the call is in it. Commits continue; the log grows until the copy is finished.

    Args:
        path: the database.
        writer: makes checkpoints, and holds them back.
        undo: has the database open for reading.
        closing: set when the copy must be cancelled, because the store is being closed.

    Raises:
        OverloadedError: readers left no time for a checkpoint.
        StoreUnusableError: the file cannot be used, or there is not enough space for a copy.
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
                f"{path} is too busy for a backup: readers and writers left no time for a checkpoint; try again"
            )
        with copy.open("rb") as file:
            copy.unlink()  # so that it disappears even if this process is killed
            yield file


def _copied_file(path: Path, copy: Path, writer: Writer, undo: UndoFile, closing: threading.Event) -> bool:
    """Copy a file between two checkpoints; return False if there was no time for that."""
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
    """Open a file as a store and count its rows.

    Raises:
        StoreUnusableError: it is not a store of this release or an earlier one, or is damaged.
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
    """Replace a store by a backup; return the content of the backup.

    If killed at any moment, it leaves the old file or the new one; a log of the old file may remain as `….wal.replaced`.

    Raises:
        StoreBusyError: a process holds the store.
        StoreUnusableError: the backup is missing, damaged or of another release; the store exists and may not be
            overwritten; or there is not enough space.
    """
    if not backup.is_file():
        raise StoreUnusableError(f"{backup}: no such backup")
    if log_path(backup).exists():
        raise StoreUnusableError(f"{backup} has a log, {log_path(backup).name}: it is a store in use, not a backup")
    verified = verify(backup)
    db = db.resolve()
    if db.exists() and backup.resolve() == db:
        raise StoreUnusableError(f"{backup} is the store itself; give the path of a backup")
    leftovers = [path for path in (db, log_path(db), undo_path(db)) if path.exists()]
    if leftovers and not overwrite:
        raise StoreUnusableError(f"{leftovers[0]} exists already; pass --force to replace it, or another --db")
    try:
        with _held(db):
            _replace(backup, db)
    except OSError as error:
        raise describe(error, db) from error
    return verified


def _replace(backup: Path, db: Path) -> None:
    draft = db.with_name(f"{db.name}.restoring")
    clone_file(backup, draft)
    aside = db.with_name(
        f"{db.name}.wal.replaced"
    )  # otherwise a log of the old file might be replayed into the new one
    if log_path(db).exists():
        log_path(db).replace(aside)
    undo_path(db).unlink(missing_ok=True)
    draft.replace(db)
    aside.unlink(missing_ok=True)
    sync_folder(db.parent)


@contextmanager
def _held(db: Path) -> Iterator[None]:
    """Hold the lock of an existing database file, so that no process opens it in the meantime.

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
    """Remove the copies that backups of a killed process left next to a database."""
    for folder in db.parent.glob(f".{glob.escape(db.name)}{_FOLDER}*"):
        shutil.rmtree(folder, ignore_errors=True)
