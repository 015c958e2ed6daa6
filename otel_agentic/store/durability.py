"""Crash safety of the file: checkpoints, the undo file, checks of the write-ahead log, and copies of files."""

from __future__ import annotations

import errno
import hashlib
import logging
import mmap
import os
import re
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MB: Final = 1_000_000
#: After a failed checkpoint, the next one waits for this long, or until this much more disk space is free.
_AFTER_FAILURE_S: Final = 60.0
_MORE_FREE_BYTES: Final = 64 * _MB


class Checkpoints:
    """Decides when DuckDB's write-ahead log is merged into the file. Used by the writer thread only.

    DuckDB's automatic checkpoints are disabled, because they invalidate the database if the disk is full.
    """

    def __init__(self, path: Path, threshold_mb: int) -> None:
        self._folder = path.parent
        self._wal = path.with_name(path.name + ".wal")
        self._threshold_bytes = threshold_mb * _MB
        #: Inode of the log that this process writes or replayed; 0 without a log.
        self._wal_inode = self._inode()
        self._failed_s: float | None = None
        self._free_at_failure = 0

    def is_due(self) -> bool:
        """Return whether the log is long enough to be merged into the file before more is written."""
        wal_bytes = self._wal_bytes()
        return wal_bytes > 0 and (wal_bytes >= self._threshold_bytes or 2 * wal_bytes > self._free_bytes())

    def is_wise(self) -> bool:
        """Return whether a checkpoint is likely to succeed and is harmless.

        A checkpoint that runs out of disk space makes DuckDB invalidate the database, which must then be opened again.
        A checkpoint also removes the log by name: if the file was moved away and another collector has started a new
        one in its place, that log belongs to the other collector and contains everything that it acknowledged.
        """
        if self._inode() not in {0, self._wal_inode}:
            return False
        if not self.has_room():
            return False
        if self._failed_s is None:
            return True
        has_more_space = self._free_bytes() >= self._free_at_failure + _MORE_FREE_BYTES
        return has_more_space or time.monotonic() - self._failed_s > _AFTER_FAILURE_S

    def has_room(self) -> bool:
        """Return whether there is enough free disk space for the data that a checkpoint writes."""
        return self._free_bytes() >= self._wal_bytes()

    @property
    def has_log(self) -> bool:
        """Whether the log contains anything."""
        return self._wal_bytes() > 0

    def succeeded(self) -> None:
        """Record that a checkpoint was made."""
        self._failed_s = None
        self._wal_inode = self._inode()

    def failed(self) -> None:
        """Record that a checkpoint failed."""
        self._failed_s = time.monotonic()
        self._free_at_failure = self._free_bytes()

    def anchor(self) -> bool:
        """Make the log's directory entry durable if the last commit started a new log: DuckDB only syncs the content.

        Returns:
            False if the log that contains earlier commits is missing although no checkpoint was made.

        Raises:
            OSError: the folder cannot be synced.
        """
        try:
            inode = os.stat(self._wal).st_ino  # noqa: PTH116 — takes a tenth of Path.stat's time, and runs at each commit
        except FileNotFoundError:
            return not self._wal_inode
        if inode != self._wal_inode:
            sync_folder(self._folder)
            self._wal_inode = inode
        return True

    def _inode(self) -> int:
        try:
            return os.stat(self._wal).st_ino  # noqa: PTH116 — the same
        except OSError:
            return 0

    def _wal_bytes(self) -> int:
        try:
            return os.stat(self._wal).st_size  # noqa: PTH116 — the same
        except OSError:
            return 0

    def _free_bytes(self) -> int:
        try:
            status = os.statvfs(self._folder)
        except (AttributeError, OSError):  # not supported on every system
            return 2**63
        return status.f_bavail * status.f_frsize


def sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, so that a new file still exists after a power loss."""
    if hasattr(os, "O_DIRECTORY"):  # on other systems folders cannot be synced
        sync(folder)


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    """Do what `clone_file` does for an open file, whose position does not change; return whether blocks are shared.

    A process that closes any descriptor of a DuckDB file releases its lock on it: if this process has the database
    open, pass a descriptor that stays open. `go_on` is called every few megabytes; the copy is cancelled if it returns
    False.

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
        while chunk := os.pread(source, _COPY_BYTES, position):
            draft.write(chunk)
            position += len(chunk)
            if not go_on():
                raise InterruptedError(errno.EINTR, "the copy was cancelled", str(target))
    return False


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Provide a new file, mode 0600, that durably replaces `target` on exit; after an error it is removed.

    The `name` of the file is a path in the folder of `target`.

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
    except (ImportError, OSError):  # the system or the file system has no reflinks
        return False
    return True


