"""Record the demo's agents: `python -m tools.record_demo` runs each of them and writes what it sends."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryFile

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agentic.demo.processes import AGENTS, Service
from otel_agentic.demo.recordings import FOLDER, path_of
from tools.generated import ROOT


class _Receiver(ThreadingHTTPServer):
    """Stores the spans that it receives."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.request = ExportTraceServiceRequest()

    def take(self) -> ExportTraceServiceRequest:
        """Return the spans that arrived since the last call."""
        request, self.request = self.request, ExportTraceServiceRequest()
        return request


class _Handler(BaseHTTPRequestHandler):
    server: _Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.request.MergeFromString(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — http.server's signature
        """Print nothing."""


@contextmanager
def _receiving() -> Iterator[_Receiver]:
    with _Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


def without_folder(request: ExportTraceServiceRequest, folder: str) -> None:
    """Shorten the paths in messages of errors and their tracebacks, so that a recording does not depend on a folder."""
    spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
    for span in spans:
        span.status.message = span.status.message.replace(folder, "")
        for attribute in (attribute for event in span.events for attribute in event.attributes):
            if attribute.value.HasField("string_value"):
                attribute.value.string_value = attribute.value.string_value.replace(folder, "")


def _write(path: Path, request: ExportTraceServiceRequest) -> None:
    without_folder(request, f"{ROOT}/")
    if request.resource_spans:
        path.write_bytes(gzip.compress(request.SerializeToString(), mtime=0))
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def main() -> None:
    """Run every agent and write its recordings."""
    FOLDER.mkdir(exist_ok=True)
    with _receiving() as receiver, TemporaryFile() as errors:
        for agent, version in AGENTS:
            service = Service(agent, version, f"http://127.0.0.1:{receiver.server_port}", errors)
            try:
                service.sent()
                _write(path_of(agent, version), receiver.take())
                service.finish()
                _write(path_of(agent, version, late=True), receiver.take())
            finally:
                service.close()


if __name__ == "__main__":
    main()
