"""A connection whose bytes the check itself writes, for what an HTTP client would never send."""

from __future__ import annotations

import select
import socket
import ssl
import time
from typing import TYPE_CHECKING, Final, Self

import h11

from collectors.conformance._answer import Answer

if TYPE_CHECKING:
    from types import TracebackType

_PIECE_BYTES: Final = 64 * 1024
_CLOSED: Final = "closed the connection without an answer"


class Wire:
    """One connection; `answer` reads the next answer of it."""

    def __init__(self, host: str, port: int, *, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """Connect.

        Raises:
            OSError: nobody answers there.
        """
        plain = socket.create_connection((host, port), timeout=timeout_s)
        self._socket = tls.wrap_socket(plain, server_hostname=host) if tls else plain
        self._timeout_s = timeout_s
        self._rest = b""

    def send(self, data: bytes) -> None:
        """Write until all is written, an answer came early, or the receiver went away."""
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                if start and self.has_answer():
                    return
                self._socket.sendall(data[start : start + _PIECE_BYTES])
        except OSError:
            return  # what it answered before is still to be read

    def has_answer(self, wait_s: float = 0.0) -> bool:
        """Return whether an answer, or the end, began to come after at most `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while not self._rest:
            left_s = max(deadline - time.monotonic(), 0.0)
            if not select.select([self._socket], [], [], left_s)[0]:
                return False
            if self._took_what_came():
                return True
        return True

    def _took_what_came(self) -> bool:
        self._socket.setblocking(False)
        try:
            self._rest = self._socket.recv(_PIECE_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False  # TLS has messages of its own
        except OSError:
            return True
        finally:
            self._socket.settimeout(self._timeout_s)
        return True

    def trickle(self, data: bytes) -> bool:
        """Write byte by byte, a hundred in the time limit; return whether the receiver answered or hung up meanwhile."""
        for start in range(len(data)):
            if self.has_answer(self._timeout_s / 100):
                return True
            try:
                self._socket.sendall(data[start : start + 1])
            except OSError:
                return True
        return False

    def answer(self, sent: str) -> Answer:
        """Return the next answer, or one with an `error`."""
        parser = h11.Connection(h11.CLIENT)
        # h11 reads answers to requests that it knows of only.
        parser.send(h11.Request(method="POST", target="/", headers=[("host", "receiver")]))
        parser.send(h11.EndOfMessage())
        if self._rest:  # no bytes at all would mean the end to h11
            parser.receive_data(self._rest)
        try:
            return self._read(parser, sent)
        except TimeoutError:
            return Answer(sent=sent, error=f"no answer within {self._timeout_s:g} s")
        except h11.RemoteProtocolError as error:
            return Answer(sent=sent, error=f"something that is not HTTP: {error}")
        except OSError:
            return Answer(sent=sent, error=_CLOSED)

    def is_closed(self) -> bool:
        """Return whether the receiver ends the connection within the time limit."""
        try:
            self._socket.settimeout(self._timeout_s)
            while self._socket.recv(_PIECE_BYTES):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _read(self, parser: h11.Connection, sent: str) -> Answer:
        deadline = time.monotonic() + self._timeout_s
        informed: list[int] = []
        response: h11.Response | None = None
        body = bytearray()
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self._socket.recv(_PIECE_BYTES)
                if not data and response is None:
                    return Answer(sent=sent, error=_CLOSED, informed=tuple(informed))
                parser.receive_data(data)
            elif isinstance(event, h11.InformationalResponse):
                informed.append(event.status_code)
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and response is not None:
                self._rest = parser.trailing_data[0]
                return _answer(sent, response, bytes(body), tuple(informed))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def chunked(body: bytes, size: int) -> list[bytes]:
    """Return a body in chunks of at most `size` bytes, the last one empty."""
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return [*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


def _answer(sent: str, response: h11.Response, body: bytes, informed: tuple[int, ...]) -> Answer:
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in response.headers}
    return Answer(sent=sent, status=response.status_code, headers=headers, body=body, informed=informed)
