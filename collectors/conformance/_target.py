"""Where the receiver is and how to speak to it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from otel_agentic.errors import UsageError
from otel_agentic.net import parse_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A receiver.

    `url` is the base of `/v1/traces`, None where only gRPC is checked; `grpc` is `host:port`, or the same with
    `http://` or `https://` before it. `timeout_s` is the longest wait for an answer, or for the end of
    a stalled connection; `patience_s` how long a sender that is told to come back goes on trying. `max_bytes` is what the
    receiver says that it takes, 0 where nobody knows.
    """

    url: str | None = None
    grpc: str | None = None
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_s: float = 45.0
    patience_s: float = 20.0
    max_bytes: int = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check what was given.

        Raises:
            UsageError: neither address is given, or one has another shape.
        """
        if self.url is None and self.grpc is None:
            raise UsageError("no receiver is named: give its URL, such as http://127.0.0.1:4318, or --grpc host:port")
        if self.url is not None and (self.scheme not in _PORTS or not urlsplit(self.url).hostname):
            raise UsageError(f"URL {self.url!r}: expected http://host:port or https://host:port")
        if self.grpc is not None:
            parse_address(self.grpc_address)

    @property
    def scheme(self) -> str:
        """The scheme of the URL: http or https."""
        return urlsplit(self.url or "").scheme

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port of the URL."""
        parts = urlsplit(self.url or "")
        return parts.hostname or "", parts.port or _PORTS[parts.scheme]

    @property
    def prefix(self) -> str:
        """The path of the URL, without a slash at its end."""
        return urlsplit(self.url or "").path.rstrip("/")

    @property
    def grpc_address(self) -> str:
        """`host:port` of the gRPC address."""
        return (self.grpc or "").removeprefix("https://").removeprefix("http://").rstrip("/")

    @property
    def grpc_is_secure(self) -> bool:
        """Whether gRPC is spoken over TLS: as its address says, else as the URL or a given authority does."""
        given = self.grpc or ""
        if "://" in given:
            return given.startswith("https://")
        return self.scheme == "https" or self.ca_file is not None

    @property
    def authorization(self) -> Mapping[str, str]:
        """The header that shows the token, in lower case; empty without one."""
        return {"authorization": f"Bearer {self.token}"} if self.token is not None else {}

    def tls(self) -> ssl.SSLContext | None:
        """Return the context of HTTPS, None for plain HTTP.

        Raises:
            UsageError: a certificate or key cannot be read.
        """
        if self.scheme != "https":
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"cannot use the certificate files: {error}") from error
        return context
