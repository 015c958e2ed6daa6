"""A minimal telemetry backend: receives OTLP/HTTP metrics and logs on a loopback port and stores them in memory."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

Attributes = frozenset[tuple[str, str | int | float | bool]]


@dataclass(slots=True, kw_only=True)
class Received:
    """The received data: points by metric, the last value of each gauge, and log records by event name."""

    points: Counter[str] = field(default_factory=Counter)
    gauges: dict[tuple[str, Attributes], float] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def gauge(self, metric: str, selected: Mapping[str, str | int]) -> float | None:
        """Return the last value of the gauge with (at least) some attributes, None if it was never received."""
        with self.lock:
            values = [
                value
                for (name, attributes), value in self.gauges.items()
                if name == metric and selected.items() <= attributes
            ]
        return values[-1] if values else None

    def add_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Store the points of one request."""
        metrics = [
            metric for block in request.resource_metrics for scope in block.scope_metrics for metric in scope.metrics
        ]
        with self.lock:
            for metric in metrics:
                self._add_metric(metric)

    def add_logs(self, request: ExportLogsServiceRequest) -> None:
        """Count the log records of one request."""
        records = [
            record for block in request.resource_logs for scope in block.scope_logs for record in scope.log_records
        ]
        with self.lock:
            self.events.update(record.event_name for record in records)

    def _add_metric(self, metric: Metric) -> None:
        data = getattr(metric, metric.WhichOneof("data") or "gauge")
        self.points[metric.name] += len(data.data_points)
        for point in metric.gauge.data_points:
            value = point.as_double if point.WhichOneof("value") == "as_double" else float(point.as_int)
            self.gauges[metric.name, _attributes(point.attributes)] = value


class Backend(ThreadingHTTPServer):
    """The receiver; `endpoint` is its base address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received = Received()

    @property
    def endpoint(self) -> str:
        """The address to export to."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running_backend() -> Iterator[Backend]:
    """Run a backend on a free loopback port."""
    with Backend() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Backend

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/metrics":
            self.server.received.add_metrics(ExportMetricsServiceRequest.FromString(body))
        elif self.path == "/v1/logs":
            self.server.received.add_logs(ExportLogsServiceRequest.FromString(body))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — http.server's signature
        """Print nothing: the demo prints results, not requests."""


def _attributes(pairs: Any) -> Attributes:
    return frozenset((pair.key, _value(pair.value)) for pair in pairs)


def _value(value: AnyValue) -> str | int | float | bool:
    kind = value.WhichOneof("value") or "string_value"
    scalar: str | int | float | bool = getattr(value, kind)
    return scalar
