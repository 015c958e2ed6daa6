"""uvicorn's HTTP/1.1 with what it lacks: a deadline for the request head and a cap on connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from collectors._answers import RETRY_AFTER_S

if TYPE_CHECKING:
    import asyncio

_ANSWERING: Final = frozenset({h11.SEND_RESPONSE, h11.SEND_BODY})
_TOO_MANY: Final = (
    "HTTP/1.1 503 Service Unavailable\r\n"
    f"Retry-After: {RETRY_AFTER_S}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
).encode()


def guarded_protocol(*, head_timeout_s: float, max_connections: int) -> type[H11Protocol]:
    """Return a protocol class for `uvicorn.Config(http=…)`.

    A connection beyond `max_connections` is answered 503 and closed; one that does not complete the head of its
    (next) request within `head_timeout_s` of its first byte is closed.
    """

    class GuardedProtocol(H11Protocol):
        """One connection."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn types it
            super().connection_made(transport)
            if len(self.connections) > max_connections:
                transport.write(_TOO_MANY)
                transport.close()
                return
            self._arm()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.our_state in _ANSWERING:
                self._disarm()
            elif self._deadline is None:
                self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def _arm(self) -> None:
            self._deadline = self.loop.call_later(head_timeout_s, self.transport.close)

        def _disarm(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return GuardedProtocol
