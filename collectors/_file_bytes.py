"""The bytes of a file, decompressed as they are read, never more than needed in memory."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Final

from collectors._inflate import GZIP_MAGIC, ZSTD_MAGIC, Gunzip, Identity, Unzstd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

    from collectors._inflate import Inflater

_READ_BYTES: Final = 256 * 1024
_SKIP_BYTES: Final = 1024 * 1024
#: What the zstd command line writes with its highest ordinary levels.
_FILE_WINDOW_BYTES: Final = 128 * 1024 * 1024


class InflatedFile(io.RawIOBase):
    """A file opened through the decompression that its first bytes ask for: gzip, zstd or none."""

    def __init__(self, raw: BinaryIO) -> None:
        super().__init__()
        self._raw = raw
        self._pieces = self._inflate()
        self._ahead = b""
        self._at = 0  # what stands before it in `_ahead` was handed out: cutting that off would copy the rest each time
        self.bytes_read = 0  # of the file itself, for progress

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer; 0 is the end.

        Raises:
            DecodeError: the compressed bytes are damaged or truncated.
        """
        if self._at == len(self._ahead):
            self._ahead, self._at = next(self._pieces, b""), 0
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._ahead) - self._at)
        view[:count] = memoryview(self._ahead)[self._at : self._at + count]
        self._at += count
        return count

    def sample(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end, without consuming them.

        Raises:
            DecodeError: the compressed bytes are damaged or truncated.
        """
        ahead = self._ahead[self._at :]
        pieces, size = [ahead], len(ahead)
        while size < count and (piece := next(self._pieces, b"")):
            pieces.append(piece)
            size += len(piece)
        self._ahead, self._at = b"".join(pieces), 0
        return self._ahead[:count]

    def _inflate(self) -> Iterator[bytes]:
        data = self._raw.read(len(ZSTD_MAGIC))
        opened = _inflater(data)
        while data:
            self.bytes_read += len(data)
            yield from (piece for piece in opened.feed(data) if piece)
            data = self._raw.read(_READ_BYTES)
        opened.finish()


def read_line(source: BinaryIO, max_bytes: int) -> bytes | None:
    """Return the next line with its end, or the empty bytes at the end of the file.

    A line longer than `max_bytes` is skipped without keeping it: None.
    """
    line = source.readline(max_bytes + 1)
    if len(line) <= max_bytes or line.endswith(b"\n"):
        return line
    while line and not line.endswith(b"\n"):
        line = source.readline(_SKIP_BYTES)
    return None


def read_varint(source: BinaryIO) -> int | None:
    """Return the length before a delimited message, None at the end of the file, -1 where it is no varint."""
    value = 0
    for shift in range(0, 64, 7):
        byte = source.read(1)
        if not byte:
            return -1 if shift else None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:  # noqa: PLR2004 — the continuation bit
            return value
    return -1


def _inflater(head: bytes) -> Inflater:
    if head.startswith(GZIP_MAGIC):
        return Gunzip()
    return Unzstd(_FILE_WINDOW_BYTES) if head.startswith(ZSTD_MAGIC) else Identity()
