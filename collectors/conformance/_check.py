"""Checks, the answers of a receiver, and the expectations that turn an answer into a fault."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from collectors.conformance._receiver import Receiver

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


Severity = Literal["MUST", "SHOULD", "GUARD"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
Transport = Literal["http", "grpc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was sent, what came back, and what should have."""

    sent: str
    got: str
    expected: str

    def __str__(self) -> str:
        return f"sent {self.sent}; got {self.got}; expected {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Why a check says nothing about this receiver."""

    reason: str


#: None: what the check asks for holds.
Verdict: TypeAlias = Fault | Skip | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold of an OTLP receiver.

    `id` begins with the transport. `holds` is the sentence that must be true, `spec` where it is written, `fix` what to
    do where it is not. A check that `waits` spends its time on a clock of the receiver's and runs beside the others.
    """

    id: str
    severity: Severity
    holds: str
    spec: str
    fix: str
    run: Callable[[Receiver], Verdict]
    waits: bool = False

    @property
    def transport(self) -> Transport:
        """The transport it speaks."""
        return "grpc" if self.id.startswith("grpc.") else "http"


def check(
    name: str, severity: Severity, holds: str, *, spec: str, fix: str, waits: bool = False
) -> Callable[[Callable[[Receiver], Verdict]], Check]:
    """Return a decorator that makes a `Check` of a function."""

    def made(run: Callable[[Receiver], Verdict]) -> Check:
        return Check(id=name, severity=severity, holds=holds, spec=spec, fix=fix, run=run, waits=waits)

    return made


_OK: Final = 200
#: OTLP asks for 400; where a check is about something else, the other code for bad data will do.
_REFUSALS: Final = frozenset({400, 422})
_CLIENT_ERRORS: Final = range(400, 500)
_TOO_MANY: Final = 429
#: That a size is bounded is obligatory, the status 413 is recommended (see http.size.beyond).
TOO_LARGE: Final = (413, 400, 422)
#: What exporters send again: the table "Retryable Response Codes".
RETRYABLE: Final = frozenset({429, 502, 503, 504})
RETRYABLE_CODES: Final = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
#: Codes that a gRPC library gives to an exception in a handler: exporters drop the batch.
_CRASHES: Final = frozenset({"UNKNOWN", "INTERNAL"})


def fault(answer: Answer | Call, expected: str) -> Fault:
    """Return the fault of an answer."""
    return Fault(sent=answer.sent, got=answer.told, expected=expected)


def success_of(answer: Answer | Call, signal: Signal = "traces") -> Success | Fault:
    """Return what a success says, or the fault where it is none."""
    if isinstance(answer, Call):
        if answer.code != "OK":
            return fault(answer, "OK")
        read = read_protobuf(answer.body, signal)
    else:
        if answer.status != _OK:
            return fault(answer, "HTTP 200")
        read = read_json(answer.body, signal) if answer.type == JSON else read_protobuf(answer.body, signal)
    return fault(answer, f"a response message, but {read}") if isinstance(read, str) else read


def accepted(answer: Answer | Call, signal: Signal = "traces") -> Fault | None:
    """Expect that everything was taken."""
    success = success_of(answer, signal)
    if isinstance(success, Fault):
        return success
    if success.rejected:
        return fault(answer, f"nothing rejected, but {success.rejected} were: {success.message[:200]!a}")
    return None


def rejected(answer: Answer | Call, count: int, signal: Signal = "traces") -> Fault | None:
    """Expect a partial success that rejects `count`."""
    success = success_of(answer, signal)
    if isinstance(success, Fault):
        return success
    return None if success.rejected == count else fault(answer, f"a partial success with {count} rejected")


def rejected_or_refused(answer: Answer | Call, count: int, signal: Signal = "traces") -> Fault | None:
    """Expect a partial success that rejects `count`, or that the whole request is refused as bad data."""
    if is_refused(answer):
        return None
    success = success_of(answer, signal)
    if isinstance(success, Fault) or success.rejected != count:
        bad = "INVALID_ARGUMENT" if isinstance(answer, Call) else "HTTP 400"
        return fault(answer, f"a partial success with {count} rejected, or {bad}")
    return None


def is_refused(answer: Answer | Call) -> bool:
    """Return whether the request was refused as bad data, be it with 422 where 400 is due."""
    return answer.code == "INVALID_ARGUMENT" if isinstance(answer, Call) else answer.status in _REFUSALS


def status_in(answer: Answer, statuses: Collection[int]) -> Fault | None:
    """Expect one of the HTTP statuses."""
    return None if answer.status in statuses else fault(answer, "HTTP " + " or ".join(map(str, statuses)))


def code_in(call: Call, codes: Collection[str]) -> Fault | None:
    """Expect one of the gRPC status codes."""
    return None if call.code in codes else fault(call, " or ".join(codes))


def survived(answer: Answer | Call) -> Fault | None:
    """Expect that the request was taken or refused for good: not a crash, and not 'send it again', which never ends."""
    if isinstance(answer, Call):
        if answer.code in _CRASHES | RETRYABLE_CODES:
            return fault(answer, "OK or INVALID_ARGUMENT: neither a crash nor a retryable code")
        return None
    fine = answer.status == _OK or (answer.status in _CLIENT_ERRORS and answer.status != _TOO_MANY)
    return None if fine else fault(answer, "HTTP 200 or 400: neither a crash nor a retryable status")


def explained(answer: Answer) -> Fault | None:
    """Expect a `google.rpc.Status` with a message as the body of an error."""
    status = read_status(answer)
    if isinstance(status, str):
        return fault(answer, f"a google.rpc.Status, but {status}")
    return None if status.message else fault(answer, "a google.rpc.Status with a message")


def typed(answer: Answer, wanted: str) -> Fault | None:
    """Expect the answer in a content type."""
    return None if answer.type == wanted else fault(answer, f"content type {wanted}")


def not_to_be_retried(call: Call) -> Fault | None:
    """Expect an error that no exporter sends again: a code that is not retryable, and no RetryInfo."""
    if call.code in RETRYABLE_CODES or call.code == "OK":
        return fault(call, "an error that is not retryable")
    details = call.status.details if call.status else ()
    if any(detail.Is(RetryInfo.DESCRIPTOR) for detail in details):
        return fault(call, "no RetryInfo: the same request would fail again")
    return None


def bad_data(answer: Answer | Call) -> Fault | None:
    """Expect that the request is refused as bad data."""
    return code_in(answer, ("INVALID_ARGUMENT",)) if isinstance(answer, Call) else status_in(answer, (400,))
