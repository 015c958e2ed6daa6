"""The open connections of one HTTP port: their number, their deadlines, and which one is evicted if there are too many.

A single periodic check of all connections replaces a timer for each request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: The stages of a connection: the head of a request (or no request yet), its body, or the answer.
Stage = Literal["head", "body", "answer"]

_CHECK_EVERY_S: Final = 0.25
#: asyncio closes a socket one loop iteration after the call, TLS one later; tasks may need a few to end.
_CLOSING_TURNS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of one port's connections: their number, seconds, and bytes per second."""

    max_connections: int
    head_timeout_s: float
    body_timeout_s: float
    min_body_rate: int


class Occupant(Protocol):
    """A connection that counts against the limit, including one that is still in the TLS handshake."""

    loop: asyncio.AbstractEventLoop

    @property
    def stage(self) -> Stage:
        """The current stage."""
        ...

    def drop(self) -> None:
        """Close at once."""
        ...

    def look(self, now_s: float) -> None:
        """Close if a deadline has passed."""
        ...


class Connections:
    """All connections of one port."""

    def __init__(
        self, bounds: Bounds, refusal: Callable[[int, str, str], tuple[str, bytes]], retry_after_s: Callable[[], int]
    ) -> None:
        """Create without connections.

        Args:
            bounds: the limits.
            refusal: returns content type and body of an answer for a status, a message and the request's content type.
            retry_after_s: returns the retry delay for a client that finds no free connection.
        """
        self.bounds = bounds
        self._refusal = refusal
        self._retry_after_s = retry_after_s
        #: Connections without an answered request, oldest first, and those with one, least recently used first.
        self._new: dict[Occupant, None] = {}
        self._proven: dict[Occupant, None] = {}
        self._checking = False

    def __len__(self) -> int:
        return len(self._new) + len(self._proven)

    def enter(self, occupant: Occupant) -> bool:
        """Add a connection, evicting another one if the limit is reached; return False if none can be evicted.

        Evicted is the oldest connection that never finished a request, or else the one idle for longest, so that inactive
        connections cannot lock out others. A connection whose request is being answered is never evicted.
        """
        self._new[occupant] = None
        if len(self) > self.bounds.max_connections:
            leaving = self._evictable(occupant)
            if leaving is None:
                self._new.pop(occupant)
                return False
            self.leave(leaving)
            leaving.drop()
        if not self._checking:
            self._checking = True
            occupant.loop.call_later(_CHECK_EVERY_S, self._check_all, occupant.loop)
        return True

    def answered(self, occupant: Occupant) -> None:
        """Record that a request of the connection was answered."""
        if occupant in self._new or occupant in self._proven:
            self.leave(occupant)
            self._proven[occupant] = None

    def leave(self, occupant: Occupant) -> None:
        """Remove a connection."""
        self._new.pop(occupant, None)
        self._proven.pop(occupant, None)

    async def close(self) -> None:
        """Close all open connections: the port is closed already, and the loop is about to end.

        Cancelled requests can send their answers first.
        """
        await _turns()
        for occupant in (*self._new, *self._proven):
            occupant.drop()
        await _turns()

    def refusal(self, status: int, message: str, content_type: str = "") -> bytes:
        """Return a complete answer, after which the connection closes."""
        kind, body = self._refusal(status, message, content_type)
        retry = f"Retry-After: {self._retry_after_s()}\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n{retry}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body

    def _evictable(self, newest: Occupant) -> Occupant | None:
        for known in (self._new, self._proven):
            for occupant in known:
                if occupant is not newest and occupant.stage != "answer":
                    return occupant
        return None

    def _check_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for occupant in (*self._new, *self._proven):
            occupant.look(now_s)
        self._checking = len(self) > 0
        if self._checking:
            loop.call_later(_CHECK_EVERY_S, self._check_all, loop)


async def _turns() -> None:
    for _ in range(_CLOSING_TURNS):
        await asyncio.sleep(0)
