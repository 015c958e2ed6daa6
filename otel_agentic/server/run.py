"""Runs the admin app in a thread of its own."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from typing import TYPE_CHECKING, Final

import uvicorn

from otel_agentic.errors import StoreBusyError, UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette

_START_LIMIT_S: Final = 10.0
_BACKLOG: Final = 128


class AdminServer:
    """The admin address, from `start` to `stop`."""

    def __init__(self, app: Starlette, address: str, *, guarded: bool) -> None:
        """Take the address.

        Args:
            app: what to serve.
            address: host:port; port 0 takes a free one.
            guarded: whether a token is asked for; without one only loopback addresses are allowed.

        Raises:
            UsageError: the address cannot be read, is taken, or is public without a token.
        """
        host, port = _parse(address)
        if not guarded and not _is_loopback(host):
            raise UsageError(
                f"admin address {address} is open to others; set admin.token (OTEL_AGENTIC_ADMIN__TOKEN), or use 127.0.0.1"
            )
        self._socket = _bind(host, port)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # signals are the main thread's
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="otel-agentic-admin", daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL, with the real port."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        """Serve; returns when requests are answered.

        Raises:
            StoreBusyError: it does not come up in time.
        """
        self._thread.start()
        until = time.monotonic() + _START_LIMIT_S
        while not self._server.started:
            if time.monotonic() > until or not self._thread.is_alive():
                raise StoreBusyError(f"the admin server did not start within {_START_LIMIT_S:g} s")
            time.sleep(0.005)

    def stop(self) -> None:
        """Finish requests under way and release the address."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()


def _parse(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004 — the largest port
        raise UsageError(f"admin address {address!r}: give host:port, such as 127.0.0.1:8321")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"admin address {host}:{port} cannot be used: {error.strerror}; stop what holds it, or give another --admin"
        ) from error
    return listener
