"""Checks, expectations that return a fault if a response violates them, and conditions for skipping a check."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, get_args

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from collectors.conformance._receiver import JSON, PROTOBUF, Answer, Call, Receiver, Signal

_REJECTED: Final[Mapping[Signal, str]] = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The content of a response message; `partial` is whether its `partial_success` field was set."""

    rejected: int = 0
    message: str = ""
    partial: bool = False


def read_protobuf(body: bytes, signal: Signal) -> Success | str:
    """Return the content of a response message in protobuf, or the reason why it is not one."""
    kind = ExportTraceServiceResponse if signal == "traces" else ExportLogsServiceResponse
    try:
        response: Any = kind.FromString(body)
    except ProtobufDecodeError:
        return f"the body is not an {kind.__name__} in protobuf"
    partial = response.partial_success
    rejected = partial.rejected_spans if signal == "traces" else partial.rejected_log_records
    return Success(rejected=rejected, message=partial.error_message, partial=response.HasField("partial_success"))


def read_json(body: bytes, signal: Signal) -> Success | str:
    """Return the content of a response message in OTLP/JSON, or the reason why it is not one."""
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
    """Return the `google.rpc.Status` in the body of an error response, or the reason why it is missing."""
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
    """The sent request, the actual response, and the expected one."""

    sent: str
    actual: str
    expected: str

    def __str__(self) -> str:
        return f"sent {self.sent}; got {self.actual}; expected {self.expected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The reason why a check does not apply to this receiver."""

    reason: str


#: None means that the check passed.
Verdict: TypeAlias = Fault | Skip | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One requirement on an OTLP receiver.

    `id` begins with the transport. `holds` is the sentence that must be true, `spec` its source, `fix` the action to take if it is
    not. A check that `waits` spends its time on a timeout of the receiver and runs in parallel with the others.
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
        """The transport that the check uses."""
        return "grpc" if self.id.startswith("grpc.") else "http"


@cache
def catalog() -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of each check of `checks.toml` except `run`, by its id, in the order in which they run."""
    text = files(__package__).joinpath("checks.toml").read_text("utf-8")
    by_id: dict[str, Mapping[str, Any]] = {}
    for entry in tomllib.loads(text)["check"]:
        by_id[entry["id"]] = {**by_id.get(entry.pop("like", ""), {}), **entry}
    return by_id


def check(name: str) -> Callable[[Callable[[Receiver], Verdict]], Check]:
    """Return a decorator that turns a function into the check with that id in `checks.toml`."""
    return lambda run: Check(**catalog()[name], run=run)


_OK: Final = 200
#: OTLP requires 400; checks of other requirements also accept the other status code for bad data.
_REFUSALS: Final = frozenset({400, 422})
_CLIENT_ERRORS: Final = range(400, 500)
_TOO_MANY: Final = 429
#: A limit on the size is required, the status 413 is recommended (see http.size.beyond).
TOO_LARGE: Final = (413, 400, 422)
#: The status codes for which exporters retry: the table "Retryable Response Codes".
RETRYABLE: Final = frozenset({429, 502, 503, 504})
RETRYABLE_CODES: Final = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
#: Codes that a gRPC library returns for an exception in a handler; exporters then drop the batch.
_CRASHES: Final = frozenset({"UNKNOWN", "INTERNAL"})


def fault(answer: Answer | Call, expected: str) -> Fault:
    """Return the fault of a response that differs from the expected one."""
    return Fault(sent=answer.sent, actual=answer.summary, expected=expected)


def success_of(answer: Answer | Call, signal: Signal = "traces") -> Success | Fault:
    """Return the content of a successful response, or the fault of any other response."""
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
    """Expect that everything was accepted."""
    success = success_of(answer, signal)
    if isinstance(success, Fault):
        return success
    if success.rejected:
        return fault(answer, f"nothing rejected, but {success.rejected} were: {success.message[:200]!a}")
    return None


def rejected(answer: Answer | Call, count: int, signal: Signal = "traces") -> Fault | None:
    """Expect a partial success that rejects `count` items."""
    success = success_of(answer, signal)
    if isinstance(success, Fault):
        return success
    return None if success.rejected == count else fault(answer, f"a partial success with {count} rejected")


def rejected_or_refused(answer: Answer | Call, count: int, signal: Signal = "traces") -> Fault | None:
    """Expect a partial success that rejects `count` items, or that the whole request is refused as bad data."""
    if is_refused(answer):
        return None
    success = success_of(answer, signal)
    if isinstance(success, Fault) or success.rejected != count:
        expected_status = "INVALID_ARGUMENT" if isinstance(answer, Call) else "HTTP 400"
        return fault(answer, f"a partial success with {count} rejected, or {expected_status}")
    return None


def is_refused(answer: Answer | Call) -> bool:
    """Return whether the request was refused as bad data, possibly with 422 instead of 400."""
    return answer.code == "INVALID_ARGUMENT" if isinstance(answer, Call) else answer.status in _REFUSALS


def status_in(answer: Answer, statuses: Collection[int]) -> Fault | None:
    """Expect one of the HTTP statuses."""
    return None if answer.status in statuses else fault(answer, "HTTP " + " or ".join(map(str, statuses)))


def code_in(call: Call, codes: Collection[str]) -> Fault | None:
    """Expect one of the gRPC status codes."""
    return None if call.code in codes else fault(call, " or ".join(codes))


def survived(answer: Answer | Call) -> Fault | None:
    """Expect that the request was accepted or permanently refused: no crash, and no status that is retried endlessly."""
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


def typed(answer: Answer, content_type: str) -> Fault | None:
    """Expect a response of the content type."""
    return None if answer.type == content_type else fault(answer, f"content type {content_type}")


def not_to_be_retried(call: Call) -> Fault | None:
    """Expect an error that exporters do not retry: a code that is not retryable, and no RetryInfo."""
    if call.code in RETRYABLE_CODES or call.code == "OK":
        return fault(call, "an error that is not retryable")
    details = call.status.details if call.status else ()
    if any(detail.Is(RetryInfo.DESCRIPTOR) for detail in details):
        return fault(call, "no RetryInfo: the same request would fail again")
    return None


def bad_data(answer: Answer | Call) -> Fault | None:
    """Expect that the request is refused as bad data."""
    return code_in(answer, ("INVALID_ARGUMENT",)) if isinstance(answer, Call) else status_in(answer, (400,))


def no_json(receiver: Receiver) -> Skip | None:
    """Skip if JSON is not supported; `http.json.accepted` reports that."""
    return None if receiver.reads(JSON, "traces") else Skip(reason="the receiver reads no JSON: see http.json.accepted")


def no_logs(receiver: Receiver, kind: str = PROTOBUF) -> Skip | None:
    """Skip if logs are not supported: no signal is mandatory."""
    return None if receiver.reads(kind, "logs") else Skip(reason=f"the receiver takes no logs as {kind} at /v1/logs")


def no_such_service(call: Call) -> Skip | None:
    """Skip if the receiver has no service for a signal; `grpc.traces.accepted` reports a missing one for traces."""
    return Skip(reason="the receiver does not take this signal over gRPC") if call.code == "UNIMPLEMENTED" else None


def no_token(receiver: Receiver) -> Skip | None:
    """Skip if no token is configured, since then none can be omitted."""
    return None if receiver.target.token is not None else Skip(reason="no token was given (--token)")


def no_size(receiver: Receiver) -> Skip | None:
    """Skip if the largest request of the receiver is unknown."""
    if receiver.target.max_bytes:
        return None
    return Skip(reason="the receiver's limit is not known (--max-bytes)")
