"""HTTP connections within limits: a cap on their number, deadlines, a minimum transfer rate, and strict framing.

Neither uvicorn nor hypercorn evicts idle connections or enforces a deadline on the request body, so this module does.
A single periodic check of all connections replaces a timer for each request.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import h11
from h11._receivebuffer import ReceiveBuffer

if TYPE_CHECKING:
    from otel_agentic.net.auth import ServerTls

#: The stages of a connection: the head of a request (or no request yet), its body, or the response.
Stage = Literal["head", "body", "answer"]

_CHECK_EVERY_S: Final = 0.25
#: asyncio closes a socket one loop iteration after the call, TLS one later; tasks may need a few to end.
_CLOSING_TURNS: Final = 10
#: The time for a closing connection to receive its response and to end TLS.
LEAVE_S: Final = 1.0
#: The minimum rate of a body is enforced after this time.
_RATE_AFTER_S: Final = 5.0
_MAX_HEAD_BYTES: Final = 64 * 1024
#: Received data is processed in pieces, so that a violated limit stops the next piece, and the loop is not blocked.
_PIECE_BYTES: Final = 32 * 1024
#: Allowance for chunk headers: a body of tiny chunks costs a hundred times as much as one large chunk.
_FREE_FRAMING_BYTES: Final = 64 * 1024
_LEAST_PAYLOAD_RATIO: Final = 16
#: The time during which the remainder of a body is discarded after an early response.
_REMAINDER_S: Final = 5.0
_LONG_HEAD: Final = f"the head of the request is larger than {_MAX_HEAD_BYTES} bytes"
#: uvicorn logs a warning for every malformed request, so untrusted clients could flood the log.
_QUIET_LOG: Final = logging.getLogger("uvicorn.error.untrusted")
_QUIET_LOG.setLevel(logging.ERROR)
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
#: A line that ends in a bare LF or CR, or continues the header of the line before it (obs-fold).
_AMBIGUOUS_LINE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]")
_LENGTH: Final = re.compile(rb"^content-length[ \t]*:([^\r]*)", re.IGNORECASE | re.MULTILINE)


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

        The oldest connection that never finished a request is evicted, else the one that has been idle for longest, so
        that inactive connections cannot lock out others. A connection whose request is being answered is never evicted.
        """
        self._new[occupant] = None
        if len(self) > self.bounds.max_connections:
            evicted = self._evictable(occupant)
            if evicted is None:
                self._new.pop(occupant)
                return False
            self.leave(evicted)
            evicted.drop()
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
        for candidates in (self._new, self._proven):
            for occupant in candidates:
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
            tls_transport = await self.loop.start_tls(
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
        if tls_transport is None or tls_transport.is_closing():
            self.drop()
            return
        inner.connection_made(tls_transport)


class StrictBuffer(ReceiveBuffer):
    """The receive buffer of h11; rejects heads and trailers that a proxy may parse differently.

    h11 accepts what RFC 9112 allows recipients to accept: bare LF as line end, header lines continued on the next line, and a
    repeated Content-Length. A proxy in front that parses one of them differently would see another request. The class is not
    part of h11's public API: h11 has no option for this, and no other place where the lines are still complete.
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines up to the first blank one, or None until it arrives.

        Raises:
            h11.LocalProtocolError: they can be parsed in two ways.
        """
        if not self._data.startswith(b"\r\n"):
            end = _BLANK_LINE.search(self._data, self._multiple_lines_search)
            if end is not None or self._data.startswith(b"\n"):
                _reject_ambiguous(self._data[: end.end() if end else 1])
        return super().maybe_extract_lines()


def _reject_ambiguous(lines: bytearray) -> None:
    if _AMBIGUOUS_LINE.search(lines):
        raise h11.LocalProtocolError("a line does not end with CR LF, or continues the one before it")
    lengths = _LENGTH.findall(lines)
    if len(lengths) > 1 or b"," in b"".join(lengths):
        raise h11.LocalProtocolError("more than one Content-Length")


class Guarded:
    """A mixin for protocol classes of uvicorn that enforces the limits on a connection."""

    guard: Connections  # set by `guarded_protocol`
    # Attributes of uvicorn's classes:
    loop: asyncio.AbstractEventLoop
    transport: Any
    conn: h11.Connection
    cycle: Any
    headers: Any

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.logger = _QUIET_LOG
        self.conn._receive_buffer = StrictBuffer()  # noqa: SLF001 — see the class
        self._early_data: list[bytes] = []
        self._received = 0
        self._begun = False
        #: The current body: bytes of chunk headers, and bytes of payload.
        self._framing = 0
        self._payload = 0
        #: The time since which the client has read nothing although the send buffer is full; None if it reads.
        self._stuck_since_s: float | None = None
        #: State at the last check: the request and its stage, the start of the stage, and the bytes received until
        #: then.
        self._last_state: tuple[Any, Stage] = (None, "head")
        self._since_s = 0.0
        self._received_before = 0

    @property
    def stage(self) -> Stage:
        """The current stage: the head of a request (or no request yet), its body, or the answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return "head"
        return "body" if cycle.more_body else "answer"

    def connection_made(self, transport: Any) -> None:
        """Register the connection; refuse it if the limit is reached."""
        super().connection_made(transport)  # type: ignore[misc]  # uvicorn's
        self._since_s = self.loop.time()
        if not self.guard.enter(self):
            self._refuse(503, "as many connections as allowed are answering requests: try again")
            return
        early_data, self._early_data = self._early_data, []
        for data in early_data:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        if self.transport is None:  # TLS may deliver data before `connection_made`
            self._early_data.append(data)
            return
        for start in range(0, len(data), _PIECE_BYTES):
            if self.transport.is_closing():
                return
            self._read(data[start : start + _PIECE_BYTES])

    def _read(self, data: bytes) -> None:
        if self._is_remainder:
            super().data_received(data)  # type: ignore[misc]  # uvicorn's, which discards it
            return
        cycle = self.cycle
        previous_payload = 0 if cycle is None else len(cycle.body)
        self._received += len(data)
        super().data_received(data)  # type: ignore[misc]  # uvicorn's
        if self.stage == "head":
            if not self._begun and self._received > _MAX_HEAD_BYTES:
                self._refuse(431, _LONG_HEAD)
            return
        self._begun = True
        if self.stage == "body" and self.cycle is cycle:
            self._check_framing(len(data), len(cycle.body) - previous_payload)

    def _check_framing(self, received: int, payload: int) -> None:
        """Refuse a body that consists mostly of chunk headers."""
        self._framing += received - payload
        self._payload += payload
        if self._framing > _FREE_FRAMING_BYTES + self._payload // _LEAST_PAYLOAD_RATIO:
            self._refuse(
                400, "the body consists of chunks of a few bytes each: send larger chunks, or a Content-Length"
            )

    @property
    def _is_remainder(self) -> bool:
        """Whether received data belongs to a request that was answered before its end."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def pause_writing(self) -> None:
        """Record that the client does not read its answers."""
        self._stuck_since_s = self.loop.time()
        super().pause_writing()  # type: ignore[misc]  # uvicorn's

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        self._stuck_since_s = None
        super().resume_writing()  # type: ignore[misc]  # uvicorn's

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection's slot."""
        self.guard.leave(self)
        if self.transport is not None:
            super().connection_lost(error)  # type: ignore[misc]  # uvicorn's

    def on_response_complete(self) -> None:
        """Record that a request was answered."""
        self.guard.answered(self)
        self._received, self._begun = 0, False
        self._framing = self._payload = 0
        super().on_response_complete()  # type: ignore[misc]  # uvicorn's

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 — uvicorn's signature; its message is less precise
        """Answer a request that is not valid HTTP."""
        if self.stage == "head" and self._received > _MAX_HEAD_BYTES:
            self._refuse(431, _LONG_HEAD)
        else:
            self._refuse(400, "this is not a valid HTTP/1.1 request, or one that can be parsed in two ways")

    def drop(self) -> None:
        """Close at once, even during a request."""
        self.transport.abort()

    def look(self, now_s: float) -> None:
        """Close if a deadline has passed."""
        bounds = self.guard.bounds
        if self._stuck_since_s is not None and now_s - self._stuck_since_s > bounds.body_timeout_s:
            self.drop()
            return
        state = (self.cycle, self.stage)
        if state != self._last_state:
            self._last_state, self._since_s, self._received_before = state, now_s, self._received
            return
        age_s, received = now_s - self._since_s, self._received - self._received_before
        if state[1] == "body":
            if age_s > bounds.body_timeout_s:
                self._refuse(408, f"the body did not arrive within {bounds.body_timeout_s:g} s")
            elif age_s > _RATE_AFTER_S and received < bounds.min_body_rate * age_s:
                self._refuse(408, f"the body arrived at less than {bounds.min_body_rate} bytes per second")
        elif state[1] == "head":
            self._check_head(age_s, now_s)

    def _check_head(self, age_s: float, now_s: float) -> None:
        """Close if a head does not end in time.

        Between two requests, uvicorn's own timer applies until a byte arrives.
        """
        bounds = self.guard.bounds
        if self._is_remainder:
            if age_s > _REMAINDER_S:
                self.drop()
        elif self.cycle is not None and not self._received:
            self._since_s = now_s
        elif age_s > bounds.head_timeout_s:
            self._refuse(408, f"the head of a request did not arrive within {bounds.head_timeout_s:g} s")

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is not None and cycle.response_started and (cycle.more_body or not cycle.response_complete):
            self.drop()  # half of an answer was sent already, or the request had not ended
            return
        self.transport.write(self.guard.refusal(status, message, self._content_type() if self.stage == "body" else ""))
        self.transport.close()
        # Otherwise, a client that does not read, or does not end TLS, would keep the connection open.
        self.loop.call_later(LEAVE_S, self.transport.abort)

    def _content_type(self) -> str:
        for name, value in self.headers or ():
            if name.lower() == b"content-type":
                return str(value, "latin-1")
        return ""


def guarded_protocol(base: type, guard: Connections, tls: ServerTls | None) -> Any:
    """Return the factory of a port's connections, for `uvicorn.Config(http=…)`.

    Args:
        base: a protocol class of uvicorn.
        guard: the connections of the port.
        tls: TLS; None for clear text.
    """
    protocol: Any = type("GuardedProtocol", (Guarded, base), {"guard": guard})
    if tls is None:
        return protocol

    def gate(**keywords: Any) -> TlsGate:
        return TlsGate(guard, tls, lambda: protocol(**keywords), keywords.get("_loop") or asyncio.get_running_loop())

    return gate
