"""One connection of an HTTP port that keeps to the bounds, with TLS or without.

Made of a protocol class of uvicorn, which knows neither deadlines nor a cap that slow callers cannot fill.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.net.connections import Connections, Stage
    from otel_agentic.net.tls import ServerTls

#: A body has this long before its pace counts.
_PACE_AFTER_S: Final = 5.0
_MOST_HEAD_BYTES: Final = 64 * 1024
_LONG_HEAD: Final = f"the head of the request is larger than {_MOST_HEAD_BYTES} bytes"
#: A refused caller gets this long to take its answer.
_LEAVE_S: Final = 1.0
#: uvicorn warns of every malformed request, which would let strangers fill a log.
_QUIET: Final = logging.getLogger("uvicorn.error.strangers")
_QUIET.setLevel(logging.ERROR)


class Guarded:
    """Mixed into a protocol class of uvicorn: one connection that keeps to the bounds."""

    guard: Connections  # set by the class made of this one
    # What uvicorn's classes have:
    loop: asyncio.AbstractEventLoop
    transport: Any
    cycle: Any
    headers: Any

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = _QUIET
        self._early: list[bytes] = []
        self._received = 0
        self._begun = False
        #: What the last look saw: the request, its stage, since when, and the bytes received until then.
        self._seen: tuple[Any, Stage] = (None, "head")
        self._since_s = 0.0
        self._received_before = 0

    @property
    def stage(self) -> Stage:
        """What the connection is at: the head of a request (or none yet), its body, or the answer."""
        cycle = getattr(self, "cycle", None)
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
        if self.transport.is_closing():
            return
        self._received += len(data)
        super().data_received(data)  # type: ignore[misc]  # uvicorn's
        if self.stage != "head":
            self._begun = True
        elif not self._begun and self._received > _MOST_HEAD_BYTES:
            self._refuse(431, _LONG_HEAD)

    def connection_lost(self, error: Exception | None) -> None:
        """Give the place back."""
        self.guard.leave(self)
        if self.transport is not None:
            super().connection_lost(error)  # type: ignore[misc]  # uvicorn's

    def on_response_complete(self) -> None:
        """Note that a request was answered."""
        self.guard.answered(self)
        self._received, self._begun = 0, False
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
        seen = (self.cycle, self.stage)
        if seen != self._seen:
            self._seen, self._since_s, self._received_before = seen, now_s, self._received
            return
        age_s, received = now_s - self._since_s, self._received - self._received_before
        bounds = self.guard.bounds
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
        waits = self.cycle is not None and not self._received
        if waits:
            self._since_s = now_s
        elif age_s > bounds.head_timeout_s:
            self._refuse(408, f"the head of a request did not arrive within {bounds.head_timeout_s:g} s")

    def _refuse(self, status: int, told: str) -> None:
        if self.transport.is_closing():
            return
        cycle = getattr(self, "cycle", None)
        if cycle is not None and not cycle.response_complete and cycle.response_started:
            self.drop()  # half an answer is out already
            return
        self.transport.write(self.guard.refusal(status, told, self._content_type() if self.stage == "body" else ""))
        self.transport.close()
        # Else one who does not read, or does not end TLS, would keep the connection.
        self.loop.call_later(_LEAVE_S, self.transport.abort)

    def _content_type(self) -> str:
        for name, value in self.headers or ():
            if name.lower() == b"content-type":
                return str(value, "latin-1")
        return ""


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
                ssl_shutdown_timeout=_LEAVE_S,
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
