"""A recent copy of the open file, for user queries and for any other program that reads DuckDB.

DuckDB lets only one process open a file that is written to. After a checkpoint everything committed is in the file itself, and
until the next one commits go to the log only: a copy made in between is a complete database without a log.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import OtelAgenticError, OverloadedError, QueryError, StoreError, StoreUnusableError
from otel_agentic.store.clone import reflink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_agentic.config import StoreSettings
    from otel_agentic.store.undo import UndoFile
    from otel_agentic.store.writer import Writer

_log = logging.getLogger(__name__)
_MB: Final = 1_000_000
_PIECE_BYTES: Final = 16 * _MB
#: Disk space that a copy leaves free for the collector.
_LEAVE_FREE_BYTES: Final = 64 * _MB
#: The shortest time between two snapshots that are requested as fresh, seconds.
_FRESH_S: Final = 5.0
#: A checkpoint may have to wait for a reader: number of tries, and the wait between them, seconds.
_SNAPSHOT_TRIES: Final = 10
_WAIT_S: Final = 0.2


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
            writer: makes checkpoints, and holds them back.
            undo: has the file open for reading: closing any other handle of it would release DuckDB's lock.
            clock: the present, ns since the epoch.
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
        """Remove files that an earlier process left behind; if the settings name a file, start to keep it current."""
        self._remove_leftovers()
        if self._settings.snapshot is not None:
            self._refresher.start()

    def latest(self, *, fresh: bool = False) -> Snapshot:
        """Return a snapshot that is at most `store.snapshot_interval_s` old.

        Args:
            fresh: one that contains everything acknowledged until now. There is at most one every five seconds, so this may
                wait.

        Raises:
            QueryError: the file is too large to be copied.
            OverloadedError, StoreError: the file cannot be copied now, and there is no earlier copy or a fresh one is
                requested.
        """
        requested_s = time.monotonic()
        if (snapshot := self._usable(requested_s, fresh=fresh)) is not None:
            return snapshot
        with self._making:
            if (snapshot := self._usable(requested_s, fresh=fresh)) is not None:  # made while we waited
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
        """Return the last snapshot if it is recent enough."""
        now_ns, last = self._clock(), self._current
        if last is None or not self.path.exists():
            return None
        if last.commits == self._writer.commits:  # nothing was stored since
            return replace(last, as_of_ns=now_ns)
        is_new = requested_s - last.made_s < self._settings.snapshot_interval_s and not fresh
        return last if is_new or last.made_s >= requested_s else None

    def close(self) -> None:
        """Stop; remove the file, unless the settings name it."""
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
        """Return a new snapshot; if a checkpoint happened in between, the copy is repeated."""
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
                    # The log of a program that opened the previous snapshot for writing.
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

    def _copy(self, draft: Path, may_go_on: Callable[[], bool]) -> bool:
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
            while offset < size and may_go_on():
                offset += _copied_piece(source, target.fileno(), offset, min(_PIECE_BYTES, size - offset))
        return offset >= size

    def _require_room(self, size: int) -> None:
        limit_mb = self._settings.snapshot_limit_mb
        instead = (
            "or read the Parquet export instead (serve --export FOLDER, otel-agentic store export), with any DuckDB"
        )
        if size > limit_mb * _MB:
            raise QueryError(
                f"{self._db} has {size // _MB:,} MB: queries against a running collector need a copy of it, which this file "
                f"system cannot make without writing all of that, and {limit_mb:,} MB are allowed "
                f"(store.snapshot_limit_mb); raise that, {instead}"
            )
        free = shutil.disk_usage(self.path.parent).free
        if free < size + _LEAVE_FREE_BYTES:
            raise StoreUnusableError(
                f"queries against a running collector need a copy of {self._db}, {size // _MB:,} MB, and {self.path.parent} "
                f"has {free // _MB:,} MB free; free some space, {instead}"
            )

    def _remove_leftovers(self) -> None:
        for file in (self._db, self.path):
            for path in file.parent.iterdir():
                if path.name.startswith(f"{file.name}.query-"):
                    shutil.rmtree(path, ignore_errors=True)
        self.path.with_name(f"{self.path.name}.draft").unlink(missing_ok=True)
        if self._settings.snapshot is None:
            self.path.unlink(missing_ok=True)


def _copied_piece(source: int, target: int, offset: int, size: int) -> int:
    """Copy some bytes of a file to the end of another, in the kernel if possible; return how many.

    Raises:
        OSError: they cannot be read or written.
    """
    if hasattr(os, "copy_file_range"):
        with contextlib.suppress(OSError):  # between two file systems, for example; some copy nothing and return 0
            if done := os.copy_file_range(source, target, size, offset):
                return done
    piece = os.pread(source, size, offset)
    if not piece:
        raise OSError(errno.EIO, "the file became shorter while it was copied")
    return os.write(target, piece)
