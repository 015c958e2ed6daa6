"""The head and the two encodings of OTLP/HTTP requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors._answers import RefusedError
from collectors._inflate import ENCODINGS
from otel_agentic.errors import UsageError
from otel_agentic.net import parse_address
from otel_agentic.spans import decode_logs, decode_logs_json, decode_traces, decode_traces_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed

    from collectors._inflate import Encoding
    from otel_agentic.spans import Limits, SpanBatch

Signal = Literal["traces", "logs"]


class Wire(Protocol):
    """One content type."""

    content_type: str

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return what a request holds.

        Raises:
            DecodeError: the bytes are not of this type.
        """
        ...

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return the body of a success; partial where something was rejected."""
        ...

    def failure(self, status: Status) -> bytes:
        """Return the body of an error."""
        ...


class ProtobufWire:
    """`application/x-protobuf`."""

    content_type = "application/x-protobuf"

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return what a request holds."""
        return decode_traces(data, limits) if signal == "traces" else decode_logs(data, limits)

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return an `ExportTraceServiceResponse` or `ExportLogsServiceResponse`."""
        return success_message(signal, rejected, message)

    def failure(self, status: Status) -> bytes:
        """Return the `google.rpc.Status`."""
        encoded: bytes = status.SerializeToString()
        return encoded


class JsonWire:
    """`application/json`."""

    content_type = "application/json"

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return what a request holds; no bytes at all are an empty request, as they are in protobuf."""
        if not data:
            return decode_traces(data, limits)
        return decode_traces_json(data, limits) if signal == "traces" else decode_logs_json(data, limits)

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return the response as OTLP/JSON: 64-bit integers are text there."""
        if not rejected:
            return b"{}"
        field = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
        return orjson.dumps({"partialSuccess": {field: str(rejected), "errorMessage": message}})

    def failure(self, status: Status) -> bytes:
        """Return the code and message of the `google.rpc.Status`."""
        return orjson.dumps({"code": status.code, "message": status.message})


def success_message(signal: Signal, rejected: int, message: str) -> bytes:
    """Return the protobuf response of an export; partial where something was rejected."""
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


#: By content type; errors about an unknown type are answered in JSON, which people can read.
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
    """Method, path and the headers that matter here, each with all its values."""

    version: str
    method: str
    path: str
    headers: Mapping[bytes, list[bytes]]

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> Head:
        """Return the head of an ASGI scope. Slashes too many in the path are forgiven: base URLs end in one."""
        found: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            if name in _NAMES:
                found.setdefault(name, []).append(value)
        path: str = scope["path"]
        if path not in _SIGNALS:
            path = "/" + "/".join(part for part in path.split("/") if part)
        return cls(version=scope["http_version"], method=scope["method"], path=path, headers=found)

    @property
    def content_type(self) -> str:
        """The content type without its parameters."""
        return self._one(b"content-type").partition(";")[0].strip().lower()

    @property
    def answer_wire(self) -> Wire:
        """The encoding of the answer: that of the request where it is one of ours."""
        return WIRES.get(self.content_type, FALLBACK_WIRE)

    @property
    def is_health(self) -> bool:
        """Whether somebody asks if we are there."""
        return self.path in _HEALTH and self.method in {"GET", "HEAD"} and self.version in _VERSIONS

    @property
    def length(self) -> int | None:
        """The length of the body, None where it is not said."""
        said = self.headers.get(b"content-length")
        return int(said[0]) if said else None

    @property
    def has_body(self) -> bool:
        """Whether a body follows."""
        return b"transfer-encoding" in self.headers or bool(self.length)

    @property
    def awaits_go_ahead(self) -> bool:
        """Whether the body is held back until we ask for it."""
        return b"expect" in self.headers

    def signal(self) -> Signal:
        """Return what is sent.

        Raises:
            RefusedError: another path or method was meant for somebody else; says what is received here.
        """
        if self.version not in _VERSIONS:
            told = f"HTTP/{self.version} is not spoken here: send HTTP/1.1"
            raise RefusedError(400, "INVALID_ARGUMENT", told, connection="close")
        signal = _SIGNALS.get(self.path)
        if signal is None:
            raise _nowhere(self.method, self.path)
        if self.method != "POST":
            raise RefusedError(405, "UNIMPLEMENTED", f"{self.method} {self.path}: send by POST", allow="POST")
        if b"transfer-encoding" in self.headers and b"content-length" in self.headers:
            # A proxy in front may have read the other one, and taken for a second request what is a body to us.
            raise RefusedError(
                400,
                "INVALID_ARGUMENT",
                "the head gives a length and says chunked: send one of them",
                connection="close",
            )
        if self.version == "1.0" and b"content-length" not in self.headers:
            # A body that ends with the connection would be taken for none, and acknowledged.
            raise RefusedError(
                411, "INVALID_ARGUMENT", "a request of HTTP/1.0 needs a Content-Length", connection="close"
            )
        return signal

    def wire(self) -> Wire:
        """Return the encoding of the message.

        Raises:
            RefusedError: it is none of ours.
        """
        sent = self.content_type
        if sent not in WIRES:
            told = f"content type {sent or 'unset'!r} is not read here: send {' or '.join(WIRES)}"
            raise RefusedError(415, "INVALID_ARGUMENT", told)
        return WIRES[sent]

    def encoding(self) -> Encoding:
        """Return how the body is compressed.

        Raises:
            RefusedError: in a way that is not read here.
        """
        sent = self._one(b"content-encoding").strip().lower() or "identity"
        for encoding in ENCODINGS:
            if sent == encoding:
                return encoding
        allowed = ", ".join(ENCODINGS)
        told = f"content encoding {sent!r} is not read here: send {allowed}"
        raise RefusedError(415, "INVALID_ARGUMENT", told, accept_encoding=allowed)

    def require_no_web_page(self) -> None:
        """Return nothing unless a web page sent this: one that a person has open may reach this machine's own ports.

        Raises:
            RefusedError: it did, from a host other than this machine.
        """
        for origin in self.headers.get(b"origin", ()):
            if not _is_local(origin.decode("latin-1")):
                raise RefusedError(
                    403, "PERMISSION_DENIED", "web pages may not send here without a token (receive.token)"
                )

    def _one(self, name: bytes) -> str:
        """Return all values of a header as the one that they stand for."""
        return b", ".join(self.headers.get(name, ())).decode("latin-1")


def _is_local(origin: str) -> bool:
    host = origin.partition("://")[2]
    try:
        return parse_address(host if host.rpartition(":")[2].isdigit() else f"{host}:0").is_loopback
    except UsageError:
        return False


def _nowhere(method: str, path: str) -> RefusedError:
    told = f"{method} {path}: send spans by POST to /v1/traces and log records to /v1/logs"
    if path in _OTHER_SIGNALS:
        told += f"; {_OTHER_SIGNALS[path]} are not collected here: send them elsewhere, or switch their exporter off"
    return RefusedError(404, "UNIMPLEMENTED", told)
