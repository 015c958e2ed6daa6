"""Where this process may listen, and who may send to it: the same rules for every way in and the admin address."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from pydantic import SecretStr

_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host name or IP address, and a port; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def parse_address(text: str) -> Address:
    """Return the address that `host:port` or `[IPv6]:port` names.

    Raises:
        UsageError: the text has another shape.

    >>> str(parse_address("[::1]:4318"))
    '[::1]:4318'
    """
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    well_formed = bool(colon and host) and (bracketed or ":" not in host)
    if not (well_formed and port.isascii() and port.isdigit() and int(port) <= _HIGHEST_PORT):
        raise UsageError(
            f"address {text!r}: expected host:port, such as 127.0.0.1:4318 or [::1]:4318, with a port of 0 to 65535"
        )
    return Address(host=host[1:-1] if bracketed else host, port=int(port))


def require_allowed(address: Address, *, token: SecretStr | None, insecure: bool, section: str = "receive") -> None:
    """Return nothing where listening is allowed: on loopback, or with a token, or if asked for openly.

    Raises:
        UsageError: strangers could send spans; says what to do.
    """
    if address.is_loopback or token is not None or insecure:
        return
    raise UsageError(
        f"address {address} can be reached from other machines: set a token ({section}.token, "
        f"OTEL_AGENTIC_{section.upper()}__TOKEN), or allow it openly (receive.insecure, --insecure), or listen on 127.0.0.1"
    )


def listen(address: Address, backlog: int = 1024) -> socket.socket:
    """Return a socket that listens on the address.

    Raises:
        UsageError: the address is taken or does not exist here; says what to do.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, target = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(address, error) from error
    try:
        if os.name == "posix":  # elsewhere the option would let two servers share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise _cannot_listen(address, error) from error
    return listener


def is_authorized(header: str | bytes | None, token: SecretStr | None) -> bool:
    """Return whether an `Authorization` header shows the token, compared in constant time."""
    if token is None:
        return True
    shown = header.encode("utf-8", "surrogateescape") if isinstance(header, str) else header or b""
    scheme, _, credentials = shown.partition(b" ")
    expected = token.get_secret_value().encode()
    return hmac.compare_digest(credentials.strip(), expected) and scheme.lower() == b"bearer"


def _cannot_listen(address: Address, error: OSError) -> UsageError:
    reason = error.strerror or str(error)
    return UsageError(
        f"cannot listen on {address}: {reason}; stop what uses that port (another otel-agentic or OTel Collector?) "
        "or give another address, port 0 takes a free one"
    )
