"""The key of a store's redaction marks: a file next to the database, never in it.

The database alone is not enough to test card numbers or passwords against its marks.
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
    """Return the path of a store's key.

    >>> from pathlib import Path
    >>> key_path(Path("agents.duckdb")).name
    'agents.duckdb.key'
    """
    return db.with_name(f"{db.name}.key")


class StoreKey:
    """Provides the key of one store, which is created when it is first needed. Thread-safe."""

    def __init__(self, db: Path, holds_marks: Callable[[], bool]) -> None:
        """Read the key, if there is one.

        Args:
            db: the database.
            holds_marks: returns whether the store contains marks already; called only before a key is created.

        Raises:
            StoreUnusableError: the file exists but does not contain a key, or cannot be read.
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
                    self._key = known = self._created()
                return known
        return self._key

    def _known(self) -> bytes | None:
        return self._key  # another thread may have created it in the meantime

    def _created(self) -> bytes:
        key = secrets.token_bytes(KEY_BYTES)
        if self._holds_marks():
            _log.warning(
                "%s is missing, but the store contains redaction marks: a new key was created, and old marks never "
                "equal new ones; if you have the old file, stop this process and restore it",
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
    """Write the complete file, and sync it before the first mark is written."""
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
            f"{path}: the redaction key cannot be written: {error.strerror}; make the folder writable, or free space"
        ) from error


def _unusable(path: Path, why: str) -> StoreUnusableError:
    return StoreUnusableError(
        f"{path} is not the key of a store: {why}; restore the right file, or remove it: a new key is then created, and old marks never "
        "equal new ones"
    )
