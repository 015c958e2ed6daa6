"""The head, the encodings and the decompression of OTLP requests.

Untrusted compressed bytes are decompressed only here, in bounded pieces.

There is one small class per encoding. Each accepts bytes as they arrive and yields pieces of a bounded size, so that
the caller can stop at a limit; consecutive members (gzip) or frames (zstd) are concatenated.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

import orjson
import zstandard
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors._admission import RefusedError
from otel_agentic.errors import DecodeError, TooLargeError, UsageError
from otel_agentic.net import parse_address
from otel_agentic.spans import Limits, SpanBatch, decode_logs, decode_logs_json, decode_traces, decode_traces_json

if TYPE_CHECKING:
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed


Encoding = Literal["identity", "gzip", "zstd", "deflate"]
ENCODINGS: Final[tuple[Encoding, ...]] = get_args(Encoding)

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: The usual first byte of zlib's format, and the number of which the first two bytes are a multiple.
_ZLIB_METHOD: Final = b"\x78"
_ZLIB_CHECK: Final = 31

_PIECE_BYTES: Final = 256 * 1024
_GZIP_SLICE_BYTES: Final = 16 * 1024
#: zstd produces at most 128 KiB from any 4 bytes, so a slice of this length yields at most 8 MiB.
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
        """Yield the bytes unchanged."""
        yield data

    def finish(self) -> None:
        """Do nothing: plain bytes may end anywhere."""


class Gunzip:
    """gzip with one or more members."""

    _name = "gzip"
    _window_bits = 16 + zlib.MAX_WBITS

    def __init__(self) -> None:
        self._member = zlib.decompressobj(self._window_bits)
        self._begun = False
        self._members = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of at most 256 KiB."""
        # Feed slices, because zlib copies its remaining input for every piece and every member.
        for start in range(0, len(data), _GZIP_SLICE_BYTES):
            remaining = data[start : start + _GZIP_SLICE_BYTES]
            while remaining := self._without_padding(remaining):
                self._begun = True
                yield from self._pieces(remaining)
                remaining = self._next_member()

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
        # Zeros after a member are valid padding: tapes had blocks of a fixed size.
        return data.lstrip(b"\0") if self._members and not self._begun else data

    def _next_member(self) -> bytes:
        if not self._member.eof:
            return b""
        remaining = self._member.unused_data
        self._member = zlib.decompressobj(self._window_bits)
        self._begun = False
        self._members += 1
        return remaining

    def _damaged(self, error: zlib.error) -> DecodeError:
        location = (
            f"{self._members} complete {self._name} member(s) are followed by other data"
            if self._members
            else f"not {self._name}"
        )
        return DecodeError(f"{location}: {error}")


class Undeflate(Gunzip):
    """deflate as in HTTP and gRPC, which is the zlib format."""

    _name = "deflate"
    _window_bits = zlib.MAX_WBITS


