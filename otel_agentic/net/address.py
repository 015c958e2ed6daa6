"""Addresses: their notation, whether other machines can reach them, and listening within the limit of open files."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from otel_agentic.errors import UsageError

_log = logging.getLogger(__name__)
_HIGHEST_PORT = 65_535
_PORT: Final = re.compile(r":\d+$")
#: File descriptors reserved for the store, its log, queries, exports and everything else that the process opens.
_RESERVED: Final = 48
#: The number of ports that share the other descriptors: OTLP/HTTP, OTLP/gRPC and the admin port.
_PORTS: Final = 3
#: Connections beyond the limit that a port may have while another one is being closed.
_MOST_SURPLUS: Final = 64
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_WARN_EVERY_S: Final = 60.0
_PAUSE_S: Final = 0.02


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

        `localhost` is the only host name that counts: any other name may resolve to any address, and this may change.
        """
        return _is_loopback(self.host) or self.host == "localhost"


class Hosts:
    """The host names under which a listener answers. This protects against DNS rebinding.

    A web page whose host name is made to resolve to the address of the listener is same-origin for the browser, but
    still sends its own name as `Host`. An IP address cannot be rebound. A loopback listener therefore answers to
    loopback names, any other one also to IP addresses and to the name of this machine, and both to the allowed names.
    """

    def __init__(self, address: Address, allowed: Iterable[str] = ()) -> None:
        """Create from the listener's address and further names or globs, such as `*.internal`."""
        self._is_loopback = address.is_loopback
        own_names = () if address.is_loopback else (address.host, socket.gethostname())
        self._allowed = [name.lower() for name in (*own_names, *allowed)]

    def allows(self, host: str) -> bool:
        """Return whether a request with this `Host` header is answered.

        >>> [Hosts(parse_address("127.0.0.1:8321")).allows(host) for host in ("localhost:8321", "[::1]", "10.0.0.1", "evil.com")]
        [True, True, False, False]
        """
        try:
            name = parse_address(host if _PORT.search(host) else f"{host}:0").host.lower()
        except UsageError:
            return False
        if Address(host=name, port=0).is_loopback or any(fnmatchcase(name, pattern) for pattern in self._allowed):
            return True
        return not self._is_loopback and _is_ip_address(name)

    def is_foreign(self, origin: str, host: str) -> bool:
        """Return whether an `Origin` header names another site than the `Host` header of the same request.

        >>> Hosts(parse_address("127.0.0.1:8321")).is_foreign("http://localhost:3000", "localhost:8321")
        True
        """
        return origin.partition("://")[2].lower() != host.lower()


def parse_address(text: str) -> Address:
    """Return the address for `host:port` or `[IPv6]:port`.

    Raises:
        UsageError: the text has another form.

    >>> str(parse_address("[::1]:4318"))
    '[::1]:4318'
    """
    host, colon, port = text.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    well_formed = bool(colon and host) and (is_bracketed or ":" not in host)
    if not (well_formed and _is_port(port)):
        raise UsageError(
            f"address {text!r}: expected host:port, such as 127.0.0.1:4318 or [::1]:4318, with a port of 0 to 65535"
        )
    return Address(host=host[1:-1] if is_bracketed else host, port=int(port))


