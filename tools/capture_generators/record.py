"""Records what a framework exports: a loopback OTLP/HTTP receiver, and the files of a capture."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final

from tools.capture_generators.otlp import json_request, without_machine

CAPTURES: Final = Path(__file__).parents[2] / "tests" / "golden" / "captures"
_MAX_BYTES: Final = 60 * 1024


@dataclass(slots=True, kw_only=True)
class Recording:
    """A capture in the making. Set `truth` to what `expected` returns before the `with` block ends."""

    name: str
    service: str
    endpoint: str
    logs: bool
    truth: dict[str, Any] | None = None
    requests: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"traces": [], "logs": []})
    _closing: list[Any] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What a process in any language needs in its environment to export here."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_SERVICE_NAME": self.service,
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "400",
            "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "24",
            "OTEL_PYTHON_EXCLUDED_URLS": "127.0.0.1",
        }

    def providers(self, *, everywhere: bool = True) -> tuple[Any, Any]:
        """Return a tracer and a logger provider that export here in small batches.

        Children and parents then come in different requests, as in production. They are set for the whole process,
        which can be done once, unless `everywhere` is false.
        """
        # Only here: a recording of another process does without the SDK.
        from opentelemetry import _logs, trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        resource = Resource.create({"service.name": self.service, "deployment.environment.name": "golden"})
        spans, logs = TracerProvider(resource=resource), LoggerProvider(resource=resource)
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{self.endpoint}/v1/traces")))
        if self.logs:
            logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint=f"{self.endpoint}/v1/logs")))
        if everywhere:
            trace.set_tracer_provider(spans)
            _logs.set_logger_provider(logs)
        self._closing += [spans, logs]
        return spans, logs

    def close(self) -> None:
        """Send the spans and records that the providers still buffer."""
        for provider in self._closing:
            provider.force_flush()
            provider.shutdown()


@contextmanager
def recording(name: str, *, service: str, logs: bool = False) -> Iterator[Recording]:
    """Record all exports inside the block, then write `captures/<name>`.

    Inside the block the environment of this process contains the OTLP variables; pass `.environment` to other processes.

    Raises:
        ValueError: nothing was exported, the truth is missing, or the files are too large.
    """
    handler = type("BoundReceiver", (_Receiver,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    capture = Recording(name=name, service=service, endpoint=f"http://127.0.0.1:{server.server_port}", logs=logs)
    handler.requests = capture.requests  # type: ignore[attr-defined]  # the class was made a line above
    threading.Thread(target=server.serve_forever, daemon=True).start()
    before = dict(os.environ)
    os.environ.update(capture.environment)
    try:
        yield capture
        capture.close()
    finally:
        os.environ.clear()
        os.environ.update(before)
        server.shutdown()
        server.server_close()
    _write(capture)


def _write(capture: Recording) -> None:
    if capture.truth is None:
        raise ValueError(f"{capture.name}: the truth is missing")
    if not capture.requests["traces"]:
        raise ValueError(f"{capture.name}: no spans were exported")
    folder = CAPTURES / capture.name
    folder.mkdir(parents=True, exist_ok=True)
    for signal in ("traces", "logs") if capture.logs else ("traces",):
        _write_lines(folder / f"{signal}.jsonl.gz", capture.requests[signal])
    truth = json.dumps(capture.truth, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(truth + "\n", encoding="utf-8")


def _write_lines(path: Path, requests: list[dict[str, Any]]) -> None:
    lines = (json.dumps(without_machine(request), ensure_ascii=False, separators=(",", ":")) for request in requests)
    # No time and no name in the header: the same lines make the same bytes.
    data = gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{path}: {len(data)} bytes, more than {_MAX_BYTES}")
    path.write_bytes(data)


class _Receiver(BaseHTTPRequestHandler):
    """Takes OTLP on every path that ends in /traces or /logs: exporters of products have paths of their own."""

    protocol_version = "HTTP/1.1"
    requests: ClassVar[dict[str, list[dict[str, Any]]]]

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._send()

    def do_POST(self) -> None:
        body = self._body()
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        signal = self.path.split("?", 1)[0].rsplit("/", 1)[-1]
        if signal in self.requests:
            self.requests[signal].append(json_request(signal, body, self.headers.get("Content-Type") or ""))
        self._send()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _send(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", self.headers.get("Content-Type") or "application/json")
        body = b"{}" if "json" in (self.headers.get("Content-Type") or "json") else b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
