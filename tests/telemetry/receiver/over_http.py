"""A loopback OTLP/HTTP receiver that can also misbehave."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.telemetry.receiver.received import Received

if TYPE_CHECKING:
    from tests.telemetry.receiver.certificates import Certificates

Behaviour = Literal["ok", "error", "hang", "huge", "endless", "partial", "redirect", "nonsense", "refuse_first"]

GIGABYTE = 1 << 30
_CHUNK = b"x" * (1 << 16)
#: The answer of a backend that rejected three.
PARTIAL = ExportMetricsServiceResponse(
    partial_success=ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
)


class HttpReceiver(ThreadingHTTPServer):
    """Keeps what it receives. `behaviour` may change at any time; `answered_bytes` counts a huge answer.

    `held` has one element for each request that hangs now.
    """

    daemon_threads = True

    def __init__(self, behaviour: Behaviour = "ok", context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._scheme = "http" if context is None else "https"
        if context is not None:
            # The handshake belongs to the connection's own thread, or one that fails would end the server's loop.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.behaviour: Behaviour = behaviour
        self.received = Received()
        self.requests = 0
        self.connections = 0
        self.answered_bytes = 0
        self.held: set[int] = set()
        self.released = threading.Event()

    @property
    def endpoint(self) -> str:
        """The base address."""
        return f"{self._scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: some tests hang up on purpose."""


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
            self.server.held.add(threading.get_ident())
            self.server.released.wait(30)
            self.server.held.discard(threading.get_ident())
            self.close_connection = True
        elif behaviour == "error":
            self._reply(500, b"broken")
        elif behaviour in {"huge", "endless"}:
            self._flood(declared=behaviour == "huge")
        elif behaviour == "redirect":
            self._reply(302, b"", Location="https://login.example/")
        elif behaviour == "refuse_first" and self.server.requests == 1:
            self._reply(503, b"", **{"Retry-After": "0"})
        elif behaviour in {"partial", "nonsense"}:
            self._keep(body)
            self._reply(200, PARTIAL.SerializeToString() if behaviour == "partial" else b"{}")
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

    def _reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
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
def http_receiver(
    behaviour: Behaviour = "ok", certificates: Certificates | None = None, *, mutual: bool = False
) -> Iterator[HttpReceiver]:
    """Run a receiver on a free loopback port; with certificates over TLS, `mutual` asks clients for theirs."""
    context = None if certificates is None else _tls(certificates, mutual=mutual)
    with HttpReceiver(behaviour, context) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


def _tls(certificates: Certificates, *, mutual: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificates.ca)
    return context
