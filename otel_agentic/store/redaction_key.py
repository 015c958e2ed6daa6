"""The key of a store's marks: a file beside the database, never in it.

Whoever is given the database alone cannot try card numbers or passwords against its marks.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import StoreUnusableError
from otel_agentic.regular_files import open_regular
from otel_agentic.spans.redacting import KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_log = logging.getLogger(__name__)
_OTHERS: Final = 0o077


def key_path(db: Path) -> Path:
    """Return where the key of a store lies.

    >>> from pathlib import Path
    >>> key_path(Path("agents.duckdb")).name
    'agents.duckdb.key'
    """
    return db.with_name(f"{db.name}.key")


class StoreKey:
    """Gives the key of one store; it is made when it is needed for the first time. Thread-safe."""

    def __init__(self, db: Path, holds_marks: Callable[[], bool]) -> None:
        """Read the key, if there is one.

        Args:
            db: the database.
            holds_marks: whether the store has marks already; asked only where a key has to be made.

        Raises:
            StoreUnusableError: the file is there and holds no key, or cannot be read.
        """
        self._path = key_path(db)
        self._holds_marks = holds_marks
        self._making = threading.Lock()
        self._key = _read(self._path)

    def __call__(self) -> bytes:
        """Return the key, 32 bytes.

        Raises:
            StoreUnusableError: the file cannot be written.
        """
        if self._key is None:
            with self._making:
                if (known := self._known()) is None:
                    self._key = known = self._made()
                return known
        return self._key

    def _known(self) -> bytes | None:
        return self._key  # another thread may have made it meanwhile

    def _made(self) -> bytes:
        key = secrets.token_bytes(KEY_BYTES)
        if self._holds_marks():
            _log.warning(
                "%s is missing, and the store has marks of redaction already: a new key was made, and marks of old never "
                "equal new ones; if you have the old file, stop this process and put it back",
                self._path,
            )
        _write(self._path, key)
        return key


def _read(path: Path) -> bytes | None:
    if not path.exists():
        return None
    try:
        with open_regular(path) as file:
            key = bytes.fromhex(file.read(4 * KEY_BYTES).decode())
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _unusable(path, f"it cannot be read ({type(error).__name__})") from None  # the cause would show the key
    if len(key) != KEY_BYTES:
        raise _unusable(path, f"it holds {len(key)} bytes in hexadecimal digits, not {KEY_BYTES}")
    if mode & _OTHERS:
        _log.warning("%s can be read by other users of this machine; `chmod 600` it", path)
    return key


def _write(path: Path, key: bytes) -> None:
    """Write the file whole, and have it on the disk before the first mark is."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"{key.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreUnusableError(
            f"{path}: the key of redaction cannot be written: {error.strerror}; make the folder writable, or free space"
        ) from error


def _unusable(path: Path, why: str) -> StoreUnusableError:
    return StoreUnusableError(
        f"{path}: not the key of a store: {why}; put the right file back, or remove it: then a new key is made, and marks of "
        "old never equal new ones"
    )
