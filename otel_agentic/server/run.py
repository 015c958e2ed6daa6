"""Runs the admin app on its own thread."""

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
#: People and scrapers connect here, not fleets of senders; a command may upload files.
_BOUNDS: Final = Bounds(max_connections=256, head_timeout_s=10.0, body_timeout_s=120.0, min_body_rate=1024)


class AdminServer:
    """The admin address, from `start` to `stop`."""

    def __init__(
        self, app: Starlette, address: str, *, guarded: bool, insecure: bool, tls: ServerTls | None = None
    ) -> None:
        """Bind the address.

        Args:
            app: the app to serve.
            address: host:port; port 0 takes a free one.
            guarded: whether the app requires a token; without one only loopback addresses are allowed,
            insecure: unless this is set,
            tls: or clients must present a certificate.

        Raises:
            UsageError: the address is invalid, is taken, or is public without a token.
        """
        requested = parse_address(address)
        mutual = tls is not None and tls.is_mutual
        require_allowed(
            requested, token=guarded, mutual_tls=mutual, tls=tls is not None, insecure=insecure, section="admin"
        )
        self._scheme = "http" if tls is None else "https"
        bounds = replace(_BOUNDS, max_connections=affordable(_BOUNDS.max_connections))
        self._listener = listen_bounded(requested, bounds.max_connections)
        self._address = Address(host=requested.host, port=self._listener.getsockname()[1])
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
        # uvicorn installs signal handlers on the main thread only.
        self._thread = threading.Thread(target=self._run, name="otel-agentic-admin", daemon=True)

    @property
    def url(self) -> str:
        """The base URL, with the real port."""
        return f"{self._scheme}://{self._address}"

    def start(self) -> None:
        """Start serving; returns once requests are answered.

        Raises:
            UsageError: it does not start in time.
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
        """Finish running requests and release the address."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._listener.close()
