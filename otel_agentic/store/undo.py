"""The undo file: a copy of the blocks that a checkpoint overwrites in place, kept until the checkpoint is finished.

DuckDB writes a checkpoint into unused blocks, syncs them, and then writes one header that refers to them. Its metadata blocks
(256 KB) are the exception: free parts of one are filled by rewriting the whole block in place. A kill or a power loss during
such a write leaves a block that is neither the old nor the new one, and a file that cannot be opened. So these blocks and the
headers are copied first. If the headers are unchanged when the file is next opened, the checkpoint was not finished: the blocks
are restored, and the log, which is removed last, is replayed as usual.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.store.checkpoints import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

_log = logging.getLogger(__name__)
#: The start of a DuckDB file: one page that identifies it, then two headers; each checkpoint writes one of them.
_HEADERS_BYTES: Final = 3 * 4096
_MAGIC: Final = b"otel-agentic undo 2\n"
_DIGEST_BYTES: Final = 32  # SHA-256: processors have instructions for it, and senders wait in the meantime
_PIECE: Final = struct.Struct("<QQ")
_METADATA: Final = "SELECT block_id FROM pragma_metadata_info() ORDER BY block_id"
_BLOCK_BYTES: Final = "SELECT block_size FROM pragma_database_size() WHERE database_name = current_database()"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Some bytes of the file, and their offset."""

    offset: int
    content: bytes


class UndoFile:
    """The undo file of one database; keeps the database open for reading as long as DuckDB does."""

    def __init__(self, db: Path) -> None:
        self._db = db
        self._path = undo_path(db)
        self._handle: int | None = None
        self._in_use = threading.Lock()

    def open(self) -> None:
        """Open the database for reading, after DuckDB has opened it."""
        self._handle = os.open(self._db, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def close(self) -> None:
        """Close the database after DuckDB has: closing any handle of a file releases this process's lock on it."""
        with self._in_use:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None

    @contextmanager
    def handle(self) -> Iterator[int]:
        """Provide the handle of the database to another reader; it stays open while the block runs.

        Raises:
            OSError: the database is closed.
        """
        with self._in_use:
            if self._handle is None:
                raise FileNotFoundError(errno.ENOENT, "the database is closed", str(self._db))
            yield self._handle

    def save(self, con: DuckDBPyConnection) -> None:
        """Save the parts of the connection's database that the next checkpoint may overwrite.

        Raises:
            OSError: there is not enough space, or the disk fails; no checkpoint may be made then.
        """
        ((block_bytes,),) = con.execute(_BLOCK_BYTES).fetchall()
        blocks = [int(block) for (block,) in con.execute(_METADATA).fetchall()]
        pieces = [(0, _HEADERS_BYTES), *((_HEADERS_BYTES + block * block_bytes, block_bytes) for block in blocks)]
        content = _encoded([_Piece(offset=offset, content=self._read(offset, size)) for offset, size in pieces])
        draft = self._path.with_name(f"{self._path.name}.draft")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # it holds content
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        sync_folder(self._path.parent)

    def checkpoint(self, con: DuckDBPyConnection) -> None:
        """Have DuckDB write its log into the database; if that fails, the copy stays until the file is opened again.

        Raises:
            OSError: see `save`.
            duckdb.Error: the checkpoint failed.
        """
        self.save(con)
        con.execute("CHECKPOINT")
        self.discard()

    def discard(self) -> None:
        """Remove the undo file: the checkpoint is finished, or was never started."""
        self._path.unlink(missing_ok=True)

    def _read(self, offset: int, size: int) -> bytes:
        assert self._handle is not None  # noqa: S101 — opened with the database
        parts: list[bytes] = []
        while size and (part := os.pread(self._handle, size, offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return b"".join(parts)  # shorter where a block is new and was never written


def undo_path(db: Path) -> Path:
    """Return the path of a database's undo file."""
    return db.with_name(f"{db.name}.undo")


def restore(db: Path) -> bool:
    """Undo an unfinished checkpoint; return whether there was one. This process must not have the file open.

    A file that another process holds is left alone: that process may be making this very checkpoint.

    Raises:
        OSError: the disk fails.
    """
    path = undo_path(db)
    if not (path.exists() and db.exists()):
        return False
    with db.open("r+b") as file:
        if not lock_like_duckdb(file.fileno()):
            return False
        pieces = _decoded(path.read_bytes())
        unfinished = bool(pieces) and file.read(_HEADERS_BYTES) == pieces[0].content
        if unfinished:
            for piece in pieces:
                file.seek(piece.offset)
                file.write(piece.content)
            file.flush()
            os.fsync(file.fileno())
            _log.warning("%s: a checkpoint was interrupted; it was undone, and no data is lost", db)
        path.unlink()
    return unfinished


def lock_like_duckdb(handle: int) -> bool:
    """Lock a file as DuckDB does, until it is closed; return whether that succeeded."""
    try:
        import fcntl  # noqa: PLC0415 — not on every system; without it, a file that is open elsewhere cannot be opened
    except ImportError:
        return True
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _encoded(pieces: list[_Piece]) -> bytes:
    body = _MAGIC + b"".join(_PIECE.pack(piece.offset, len(piece.content)) + piece.content for piece in pieces)
    return body + hashlib.sha256(body).digest()


def _decoded(data: bytes) -> list[_Piece]:
    """Return the pieces; `[]` for an incomplete file, because its checkpoint was never started."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not body.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return []
    return list(_pieces(body))


def _pieces(body: bytes) -> Iterator[_Piece]:
    position = len(_MAGIC)
    while position < len(body):
        offset, size = _PIECE.unpack_from(body, position)
        position += _PIECE.size
        yield _Piece(offset=offset, content=body[position : position + size])
        position += size
