"""What is expected of answers: each function returns the fault, None where there is none, to be joined by `or`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed

from collectors.conformance._answer import JSON, Call, read_json, read_protobuf, read_status
from collectors.conformance._check import Fault

if TYPE_CHECKING:
    from collections.abc import Collection

    from collectors.conformance._answer import Answer, Signal, Success

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
