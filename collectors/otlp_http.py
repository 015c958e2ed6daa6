"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf and JSON, gzip, zstd, deflate or plain."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from collectors._answers import credentials_of, require_protected, retry_after_s, tls_of
from collectors._http_app import ExportApp, refusal
from otel_agentic.errors import UsageError
from otel_agentic.net import (
    Address,
    Bounds,
    Connections,
    affordable,
    guarded_protocol,
    listen_bounded,
    parse_address,
)

if TYPE_CHECKING:
    import socket

    from otel_agentic.config import AdminSettings, ReceiveSettings, Settings
    from otel_agentic.spans import Sink

#: uvicorn reads a head up to this size; we refuse it at half of it, with our own message.
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
        """Begin to listen; returns when requests are answered.

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
        """Refuse new connections, finish the running requests within `grace_s` seconds, release the address."""
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
            log_config=None,  # logging belongs to the process that runs us
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