class Unzstd:
    """zstd with one or more frames."""

    def __init__(self, max_window_bytes: int = _ZSTD_WINDOW_BYTES) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=max_window_bytes)
        self._frame = self._context.decompressobj()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield pieces of at most 8 MiB."""
        for start in range(0, len(data), _ZSTD_SLICE_BYTES):
            remaining = data[start : start + _ZSTD_SLICE_BYTES]
            while remaining:
                self._begun = True
                try:
                    piece = self._frame.decompress(remaining)
                except zstandard.ZstdError as error:
                    raise DecodeError(f"not zstd, or damaged: {error}") from error
                if piece:
                    yield piece
                remaining = self._next_frame()

    def finish(self) -> None:
        """Check that the last frame is complete."""
        if self._begun:
            raise DecodeError("truncated zstd: the bytes end inside a frame; send the complete request again")

    def _next_frame(self) -> bytes:
        if not self._frame.eof:
            return b""
        remaining = self._frame.unused_data
        self._frame = self._context.decompressobj()
        self._begun = False
        return remaining


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
    """Return the compression of an OTLP message in protobuf, recognised by its first bytes.

    No uncompressed message begins like one of the three formats, since its only field is number 1.
    """
    if data.startswith(GZIP_MAGIC):
        return "gzip"
    if data.startswith(ZSTD_MAGIC):
        return "zstd"
    if data[:1] == _ZLIB_METHOD and int.from_bytes(data[:2], "big") % _ZLIB_CHECK == 0:
        return "deflate"
    return "identity"


def inflate(data: bytes, encoding: Encoding, max_bytes: int, hold: Callable[[int], None]) -> bytes:
    """Return the decompressed body, at most `max_bytes`; `hold` is called in advance with the size of each piece.

    Raises:
        DecodeError: the bytes are damaged or truncated.
        TooLargeError: the body is larger than `max_bytes` after decompression.
    """
    if encoding == "identity":
        return data
    # Not a list of pieces: if each member contained two bytes, it would take twenty times the size of its content.
    decompressor, output = inflater(encoding), io.BytesIO()
    for piece in decompressor.feed(data):
        if output.tell() + len(piece) > max_bytes:
            raise too_large(max_bytes)
        hold(len(piece))
        output.write(piece)
    decompressor.finish()
    return output.getvalue()


def too_large(max_bytes: int) -> TooLargeError:
    """Return the error for a request beyond the limit."""
    return TooLargeError(
        f"the request is larger than {max_bytes} bytes after decompression: send smaller batches, "
        "or raise receive.max_request_bytes"
    )


Signal = Literal["traces", "logs"]


class Wire(Protocol):
    """One content type."""

    content_type: str

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return the content of a request.

        Raises:
            DecodeError: the bytes are not of this type.
        """
        ...

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return the body of a success response, a partial success if items were rejected."""
        ...

    def failure(self, status: Status) -> bytes:
        """Return the body of an error response."""
        ...


class ProtobufWire:
    """`application/x-protobuf`."""

    content_type = "application/x-protobuf"

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return the content of a request."""
        return decode_traces(data, limits) if signal == "traces" else decode_logs(data, limits)

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return an `ExportTraceServiceResponse` or `ExportLogsServiceResponse`."""
        return success_message(signal, rejected, message)

    def failure(self, status: Status) -> bytes:
        """Return the `google.rpc.Status`."""
        body: bytes = status.SerializeToString()
        return body


class JsonWire:
    """`application/json`."""

    content_type = "application/json"

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return the content of a request; an empty body is an empty request, as in protobuf."""
        if not data:
            return decode_traces(data, limits)
        return decode_traces_json(data, limits) if signal == "traces" else decode_logs_json(data, limits)

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return the response as OTLP/JSON, in which 64-bit integers are strings."""
        if not rejected:
            return b"{}"
        field = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
        return orjson.dumps({"partialSuccess": {field: str(rejected), "errorMessage": message}})

    def failure(self, status: Status) -> bytes:
        """Return the code and message of the `google.rpc.Status`."""
        return orjson.dumps({"code": status.code, "message": status.message})


def success_message(signal: Signal, rejected: int, message: str) -> bytes:
    """Return the protobuf response of an export, a partial success if items were rejected."""
    if signal == "traces":
        traces = ExportTraceServiceResponse()
        if rejected:
            traces.partial_success.rejected_spans = rejected
            traces.partial_success.error_message = message
        return traces.SerializeToString()
    logs = ExportLogsServiceResponse()
    if rejected:
        logs.partial_success.rejected_log_records = rejected
        logs.partial_success.error_message = message
    return logs.SerializeToString()


#: Wire formats by content type; errors about an unknown type are sent in JSON, which is human-readable.
WIRES: Final[dict[str, Wire]] = {wire.content_type: wire for wire in (ProtobufWire(), JsonWire())}
FALLBACK_WIRE: Final[Wire] = WIRES["application/json"]


_SIGNALS: Final[Mapping[str, Signal]] = {"/v1/traces": "traces", "/v1/logs": "logs"}
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_HEALTH: Final = frozenset({"/", "/healthz"})
_NAMES: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"origin",
        b"transfer-encoding",
    }
)
_OTHER_SIGNALS: Final = {"/v1/metrics": "metrics", "/v1development/profiles": "profiles"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Method, path and relevant headers, each with all its values."""

    version: str
    method: str
    path: str
    headers: Mapping[bytes, list[bytes]]

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Head:
        """Return the head of an ASGI scope.

        Redundant slashes in the path are ignored, because base URLs may end in one.
        """
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            if name in _NAMES:
                headers.setdefault(name, []).append(value)
        path: str = scope["path"]
        if path not in _SIGNALS:
            path = "/" + "/".join(part for part in path.split("/") if part)
        return cls(version=scope["http_version"], method=scope["method"], path=path, headers=headers)

    @property
    def content_type(self) -> str:
        """The media type of the content, without parameters."""
        return self._joined(b"content-type").partition(";")[0].strip().lower()

    @property
    def answer_wire(self) -> Wire:
        """The wire format of the response: that of the request if it is supported."""
        return WIRES.get(self.content_type, FALLBACK_WIRE)

    @property
    def is_health(self) -> bool:
        """Whether this is a health check."""
        return self.path in _HEALTH and self.method in {"GET", "HEAD"} and self.version in _VERSIONS

    @property
    def length(self) -> int | None:
        """The declared length of the body; None without a Content-Length."""
        length = self.headers.get(b"content-length")
        return int(length[0]) if length else None

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return b"transfer-encoding" in self.headers or bool(self.length)

    @property
    def awaits_go_ahead(self) -> bool:
        """Whether the sender waits for `100 Continue` before it sends the body."""
        return b"expect" in self.headers

    def signal(self) -> Signal:
        """Return the signal of the request.

        Raises:
            RefusedError: the path or method is not supported; names the supported ones.
        """
        if self.version not in _VERSIONS:
            message = f"HTTP/{self.version} is not supported: send HTTP/1.1"
            raise RefusedError(400, "INVALID_ARGUMENT", message, connection="close")
        signal = _SIGNALS.get(self.path)
        if signal is None:
            raise _nowhere(self.method, self.path)
        if self.method != "POST":
            raise RefusedError(405, "UNIMPLEMENTED", f"{self.method} {self.path}: send by POST", allow="POST")
        if b"transfer-encoding" in self.headers and b"content-length" in self.headers:
            # A proxy in front may have used the other header, and parsed the body as a second request.
            raise RefusedError(
                400,
                "INVALID_ARGUMENT",
                "the head contains Content-Length and Transfer-Encoding: send one of them",
                connection="close",
            )
        if self.version == "1.0" and b"content-length" not in self.headers:
            # A body that is delimited by the end of the connection would be read as empty, and acknowledged.
            raise RefusedError(
                411, "INVALID_ARGUMENT", "a request of HTTP/1.0 needs a Content-Length", connection="close"
            )
        return signal

    def wire(self) -> Wire:
        """Return the wire format of the message.

        Raises:
            RefusedError: it is not supported.
        """
        content_type = self.content_type
        if content_type not in WIRES:
            message = f"content type {content_type or 'unset'!r} is not supported: send {' or '.join(WIRES)}"
            raise RefusedError(415, "INVALID_ARGUMENT", message)
        return WIRES[content_type]

    def encoding(self) -> Encoding:
        """Return the content encoding of the body.

        Raises:
            RefusedError: it is not supported.
        """
        coding = self._joined(b"content-encoding").strip().lower() or "identity"
        for encoding in ENCODINGS:
            if coding == encoding:
                return encoding
        allowed = ", ".join(ENCODINGS)
        message = f"content encoding {coding!r} is not supported: send {allowed}"
        raise RefusedError(415, "INVALID_ARGUMENT", message, accept_encoding=allowed)

    def require_no_web_page(self) -> None:
        """Check that no foreign web page sent this request, since a browser can reach the ports of its machine.

        Raises:
            RefusedError: a page from another host than this machine sent it.
        """
        for origin in self.headers.get(b"origin", ()):
            if not _is_local(origin.decode("latin-1")):
                raise RefusedError(
                    403, "PERMISSION_DENIED", "web pages may not send here without a token (receive.token)"
                )

    def _joined(self, name: bytes) -> str:
        """Return all values of a header joined into one."""
        return b", ".join(self.headers.get(name, ())).decode("latin-1")


def _is_local(origin: str) -> bool:
    host = origin.partition("://")[2]
    try:
        return parse_address(host if host.rpartition(":")[2].isdigit() else f"{host}:0").is_loopback
    except UsageError:
        return False


def _nowhere(method: str, path: str) -> RefusedError:
    message = f"{method} {path}: send spans by POST to /v1/traces and log records to /v1/logs"
    if path in _OTHER_SIGNALS:
        message += f"; {_OTHER_SIGNALS[path]} are not collected here: send them elsewhere, or disable their exporter"
    return RefusedError(404, "UNIMPLEMENTED", message)
