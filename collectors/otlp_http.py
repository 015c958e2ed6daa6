"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf and JSON, gzip, zstd, deflate or plain.

This module handles a request from its head to its response, and never responds with 500.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from collectors._admission import (
    SMALL_BYTES,
    Admission,
    RefusedError,
    credentials_of,
    decoding,
    deliver,
    new_status,
    refusals_of,
    rejection_message,
    require_protected,
    retry_after_s,
    status_of,
    tls_of,
    unauthorized,
)
from collectors._http import FALLBACK_WIRE, WIRES, Head, inflate, too_large
from otel_agentic.errors import OverloadedError, UsageError, codes_of
from otel_agentic.net import (
    Address,
    Bounds,
    Connections,
    affordable,
    guarded_protocol,
    listen_bounded,
    parse_address,
)
from otel_agentic.spans import Limits, Submits

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, MutableMapping
    from concurrent.futures import Executor, Future

    from collectors._admission import Holding
    from collectors._http import Encoding, Signal, Wire
    from otel_agentic.config import AdminSettings, ReceiveSettings, Settings
    from otel_agentic.net import Credentials
    from otel_agentic.spans import Receipt, Sink, SpanBatch

if TYPE_CHECKING:
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HTTP_TIMEOUT: Final = 408
_HTTP_UNAVAILABLE: Final = 503
#: A refused body of up to this size is read completely and discarded, so that the connection stays open.
_WORTH_READING_BYTES: Final = 1024 * 1024
#: A longer body is read for this time, because a client that is disconnected while it sends never sees the response.
_LINGER_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes
    content_type: str
    headers: dict[str, str] = field(default_factory=dict)


class _SenderGoneError(Exception):
    """The sender disconnected before the response."""


