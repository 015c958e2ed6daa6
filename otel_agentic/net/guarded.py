"""One connection of an HTTP port that keeps to the bounds.

Made of a protocol class of uvicorn, which knows neither deadlines nor a cap that slow callers cannot fill.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any, Final

import h11
from h11._receivebuffer import ReceiveBuffer

from otel_agentic.net.gate import LEAVE_S, TlsGate

if TYPE_CHECKING:
    from otel_agentic.net.connections import Connections, Stage
    from otel_agentic.net.tls import ServerTls

#: A body has this long before its pace counts.
_PACE_AFTER_S: Final = 5.0
_MOST_HEAD_BYTES: Final = 64 * 1024
#: What comes is read in pieces: a bound that one of them breaks stops the next, and the loop is not held up by all.
_PIECE_BYTES: Final = 32 * 1024
#: What the sizes of chunks may take: a body of small ones costs a hundred times what it would cost in one piece.
_FREE_FRAMING_BYTES: Final = 64 * 1024
_LEAST_PAYLOAD_RATIO: Final = 16
#: The rest of a body that was answered before its end is thrown away for so long.
_REST_S: Final = 5.0
_LONG_HEAD: Final = f"the head of the request is larger than {_MOST_HEAD_BYTES} bytes"
#: uvicorn warns of every malformed request, which would let strangers fill a log.
_QUIET: Final = logging.getLogger("uvicorn.error.strangers")
_QUIET.setLevel(logging.ERROR)
_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
#: A line that ends in a bare LF or CR, or continues the header of the line before it (obs-fold).
_AMBIGUOUS_LINE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]")
_LENGTH: Final = re.compile(rb"^content-length[ \t]*:([^\r]*)", re.IGNORECASE | re.MULTILINE)


class StrictBuffer(ReceiveBuffer):
    """What h11 received and did not read yet; refuses heads and trailers that a proxy may read differently.

    h11 allows what RFC 9112 lets a recipient allow: bare LF as the end of a line, header lines that are continued on the next
    one, and a repeated Content-Length. A proxy in front that reads one of them in another way would see another request.
    It is part of h11 that is not public: h11 has no option for this, and no other place where the lines are still whole.
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines up to the first blank one, None while that has not arrived.

        Raises:
            h11.LocalProtocolError: they can be read in two ways.
        """
        if not self._data.startswith(b"\r\n"):
            end = _BLANK_LINE.search(self._data, self._multiple_lines_search)
            if end is not None or self._data.startswith(b"\n"):
                _require_one_reading(self._data[: end.end() if end else 1])
        return super().maybe_extract_lines()


def _require_one_reading(lines: bytearray) -> None:
    if _AMBIGUOUS_LINE.search(lines):
        raise h11.LocalProtocolError("a line does not end with CR LF, or continues the one before it")
    lengths = _LENGTH.findall(lines)
    if len(lengths) > 1 or b"," in b"".join(lengths):
        raise h11.LocalProtocolError("more than one Content-Length")


class Guarded:
    """Mixed into a protocol class of uvicorn: one connection that keeps to the bounds."""

    guard: Connections  # set by the class made of this one
    # What uvicorn's classes have:
    loop: asyncio.AbstractEventLoop
    transport: Any
    conn: h11.Connection
    cycle: Any
    headers: Any

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = _QUIET
        self.conn._receive_buffer = StrictBuffer()  # noqa: SLF001 — see the class
        self._early: list[bytes] = []
        self._received = 0
        self._begun = False
        #: Of the body that comes now: what it takes in all, and what its bytes are.
        self._framing = 0
        self._payload = 0
        #: Since when the caller has taken nothing of more answers than are kept for it; None if that is not so.
        self._stuck_since_s: float | None = None
        #: What the last look saw: the request, its stage, since when, and the bytes received until then.
        self._seen: tuple[Any, Stage] = (None, "head")
        self._since_s = 0.0
        self._received_before = 0

    @property
    def stage(self) -> Stage:
        """What the connection is at: the head of a request (or none yet), its body, or the answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return "head"
        return "body" if cycle.more_body else "answer"

    def connection_made(self, transport: Any) -> None:
        """Take a place, or be told that there is none."""
        super().connection_made(transport)  # type: ignore[misc]  # uvicorn's
        self._since_s = self.loop.time()
        if not self.guard.enter(self):
            self._refuse(503, "as many connections as allowed are answering requests: try again")
            return
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if self.transport is None:  # TLS hands out bytes before it says that it is there
            self._early.append(data)
            return
        for start in range(0, len(data), _PIECE_BYTES):
            if self.transport.is_closing():
                return
            self._read(data[start : start + _PIECE_BYTES])

    def _read(self, data: bytes) -> None:
        if self._is_rest:
            super().data_received(data)  # type: ignore[misc]  # uvicorn's, which throws it away
            return
        cycle = self.cycle
        known = 0 if cycle is None else len(cycle.body)
        self._received += len(data)
        super().data_received(data)  # type: ignore[misc]  # uvicorn's
        if self.stage == "head":
            if not self._begun and self._received > _MOST_HEAD_BYTES:
                self._refuse(431, _LONG_HEAD)
            return
        self._begun = True
        if self.stage == "body" and self.cycle is cycle:
            self._weigh(len(data), len(cycle.body) - known)

    def _weigh(self, received: int, payload: int) -> None:
        """Refuse a body whose chunks are mostly their own sizes."""
        self._framing += received - payload
        self._payload += payload
        if self._framing > _FREE_FRAMING_BYTES + self._payload // _LEAST_PAYLOAD_RATIO:
            self._refuse(400, "the body comes in chunks of a few bytes each: send larger ones, or a length")

    @property
    def _is_rest(self) -> bool:
        """Whether what comes belongs to a request that was answered before its end."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def pause_writing(self) -> None:
        """Note that the caller leaves its answers lying."""
        self._stuck_since_s = self.loop.time()
        super().pause_writing()  # type: ignore[misc]  # uvicorn's

    def resume_writing(self) -> None:
        """Note that it took them."""
        self._stuck_since_s = None
        super().resume_writing()  # type: ignore[misc]  # uvicorn's

    def connection_lost(self, error: Exception | None) -> None:
        """Give the place back."""
        self.guard.leave(self)
        if self.transport is not None:
            super().connection_lost(error)  # type: ignore[misc]  # uvicorn's

    def on_response_complete(self) -> None:
        """Note that a request was answered."""
        self.guard.answered(self)
        self._received, self._begun = 0, False
        self._framing = self._payload = 0
        super().on_response_complete()  # type: ignore[misc]  # uvicorn's

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 — uvicorn's signature; its words say less
        """Answer what is not HTTP."""
        if self.stage == "head" and self._received > _MOST_HEAD_BYTES:
            self._refuse(431, _LONG_HEAD)
        else:
            self._refuse(400, "this is no request of HTTP/1.1, or one that can be read in two ways")

    def drop(self) -> None:
        """Close at once, whatever is under way."""
        self.transport.abort()

    def look(self, now_s: float) -> None:
        """Close if it has taken too long."""
        bounds = self.guard.bounds
        if self._stuck_since_s is not None and now_s - self._stuck_since_s > bounds.body_timeout_s:
            self.drop()
            return
        seen = (self.cycle, self.stage)
        if seen != self._seen:
            self._seen, self._since_s, self._received_before = seen, now_s, self._received
            return
        age_s, received = now_s - self._since_s, self._received - self._received_before
        if seen[1] == "body":
            if age_s > bounds.body_timeout_s:
                self._refuse(408, f"the body did not arrive within {bounds.body_timeout_s:g} s")
            elif age_s > _PACE_AFTER_S and received < bounds.min_body_rate * age_s:
                self._refuse(408, f"the body came slower than {bounds.min_body_rate} bytes a second")
        elif seen[1] == "head":
            self._look_at_head(age_s, now_s)

    def _look_at_head(self, age_s: float, now_s: float) -> None:
        """Close a head that does not end. Between two requests uvicorn's own timer counts, until a byte comes."""
        bounds = self.guard.bounds
        if self._is_rest:
            if age_s > _REST_S:
                self.drop()
        elif self.cycle is not None and not self._received:
            self._since_s = now_s
        elif age_s > bounds.head_timeout_s:
            self._refuse(408, f"the head of a request did not arrive within {bounds.head_timeout_s:g} s")

    def _refuse(self, status: int, told: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is not None and cycle.response_started and (cycle.more_body or not cycle.response_complete):
            self.drop()  # half an answer is out already, or one to a request that had not ended
            return
        self.transport.write(self.guard.refusal(status, told, self._content_type() if self.stage == "body" else ""))
        self.transport.close()
        # Else one who does not read, or does not end TLS, would keep the connection.
        self.loop.call_later(LEAVE_S, self.transport.abort)

    def _content_type(self) -> str:
        for name, value in self.headers or ():
            if name.lower() == b"content-type":
                return str(value, "latin-1")
        return ""


def guarded_protocol(base: type, guard: Connections, tls: ServerTls | None) -> Any:
    """Return what makes the connections of a port, as `uvicorn.Config(http=…)` takes it.

    Args:
        base: a protocol class of uvicorn.
        guard: the connections.
        tls: TLS, None where what is sent stands in clear text.
    """
    made: Any = type("GuardedProtocol", (Guarded, base), {"guard": guard})
    if tls is None:
        return made

    def gate(**named: Any) -> TlsGate:
        return TlsGate(guard, tls, lambda: made(**named), named.get("_loop") or asyncio.get_running_loop())

    return gate
