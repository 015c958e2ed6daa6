"""Opens files that a user names, without ever blocking: named pipes, devices and sockets are refused."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, Final

_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)
#: Files that the process has open already, such as standard input or the output of `<(command)` in a shell.
_OPENED: Final = re.compile(r"/dev/(?:stdin|fd/[0-9]+)|/proc/self/fd/[0-9]+")


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Return a regular file, opened for reading; `/dev/stdin` and `/dev/fd/N` may be pipes.

    Raises:
        OSError: it cannot be opened, or is a directory, named pipe, device or socket; `strerror` names the reason.
    """
    name = os.fspath(path)
    if _OPENED.fullmatch(name):
        return Path(name).open("rb")
    # Without O_NONBLOCK, opening a named pipe would wait for a writer.
    handle = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        require_regular(os.fstat(handle).st_mode, name)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def read_regular(path: str | os.PathLike[str], size: int = -1) -> bytes:
    """Return the content of a regular file, at most `size` bytes of it if given.

    Raises:
        OSError: see `open_regular`.
    """
    with open_regular(path) as file:
        return file.read(size)


def require_regular(mode: int, name: str) -> None:
    """Check that a file's mode is that of a regular file.

    Raises:
        OSError: it is not a regular file.
    """
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        kind = next((kind for matches, kind in _KINDS if matches(mode)), "no regular file")
        raise OSError(errno.EINVAL, f"is {kind}, not a regular file", name)
