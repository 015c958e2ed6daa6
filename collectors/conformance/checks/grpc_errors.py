"""OTLP/gRPC: which status an error has, and whether it may be sent again."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from collectors.conformance._check import accepted, check, code_in, fault, not_to_be_retried
from collectors.conformance._requests import padded, traces
from collectors.conformance.checks._skips import no_size, no_token
from otel_agentic.net import parse_address

if TYPE_CHECKING:
    from collectors.conformance._check import Call, Verdict
    from collectors.conformance._receiver import Receiver

_FAILURES: Final = "OTLP: OTLP/gRPC Response, Failures"
_SIZE: Final = "OTLP: OTLP/gRPC Request"
_UNAUTHENTICATED: Final = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_BOUND: Final = "set the library's largest message: it counts after decompression and answers RESOURCE_EXHAUSTED"


def _undecodable(receiver: Receiver) -> Call:
    return receiver.call(b"\xff nonsense", sent="undecodable bytes")


@check(
    "grpc.error.final",
    "MUST",
    "undecodable bytes are refused with a code that is not retryable, without RetryInfo",
    spec=_FAILURES,
    fix="answer INVALID_ARGUMENT without RetryInfo: a retryable code repeats the request forever",
)
def error_final(receiver: Receiver) -> Verdict:
    """Send undecodable bytes."""
    return not_to_be_retried(_undecodable(receiver))


@check(
    "grpc.error.explained",
    "SHOULD",
    "an error has a message with the reason",
    spec=_FAILURES,
    fix="set the status message",
)
def error_explained(receiver: Receiver) -> Verdict:
    """Send undecodable bytes."""
    call = _undecodable(receiver)
    return fault(call, "an error") if call.code == "OK" else None if call.details else fault(call, "a status message")


@check(
    "grpc.error.details",
    "MUST",
    "where grpc-status-details-bin is sent, its code and message are those of the status",
    spec="gRPC: Status, richer error model",
    fix="fill the google.rpc.Status from the same values",
)
def error_details(receiver: Receiver) -> Verdict:
    """Send undecodable bytes."""
    call = _undecodable(receiver)
    if call.code == "OK":
        return fault(call, "an error")
    if "grpc-status-details-bin" not in call.trailers:
        return None
    number = grpc.StatusCode[call.code].value[0]
    status = call.status
    if status is None or (status.code, status.message) != (number, call.details):
        return fault(call, f"details with code {number} and the same message, not {str(status)!a}")
    return None


@check(
    "grpc.method.unknown",
    "MUST",
    "an unknown method is UNIMPLEMENTED",
    spec="gRPC: Status codes",
    fix="leave unknown methods to the gRPC library",
)
def method_unknown(receiver: Receiver) -> Verdict:
    """Call a method that does not exist."""
    name = "/opentelemetry.proto.collector.trace.v1.TraceService/NoSuchMethod"
    return code_in(receiver.call(b"", method=name, sent="TraceService/NoSuchMethod"), ("UNIMPLEMENTED",))


@check(
    "grpc.service.unknown",
    "MUST",
    "an unknown service is UNIMPLEMENTED, and others are served on",
    spec="gRPC: Status codes",
    fix="leave unknown services to the gRPC library",
)
def service_unknown(receiver: Receiver) -> Verdict:
    """Call a service that does not exist."""
    call = receiver.call(traces().SerializeToString(), method="/no.such.Service/Export", sent="no.such.Service/Export")
    after = receiver.call(traces().SerializeToString(), sent="one span, after a call to an unknown service")
    return code_in(call, ("UNIMPLEMENTED",)) or accepted(after)


@check(
    "grpc.size.beyond",
    "MUST",
    "a request beyond the limit is RESOURCE_EXHAUSTED, without RetryInfo",
    spec=_SIZE,
    fix=_BOUND,
)
def size_beyond(receiver: Receiver) -> Verdict:
    """Send a request beyond the limit."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + 1024 * 1024
    call = receiver.call(padded(size), sent=f"a request of {size} bytes")
    return code_in(call, ("RESOURCE_EXHAUSTED",)) or not_to_be_retried(call)


@check(
    "grpc.gzip.bomb",
    "MUST",
    "the size is bounded after decompression: a gzip bomb is RESOURCE_EXHAUSTED",
    spec=_SIZE,
    fix=_BOUND,
)
def gzip_bomb(receiver: Receiver) -> Verdict:
    """Send a request that grows a thousandfold, beyond the limit."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + 1024 * 1024
    call = receiver.call(padded(size), compression=grpc.Compression.Gzip, sent=f"gzip that holds {size} bytes")
    return code_in(call, ("RESOURCE_EXHAUSTED",)) or not_to_be_retried(call)


@check(
    "grpc.garbage.harmless",
    "GUARD",
    "bytes that are not HTTP/2 end their connection and do not affect others",
    spec="RFC 9113, 3.4",
    fix="leave framing to the gRPC library",
)
def garbage_harmless(receiver: Receiver) -> Verdict:
    """Write an HTTP/1.1 request to the gRPC port."""
    address = parse_address(receiver.target.grpc_address)
    with socket.create_connection((address.host, address.port), timeout=receiver.target.timeout_s) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(1000))
    return accepted(receiver.call(traces().SerializeToString(), sent="one span, after bytes that are no HTTP/2"))


@check(
    "grpc.auth.missing",
    "MUST",
    "without the token it is UNAUTHENTICATED",
    spec="gRPC: Authentication",
    fix="look for `authorization` in the metadata of each call",
)
def auth_missing(receiver: Receiver) -> Verdict:
    """Send no token."""
    if skip := no_token(receiver):
        return skip
    metadata = {key: value for key, value in receiver.metadata().items() if key != "authorization"}
    call = receiver.call(traces().SerializeToString(), metadata=metadata, sent="one span without a token")
    return code_in(call, _UNAUTHENTICATED)


@check(
    "grpc.auth.wrong",
    "MUST",
    "with a wrong token it is UNAUTHENTICATED",
    spec="gRPC: Authentication",
    fix="compare the whole value, scheme included",
)
def auth_wrong(receiver: Receiver) -> Verdict:
    """Send tokens that are nearly right."""
    if skip := no_token(receiver):
        return skip
    token = receiver.target.token or ""
    tokens = {"a token that is cut": f"Bearer {token[:-1]}", "the token without its scheme": token}
    for sent, header in tokens.items():
        metadata: dict[str, str | bytes] = {**receiver.metadata(), "authorization": header}
        call = receiver.call(traces().SerializeToString(), metadata=metadata, sent=sent)
        if problem := code_in(call, _UNAUTHENTICATED):
            return problem
    return None
