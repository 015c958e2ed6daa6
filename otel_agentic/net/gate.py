"""What stands before a connection with TLS until that is agreed on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.net.connections import Connections, Stage
    from otel_agentic.net.tls import ServerTls

#: One who is told to go gets this long to take its answer, and to end TLS.
LEAVE_S: Final = 1.0


class TlsGate(asyncio.Protocol):
    """A connection until TLS is agreed on: it has a place and a deadline from its first moment on."""

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
        """Begin with TLS."""
        self._transport = transport
        if not self._guard.enter(self):
            self.drop()
            return
        self._transport.pause_reading()  # until TLS reads
        self._task = self.loop.create_task(self._agree())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 — asyncio's signature
        """Give the place back."""
        self._guard.leave(self)

    def drop(self) -> None:
        """Close at once."""
        self._transport.abort()

    def look(self, now_s: float) -> None:
        """Do nothing: the handshake has a deadline of its own."""

    async def _agree(self) -> None:
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
        except Exception:  # noqa: BLE001 — a stranger's failure to speak TLS, in one of its many ways
            self.drop()
            return
        finally:
            self._guard.leave(self)
        if secured is None or secured.is_closing():
            self.drop()
            return
        inner.connection_made(secured)
