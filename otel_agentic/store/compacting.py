"""Rewriting a file without its free blocks, to return their disk space."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.database import FILE_FORMAT, describe
from otel_agentic.store.export_files import sync
from otel_agentic.store.undo import undo_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Next to the file until it is complete; one of a killed process is overwritten.
_DRAFT: Final = ".compacting"
_NEW: Final = f"ATTACH $path AS fresh (STORAGE_VERSION '{FILE_FORMAT}')"


def compact(path: Path) -> tuple[int, int]:
    """Rewrite a DuckDB file compactly and replace the old one; return its size before and after, bytes.

    If killed at any moment, it leaves the old file or the new one, complete. No other process can open the file in the meantime.
    Its access rights stay as they were.

    Raises:
        StoreBusyError: another process holds the file; names it.
        StoreUnusableError: the disk has no space for a second file, the file cannot be read, or its log contains data that is not
            in the file yet.
    """
    path = path.resolve()  # a link stays one; the log is next to the file itself
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
    with _private(), duckdb.connect(":memory:") as con:
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
def _private() -> Iterator[None]:
    """Make new files readable by their owner only, so that no one else can read the incomplete copy."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _give_same_access(old: Path, new: Path) -> None:
    status = old.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):  # only root gives files away
            os.chown(new, status.st_uid, status.st_gid)
    shutil.copymode(old, new)


def _remove(draft: Path) -> None:
    for part in (draft, draft.with_name(draft.name + ".wal")):
        part.unlink(missing_ok=True)
