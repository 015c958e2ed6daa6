"""The two encodings of OTLP/HTTP: how a request is read and how it is answered in its own type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

import orjson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_agentic.spans import decode_logs, decode_logs_json, decode_traces, decode_traces_json

if TYPE_CHECKING:
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed

    from otel_agentic.spans import Limits, SpanBatch

Signal = Literal["traces", "logs"]


class Wire(Protocol):
    """One content type."""

    content_type: str

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return what a request holds.

        Raises:
            DecodeError: the bytes are not of this type.
        """
        ...

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return the body of a success; partial where something was rejected."""
        ...

    def failure(self, status: Status) -> bytes:
        """Return the body of an error."""
        ...


class ProtobufWire:
    """`application/x-protobuf`."""

    content_type = "application/x-protobuf"

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return what a request holds."""
        return decode_traces(data, limits) if signal == "traces" else decode_logs(data, limits)

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return an `ExportTraceServiceResponse` or `ExportLogsServiceResponse`."""
        return success_message(signal, rejected, message)

    def failure(self, status: Status) -> bytes:
        """Return the `google.rpc.Status`."""
        encoded: bytes = status.SerializeToString()
        return encoded


class JsonWire:
    """`application/json`."""

    content_type = "application/json"

    def decode(self, signal: Signal, data: bytes, limits: Limits) -> SpanBatch:
        """Return what a request holds; no bytes at all are an empty request, as they are in protobuf."""
        if not data:
            return decode_traces(data, limits)
        return decode_traces_json(data, limits) if signal == "traces" else decode_logs_json(data, limits)

    def success(self, signal: Signal, rejected: int, message: str) -> bytes:
        """Return the response as OTLP/JSON: 64-bit integers are text there."""
        if not rejected:
            return b"{}"
        field = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
        return orjson.dumps({"partialSuccess": {field: str(rejected), "errorMessage": message}})

    def failure(self, status: Status) -> bytes:
        """Return the code and message of the `google.rpc.Status`."""
        return orjson.dumps({"code": status.code, "message": status.message})


def success_message(signal: Signal, rejected: int, message: str) -> bytes:
    """Return the protobuf response of an export; partial where something was rejected."""
    if signal == "traces":
        traces = ExportTraceServiceResponse()
        if rejected:
            traces.partial_success.rejected_spans = rejected
            traces.partial_success.error_message = message
        return traces.SerializeToString()
    logs = ExportLogsServiceResponse()
    if rejected:
        logs.partial_success.rejected_log_records = rejected
        logs.partial_success.error_message = message
    return logs.SerializeToString()


#: By content type; errors about an unknown type are answered in JSON, which people can read.
WIRES: Final[dict[str, Wire]] = {wire.content_type: wire for wire in (ProtobufWire(), JsonWire())}
FALLBACK_WIRE: Final[Wire] = WIRES["application/json"]
