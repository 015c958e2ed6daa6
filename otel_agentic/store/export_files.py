"""Files of an export: complete or not there at all, and durable."""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from otel_agentic.store.export_layout import WORK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_AT_FDCWD: Final = -100
_EXCHANGE: Final = 2


@contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """Provide a separate folder for incomplete files; it is removed afterwards in any case."""
    work = folder / WORK / uuid4().hex
    work.mkdir(parents=True)
    try:
        yield work
    finally:
        remove_work(work)


def remove_work(work: Path) -> None:
    """Remove a work folder, and its parents if they are empty."""
    shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        work.parent.rmdir()
        work.parent.parent.rmdir()


def clear_work(folder: Path) -> None:
    """Remove the incomplete files of a killed process."""
    shutil.rmtree(folder / WORK, ignore_errors=True)


def move_durably(draft: Path, target: Path) -> None:
    """Move a complete file to its target, durably: readers see the previous file or this one.

    Raises:
        OSError: it cannot be moved; the target is unchanged.
    """
    sync(draft)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
    sync(target.parent)


def exchange(first: Path, second: Path) -> bool:
    """Swap two folders atomically; return False if the system does not support that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    sync(first)
    done = bool(renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0)
    if done:
        sync(first.parent)
        sync(second.parent)
    return done


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