def require_allowed(
    address: Address, *, token: bool, mutual_tls: bool, tls: bool, insecure: bool, section: str
) -> None:
    """Check that listening is allowed: on loopback, with a token or mutual TLS, or if explicitly insecure.

    A token that crosses a network in clear text is allowed, with a warning.

    Args:
        address: where to listen.
        token: whether clients must send a token.
        mutual_tls: whether clients must present a certificate.
        tls: whether connections are encrypted.
        insecure: whether unauthenticated access is allowed explicitly.
        section: the section of the settings, for messages.

    Raises:
        UsageError: unauthenticated clients on other machines could connect; the message states the options.
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
            "address %s: its token can be intercepted, because there is no TLS; set %s.tls_cert_file and "
            "%s.tls_key_file, or put a proxy with TLS in front",
            address,
            section,
            section,
        )


def listen(address: Address, backlog: int = 1024) -> socket.socket:
    """Return a socket that listens on the address.

    Raises:
        UsageError: the address is taken or does not exist here, or `localhost` does not resolve to this machine.
    """
    try:
        results = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, target = results[0]
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(address, error) from error
    if address.is_loopback and not _is_loopback(str(target[0])):
        raise UsageError(
            f"address {address}: here that name is {target[0]}, which other machines can reach; use 127.0.0.1"
        )
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
    # Check the length first: an untrusted header may contain more digits than Python converts to an integer.
    return len(text) <= len(str(_HIGHEST_PORT)) and text.isascii() and text.isdigit() and int(text) <= _HIGHEST_PORT


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    ipv4_address = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1 is 127.0.0.1, and ::ffff:0.0.0.0 is 0.0.0.0
    return bool((ipv4_address or address).is_loopback)


def _cannot_listen(address: Address, error: OSError | UnicodeError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(
        f"cannot listen on {address}: {reason}; stop what uses that port (another otel-agentic or OTel Collector?) "
        "or give another address, port 0 takes a free one"
    )


def raise_file_limit(connections: int) -> None:
    """Raise the soft limit of open files so that each port may have `connections`; log a warning if fewer fit.

    Many systems allow 1,024 open files by default, and more on request.
    """
    try:
        import resource  # noqa: PLC0415 — Windows has neither this module nor such a limit
    except ImportError:
        return
    required_files = _RESERVED + _PORTS * (connections + _MOST_SURPLUS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < required_files:
        new_soft_limit = required_files if hard == resource.RLIM_INFINITY else min(required_files, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_soft_limit, hard))
    if (possible_connections := affordable(connections)) < connections:
        _log.warning(
            "this process may open %d files: each port accepts %d connections instead of %d; raise the limit "
            "(ulimit -n, LimitNOFILE=), or lower receive.max_connections",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            possible_connections,
            connections,
        )


def affordable(connections: int) -> int:
    """Return how many of the requested connections a port may have under the current limit of open files."""
    share = _share()
    return connections if share is None else min(connections, max(1, share - _surplus(share)))


def _share() -> int | None:
    """Return the descriptors of one port, or None without a limit."""
    try:
        import resource  # noqa: PLC0415 — Windows has none
    except ImportError:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else max(2, (soft - _RESERVED) // _PORTS)


def _surplus(share: int) -> int:
    return min(_MOST_SURPLUS, max(1, share // 4))


class BoundedListener(socket.socket):
    """A listening socket that never accepts more connections than its port has file descriptors.

    An event loop accepts all waiting connections before any of them can be counted or an idle one closed. Beyond the limit,
    connections wait in the kernel's queue until others are closed. If the process has no descriptor left, one connection at a
    time is accepted on a spare descriptor and closed; asyncio would log an error for each attempt, thousands per second.
    """

    def __init__(self, listener: socket.socket, connections: int) -> None:
        """Take ownership of a listening socket.

        Args:
            listener: the socket, which is detached.
            connections: the result of `affordable`.
        """
        super().__init__(listener.family, listener.type, listener.proto, fileno=listener.detach())
        share = _share()
        self._most = connections + (_MOST_SURPLUS if share is None else _surplus(share))
        self._open = 0
        self._spare = os.open(os.devnull, os.O_RDONLY)
        self._warned_s = -_WARN_EVERY_S

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a waiting connection and its peer.

        Raises:
            BlockingIOError: no connection can be accepted at the moment.
        """
        if self._open >= self._most:
            raise BlockingIOError
        try:
            accepted, peer = super().accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            self._turn_away()
            raise BlockingIOError from error
        self._open += 1
        return _Accepted(self, accepted), peer

    def close(self) -> None:
        """Stop listening."""
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()

    def released(self) -> None:
        """Record that an accepted connection was closed."""
        self._open -= 1

    def _turn_away(self) -> None:
        """Close one waiting connection, using the spare descriptor."""
        now_s = time.monotonic()
        if now_s - self._warned_s >= _WARN_EVERY_S:
            self._warned_s = now_s
            _log.warning(
                "no file descriptor is left: new connections to port %d are closed; raise the limit of open files "
                "(ulimit -n, LimitNOFILE=)",
                self.getsockname()[1],
            )
        if self._spare >= 0:
            os.close(self._spare)
            with suppress(OSError):
                super().accept()[0].close()
        try:
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:  # another thread took the free descriptor
            self._spare = -1
            time.sleep(_PAUSE_S)  # the event loop tries again at once


class _Accepted(socket.socket):
    """A connection that notifies its listener when it is closed."""

    def __init__(self, listener: BoundedListener, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._listener: BoundedListener | None = listener

    def close(self) -> None:
        """Close the connection."""
        super().close()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.released()


def listen_bounded(address: Address, connections: int) -> BoundedListener:
    """Return a socket that listens on the address and has at most `connections`, with a few more for short periods.

    Raises:
        UsageError: see `listen`.
    """
    return BoundedListener(listen(address), connections)
