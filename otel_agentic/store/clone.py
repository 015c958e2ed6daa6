"""Copies of whole files: by reflink if the file system supports it, byte by byte otherwise; complete or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from otel_agentic.store.checkpoints import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: `ioctl(2)` request of Linux that shares the blocks of one file with another (Btrfs, XFS, bcachefs, ZFS).
_FICLONE: Final = 0x40049409
_COPY_BYTES: Final = 4 * 1024 * 1024
#: Disk space that a copy leaves free for other writers.
_LEAVE_FREE_BYTES: Final = 64 * 1024 * 1024


def clone_file(source: Path, target: Path) -> bool:
    """Make `target` a copy of `source`, readable by its owner only; return whether the blocks are shared (reflink).

    The target is replaced atomically once the copy is on disk. The caller ensures that no process writes to the source.

    Raises:
        OSError: the source cannot be read, or the target cannot be written; an existing target stays as it was.
    """
    with source.open("rb") as file:
        return clone_open_file(file.fileno(), target)


def clone_open_file(source: int, target: Path, go_on: Callable[[], bool] = lambda: True) -> bool:
    """Do what `clone_file` does for a file descriptor, whose position does not change. `go_on` is called every few megabytes.

    A process that closes any descriptor of a DuckDB file releases its lock on it: if this process has the database open, pass a
    descriptor that stays open.

    Raises:
        InterruptedError: `go_on` returned False; an existing target stays as it was.
        OSError: as `clone_file`.
    """
    with replacing(target) as draft:
        if reflink(source, draft.fileno()):
            return True
        size = os.fstat(source).st_size
        if shutil.disk_usage(target.parent).free < size + _LEAVE_FREE_BYTES:
            raise OSError(errno.ENOSPC, f"a copy takes {size:,} bytes, and less space is free", str(target.parent))
        position = 0
        while part := os.pread(source, _COPY_BYTES, position):
            draft.write(part)
            position += len(part)
            if not go_on():
                raise InterruptedError(errno.EINTR, "the copy was cancelled", str(target))
    return False


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Provide a new file, mode 0600, that durably replaces `target` at the end; after an error it is removed.

    Its `name` is a path next to `target`.

    Raises:
        OSError: it cannot be written or renamed.
    """
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".draft", dir=target.parent)
    os.close(handle)
    draft = Path(name)
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def reflink(source: int, target: int) -> bool:
    """Share the blocks of one file with another, by descriptors; return whether the file system supports it."""
    try:
        import fcntl  # noqa: PLC0415 — not on every system; without it the bytes are copied

        fcntl.ioctl(target, _FICLONE, source)
    except (ImportError, OSError):  # no such system, or a file system without reflinks
        return False
    return True
