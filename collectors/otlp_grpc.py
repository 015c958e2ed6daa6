"""OTLP over gRPC: `TraceService/Export` and `LogsService/Export`.

This module handles a request from its metadata to its response, and never responds with UNKNOWN or INTERNAL.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from collectors._admission import (
    SMALL_BYTES,
    Admission,
    Holding,
    Receptions,
    RefusedError,
    credentials_of,
    decoding,
    deliver,
    refusals_of,
    rejection_message,
    require_protected,
    status_of,
    tls_of,
    unauthorized,
)
from collectors._http import Signal, encoding_of, inflate, success_message
from otel_agentic.errors import UsageError
from otel_agentic.net import Address, Credentials, ServerTls, affordable, listen, parse_address
from otel_agentic.spans import Limits, Receipt, Sink, SpanBatch, Submits, decode_logs, decode_traces

if TYPE_CHECKING:
    from otel_agentic.config import AdminSettings, ReceiveSettings, Settings

_COLLECTOR: Final = "/opentelemetry.proto.collector"
_METHODS: Final[dict[str, Signal]] = {
    f"{_COLLECTOR}.trace.v1.TraceService/Export": "traces",
    f"{_COLLECTOR}.logs.v1.LogsService/Export": "logs",
}
_OTHER_SIGNALS: Final = {
    f"{_COLLECTOR}.metrics.v1.MetricsService/Export": "metrics",
    f"{_COLLECTOR}.profiles.v1development.ProfilesService/Export": "profiles",
}
_STATUS_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class ExportServices(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """Finds the handler of a request: one of this module, or one whose response names the supported methods.

    The methods are served as request streams, which are identical on the wire, because gRPC then calls the handler
    before the message is received, not after. A request is thus refused because of its metadata, or of overload,
    without receiving it.
    """

    def __init__(self, sink: Sink, settings: ReceiveSettings, executor: Executor, credentials: Credentials) -> None:
        exporter = _Exporter(sink, settings, executor, credentials)
        self._handlers = {method: _handler(partial(exporter.export, signal)) for method, signal in _METHODS.items()}

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a method."""
        method = handler_call_details.method
        return self._handlers.get(method) or _handler(partial(_unimplemented, method))


def _handler(work: Callable[[Any], Awaitable[bytes]]) -> Any:
    async def handle(_: Any, context: Any) -> bytes:
        return await work(context)

    # No deserializer: gRPC would respond to undecodable bytes with INTERNAL.
    return grpc.stream_unary_rpc_method_handler(handle)


class _Exporter:
    """Receives, decodes, delivers and responds to export requests."""

    def __init__(self, sink: Sink, settings: ReceiveSettings, executor: Executor, credentials: Credentials) -> None:
        self._sink = sink
        self._at_once = isinstance(sink, Submits)  # any other sink may block the event loop
        self._limits = Limits.from_settings(settings)
        self._executor = executor
        self._credentials = credentials
        self._admission = Admission(settings)
        self._refused = refusals_of(sink, "otlp_grpc")
        self._receptions = Receptions(settings.body_timeout_s)
        self._body_timeout_s = settings.body_timeout_s

    async def export(self, signal: Signal, context: Any) -> bytes:
        """Return the response message, or empty bytes after setting an error status on the context."""
        try:
            return await self._export(signal, context)
        except Exception as error:  # noqa: BLE001 — every error has a status; UNKNOWN would make exporters drop the batch
            self._refused(error)
            return _fail(context, error)

    async def _export(self, signal: Signal, context: Any) -> bytes:
        self._require_sender(context)
        self._admission.check()
        data = await self._receive(context)
        with self._admission.holding() as holding:
            holding.add(len(data))
            begin = partial(self._begin, signal, data, holding)
            at_once = self._at_once and len(data) <= SMALL_BYTES and encoding_of(data) == "identity"
            batch, receipt = await self._admission.run(None if at_once else self._executor, begin, holding)
        return success_message(signal, receipt.rejected, rejection_message(receipt, batch))

    def _require_sender(self, context: Any) -> None:
        if not self._credentials.guards("ingest"):
            return
        tokens = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        role = self._credentials.role_of(tokens)
        if role not in {"ingest", "admin"}:
            raise unauthorized(known=role is not None)

    async def _receive(self, context: Any) -> bytes:
        try:
            data = await self._receptions.receive(context.peer(), context.read)
        except TimeoutError:
            message = f"the request did not arrive within {self._body_timeout_s:g} s"
            raise RefusedError(408, "DEADLINE_EXCEEDED", message) from None
        if data is grpc.aio.EOF:
            raise RefusedError(400, "INVALID_ARGUMENT", "the call ended without a message")
        request: bytes = data
        return request

    def _begin(self, signal: Signal, data: bytes, holding: Holding) -> tuple[SpanBatch, Future[Receipt]]:
        # gRPC passes on the compressed bytes: only `inflate` decompresses them, and it counts memory.
        raw = inflate(data, encoding_of(data), self._limits.max_request_bytes, holding.add)
        decode = decode_traces if signal == "traces" else decode_logs
        with decoding(len(raw)):
            batch = decode(raw, self._limits)
        return batch, deliver(self._sink, batch)