_log = logging.getLogger(__name__)
#: The start of a DuckDB file: one page that identifies it, then two headers; each checkpoint writes one of them.
_HEADERS_BYTES: Final = 3 * 4096
_MAGIC: Final = b"otel-agentic undo 2\n"
_DIGEST_BYTES: Final = 32  # SHA-256: fast, because processors have instructions for it; senders wait for it
_PIECE: Final = struct.Struct("<QQ")
_METADATA: Final = "SELECT block_id FROM pragma_metadata_info() ORDER BY block_id"
_BLOCK_BYTES: Final = "SELECT block_size FROM pragma_database_size() WHERE database_name = current_database()"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A range of bytes of the file, and its offset."""

    offset: int
    content: bytes


class UndoFile:
    """The undo file of one database: a copy of the blocks that a checkpoint overwrites in place.

    It keeps the database open for reading as long as DuckDB does.

    DuckDB writes a checkpoint into unused blocks, syncs them, and then writes one header that refers to them. Its
    metadata blocks (256 KB) are the exception: free parts of one are filled by rewriting the whole block in place. A
    kill or a power loss during such a write leaves a block that is neither the old nor the new one, and a file that
    cannot be opened. So these blocks and the headers are copied first. If the headers are unchanged when the file is
    next opened, the checkpoint was not finished: the blocks are restored, and the log, which is removed last, is
    replayed as usual.
    """

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

    def clone(self, target: Path) -> None:
        """Copy the open database.

        Raises:
            OSError: the database is closed, or there is no space for the copy.
        """
        with self.handle() as source:
            clone_open_file(source, target)

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
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:  # it contains user data
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        sync_folder(self._path.parent)

    def checkpoint(self, con: DuckDBPyConnection) -> None:
        """Make a checkpoint; if it fails, the undo file is kept until the database is opened again.

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
        return b"".join(parts)  # shorter if a block is new and was never written


def undo_path(db: Path) -> Path:
    """Return the path of a database's undo file."""
    return db.with_name(f"{db.name}.undo")


def restore(db: Path) -> bool:
    """Undo an unfinished checkpoint; return whether there was one. This process must not have the file open.

    A file that another process holds is not changed: that process may be making the checkpoint now.

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


#: Serialised fields: the kind of entry and the version; the database's identifier and checkpoint, in LEB128; the end.
_HEADER: Final = re.compile(
    rb"\x64\x00\x62\x65\x00(?P<version>[\x00-\x7f])"
    rb"(?:\x66\x00\x10(?:[\x80-\xff]*[\x00-\x7f]){16})?(?:\x67\x00[\x80-\xff]*[\x00-\x7f])?\xff\xff",
    re.DOTALL,
)
_KNOWN_VERSION: Final = 2
_ENTRY: Final = struct.Struct("<QQ")
_COMMIT_CONTENT: Final = b"\x64\x00\x64\xff\xff"
_WORD_FACTOR: Final = 0xBF58476D1CE4E5B9
_MURMUR: Final = 0xC6A4A7935BD1E995
_MURMUR_SEED: Final = 0xE17A1465
_MASK: Final = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The content of a log.

    Attributes:
        size: size of the file, bytes.
        committed: offset of the end of the last transaction that can be replayed, bytes.
        damaged: whether the part that cannot be replayed is damaged; False if all can be replayed, or if it is the torn
            end of a write.
    """

    size: int
    committed: int
    damaged: bool

    @property
    def lost(self) -> int:
        """Bytes that cannot be replayed."""
        return self.size - self.committed


def log_path(db: Path) -> Path:
    """Return the path of a database's write-ahead log."""
    return db.with_name(f"{db.name}.wal")


