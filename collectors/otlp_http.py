"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf and JSON, gzip, zstd or plain."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import uvicorn

from collectors._http_app import build_app
from collectors._http_protocol import guarded_protocol
from otel_agentic.errors import UsageError
from otel_agentic.net import Address, listen, parse_address, require_allowed

if TYPE_CHECKING:
    import socket

    from otel_agentic.config import ReceiveSettings, Settings
    from otel_agentic.spans import Sink

#: Connections kept open, for each request handled at once: exporters keep theirs between batches.
_CONNECTIONS_RATIO: Final = 8
_START_TIMEOUT_S: Final = 10.0
_START_POLL_S: Final = 0.005
#: uvicorn looks for the stop mark ten times a second and pauses as long once more.
_STOP_MARGIN_S: Final = 5.0


class OtlpHttpCollector:
    """Receives OTLP/HTTP on a thread of its own, with its own event loop; satisfies `Collector`."""

    name = "otlp_http"

    def __init__(self, settings: ReceiveSettings) -> None:
        self._settings = settings
        self._address = parse_address(settings.http)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._executor: ThreadPoolExecutor | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> OtlpHttpCollector:
        """Return a collector for the `receive` section.

        Raises:
            UsageError: the address is not `host:port`.
        """
        return cls(settings.receive)

    @property
    def endpoint(self) -> str:
        """The URL to send to, with the real port once started."""
        return f"http://{self._address}"

    def start(self, sink: Sink) -> None:
        """Begin to listen; returns when requests are answered.

        Raises:
            UsageError: the address is taken, is not allowed without a token, or the collector already runs.
        """
        if self._thread is not None:
            raise UsageError(f"the OTLP/HTTP collector on {self._address} already runs; stop it first")
        require_allowed(self._address, token=self._settings.token, insecure=self._settings.insecure)
        listener = listen(parse_address(self._settings.http))
        self._address = Address(host=self._address.host, port=listener.getsockname()[1])
        self._executor = ThreadPoolExecutor(self._settings.max_concurrent_requests, thread_name_prefix="otlp-http")
        self._server = uvicorn.Server(self._config(sink, self._executor))
        self._thread = threading.Thread(target=self._run, args=(listener,), name="otlp-http", daemon=True)
        self._thread.start()
        self._await_start()

    def stop(self, grace_s: float) -> None:
        """Refuse new connections, finish requests under way within `grace_s` seconds, release the address."""
        if self._server is None or self._thread is None or self._executor is None:
            return
        self._server.config.timeout_graceful_shutdown = math.ceil(grace_s)
        self._server.should_exit = True
        self._thread.join(grace_s + _STOP_MARGIN_S)
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._server = self._thread = self._executor = None

    def _config(self, sink: Sink, executor: ThreadPoolExecutor) -> uvicorn.Config:
        protocol = guarded_protocol(
            head_timeout_s=self._settings.header_timeout_s,
            max_connections=_CONNECTIONS_RATIO * self._settings.max_concurrent_requests,
        )
        return uvicorn.Config(
            build_app(sink, self._settings, executor),
            loop="asyncio",
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,  # logging belongs to the process that runs us
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )

    def _run(self, listener: socket.socket) -> None:
        # On a thread that is not the main one uvicorn leaves signals alone.
        if self._server is not None:
            with listener:
                self._server.run(sockets=[listener])

    def _await_start(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self._server is not None and not self._server.started:
            if time.monotonic() > deadline or self._thread is None or not self._thread.is_alive():
                raise UsageError(f"the OTLP/HTTP collector on {self._address} did not start; see the log")
            time.sleep(_START_POLL_S)
