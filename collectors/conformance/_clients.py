"""HTTP clients, one for each thread; and answers, bounded."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    import ssl

#: A response message holds a count and a sentence.
_MOST_BYTES: Final = 1024 * 1024


class Clients:
    """Lends each thread a client of its own.

    Of one that threads share, httpx may close a connection that another thread was given in the same moment: a check that
    sends much at once would blame the receiver for it.
    """

    def __init__(self, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._own = threading.local()
        self._all: list[httpx.Client] = []

    def get(self) -> httpx.Client:
        """Return the client of this thread; it opens a connection for each request, and adds no header to it."""
        found: httpx.Client | None = getattr(self._own, "client", None)
        if found is None:
            found = self._own.client = httpx.Client(
                verify=self._tls or False,  # False only for plain HTTP, where reading the usual authorities costs 50 ms
                timeout=self._timeout_s,
                # A connection for each request: what one check did to its connection is no other's concern.
                limits=httpx.Limits(max_keepalive_connections=0),
                trust_env=False,  # the checks that write bytes themselves know no proxies either
            )
            found.headers.clear()
            self._all.append(found)
        return found

    def close(self) -> None:
        """End all of them."""
        for client in self._all:
            client.close()


def body_of(answer: httpx.Response, deadline_s: float) -> bytes | None:
    """Return the body of an answer; None where it goes on beyond a time, or beyond what any answer may be."""
    body = bytearray()
    for part in answer.iter_bytes():
        body += part
        if len(body) > _MOST_BYTES or time.monotonic() > deadline_s:
            return None
    return bytes(body)
