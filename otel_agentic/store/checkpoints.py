"""When DuckDB's write-ahead log is merged into the file. On a full disk, DuckDB's own checkpoints end in a failed instance."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_MB: Final = 1_000_000
#: After a failed checkpoint, none is tried for this long, unless this much more disk space is free.
_AFTER_FAILURE_S: Final = 60.0
_MORE_FREE_BYTES: Final = 64 * _MB


class Checkpoints:
    """Decides when one file is checkpointed. Used by the writer thread only."""

    def __init__(self, path: Path, threshold_mb: int) -> None:
        self._folder = path.parent
        self._wal = path.with_name(path.name + ".wal")
        self._threshold_bytes = threshold_mb * _MB
        #: Inode of the log that this process writes or replayed; 0 without a log.
        self._wal_inode = self._inode()
        self._failed_s: float | None = None
        self._free_at_failure = 0

    def is_due(self) -> bool:
        """Return whether the log is long enough to be merged into the file before more is written."""
        wal_bytes = self._wal_bytes()
        return wal_bytes > 0 and (wal_bytes >= self._threshold_bytes or 2 * wal_bytes > self._free_bytes())

    def is_wise(self) -> bool:
        """Return whether a checkpoint is likely to succeed and is harmless: it needs space for the data that it writes.

        A checkpoint that runs out of space makes DuckDB give up on the whole file, which is then opened again. A checkpoint also
        removes the log by name: if the file was moved away and another collector has started a new one in its place, that log
        belongs to the other collector, with everything that it acknowledged.
        """
        if self._inode() not in {0, self._wal_inode}:
            return False
        if not self.has_room():
            return False
        if self._failed_s is None:
            return True
        more = self._free_bytes() >= self._free_at_failure + _MORE_FREE_BYTES
        return more or time.monotonic() - self._failed_s > _AFTER_FAILURE_S

    def has_room(self) -> bool:
        """Return whether there is as much free disk space as a checkpoint writes."""
        return self._free_bytes() >= self._wal_bytes()

    @property
    def has_log(self) -> bool:
        """Whether the log contains anything."""
        return self._wal_bytes() > 0

    def succeeded(self) -> None:
        """Record that a checkpoint was made."""
        self._failed_s = None
        self._wal_inode = self._inode()

    def failed(self) -> None:
        """Record that a checkpoint failed."""
        self._failed_s = time.monotonic()
        self._free_at_failure = self._free_bytes()

    def anchor(self) -> bool:
        """Make the log's name durable if the last commit started a new log: DuckDB syncs only the content of the file.

        Returns:
            False if the log that contains earlier commits is missing although no checkpoint was made.

        Raises:
            OSError: the folder cannot be synced.
        """
        try:
            inode = os.stat(self._wal).st_ino  # noqa: PTH116 — a tenth of Path.stat's time, and asked at each commit
        except FileNotFoundError:
            return not self._wal_inode
        if inode != self._wal_inode:
            sync_folder(self._folder)
            self._wal_inode = inode
        return True

    def _inode(self) -> int:
        try:
            return os.stat(self._wal).st_ino  # noqa: PTH116 — as above
        except OSError:
            return 0

    def _wal_bytes(self) -> int:
        try:
            return os.stat(self._wal).st_size  # noqa: PTH116 — as above
        except OSError:
            return 0

    def _free_bytes(self) -> int:
        try:
            status = os.statvfs(self._folder)
        except (AttributeError, OSError):  # not supported on every system
            return 2**63
        return status.f_bavail * status.f_frsize


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, so that a new file still exists after a power loss."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # on this system folders cannot be synced
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
