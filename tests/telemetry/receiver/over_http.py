"""A loopback OTLP/HTTP receiver that can also misbehave."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.telemetry.receiver.received import Received

if TYPE_CHECKING:
    from collections.abc import Iterator

Behaviour = Literal["ok", "error", "hang", "huge", "endless"]

GIGABYTE = 1 << 30
_CHUNK = b"x" * (1 << 16)


class HttpReceiver(ThreadingHTTPServer):
    """Keeps what it receives. `behaviour` may change at any time; `answered_bytes` counts a huge answer."""

    daemon_threads = True

    def __init__(self, behaviour: Behaviour = "ok") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour: Behaviour = behaviour
        self.received = Received()
        self.requests = 0
        self.connections = 0
        self.answered_bytes = 0
        self.released = threading.Event()

    @property
    def endpoint(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: HttpReceiver

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        with suppress(ConnectionError):
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        behaviour = self.server.behaviour
        if behaviour == "hang":
            self.server.released.wait(30)
            self.close_connection = True
        elif behaviour == "error":
            self._reply(500, b"broken")
        elif behaviour in {"huge", "endless"}:
            self._flood(declared=behaviour == "huge")
        else:
            self._keep(body)
            self._reply(200, b"")

    def _keep(self, body: bytes) -> None:
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        received = self.server.received
        with received.lock:
            received.headers = {name.lower(): value for name, value in self.headers.items()}
            received.paths.append(self.path)
            if self.path.endswith("/v1/metrics"):
                received.metrics.append(ExportMetricsServiceRequest.FromString(body))
            else:
                received.logs.append(ExportLogsServiceRequest.FromString(body))

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _flood(self, *, declared: bool) -> None:
        self.send_response(200)
        if declared:
            self.send_header("Content-Length", str(GIGABYTE))
        self.end_headers()
        self.close_connection = True
        while self.server.answered_bytes < GIGABYTE:
            self.server.answered_bytes += self.wfile.write(_CHUNK)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — http.server's signature
        """Stay silent."""


@contextmanager
def http_receiver(behaviour: Behaviour = "ok") -> Iterator[HttpReceiver]:
    """Run a receiver on a free loopback port."""
    with HttpReceiver(behaviour) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
