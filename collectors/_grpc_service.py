"""The OTLP services over gRPC: handles a request from its metadata to its response, never with UNKNOWN or INTERNAL."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from collectors._admission import SMALL_BYTES, Admission, Receptions, decoding
from collectors._answers import RefusedError, deliver, refusals_of, rejection_message, status_of, unauthorized
from collectors._http import success_message
from collectors._inflate import encoding_of, inflate
from otel_agentic.spans import Limits, Submits, decode_logs, decode_traces

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor, Future

    from collectors._admission import Holding
    from collectors._http import Signal
    from otel_agentic.config import ReceiveSettings
    from otel_agentic.net import Credentials
    from otel_agentic.spans import Receipt, Sink, SpanBatch

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
    """Finds the method of a request: ours, or one whose response names the supported methods.

    The methods are served as request streams, which look the same on the wire: gRPC then calls before the message is received,
    not after. A request that is refused because of its metadata, or overload, is refused without receiving it.
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

    # No deserializer: gRPC's own would answer undecodable bytes with INTERNAL.
    return grpc.stream_unary_rpc_method_handler(handle)


class _Exporter:
    """Receives, decodes, delivers and answers export requests."""

    def __init__(self, sink: Sink, settings: ReceiveSettings, executor: Executor, credentials: Credentials) -> None:
        self._sink = sink
        self._at_once = isinstance(sink, Submits)  # any other may keep the event loop waiting
        self._limits = Limits.from_settings(settings)
        self._executor = executor
        self._credentials = credentials
        self._admission = Admission(settings)
        self._refused = refusals_of(sink, "otlp_grpc")
        self._receptions = Receptions(settings.body_timeout_s)
        self._body_timeout_s = settings.body_timeout_s

    async def export(self, signal: Signal, context: Any) -> bytes:
        """Return the response message, or the empty bytes with an error status on the context."""
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
