"""What a request of OTLP/HTTP says of itself before its body is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from collectors._answers import RefusedError
from collectors._http_wire import FALLBACK_WIRE, WIRES
from collectors._inflate import ENCODINGS
from otel_agentic.errors import UsageError
from otel_agentic.net import parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from collectors._http_wire import Signal, Wire
    from collectors._inflate import Encoding

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
