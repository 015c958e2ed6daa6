"""Copies of a store: backups with restore, and snapshots for user queries.

DuckDB lets only one process open a file that is written to. After a checkpoint, everything committed is in the file
itself, and until the next one, commits go to the log only: a copy made in between is a complete database without a log.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import (
    OtelAgenticError,
    OverloadedError,
    QueryError,
    StoreBusyError,
    StoreError,
    StoreUnusableError,
)
from otel_agentic.store.connection import describe
from otel_agentic.store.durability import (
    UndoFile,
    clone_file,
    clone_open_file,
    lock_like_duckdb,
    log_path,
    reflink,
    sync_folder,
    undo_path,
)
from otel_agentic.store.maintenance.migrations import pending_migrations

if TYPE_CHECKING:
    from otel_agentic.config import StoreSettings
    from otel_agentic.store.writer import Writer


def copy_store(source: Path, target: Path) -> None:
    """Copy a DuckDB file and its log without changing them.

    Raises:
        StoreBusyError: another process writes to the file; the message names it.
        StoreUnusableError: it is not a DuckDB file, or cannot be read.
    """
    try:
        con = duckdb.connect(str(source), read_only=True)
    except duckdb.Error as error:
        raise describe(error, source) from error
    with con:
        # Copy the log first: closing a file releases this process's locks on it, so that another process may write to
        # the file after it was copied.
        for suffix in (".wal", ""):
            part = source.with_name(source.name + suffix)
            if part.is_file():
                shutil.copy(part, target.with_name(target.name + suffix))


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
    """Provide a copy of an open database file for reading, which uses disk space while the block runs.

    The copy is complete without a log, and contains everything acknowledged before the call. Commits continue; the log
    grows until the copy is finished.

    Args:
        path: the database.
        writer: makes checkpoints, and suspends them during the copy.
        undo: has the database open for reading.
        closing: set when the copy must be cancelled, because the store is being closed.

    Raises:
        OverloadedError: readers left no time for a checkpoint.
        StoreUnusableError: the file cannot be used, or there is not enough space for a copy.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}{_FOLDER}", dir=path.parent) as folder:
        copy = Path(folder) / path.name
        for _ in range(_BACKUP_TRIES):
            if _copy_file(path, copy, writer, undo, closing):
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


def _copy_file(path: Path, copy: Path, writer: Writer, undo: UndoFile, closing: threading.Event) -> bool:
    """Copy a file between two checkpoints; return False if no checkpoint was possible or the copy was cancelled."""
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

    If this process is killed, either the old file or the new one exists; a log of the old file may remain as
    `….wal.replaced`.

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
        with _locked(db):
            _replace(backup, db)
    except OSError as error:
        raise describe(error, db) from error
    return verified


def _replace(backup: Path, db: Path) -> None:
    draft = db.with_name(f"{db.name}.restoring")
    clone_file(backup, draft)
    # Otherwise, a log of the old file might be replayed into the new one.
    aside = db.with_name(f"{db.name}.wal.replaced")
    if log_path(db).exists():
        log_path(db).replace(aside)
    undo_path(db).unlink(missing_ok=True)
    draft.replace(db)
    aside.unlink(missing_ok=True)
    sync_folder(db.parent)


@contextmanager
def _locked(db: Path) -> Iterator[None]:
    """Lock an existing database file, so that no process opens it while the block runs.

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


_MB: Final = 1_000_000
_PIECE_BYTES: Final = 16 * _MB
#: Disk space that a copy leaves free for the collector.
_LEAVE_FREE_BYTES: Final = 64 * _MB
#: The shortest time between two snapshots that are requested as fresh, seconds.
_FRESH_S: Final = 5.0
#: A checkpoint may have to wait for a reader: number of tries, and the wait between them, seconds.
_SNAPSHOT_TRIES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A database file that no process writes to. It contains everything that was acknowledged before `as_of_ns`.

    `made_s` is when it was copied, by the monotonic clock; `commits` is the number of commits by then.
    """

    path: Path
    as_of_ns: int
    made_s: float
    commits: int


