"""The open connections of one HTTP port: how many there are, how long each may take, and which goes when there are too many.

One look over all of them, a few times a second, takes the place of timers for each request.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a connection is at: the head of a request (or none yet), its body, or the answer.
Stage = Literal["head", "body", "answer"]

_LOOK_EVERY_S: Final = 0.25
#: asyncio closes a socket one turn of its loop after it was told to, TLS a turn later; a task may take some to end.
_CLOSING_TURNS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the connections of one port may take: seconds, bytes a second, and how many they may be."""

    max_connections: int
    head_timeout_s: float
    body_timeout_s: float
    min_body_rate: int


class Occupant(Protocol):
    """What takes a place: a connection, or one that is still to agree on TLS."""

    loop: asyncio.AbstractEventLoop

    @property
    def stage(self) -> Stage:
        """What it is at."""
        ...

    def drop(self) -> None:
        """Close at once."""
        ...

    def look(self, now_s: float) -> None:
        """Close if it has taken too long."""
        ...


class Connections:
    """Every connection of one port."""

    def __init__(
        self, bounds: Bounds, refusal: Callable[[int, str, str], tuple[str, bytes]], retry_after_s: Callable[[], int]
    ) -> None:
        """Begin with none.

        Args:
            bounds: what they may take.
            refusal: makes content type and body of an answer from status, sentence and the request's content type.
            retry_after_s: how long a caller who finds no place is asked to wait.
        """
        self.bounds = bounds
        self._refusal = refusal
        self._retry_after_s = retry_after_s
        #: Those that never had a request answered, oldest first, and those that had, least recent first.
        self._new: dict[Occupant, None] = {}
        self._proven: dict[Occupant, None] = {}
        self._looking = False

    def __len__(self) -> int:
        return len(self._new) + len(self._proven)

    def enter(self, one: Occupant) -> bool:
        """Take a connection in, in the place of another if all are taken; return False if there is no place.

        The one that goes is the oldest that never finished a request, else the one that has been quiet for longest: so
        connections that do nothing cannot shut others out. None goes whose request is being answered.
        """
        self._new[one] = None
        if len(self) > self.bounds.max_connections:
            leaving = self._least_missed(one)
            if leaving is None:
                self._new.pop(one)
                return False
            self.leave(leaving)
            leaving.drop()
        if not self._looking:
            self._looking = True
            one.loop.call_later(_LOOK_EVERY_S, self._look, one.loop)
        return True

    def answered(self, one: Occupant) -> None:
        """Note that a connection had a request answered."""
        if one in self._new or one in self._proven:
            self.leave(one)
            self._proven[one] = None

    def leave(self, one: Occupant) -> None:
        """Forget a connection."""
        self._new.pop(one, None)
        self._proven.pop(one, None)

    async def close(self) -> None:
        """Close all that are still open: the port is closed already, and its loop about to end.

        Requests that were cancelled get to say so first.
        """
        await _turns()
        for one in (*self._new, *self._proven):
            one.drop()
        await _turns()

    def refusal(self, status: int, told: str, content_type: str = "") -> bytes:
        """Return a whole answer, after which the connection closes."""
        kind, body = self._refusal(status, told, content_type)
        retry = f"Retry-After: {self._retry_after_s()}\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n{retry}"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body

    def _least_missed(self, newest: Occupant) -> Occupant | None:
        for known in (self._new, self._proven):
            for one in known:
                if one is not newest and one.stage != "answer":
                    return one
        return None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for one in (*self._new, *self._proven):
            one.look(now_s)
        self._looking = len(self) > 0
        if self._looking:
            loop.call_later(_LOOK_EVERY_S, self._look, loop)


async def _turns() -> None:
    for _ in range(_CLOSING_TURNS):
        await asyncio.sleep(0)
