"""Checks of DuckDB's write-ahead log before it is replayed.

DuckDB stops replaying at an entry whose length exceeds the rest of the log, because a write that a kill or a power loss cut off
looks like that. One flipped bit in the length of an entry looks the same, and then everything after it is dropped without a
message, although it was acknowledged. So the log is read once before DuckDB opens the file. A torn end is left to DuckDB. A
damaged log is copied, the part before the damage is replayed, and a warning reports how much was not.

The format (version 2): a header without a checksum, then entries of length, checksum and content. A transaction ends with
an entry of constant content.

Ref: DuckDB, src/storage/wal_replay.cpp and src/common/checksum.cpp.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from otel_agentic.store.checkpoints import sync_folder
from otel_agentic.store.clone import clone_file
from otel_agentic.store.undo import lock_like_duckdb

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger(__name__)
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
        size: of the file, bytes.
        committed: end of the last transaction that can be replayed, bytes.
        damaged: whether the rest is damaged; False without a rest, and if it is the torn end of a write.
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

    Returns None if the log is intact, missing, of a format unknown to this release, or if another process has the database
    open.

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
    """Return the content of a log, or None for a format unknown to this release."""
    header = _HEADER.match(log)
    if header is not None and header["version"][0] != _KNOWN_VERSION:
        return None
    position = committed = header.end() if header is not None else 0
    content = memoryview(log)
    while header is not None and len(log) - position >= _ENTRY.size:
        size, stored = _ENTRY.unpack_from(log, position)
        end = position + _ENTRY.size + size
        if end > len(log) or checksum(content[end - size : end]) != stored:
            break
        position = end
        if log[end - size : end] == _COMMIT_CONTENT:
            committed = end
    if header is not None and committed == header.end():
        committed = 0  # a header alone contains no data
    return LogState(size=len(log), committed=committed, damaged=_is_damaged(log, position))


def _is_damaged(log: bytes | mmap.mmap, position: int) -> bool:
    """Return whether the part that starts at the first unreadable entry is more than the torn end of one write.

    A write that was cut off is only a beginning: its last entry is too short, and it has no end-of-transaction entry, because
    that is written last. After a power loss, zeros replace blocks that did not reach the disk.
    """
    rest = log[position:]
    if not rest.strip(b"\0"):
        return False
    if _COMMIT in rest or _differ_in_one_byte(rest[-len(_COMMIT) :], _COMMIT):
        return True
    if position == 0 and _HEADER.match(log) is None:
        return False  # not even the header was written
    return len(rest) >= _ENTRY.size and position + _ENTRY.size + _ENTRY.unpack_from(rest)[0] <= len(log)


def _differ_in_one_byte(first: bytes, second: bytes) -> bool:
    return len(first) == len(second) and sum(a != b for a, b in zip(first, second, strict=True)) <= 1


def checksum(content: bytes | memoryview) -> int:
    """Return DuckDB's checksum of the content of an entry."""
    count = len(content) // 8
    words = np.frombuffer(content, dtype="<u8", count=count)
    result = 5381 ^ int(np.bitwise_xor.reduce(words * np.uint64(_WORD_FACTOR), initial=np.uint64(0)))
    rest = bytes(content[8 * count :])
    return result ^ _murmur(rest) if rest else result


def _murmur(rest: bytes) -> int:
    """Return the hash of the last bytes, fewer than eight."""
    mixed = (_MURMUR_SEED ^ len(rest) * _MURMUR ^ int.from_bytes(rest, "little")) & _MASK
    mixed = mixed * _MURMUR & _MASK
    mixed = (mixed ^ mixed >> 47) * _MURMUR & _MASK
    return mixed ^ mixed >> 47


_COMMIT: Final = _ENTRY.pack(len(_COMMIT_CONTENT), checksum(_COMMIT_CONTENT)) + _COMMIT_CONTENT
