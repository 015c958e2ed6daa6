"""OTLP over gRPC: `TraceService/Export` and `LogsService/Export`."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from collectors._answers import deliver, new_status, rejection_message, status_of
from collectors._http_wire import success_message
from collectors._memory import LARGEST_AT_ONCE, Holding, MemoryBudget
from otel_agentic.errors import OverloadedError, UsageError
from otel_agentic.net import Address, is_authorized, listen, parse_address, require_allowed
from otel_agentic.spans import Limits, decode_logs, decode_traces

if TYPE_CHECKING:
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed

    from collectors._http_wire import Signal
    from otel_agentic.config import ReceiveSettings, Settings
    from otel_agentic.spans import Sink

_SERVICES: Final[dict[Signal, str]] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_STATUS_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
#: Threads beyond those that may work: they tell surplus requests to come back instead of letting them queue.
_REFUSING_THREADS: Final = 4


class OtlpGrpcCollector:
    """Receives OTLP/gRPC; satisfies `Collector`."""

    name = "otlp_grpc"

    def __init__(self, settings: ReceiveSettings) -> None:
        self._settings = settings
        self._address = parse_address(settings.grpc)
        self._server: Any = None
        self._executor: ThreadPoolExecutor | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> OtlpGrpcCollector:
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
        if self._server is not None:
            raise UsageError(f"the OTLP/gRPC collector on {self._address} already runs; stop it first")
        require_allowed(self._address, token=self._settings.token, insecure=self._settings.insecure)
        workers = self._settings.max_concurrent_requests + _REFUSING_THREADS
        executor = ThreadPoolExecutor(workers, thread_name_prefix="otlp-grpc")
        server = grpc.server(executor, options=self._options())
        exporter = _Exporter(sink, self._settings)
        server.add_generic_rpc_handlers(tuple(_handler(exporter, signal) for signal in _SERVICES))
        try:
            port = _add_port(server, parse_address(self._settings.grpc))
        except UsageError:
            executor.shutdown(wait=False)
            raise
        self._address = Address(host=self._address.host, port=port)
        server.start()
        self._server, self._executor = server, executor

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, finish those under way within `grace_s` seconds, release the address."""
        if self._server is None or self._executor is None:
            return
        self._server.stop(grace_s).wait()
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._server = self._executor = None

    def _options(self) -> list[tuple[str, int]]:
        limit = min(self._settings.max_request_bytes, 2**31 - 1)
        return [
            ("grpc.max_receive_message_length", limit),  # measured after decompression too
            ("grpc.max_concurrent_streams", self._settings.max_concurrent_requests),
            ("grpc.so_reuseport", 0),  # else a second server would share the port and take half of the requests
        ]


class _Exporter:
    """Decodes, delivers and answers export requests."""

    def __init__(self, sink: Sink, settings: ReceiveSettings) -> None:
        self._sink = sink
        self._token = settings.token
        self._limits = Limits.from_settings(settings)
        self._memory = MemoryBudget(LARGEST_AT_ONCE * settings.max_request_bytes)
        self._slots = threading.BoundedSemaphore(settings.max_concurrent_requests)

    def export(self, signal: Signal, data: bytes, context: Any) -> bytes:
        """Return the response message, or none and the status of an error on the context."""
        if not is_authorized(_authorization(context), self._token):
            return _fail(context, new_status("UNAUTHENTICATED", "send `authorization: Bearer …` with the right token"))
        try:
            return self._handle(signal, data)
        except Exception as error:  # noqa: BLE001 — every error has a status; UNKNOWN would make exporters drop the batch
            return _fail(context, status_of(error))

    def _handle(self, signal: Signal, data: bytes) -> bytes:
        if not self._slots.acquire(blocking=False):
            raise OverloadedError("as many requests as allowed are under way: try again")
        try:
            with Holding(self._memory) as holding:
                holding.add(len(data))
                decode = decode_traces if signal == "traces" else decode_logs
                batch = decode(data, self._limits)
                receipt = deliver(self._sink, batch)
                return success_message(signal, receipt.rejected, rejection_message(receipt, batch))
        finally:
            self._slots.release()


def _handler(exporter: _Exporter, signal: Signal) -> Any:
    def export(data: bytes, context: Any) -> bytes:
        return exporter.export(signal, data, context)

    # No deserializer: gRPC's own would answer undecodable bytes with INTERNAL.
    method = grpc.unary_unary_rpc_method_handler(export)
    return grpc.method_handlers_generic_handler(_SERVICES[signal], {"Export": method})


def _authorization(context: Any) -> str | bytes | None:
    for key, value in context.invocation_metadata():
        if key == "authorization":
            found: str | bytes = value
            return found
    return None


def _fail(context: Any, status: Status) -> bytes:
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.set_code(_STATUS_CODES[status.code])
    context.set_details(status.message)
    return b""


def _add_port(server: Any, address: Address) -> int:
    # Asking the operating system first gives its reason; gRPC's own error names none.
    with listen(address) as probe:
        port: int = probe.getsockname()[1]
    try:
        bound: int = server.add_insecure_port(str(Address(host=address.host, port=port)))
    except RuntimeError as error:
        raise UsageError(f"cannot listen on {address}: {error}; give another address") from error
    return bound
