"""Sessions of the console: in memory only, opened by a one-time ticket or by a token, closed after a time without requests."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.net import permits

if TYPE_CHECKING:
    from otel_agentic.net import Role

#: A session ends this long after it began, and this long after its last request, seconds.
_LIFETIME_S: Final = 12 * 3600.0
_IDLE_S: Final = 1800.0
#: The largest number of sessions; a new one ends the one that was idle for longest.
_MAX_SESSIONS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A person who uses the console: the name under which verdicts are recorded, and the role.

    `authorization` is the header with the token that opened it, which is checked at each request; None for a ticket.
    """

    annotator: str
    role: Role
    began_s: float
    authorization: str | None = None

    @property
    def may_write(self) -> bool:
        """Whether the session may record verdicts."""
        return permits(self.role, "review")


class Sessions:
    """The open sessions. It is used on one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: Sessions by the digest of their cookie, each with the time of its last request; the least recent first.
        self._sessions: dict[bytes, tuple[Session, float]] = {}

    def open(self, annotator: str, role: Role, authorization: str | None = None) -> str:
        """Open a session and return the value of its cookie."""
        now_s = self._clock()
        cookie = secrets.token_urlsafe(32)
        session = Session(annotator=annotator, role=role, began_s=now_s, authorization=authorization)
        self._sessions[_digest(cookie)] = session, now_s
        while len(self._sessions) > _MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return cookie

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie, and keep it open; None if it has ended."""
        session = self.peek(cookie)
        if session is not None:
            digest = _digest(cookie)
            del self._sessions[digest]
            self._sessions[digest] = session, self._clock()
        return session

    def peek(self, cookie: str) -> Session | None:
        """Return the session of a cookie without extending it; None if it has ended."""
        digest = _digest(cookie)
        session, last_s = self._sessions.get(digest, (None, 0.0))
        now_s = self._clock()
        if session is None or now_s - last_s > _IDLE_S or now_s - session.began_s > _LIFETIME_S:
            self._sessions.pop(digest, None)
            return None
        return session

    def close(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_digest(cookie), None)


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogateescape")).digest()
