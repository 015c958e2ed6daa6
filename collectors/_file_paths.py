"""Which files a list of paths names, and how they are opened: regular files only, so that reading never hangs."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NoReturn

from otel_agentic import regular_files
from otel_agentic.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STDIN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A file to read. `named` is False for one met inside a directory: it may be of any kind, or no OTLP at all."""

    path: str
    named: bool
    size_bytes: int | None


def find_files(paths: Iterable[str | os.PathLike[str]]) -> list[Found]:
    """Return the files that the paths name; directories are walked in sorted order.

    Hidden entries and links to directories are left out of a walk. `-` is standard input, of unknown size.

    Raises:
        BadInputError: a path does not exist, or is neither a regular file nor a directory; names it.
    """
    return [found for path in paths for found in _find(os.fspath(path))]


def open_regular(path: str) -> BinaryIO:
    """Return a regular file opened for reading.

    Raises:
        BadInputError: it cannot be opened, or is no regular file; names it.
    """
    try:
        return regular_files.open_regular(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _find(path: str) -> Iterator[Found]:
    if path == STDIN:
        yield Found(path=STDIN, named=True, size_bytes=None)
        return
    try:
        entry = os.stat(path)  # noqa: PTH116 — a path may be bytes-free text that Path would normalise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(entry.st_mode):
        yield from _walk(path)
        return
    try:
        regular_files.require_regular(entry.st_mode, path)
    except OSError as error:
        raise _unreadable(path, error) from error
    yield Found(path=path, named=True, size_bytes=entry.st_size)


def _walk(directory: str) -> Iterator[Found]:
    files: list[Path] = []
    for folder, folders, names in os.walk(directory, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(folder, name) for name in names if not name.startswith(".")]
    for path in sorted(files):
        yield Found(path=str(path), named=False, size_bytes=_size(path))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # gone since, or a broken link: opening it will say so


def _raise(error: OSError) -> NoReturn:
    raise _unreadable(str(error.filename), error) from error


def _unreadable(path: str, error: OSError | ValueError) -> BadInputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadInputError(f"{path}: {reason}; give an existing file, a directory, or - for standard input")
