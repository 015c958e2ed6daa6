"""What a receiver answered, over HTTP or gRPC, and how it is told to people."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

Signal = Literal["traces", "logs"]

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_SHOWN_BYTES: Final = 200
_REJECTED: Final[Mapping[Signal, str]] = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """What a response message says; `partial` is whether its `partial_success` was set at all."""

    rejected: int = 0
    message: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer to what `sent` describes; `status` is 0 and `error` says why where there was none.

    `unanswered`: nothing came until the time was over.
    """

    sent: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    error: str = ""
    unanswered: bool = False
    informed: tuple[int, ...] = ()

    @property
    def type(self) -> str:
        """The media type, in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def told(self) -> str:
        """The answer in one line that is safe to print."""
        if self.error:
            return self.error
        return f"HTTP {self.status}, {self.type or 'no content type'}, {shown(self.body)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A gRPC answer to what `sent` describes; `code` is the name of the status code."""

    sent: str
    code: str
    details: str = ""
    body: bytes = b""
    trailers: Mapping[str, str | bytes] = field(default_factory=dict)

    @property
    def told(self) -> str:
        """The answer in one line that is safe to print."""
        return f"OK, {shown(self.body)}" if self.code == "OK" else f"{self.code} {self.details[:_SHOWN_BYTES]!a}"

    @property
    def status(self) -> Status | None:
        """The `google.rpc.Status` of the trailers, None where there is none that can be read."""
        raw = self.trailers.get("grpc-status-details-bin")
        try:
            return Status.FromString(raw) if isinstance(raw, bytes) else None
        except ProtobufDecodeError:
            return None


def shown(body: bytes) -> str:
    """Return a body as text that no terminal obeys, cut."""
    if not body:
        return "an empty body"
    rest = f" and {len(body) - _SHOWN_BYTES} bytes more" if len(body) > _SHOWN_BYTES else ""
    return ascii(body[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")) + rest


def read_protobuf(body: bytes, signal: Signal) -> Success | str:
    """Return what a response message in protobuf says, or why it is none."""
    kind = ExportTraceServiceResponse if signal == "traces" else ExportLogsServiceResponse
    try:
        response: Any = kind.FromString(body)
    except ProtobufDecodeError:
        return f"the body is not an {kind.__name__} in protobuf"
    partial = response.partial_success
    rejected = partial.rejected_spans if signal == "traces" else partial.rejected_log_records
    return Success(rejected=rejected, message=partial.error_message, partial=response.HasField("partial_success"))


def read_json(body: bytes, signal: Signal) -> Success | str:
    """Return what a response message in OTLP/JSON says, or why it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return "the body is not JSON"
    partial = document.get("partialSuccess") if isinstance(document, dict) else 0
    if partial is None:
        return Success()
    if not isinstance(partial, dict):
        return 'the body is not a response message: {} or {"partialSuccess": {…}}'
    count = partial.get(_REJECTED[signal], 0)
    if isinstance(count, bool) or not str(count).isdecimal():
        return f"{_REJECTED[signal]} is not a whole number"
    return Success(rejected=int(count), message=str(partial.get("errorMessage", "")), partial=True)


def read_status(answer: Answer) -> Status | str:
    """Return the `google.rpc.Status` in an error's body, or why there is none."""
    try:
        if answer.type == PROTOBUF:
            return Status.FromString(answer.body)
        document = json.loads(answer.body)
    except (ProtobufDecodeError, ValueError, RecursionError):
        return "the body is not a google.rpc.Status"
    if not isinstance(document, dict) or not isinstance(document.get("message", ""), str):
        return "the body is not a google.rpc.Status"
    return Status(message=document.get("message", ""))
