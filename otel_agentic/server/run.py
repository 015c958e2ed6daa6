"""Runs the admin app in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from otel_agentic.errors import UsageError
from otel_agentic.net import (
    Address,
    Bounds,
    Connections,
    affordable,
    guarded_protocol,
    listen_bounded,
    parse_address,
    require_allowed,
)
from otel_agentic.server.app import refusal

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from otel_agentic.net import ServerTls

_START_LIMIT_S: Final = 10.0
_START_POLL_S: Final = 0.005
_GRACE_S: Final = 2
#: People and scrapers ask here, not fleets of senders; a command may bring files along.
_BOUNDS: Final = Bounds(max_connections=256, head_timeout_s=10.0, body_timeout_s=120.0, min_body_rate=1024)


class AdminServer:
    """The admin address, from `start` to `stop`."""

    def __init__(
        self, app: Starlette, address: str, *, guarded: bool, insecure: bool, tls: ServerTls | None = None
    ) -> None:
        """Take the address.

        Args:
            app: what to serve.
            address: host:port; port 0 takes a free one.
            guarded: whether the app asks for a token; without one only loopback addresses are allowed,
            insecure: unless this is set,
            tls: or callers must show a certificate.

        Raises:
            UsageError: the address cannot be read, is taken, or is public without a token.
        """
        wanted = parse_address(address)
        mutual = tls is not None and tls.is_mutual
        require_allowed(
            wanted, token=guarded, mutual_tls=mutual, tls=tls is not None, insecure=insecure, section="admin"
        )
        self._scheme = "http" if tls is None else "https"
        bounds = replace(_BOUNDS, max_connections=affordable(_BOUNDS.max_connections))
        self._listener = listen_bounded(wanted, bounds.max_connections)
        self._address = Address(host=wanted.host, port=self._listener.getsockname()[1])
        self._guard = Connections(bounds, refusal, lambda: _GRACE_S)
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=guarded_protocol(H11Protocol, self._guard, tls),
            ws="none",
            lifespan="off",
            log_config=None,  # logging belongs to the process that runs us
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        # On a thread that is not the main one uvicorn leaves signals alone.
        self._thread = threading.Thread(target=self._run, name="otel-agentic-admin", daemon=True)

    @property
    def url(self) -> str:
        """The base URL, with the real port."""
        return f"{self._scheme}://{self._address}"

    def start(self) -> None:
        """Serve; returns when requests are answered.

        Raises:
            UsageError: it does not come up in time.
        """
        self._thread.start()
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise UsageError(f"the admin server on {self._address} did not start; see the log")
            time.sleep(_START_POLL_S)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self._server.serve(sockets=[self._listener])
        finally:
            await self._guard.close()

    def stop(self) -> None:
        """Finish requests under way and release the address."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._listener.close()