class Snapshots:
    """The snapshot of one open store, replaced at most every `store.snapshot_interval_s`. Thread-safe."""

    def __init__(
        self, db: Path, settings: StoreSettings, writer: Writer, undo: UndoFile, clock: Callable[[], int]
    ) -> None:
        """Prepare; nothing is copied yet.

        Args:
            db: the open file.
            settings: path and limits of the snapshot.
            writer: makes checkpoints, and suspends them during a copy.
            undo: has the file open for reading: closing any other handle of it would release DuckDB's lock.
            clock: returns the current time, ns since the epoch.
        """
        self.path = settings.snapshot or db.with_name(f"{db.name}.snapshot")
        self._db = db
        self._settings = settings
        self._writer = writer
        self._undo = undo
        self._clock = clock
        self._making = threading.Lock()
        self._current: Snapshot | None = None
        self._closing = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, name="otel-agentic-snapshot", daemon=True)

    def start(self) -> None:
        """Remove files that an earlier process left behind; if the settings name a file, start to refresh it."""
        self._remove_leftovers()
        if self._settings.snapshot is not None:
            self._refresher.start()

    def latest(self, *, fresh: bool = False) -> Snapshot:
        """Return a snapshot that is at most `store.snapshot_interval_s` old.

        Args:
            fresh: return a snapshot that contains everything acknowledged until now. There is at most one every five
                seconds, so this may wait.

        Raises:
            QueryError: the file is too large to be copied.
            OverloadedError, StoreError: the file cannot be copied now, and there is no earlier copy or a fresh one is
                requested.
        """
        requested_s = time.monotonic()
        if (snapshot := self._usable(requested_s, fresh=fresh)) is not None:
            return snapshot
        with self._making:
            if (snapshot := self._usable(requested_s, fresh=fresh)) is not None:  # made in the meantime
                return snapshot
            last = self._current
            if last is not None and fresh:
                gap_s = min(_FRESH_S, self._settings.snapshot_interval_s)
                self._closing.wait(max(last.made_s + gap_s - time.monotonic(), 0.0))
            try:
                self._current = self._make()
            except (OverloadedError, StoreError) as error:
                if fresh or last is None or self._closing.is_set():
                    raise
                level = logging.DEBUG if isinstance(error, OverloadedError) else logging.WARNING
                _log.log(level, "queries are answered from the last snapshot: %s", error)
                return last
            return self._current

    def _usable(self, requested_s: float, *, fresh: bool) -> Snapshot | None:
        """Return the snapshot snapshot if it is recent enough."""
        now_ns, snapshot = self._clock(), self._current
        if snapshot is None or not self.path.exists():
            return None
        if snapshot.commits == self._writer.commits:  # nothing was stored since
            return replace(snapshot, as_of_ns=now_ns)
        is_recent = requested_s - snapshot.made_s < self._settings.snapshot_interval_s and not fresh
        return snapshot if is_recent or snapshot.made_s >= requested_s else None

    def discard(self) -> None:
        """Remove the file, because it contains rows that were erased; the next query makes a new one."""
        with self._making:
            self._current = None
            self.path.unlink(missing_ok=True)
            self.path.with_name(f"{self.path.name}.wal").unlink(missing_ok=True)

    def close(self) -> None:
        """Stop refreshing; remove the file, unless the settings name it."""
        self._closing.set()
        with self._making:
            self._current = None
            self._remove_leftovers()
        if self._refresher.is_alive():
            self._refresher.join()

    def _refresh(self) -> None:
        wait_s = 0.0
        while not self._closing.wait(wait_s):
            wait_s = self._settings.snapshot_interval_s
            try:
                self.latest()
            except OtelAgenticError as error:
                _log.warning("%s is not refreshed: %s", self.path, error)

    def _make(self) -> Snapshot:
        """Make a snapshot; if a checkpoint happens in the meantime, the copy is repeated."""
        draft = self.path.with_name(f"{self.path.name}.draft")
        reason = "readers and writers left no time for one"
        try:
            for _ in range(_SNAPSHOT_TRIES):
                if self._closing.is_set():
                    raise StoreUnusableError(f"{self._db} is closing; try again when the collector is up")
                made_s, as_of_ns, commits = time.monotonic(), self._clock(), self._writer.commits
                try:
                    with self._writer.holding_checkpoints() as is_held:
                        complete = self._copy(draft, lambda: is_held() and not self._closing.is_set()) and is_held()
                except OverloadedError as error:
                    complete, reason = False, str(error)
                if complete:
                    os.utime(draft, ns=(as_of_ns, as_of_ns))  # so that other programs can see its age
                    # A program that opened the previous snapshot for writing may have left a log.
                    self.path.with_name(f"{self.path.name}.wal").unlink(missing_ok=True)
                    draft.replace(self.path)
                    return Snapshot(path=self.path, as_of_ns=as_of_ns, made_s=made_s, commits=commits)
                self._closing.wait(_WAIT_S)
        except OSError as error:
            raise StoreUnusableError(
                f"{self.path}: the snapshot for queries cannot be written: {error.strerror}"
            ) from error
        finally:
            draft.unlink(missing_ok=True)
        raise OverloadedError(f"{self._db} is too busy for a snapshot: {reason}; try again")

    def _copy(self, draft: Path, should_continue: Callable[[], bool]) -> bool:
        """Copy the file, without copying data if the file system can share blocks; return whether it was finished."""
        draft.unlink(missing_ok=True)
        with (
            self._undo.handle() as source,
            os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as target,
        ):
            if reflink(source, target.fileno()):
                return True
            size = os.fstat(source).st_size
            self._require_room(size)
            offset = 0
            while offset < size and should_continue():
                offset += _copy_piece(source, target.fileno(), offset, min(_PIECE_BYTES, size - offset))
        return offset >= size

    def _require_room(self, size: int) -> None:
        limit_mb = self._settings.snapshot_limit_mb
        alternative = (
            "or read the Parquet export instead (serve --export FOLDER, otel-agentic store export), with any DuckDB"
        )
        if size > limit_mb * _MB:
            raise QueryError(
                f"{self._db} has {size // _MB:,} MB: queries against a running collector need a copy of it, which this file "
                f"system cannot make without writing all of that, and {limit_mb:,} MB are allowed "
                f"(store.snapshot_limit_mb); raise that, {alternative}"
            )
        free = shutil.disk_usage(self.path.parent).free
        if free < size + _LEAVE_FREE_BYTES:
            raise StoreUnusableError(
                f"queries against a running collector need a copy of {self._db}, {size // _MB:,} MB, and {self.path.parent} "
                f"has {free // _MB:,} MB free; free some space, {alternative}"
            )

    def _remove_leftovers(self) -> None:
        for file in (self._db, self.path):
            for path in file.parent.iterdir():
                if path.name.startswith(f"{file.name}.query-"):
                    shutil.rmtree(path, ignore_errors=True)
        self.path.with_name(f"{self.path.name}.draft").unlink(missing_ok=True)
        if self._settings.snapshot is None:
            self.path.unlink(missing_ok=True)


def _copy_piece(source: int, target: int, offset: int, size: int) -> int:
    """Copy some bytes of a file to the end of another, in the kernel if possible; return how many.

    Raises:
        OSError: they cannot be read or written.
    """
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):  # between two file systems, for example; some copy nothing and return 0
            if copied := os.copy_file_range(source, target, size, offset):
                return copied
    piece = os.pread(source, size, offset)
    if not piece:
        raise OSError(errno.EIO, "the file became shorter while it was copied")
    return os.write(target, piece)
