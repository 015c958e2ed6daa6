"""Addresses: how they are written, which of them strangers reach, and listening on them."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from dataclasses import dataclass

from otel_agentic.errors import UsageError

_log = logging.getLogger(__name__)
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
        """Whether only this machine can reach the address.

        Of names only `localhost` counts: what another one means is for the resolver to say, and may change.
        """
        return _is_loopback(self.host) or self.host == "localhost"


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
    if not (well_formed and _is_port(port)):
        raise UsageError(
            f"address {text!r}: expected host:port, such as 127.0.0.1:4318 or [::1]:4318, with a port of 0 to 65535"
        )
    return Address(host=host[1:-1] if bracketed else host, port=int(port))


def require_allowed(
    address: Address, *, token: bool, mutual_tls: bool, tls: bool, insecure: bool, section: str
) -> None:
    """Return nothing where listening is allowed: on loopback, with a token or mutual TLS, or if asked for openly.

    A token that crosses a network in clear text is allowed, and warned of.

    Args:
        address: where to listen.
        token: whether callers must show one.
        mutual_tls: whether callers must show a certificate.
        tls: whether what they send is encrypted.
        insecure: whether everybody was let in openly.
        section: the settings that are to blame.

    Raises:
        UsageError: strangers could come in; says what to do.
    """
    if address.is_loopback:
        return
    if not (token or mutual_tls or insecure):
        variable = f"OTEL_AGENTIC_{section.upper()}__TOKEN"
        raise UsageError(
            f"address {address} can be reached from other machines: set a token ({section}.token, {section}.token_file, "
            f"{variable}), or ask for certificates ({section}.tls_client_ca_file), or allow it openly (receive.insecure, "
            "--insecure), or listen on 127.0.0.1"
        )
    if token and not tls:
        _log.warning(
            "address %s: its token can be read on the way, for there is no TLS; set %s.tls_cert_file and "
            "%s.tls_key_file, or put a proxy with TLS in front",
            address,
            section,
            section,
        )


def listen(address: Address, backlog: int = 1024) -> socket.socket:
    """Return a socket that listens on the address.

    Raises:
        UsageError: the address is taken or does not exist here, or `localhost` is not this machine; says what to do.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, target = found[0]
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(address, error) from error
    if address.is_loopback and not _is_loopback(str(target[0])):
        raise UsageError(f"address {address}: here that name is {target[0]}, which others reach; use 127.0.0.1")
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere the option would let two servers share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise _cannot_listen(address, error) from error
    return listener


def _is_port(text: str) -> bool:
    # Its length first: a stranger's header may hold more digits than Python makes a number of.
    return len(text) <= len(str(_HIGHEST_PORT)) and text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT


def _is_loopback(host: str) -> bool:
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)  # ::ffff:127.0.0.1 is 127.0.0.1, and ::ffff:0.0.0.0 is 0.0.0.0
    return bool((mapped or found).is_loopback)


def _cannot_listen(address: Address, error: OSError | UnicodeError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(
        f"cannot listen on {address}: {reason}; stop what uses that port (another otel-agentic or OTel Collector?) "
        "or give another address, port 0 takes a free one"
    )
