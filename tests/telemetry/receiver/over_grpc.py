"""A loopback OTLP/gRPC receiver."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.telemetry.receiver.received import Received

if TYPE_CHECKING:
    from tests.telemetry.receiver.certificates import Certificates

_METRICS = "opentelemetry.proto.collector.metrics.v1.MetricsService"
_LOGS = "opentelemetry.proto.collector.logs.v1.LogsService"


@dataclass(frozen=True, slots=True)
class GrpcReceiver:
    """The base address, and the requests received there."""

    endpoint: str
    received: Received

    def take_metrics(self, request: ExportMetricsServiceRequest, context: Any) -> ExportMetricsServiceResponse:
        """Keep a metrics request and its headers."""
        with self.received.lock:
            self.received.headers = {key: str(value) for key, value in context.invocation_metadata()}
            self.received.metrics.append(request)
        return ExportMetricsServiceResponse()

    def take_logs(self, request: ExportLogsServiceRequest, _context: Any) -> ExportLogsServiceResponse:
        """Keep a logs request."""
        with self.received.lock:
            self.received.logs.append(request)
        return ExportLogsServiceResponse()


@contextmanager
def grpc_receiver(certificates: Certificates | None = None, *, mutual: bool = False) -> Iterator[GrpcReceiver]:
    """Run a receiver on a free loopback port; with certificates over TLS, `mutual` asks clients for theirs."""
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    receiver = GrpcReceiver(_listen(server, certificates, mutual=mutual), Received())
    server.add_generic_rpc_handlers(
        (
            _export(_METRICS, receiver.take_metrics, ExportMetricsServiceRequest),
            _export(_LOGS, receiver.take_logs, ExportLogsServiceRequest),
        )
    )
    server.start()
    try:
        yield receiver
    finally:
        server.stop(grace=None).wait()


def _listen(server: Any, certificates: Certificates | None, *, mutual: bool) -> str:
    if certificates is None:
        return f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    credentials = grpc.ssl_server_credentials(
        [(certificates.server_key.read_bytes(), certificates.server.read_bytes())],
        root_certificates=certificates.ca.read_bytes() if mutual else None,
        require_client_auth=mutual,
    )
    return f"https://127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"


def _export(service: str, take: Any, request: Any) -> Any:
    handler = grpc.unary_unary_rpc_method_handler(
        take, request_deserializer=request.FromString, response_serializer=lambda response: response.SerializeToString()
    )
    return grpc.method_handlers_generic_handler(service, {"Export": handler})