class ExportApp:
    """Reads, decodes, delivers and responds to export requests."""

    def __init__(self, sink: Sink, settings: ReceiveSettings, executor: Executor, credentials: Credentials) -> None:
        """Create the app.

        Args:
            sink: the destination of batches.
            settings: the limits of requests.
            executor: the threads on which requests are decoded.
            credentials: the tokens of senders.
        """
        self._sink = sink
        self._at_once = isinstance(sink, Submits)  # any other may block the event loop
        self._limits = Limits.from_settings(settings)
        self._executor = executor
        self._credentials = credentials
        self._admission = Admission(settings)
        self._refused = refusals_of(sink, "otlp_http")

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Respond to one request."""
        head = Head.of(scope)
        body = _Body(receive)
        try:
            answer = await self._answer(head, body)
        except _SenderGoneError:
            return
        except asyncio.CancelledError:
            # The collector stops, and the grace period is over. uvicorn would respond with 500, and exporters drop the
            # batch.
            answer = self._failed(OverloadedError("the collector is stopping: try again"), head)
        except Exception as error:  # noqa: BLE001 — a 500 makes exporters drop the batch, so every error is mapped
            answer = self._failed(error, head)
        await _send(answer, head, body, send, self._limits.max_request_bytes)

    def _failed(self, error: Exception, head: Head) -> _Answer:
        self._refused(error)
        return _failure(error, head)

    async def _answer(self, head: Head, body: _Body) -> _Answer:
        if head.is_health:
            return _HEALTHY
        signal = head.signal()
        self._require_sender(head)
        wire, encoding = head.wire(), head.encoding()
        if (head.length or 0) > self._limits.max_request_bytes:
            raise too_large(self._limits.max_request_bytes)
        self._admission.check(head.length or 0)
        with self._admission.holding() as holding:
            raw = await body.read(self._limits.max_request_bytes, holding)
            begin = partial(self._begin, raw, encoding, wire, signal, holding)
            at_once = self._at_once and encoding == "identity" and len(raw) <= SMALL_BYTES
            batch, receipt = await self._admission.run(None if at_once else self._executor, begin, holding)
        answer = wire.success(signal, receipt.rejected, rejection_message(receipt, batch))
        return _Answer(status=200, body=answer, content_type=wire.content_type)

    def _require_sender(self, head: Head) -> None:
        if not self._credentials.guards("ingest"):
            head.require_no_web_page()
            return
        role = self._credentials.role_of(head.headers.get(b"authorization", ()))
        if role not in {"ingest", "admin"}:
            raise unauthorized(known=role is not None)

    def _begin(
        self, raw: bytes, encoding: Encoding, wire: Wire, signal: Signal, holding: Holding
    ) -> tuple[SpanBatch, Future[Receipt]]:
        data = inflate(raw, encoding, self._limits.max_request_bytes, holding.add)
        with decoding(len(data)):
            batch = wire.decode(signal, data, self._limits)
        return batch, deliver(self._sink, batch)


class _Body:
    """The body of one request while it is received. Its deadline and minimum rate are those of the connection."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.is_over = False

    async def read(self, max_bytes: int, holding: Holding) -> bytes:
        """Return the body as sent (still compressed), at most `max_bytes` regardless of its declared length.

        Raises:
            TooLargeError: the body is longer.
            OverloadedError: all requests together hold too many bytes.
        """
        first = await self.next()
        if self.is_over and len(first) <= max_bytes:
            holding.add(len(first))
            return first
        body = bytearray()
        chunk = first
        while True:
            if len(body) + len(chunk) > max_bytes:
                raise too_large(max_bytes)
            holding.add(len(chunk))
            body += chunk
            if self.is_over:
                return bytes(body)
            chunk = await self.next()

    async def discard(self, max_bytes: int) -> None:
        """Read and discard the rest, at most about `max_bytes`."""
        discarded_bytes = 0
        while not self.is_over and discarded_bytes <= max_bytes:
            discarded_bytes += len(await self.next())

    async def next(self) -> bytes:
        """Return the next part of the body."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise _SenderGoneError
        self.is_over = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


async def _send(answer: _Answer, head: Head, body: _Body, send: Send, linger_bytes: int) -> None:
    """Send the response, and then read the rest of the body, so that the client sees the response."""
    unread = head.has_body and not body.is_over
    stays = not unread or (0 < (head.length or 0) <= _WORTH_READING_BYTES and not head.awaits_go_ahead)
    headers = [(b"content-type", answer.content_type.encode()), (b"content-length", str(len(answer.body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    if not stays and "connection" not in answer.headers:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": unread})
    if unread:
        try:
            async with asyncio.timeout(_LINGER_S):
                if not head.awaits_go_ahead:
                    await body.discard(linger_bytes)
        except (TimeoutError, _SenderGoneError, asyncio.CancelledError):
            pass  # timeout, disconnect or stop: the response has been sent in any case
        await send({"type": "http.response.body", "body": b""})


def _failure(error: Exception, head: Head) -> _Answer:
    wire = head.answer_wire
    http, headers = (error.http, dict(error.headers)) if isinstance(error, RefusedError) else (codes_of(error).http, {})
    if http == _HTTP_UNAVAILABLE:
        headers["retry-after"] = str(retry_after_s(error))
    return _Answer(status=http, body=wire.failure(status_of(error)), content_type=wire.content_type, headers=headers)


_HEALTHY: Final = _Answer(
    status=200,
    body=orjson.dumps({"status": "ok", "receives": ["/v1/traces", "/v1/logs"], "content_types": list(WIRES)}),
    content_type=FALLBACK_WIRE.content_type,
)


def refusal(status: int, message: str, content_type: str) -> tuple[str, bytes]:
    """Return content type and body of the response to a request that did not reach the app."""
    wire = WIRES.get(content_type.partition(";")[0].strip().lower(), FALLBACK_WIRE)
    if status == _HTTP_UNAVAILABLE:
        return wire.content_type, wire.failure(status_of(OverloadedError(message)))
    code = "DEADLINE_EXCEEDED" if status == _HTTP_TIMEOUT else "INVALID_ARGUMENT"
    return wire.content_type, wire.failure(new_status(code, message))


#: uvicorn reads a head up to this size; this project refuses it from half of this size, with its own message.
_UVICORN_HEAD_BYTES: Final = 128 * 1024
_START_TIMEOUT_S: Final = 10.0
_START_POLL_S: Final = 0.005
#: uvicorn checks for a stop ten times a second and then pauses for the same time once more.
_STOP_MARGIN_S: Final = 5.0


class OtlpHttpCollector:
    """Receives OTLP/HTTP on its own thread, with its own event loop; satisfies `Collector`."""

    name = "otlp_http"

    def __init__(self, settings: ReceiveSettings, admin: AdminSettings | None = None) -> None:
        """Read tokens and certificates; nothing listens yet.

        Args:
            settings: the settings of collectors.
            admin: the settings of the admin address, whose tokens are distinguished from unknown ones.

        Raises:
            UsageError: the address is not `host:port`.
            ConfigError: a file of tokens or certificates cannot be used.
        """
        self._settings = settings
        self._credentials = credentials_of(settings, admin)
        self._tls = tls_of(settings)
        self._address = parse_address(settings.http)
        self._server: uvicorn.Server | None = None
        self._guard: Connections | None = None
        self._thread: threading.Thread | None = None
        self._executor: ThreadPoolExecutor | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> OtlpHttpCollector:
        """Return a collector for the `receive` section.

        Raises:
            UsageError: the address is not `host:port`.
            ConfigError: a file of tokens or certificates cannot be used.
        """
        return cls(settings.receive, settings.admin)

    @property
    def endpoint(self) -> str:
        """The URL to send to, with the real port once started."""
        return f"{'http' if self._tls is None else 'https'}://{self._address}"

    def start(self, sink: Sink) -> None:
        """Start listening; return when requests are answered.

        Raises:
            UsageError: the address is in use, is not allowed without a token, or the collector is already running.
        """
        if self._thread is not None:
            raise UsageError(f"the OTLP/HTTP collector on {self._address} is already running; stop it first")
        require_protected(self._address, self._settings, self._credentials, self._tls)
        listener = listen_bounded(parse_address(self._settings.http), affordable(self._settings.max_connections))
        self._address = Address(host=self._address.host, port=listener.getsockname()[1])
        self._executor = ThreadPoolExecutor(self._settings.max_concurrent_requests, thread_name_prefix="otlp-http")
        self._server = uvicorn.Server(self._config(sink, self._executor))
        self._thread = threading.Thread(target=self._run, args=(listener,), name="otlp-http", daemon=True)
        self._thread.start()
        self._await_start()

    def stop(self, grace_s: float) -> None:
        """Refuse new connections, finish the running requests within `grace_s` seconds, and release the address."""
        if self._server is None or self._thread is None or self._executor is None:
            return
        self._server.config.timeout_graceful_shutdown = math.ceil(grace_s)
        self._server.should_exit = True
        self._thread.join(grace_s + _STOP_MARGIN_S)
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._server = self._thread = self._executor = None

    def _config(self, sink: Sink, executor: ThreadPoolExecutor) -> uvicorn.Config:
        settings = self._settings
        bounds = Bounds(
            max_connections=affordable(settings.max_connections),
            head_timeout_s=settings.header_timeout_s,
            body_timeout_s=settings.body_timeout_s,
            min_body_rate=settings.min_body_rate,
        )
        self._guard = guard = Connections(bounds, refusal, retry_after_s)
        return uvicorn.Config(
            ExportApp(sink, settings, executor, self._credentials),
            http=guarded_protocol(H11Protocol, guard, self._tls),
            h11_max_incomplete_event_size=_UVICORN_HEAD_BYTES,
            timeout_keep_alive=math.ceil(settings.idle_timeout_s),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,  # the process that runs the collector configures logging
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )

    def _run(self, listener: socket.socket) -> None:
        # Outside of the main thread, uvicorn does not handle signals.
        with listener:
            asyncio.run(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        if self._server is not None and self._guard is not None:
            try:
                await self._server.serve(sockets=[listener])
            finally:
                await self._guard.close()

    def _await_start(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self._server is not None and not self._server.started:
            if time.monotonic() > deadline or self._thread is None or not self._thread.is_alive():
                raise UsageError(f"the OTLP/HTTP collector on {self._address} did not start; see the log")
            time.sleep(_START_POLL_S)
