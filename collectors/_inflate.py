"""Decompression in bounded pieces: the one place where compressed bytes of strangers are opened.

One small class per encoding. Each takes bytes as they come and yields pieces of a bounded size, so whoever reads
decides when it is too much; several members (gzip) or frames (zstd) after each other are one text.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Final, Literal, Protocol, get_args

import zstandard

from otel_agentic.errors import DecodeError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Encoding = Literal["identity", "gzip", "zstd", "deflate"]
ENCODINGS: Final[tuple[Encoding, ...]] = get_args(Encoding)

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: The first byte of zlib's format as everybody writes it, and what its first two are a multiple of.
_ZLIB_METHOD: Final = b"\x78"
_ZLIB_CHECK: Final = 31

_PIECE_BYTES: Final = 256 * 1024
_GZIP_SLICE_BYTES: Final = 16 * 1024
#: zstd makes at most 128 KiB of any 4 bytes: a slice this long yields at most 8 MiB.
_ZSTD_SLICE_BYTES: Final = 256
#: RFC 9659 lets a zstd content coding ask for a window of 8 MiB at most.
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024


class Inflater(Protocol):
    """Opens one encoding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces that the next compressed bytes hold.

        Raises:
            DecodeError: the bytes are not of this encoding.
        """
        ...

    def finish(self) -> None:
        """Return nothing if the compressed bytes ended where they may end.

        Raises:
            DecodeError: they are truncated.
        """
        ...


class Identity:
    """Bytes that are not compressed."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes as they are."""
        yield data

    def finish(self) -> None:
        """Return nothing: plain bytes may end anywhere."""


class Gunzip:
    """gzip, of one or several members."""

    _name = "gzip"
    _window_bits = 16 + zlib.MAX_WBITS

    def __init__(self) -> None:
        self._member = zlib.decompressobj(self._window_bits)
        self._begun = False
        self._members = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of at most 256 KiB."""
        # In slices, because zlib copies what it has left over at every piece and every member.
        for start in range(0, len(data), _GZIP_SLICE_BYTES):
            rest = data[start : start + _GZIP_SLICE_BYTES]
            while rest := self._without_padding(rest):
                self._begun = True
                yield from self._pieces(rest)
                rest = self._next_member()

    def finish(self) -> None:
        """Return nothing if the last member is whole."""
        if self._begun:
            raise DecodeError(f"truncated {self._name}: the bytes end inside a member; send them again whole")

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        while True:
            try:
                piece = self._member.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise self._damaged(error) from error
            if piece:
                yield piece
            data = self._member.unconsumed_tail
            if self._member.eof or (not data and len(piece) < _PIECE_BYTES):
                return

    def _without_padding(self, data: bytes) -> bytes:
        # Zeros after a member are legal: tapes had blocks to fill.
        return data.lstrip(b"\0") if self._members and not self._begun else data

    def _next_member(self) -> bytes:
        if not self._member.eof:
            return b""
        rest = self._member.unused_data
        self._member = zlib.decompressobj(self._window_bits)
        self._begun = False
        self._members += 1
        return rest

    def _damaged(self, error: zlib.error) -> DecodeError:
        where = (
            f"after {self._members} whole {self._name} member(s) comes something else"
            if self._members
            else f"not {self._name}"
        )
        return DecodeError(f"{where}: {error}")


class Undeflate(Gunzip):
    """What HTTP and gRPC call deflate: the format of zlib."""

    _name = "deflate"
    _window_bits = zlib.MAX_WBITS


class Unzstd:
    """zstd, of one or several frames."""

    def __init__(self, max_window_bytes: int = _ZSTD_WINDOW_BYTES) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=max_window_bytes)
        self._frame = self._context.decompressobj()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of at most 8 MiB."""
        for start in range(0, len(data), _ZSTD_SLICE_BYTES):
            rest = data[start : start + _ZSTD_SLICE_BYTES]
            while rest:
                self._begun = True
                try:
                    piece = self._frame.decompress(rest)
                except zstandard.ZstdError as error:
                    raise DecodeError(f"not zstd, or damaged: {error}") from error
                if piece:
                    yield piece
                rest = self._rest()

    def finish(self) -> None:
        """Return nothing if the last frame is whole."""
        if self._begun:
            raise DecodeError("truncated zstd: the bytes end inside a frame; send them again whole")

    def _rest(self) -> bytes:
        if not self._frame.eof:
            return b""
        rest = self._frame.unused_data
        self._frame = self._context.decompressobj()
        self._begun = False
        return rest


def inflater(encoding: Encoding) -> Inflater:
    """Return a fresh inflater."""
    classes: dict[Encoding, Callable[[], Inflater]] = {
        "identity": Identity,
        "gzip": Gunzip,
        "zstd": Unzstd,
        "deflate": Undeflate,
    }
    return classes[encoding]()


def encoding_of(data: bytes) -> Encoding:
    """Return how an OTLP message in protobuf was compressed, by its first bytes.

    None of the three beginnings is one of such a message: its only field is 1.
    """
    if data.startswith(GZIP_MAGIC):
        return "gzip"
    if data.startswith(ZSTD_MAGIC):
        return "zstd"
    if data[:1] == _ZLIB_METHOD and int.from_bytes(data[:2], "big") % _ZLIB_CHECK == 0:
        return "deflate"
    return "identity"


def inflate(data: bytes, encoding: Encoding, max_bytes: int, hold: Callable[[int], None]) -> bytes:
    """Return the bytes of a whole body, at most `max_bytes`; `hold` is told of every piece before it is kept.

    Raises:
        DecodeError: the bytes are damaged or truncated.
        TooLargeError: there is more than `max_bytes`, measured after decompression.
    """
    if encoding == "identity":
        return data
    # Not a list of pieces: of members of two bytes each these would take twenty times what they hold.
    opened, kept = inflater(encoding), io.BytesIO()
    for piece in opened.feed(data):
        if kept.tell() + len(piece) > max_bytes:
            raise too_large(max_bytes)
        hold(len(piece))
        kept.write(piece)
    opened.finish()
    return kept.getvalue()


def too_large(max_bytes: int) -> TooLargeError:
    """Return the error for a request beyond the limit."""
    return TooLargeError(
        f"the request is larger than {max_bytes} bytes after decompression: send smaller batches, "
        "or raise receive.max_request_bytes"
    )