async def _unimplemented(method: str, context: Any) -> bytes:
    message = "spans are received at TraceService/Export, log records at LogsService/Export"
    if method in _OTHER_SIGNALS:
        message += f"; {_OTHER_SIGNALS[method]} are not collected here: send them elsewhere, or disable their exporter"
    return _fail(context, RefusedError(404, "UNIMPLEMENTED", message))


def _fail(context: Any, error: Exception) -> bytes:
    status = status_of(error)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.set_code(_STATUS_CODES[status.code])
    context.set_details(status.message)
    return b""


_MS: Final = 1000
_MOST: Final = 2**31 - 2  # gRPC accepts 32-bit numbers, and aborts the process if given the largest one
_START_TIMEOUT_S: Final = 10.0
_STOP_MARGIN_S: Final = 5.0
_MOST_METADATA_BYTES: Final = 16 * 1024
#: The shortest permitted interval of pings from senders, even between requests; more frequent pings count as an attack.
_LEAST_PING_INTERVAL_S: Final = 10
#: A peer that vanished without closing the connection is detected after the sum of both.
_OWN_PING_INTERVAL_S: Final = 60
_OWN_PING_TIMEOUT_S: Final = 20


class OtlpGrpcCollector:
    """Receives OTLP/gRPC on its own thread, with its own event loop; satisfies `Collector`."""

    name = "otlp_grpc"

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
        self._address = parse_address(settings.grpc)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._grace_s = 0.0

    @classmethod
    def from_settings(cls, settings: Settings) -> OtlpGrpcCollector:
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
            raise UsageError(f"the OTLP/gRPC collector on {self._address} is already running; stop it first")
        require_protected(self._address, self._settings, self._credentials, self._tls)
        listening: Future[int] = Future()
        thread = threading.Thread(target=self._run, args=(sink, listening), name="otlp-grpc", daemon=True)
        thread.start()
        port = listening.result(_START_TIMEOUT_S)
        self._address = Address(host=self._address.host, port=port)
        self._thread = thread

    def stop(self, grace_s: float) -> None:
        """Refuse new requests, finish the running ones within `grace_s` seconds, and release the address."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._grace_s = grace_s
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(grace_s + _STOP_MARGIN_S)
        self._thread = self._loop = self._stopping = None

    def _run(self, sink: Sink, listening: Future[int]) -> None:
        try:
            asyncio.run(self._serve(sink, listening))
        except Exception as error:
            if listening.done():
                raise
            listening.set_exception(error)

    async def _serve(self, sink: Sink, listening: Future[int]) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        executor = ThreadPoolExecutor(self._settings.max_concurrent_requests, thread_name_prefix="otlp-grpc")
        server = grpc.aio.server(options=_options(self._settings))
        services = ExportServices(sink, self._settings, executor, self._credentials)
        server.add_generic_rpc_handlers((services,))
        try:
            port = _add_port(server, parse_address(self._settings.grpc), self._tls)
            await server.start()
            listening.set_result(port)
            await self._stopping.wait()
        finally:
            await server.stop(self._grace_s)
            executor.shutdown(wait=False, cancel_futures=True)


def _options(settings: ReceiveSettings) -> list[tuple[str, int]]:
    return [
        ("grpc.max_receive_message_length", min(settings.max_request_bytes, _MOST)),  # as sent, still compressed
        ("grpc.per_message_decompression", 0),  # `inflate` decompresses, with bounds and a memory count
        ("grpc.max_concurrent_streams", min(settings.max_concurrent_requests, _MOST)),  # of one connection
        ("grpc.max_allowed_incoming_connections", min(affordable(settings.max_connections), _MOST)),
        ("grpc.max_connection_idle_ms", int(settings.idle_timeout_s * _MS)),
        ("grpc.server_handshake_timeout_ms", int(settings.header_timeout_s * _MS)),
        ("grpc.http2.settings_timeout", int(settings.header_timeout_s * _MS)),
        ("grpc.max_metadata_size", _MOST_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", 2 * _MOST_METADATA_BYTES),
        ("grpc.keepalive_time_ms", _OWN_PING_INTERVAL_S * _MS),
        ("grpc.keepalive_timeout_ms", _OWN_PING_TIMEOUT_S * _MS),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", _LEAST_PING_INTERVAL_S * _MS),
        ("grpc.so_reuseport", 0),  # otherwise a second server would share the port and get half of the requests
    ]


def _add_port(server: Any, address: Address, tls: ServerTls | None) -> int:
    # Bind the port here first, because the error of the operating system has a reason, and that of gRPC has none.
    with listen(address) as probe:
        free = str(Address(host=address.host, port=probe.getsockname()[1]))
    try:
        bound: int = (
            server.add_insecure_port(free) if tls is None else server.add_secure_port(free, _server_credentials(tls))
        )
    except RuntimeError as error:
        raise UsageError(f"cannot listen on {address}: {error}; use another address") from error
    return bound


def _server_credentials(tls: ServerTls) -> Any:
    """Return credentials that are loaded at every handshake, so that renewed files need no restart."""

    def configuration() -> Any:
        key, cert, client_ca = tls.pem
        return grpc.ssl_server_certificate_configuration([(key, cert)], root_certificates=client_ca)

    return grpc.dynamic_ssl_server_credentials(configuration(), configuration, tls.is_mutual)
