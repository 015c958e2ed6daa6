"""Decompression in bounded pieces; untrusted compressed bytes are decompressed only here.

One small class per encoding. Each accepts bytes as they arrive and yields pieces of a bounded size, so that the caller can stop
at a limit; several consecutive members (gzip) or frames (zstd) are one text.
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
#: The usual first byte of zlib's format, and the number of which the first two bytes are a multiple.
_ZLIB_METHOD: Final = b"\x78"
_ZLIB_CHECK: Final = 31

_PIECE_BYTES: Final = 256 * 1024
_GZIP_SLICE_BYTES: Final = 16 * 1024
#: zstd produces at most 128 KiB from any 4 bytes: a slice of this length yields at most 8 MiB.
_ZSTD_SLICE_BYTES: Final = 256
#: RFC 9659 allows a zstd content coding a window of at most 8 MiB.
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024


class Inflater(Protocol):
    """Decompresses one encoding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed pieces of the next bytes.

        Raises:
            DecodeError: the bytes are not of this encoding.
        """
        ...

    def finish(self) -> None:
        """Check that the compressed bytes are complete.

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
        """Do nothing: plain bytes may end anywhere."""


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
        # In slices, because zlib copies its remaining input for every piece and every member.
        for start in range(0, len(data), _GZIP_SLICE_BYTES):
            rest = data[start : start + _GZIP_SLICE_BYTES]
            while rest := self._without_padding(rest):
                self._begun = True
                yield from self._pieces(rest)
                rest = self._next_member()

    def finish(self) -> None:
        """Check that the last member is complete."""
        if self._begun:
            raise DecodeError(f"truncated {self._name}: the bytes end inside a member; send the complete request again")

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
        # Zeros after a member are legal: tapes had blocks of a fixed size.
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
            f"{self._members} complete {self._name} member(s) are followed by other data"
            if self._members
            else f"not {self._name}"
        )
        return DecodeError(f"{where}: {error}")


class Undeflate(Gunzip):
    """deflate of HTTP and gRPC, which is the format of zlib."""

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
        """Check that the last frame is complete."""
        if self._begun:
            raise DecodeError("truncated zstd: the bytes end inside a frame; send the complete request again")

    def _rest(self) -> bytes:
        if not self._frame.eof:
            return b""
        rest = self._frame.unused_data
        self._frame = self._context.decompressobj()
        self._begun = False
        return rest


def inflater(encoding: Encoding) -> Inflater:
    """Return a new inflater."""
    classes: dict[Encoding, Callable[[], Inflater]] = {
        "identity": Identity,
        "gzip": Gunzip,
        "zstd": Unzstd,
        "deflate": Undeflate,
    }
    return classes[encoding]()


def encoding_of(data: bytes) -> Encoding:
    """Return the compression of an OTLP message in protobuf, by its first bytes.

    No such message begins like one of the three formats: its only field is 1.
    """
    if data.startswith(GZIP_MAGIC):
        return "gzip"
    if data.startswith(ZSTD_MAGIC):
        return "zstd"
    if data[:1] == _ZLIB_METHOD and int.from_bytes(data[:2], "big") % _ZLIB_CHECK == 0:
        return "deflate"
    return "identity"


def inflate(data: bytes, encoding: Encoding, max_bytes: int, hold: Callable[[int], None]) -> bytes:
    """Return the bytes of a complete body, at most `max_bytes`; `hold` is called with the size of every piece in advance.

    Raises:
        DecodeError: the bytes are damaged or truncated.
        TooLargeError: there is more than `max_bytes`, measured after decompression.
    """
    if encoding == "identity":
        return data
    # Not a list of pieces: with members of two bytes each it would take twenty times the size of its content.
    opened, output = inflater(encoding), io.BytesIO()
    for piece in opened.feed(data):
        if output.tell() + len(piece) > max_bytes:
            raise too_large(max_bytes)
        hold(len(piece))
        output.write(piece)
    opened.finish()
    return output.getvalue()


def too_large(max_bytes: int) -> TooLargeError:
    """Return the error for a request beyond the limit."""
    return TooLargeError(
        f"the request is larger than {max_bytes} bytes after decompression: send smaller batches, "
        "or raise receive.max_request_bytes"
    )
