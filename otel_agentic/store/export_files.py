"""Files of an export as they come to be: whole or not at all, and durable."""

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
    """Lend a folder of its own for files that are not whole yet; it is gone afterwards, whatever happened."""
    made = folder / WORK / uuid4().hex
    made.mkdir(parents=True)
    try:
        yield made
    finally:
        remove_work(made)


def remove_work(made: Path) -> None:
    """Remove a work folder, and those around it that hold nothing else."""
    shutil.rmtree(made, ignore_errors=True)
    with suppress(OSError):
        made.parent.rmdir()
        made.parent.parent.rmdir()


def clear_work(folder: Path) -> None:
    """Remove what a process that died left half written."""
    shutil.rmtree(folder / WORK, ignore_errors=True)


def put(draft: Path, target: Path) -> None:
    """Move a whole file to its place, durably: whoever reads sees what was there before, or this.

    Raises:
        OSError: it cannot be moved; the place is as it was.
    """
    sync(draft)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.replace(target)
    sync(target.parent)


def exchange(one: Path, other: Path) -> bool:
    """Let two folders change places at one moment; return False where the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    sync(one)
    done = bool(renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0)
    if done:
        sync(one.parent)
        sync(other.parent)
    return done


def sync(path: Path) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