def keep_damaged_log(db: Path) -> Path | None:
    """Keep a copy of a damaged log, and truncate the log to the part that can be replayed; return the path of the copy.

    DuckDB stops replaying at an entry whose length exceeds the rest of the log, because a write that a kill or a power
    loss cut off looks like that. One flipped bit in the length of an entry looks the same, and then everything after it
    is dropped without a message, although it was acknowledged. So the log is checked before DuckDB opens the file. A
    torn end is left to DuckDB. Of a damaged log, only the part before the damage is replayed, and a warning reports the
    number of bytes that are not.

    Returns None if the log is intact, missing, or of a format unknown to this release, or if another process has the
    database open.

    Raises:
        OSError: the log cannot be read, or there is no space for the copy.
    """
    log = log_path(db)
    state = _examine_file(log)
    if state is None or not state.damaged:
        if state is not None and state.lost:
            _log.info(
                "%s: its last %d bytes belong to no transaction that was acknowledged, and are not replayed",
                log,
                state.lost,
            )
        return None
    with db.open("r+b") as file:
        if not lock_like_duckdb(file.fileno()):
            return None
        copy = log.with_name(f"{log.name}.damaged-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")
        clone_file(log, copy)
        if state.committed:
            os.truncate(log, state.committed)
        else:
            log.unlink()
        sync_folder(log.parent)
    _log.warning(
        "%s is damaged at byte %d: %d of its %d bytes cannot be replayed, so spans that were acknowledged are missing. "
        "The part before the damage is in the store; the damaged log is kept as %s. Restore a backup (`otel-agentic "
        "store restore`), or have senders repeat the last minutes: a span that is already stored is not "
        "stored twice",
        log,
        state.committed,
        state.lost,
        state.size,
        copy,
    )
    return copy


def _examine_file(log: Path) -> LogState | None:
    """Return the content of a log, or None if it is missing, empty, or of an unknown format."""
    try:
        with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return examine(content)
    except (FileNotFoundError, ValueError):  # an empty file cannot be mapped
        return None


def examine(log: bytes | mmap.mmap) -> LogState | None:
    """Return the content of a log, or None for a format unknown to this release.

    The format (version 2): a header without a checksum, then entries of length, checksum and content. A transaction
    ends with an entry of constant content.

    Ref: DuckDB, src/storage/wal_replay.cpp and src/common/checksum.cpp.
    """
    header = _HEADER.match(log)
    if header is not None and header["version"][0] != _KNOWN_VERSION:
        return None
    position = committed = header.end() if header is not None else 0
    content = memoryview(log)
    while header is not None and len(log) - position >= _ENTRY.size:
        size, stored_checksum = _ENTRY.unpack_from(log, position)
        end = position + _ENTRY.size + size
        if end > len(log) or checksum(content[end - size : end]) != stored_checksum:
            break
        position = end
        if log[end - size : end] == _COMMIT_CONTENT:
            committed = end
    if header is not None and committed == header.end():
        committed = 0  # a header alone contains no data
    return LogState(size=len(log), committed=committed, damaged=_is_damaged(log, position))


def _is_damaged(log: bytes | mmap.mmap, position: int) -> bool:
    """Return whether the part that starts at the first unreadable entry is more than the torn end of one write.

    A write that was cut off is a prefix: its last entry is too short, and it has no end-of-transaction entry, because
    that is written last. After a power loss, blocks that did not reach the disk contain zeros.
    """
    tail = log[position:]
    if not tail.strip(b"\0"):
        return False
    if _COMMIT in tail or _differ_in_one_byte(tail[-len(_COMMIT) :], _COMMIT):
        return True
    if position == 0 and _HEADER.match(log) is None:
        return False  # not even the header was written
    return len(tail) >= _ENTRY.size and position + _ENTRY.size + _ENTRY.unpack_from(tail)[0] <= len(log)


def _differ_in_one_byte(first: bytes, second: bytes) -> bool:
    return len(first) == len(second) and sum(a != b for a, b in zip(first, second, strict=True)) <= 1


def checksum(content: bytes | memoryview) -> int:
    """Return DuckDB's checksum of the content of an entry."""
    count = len(content) // 8
    words = np.frombuffer(content, dtype="<u8", count=count)
    result = 5381 ^ int(np.bitwise_xor.reduce(words * np.uint64(_WORD_FACTOR), initial=np.uint64(0)))
    tail = bytes(content[8 * count :])
    return result ^ _murmur(tail) if tail else result


def _murmur(tail: bytes) -> int:
    """Return the hash of the last bytes, fewer than eight."""
    mixed = (_MURMUR_SEED ^ len(tail) * _MURMUR ^ int.from_bytes(tail, "little")) & _MASK
    mixed = mixed * _MURMUR & _MASK
    mixed = (mixed ^ mixed >> 47) * _MURMUR & _MASK
    return mixed ^ mixed >> 47


_COMMIT: Final = _ENTRY.pack(len(_COMMIT_CONTENT), checksum(_COMMIT_CONTENT)) + _COMMIT_CONTENT
