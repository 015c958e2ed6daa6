"""When the write-ahead log is taken into the file. Where the disk is full DuckDB's own way ends in a dead file."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_MB: Final = 1_000_000
#: After a checkpoint failed, none is tried for this long, unless that much more of the disk is free.
_AFTER_FAILURE_S: Final = 60.0
_MORE_FREE_BYTES: Final = 64 * _MB


class Checkpoints:
    """Decides about checkpoints of one file. Used by the writer thread alone."""

    def __init__(self, path: Path, threshold_mb: int) -> None:
        self._folder = path.parent
        self._wal = path.with_name(path.name + ".wal")
        self._threshold_bytes = threshold_mb * _MB
        #: Of the log that this process writes, or replayed; 0 while there is none.
        self._wal_inode = self._inode()
        self._failed_s: float | None = None
        self._free_at_failure = 0

    def is_due(self) -> bool:
        """Return whether the log has grown so long that it should be taken in before more is written."""
        wal_bytes = self._wal_bytes()
        return wal_bytes > 0 and (wal_bytes >= self._threshold_bytes or 2 * wal_bytes > self._free_bytes())

    def is_wise(self) -> bool:
        """Return whether a checkpoint can succeed and harms nobody, as far as one can tell: it needs room for what it writes.

        One that fails for want of room has DuckDB give up on the whole file, which then is opened again. And it removes the
        log by name: where the file was moved away and another collector has begun a new one in its place, that is the
        other's, with all that the other acknowledged.
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
        """Return whether as much of the disk is free as a checkpoint writes."""
        return self._free_bytes() >= self._wal_bytes()

    @property
    def has_log(self) -> bool:
        """Whether anything waits to be taken into the file."""
        return self._wal_bytes() > 0

    def succeeded(self) -> None:
        """Note that a checkpoint was made."""
        self._failed_s = None
        self._wal_inode = self._inode()

    def failed(self) -> None:
        """Note that a checkpoint failed."""
        self._failed_s = time.monotonic()
        self._free_at_failure = self._free_bytes()

    def anchor(self) -> bool:
        """Make the log's own name durable where the last commit began a new one: DuckDB syncs what is in it only.

        Returns:
            False where the log is gone that earlier commits were in, without a checkpoint.

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
            found = os.statvfs(self._folder)
        except (AttributeError, OSError):  # not every system tells
            return 2**63
        return found.f_bavail * found.f_frsize


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, so that a new file is still there after a power loss."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # a system without folders that can be synced
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
