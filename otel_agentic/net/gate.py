"""The TLS handshake of a connection, counted and with a deadline from the start."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.net.connections import Connections, Stage
    from otel_agentic.net.tls import ServerTls

#: Time for a closing connection to receive its answer and to end TLS.
LEAVE_S: Final = 1.0


class TlsGate(asyncio.Protocol):
    """A connection during the TLS handshake: it counts against the limit and has a deadline from its first moment on."""

    stage: Stage = "head"

    def __init__(
        self, guard: Connections, tls: ServerTls, inner: Callable[[], Any], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.loop = loop
        self._guard = guard
        self._tls = tls
        self._inner = inner
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake."""
        self._transport = transport
        if not self._guard.enter(self):
            self.drop()
            return
        self._transport.pause_reading()  # until TLS reads
        self._task = self.loop.create_task(self._handshake())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 — asyncio's signature
        """Release the connection's slot."""
        self._guard.leave(self)

    def drop(self) -> None:
        """Close at once."""
        self._transport.abort()

    def look(self, now_s: float) -> None:
        """Do nothing: the handshake has its own deadline."""

    async def _handshake(self) -> None:
        inner = self._inner()
        try:
            secured = await self.loop.start_tls(
                self._transport,
                inner,
                self._tls.context,
                server_side=True,
                ssl_handshake_timeout=self._guard.bounds.head_timeout_s,
                ssl_shutdown_timeout=LEAVE_S,
            )
        except Exception:  # noqa: BLE001 — a failed handshake of an untrusted client, in any form
            self.drop()
            return
        finally:
            self._guard.leave(self)
        if secured is None or secured.is_closing():
            self.drop()
            return
        inner.connection_made(secured)
