"""File descriptors: how many connections a port may have, and what happens if the process has no descriptor left."""

from __future__ import annotations

import errno
import logging
import os
import socket
import time
from contextlib import suppress
from typing import Any, Final

from otel_agentic.net.address import Address, listen

_log = logging.getLogger(__name__)
#: Descriptors for the store, its log, queries, exports and everything else that the process opens.
_RESERVED: Final = 48
#: OTLP/HTTP, OTLP/gRPC and the admin port share the rest.
_PORTS: Final = 3
#: Connections beyond the limit that a port may have while another one is being closed.
_MOST_SURPLUS: Final = 64
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_WARN_EVERY_S: Final = 60.0
_PAUSE_S: Final = 0.02


def raise_file_limit(connections: int) -> None:
    """Raise the soft limit of open files so that each port may have `connections`; log a warning if fewer fit.

    Many systems allow 1,024 open files by default, and more on request.
    """
    try:
        import resource  # noqa: PLC0415 — Windows has none, and no such limit
    except ImportError:
        return
    required = _RESERVED + _PORTS * (connections + _MOST_SURPLUS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < required:
        allowed = required if hard == resource.RLIM_INFINITY else min(required, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if (fitting := affordable(connections)) < connections:
        _log.warning(
            "this process may open %d files: each port accepts %d connections instead of %d; raise the limit "
            "(ulimit -n, LimitNOFILE=), or lower receive.max_connections",
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            fitting,
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
    """A listening socket that never accepts more connections than its port has file descriptors for.

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
            BlockingIOError: none may be accepted at the moment.
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
    """Return a socket that listens on the address and has at most `connections`, and a few more for a moment.

    Raises:
        UsageError: as `listen`.
    """
    return BoundedListener(listen(address), connections)
