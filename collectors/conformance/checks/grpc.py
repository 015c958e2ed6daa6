"""OTLP/gRPC: responses to valid calls, the status of an error, and whether exporters retry it."""

from __future__ import annotations

import socket
from typing import Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from collectors.conformance._check import (
    Fault,
    Skip,
    Verdict,
    accepted,
    check,
    code_in,
    fault,
    no_size,
    no_such_service,
    no_token,
    not_to_be_retried,
    success_of,
)
from collectors.conformance._receiver import METHODS, PARALLEL, Call, Receiver, finished
from collectors.conformance._requests import logs, padded, traces
from otel_agentic.net import parse_address

_MEGABYTE: Final = 1024 * 1024
_TAKES_FOUR: Final = "below 6 MiB; OTLP allows a receiver no more than 4"


def _one_span(receiver: Receiver, sent: str, **options: Any) -> Call:
    return receiver.call(traces().SerializeToString(), sent=sent, **options)


@check("grpc.traces.accepted")
def traces_accepted(receiver: Receiver) -> Verdict:
    """Send one span."""
    return accepted(_one_span(receiver, "one span"))


@check("grpc.traces.unset")
def traces_unset(receiver: Receiver) -> Verdict:
    """Send one span."""
    call = _one_span(receiver, "one span")
    success = success_of(call)
    if isinstance(success, Fault):
        return success
    return fault(call, "partial_success unset") if success.partial and not success.message else None


@check("grpc.logs.accepted")
def logs_accepted(receiver: Receiver) -> Verdict:
    """Send one log record."""
    call = receiver.call(logs().SerializeToString(), signal="logs", sent="one log record")
    return no_such_service(call) or accepted(call, "logs")


@check("grpc.gzip.accepted")
def gzip_accepted(receiver: Receiver) -> Verdict:
    """Send spans in gzip."""
    data = traces(20).SerializeToString()
    return accepted(receiver.call(data, compression=grpc.Compression.Gzip, sent="20 spans in gzip"))


@check("grpc.empty.accepted")
def empty_accepted(receiver: Receiver) -> Verdict:
    """Send no bytes."""
    return accepted(receiver.call(b"", sent="an empty request"))


@check("grpc.metadata.unknown")
def metadata_unknown(receiver: Receiver) -> Verdict:
    """Send unknown metadata."""
    more: dict[str, str | bytes] = {"x-checked": "yes", "x-checked-bin": b"\0\xff", "traceparent": "00-nonsense"}
    return accepted(_one_span(receiver, "one span with unknown metadata", metadata={**receiver.metadata(), **more}))


@check("grpc.size.taken")
def size_taken(receiver: Receiver) -> Verdict:
    """Send 5 MiB."""
    if receiver.target.max_bytes < 6 * _MEGABYTE:
        return Skip(reason=f"the receiver's limit (--max-bytes) is unknown, or {_TAKES_FOUR}")
    data = traces(5 * _MEGABYTE // 4096, name="x" * 4096).SerializeToString()
    return accepted(receiver.call(data, sent=f"{len(data)} bytes of spans"))


@check("grpc.parallel.streams")
def parallel_streams(receiver: Receiver) -> Verdict:
    """Begin a hundred calls, then read their responses."""
    stub = receiver.channel.unary_unary(METHODS["traces"])
    metadata = tuple(receiver.metadata().items())
    begun = [
        stub.future(traces(5).SerializeToString(), timeout=receiver.target.timeout_s, metadata=metadata)
        for _ in range(PARALLEL)
    ]
    calls = [finished(call, f"call {number} of {PARALLEL} at once") for number, call in enumerate(begun, 1)]
    faults = (accepted(call) for call in calls if call.code != "UNAVAILABLE")
    if problem := next(filter(None, faults), None):
        return problem
    return None if any(call.code == "OK" for call in calls) else fault(calls[0], "at least one accepted call")


@check("grpc.parallel.channels")
def parallel_channels(receiver: Receiver) -> Verdict:
    """Open twenty connections with a call each."""
    channels = [receiver.new_channel() for _ in range(20)]
    try:
        options = {"timeout": receiver.target.timeout_s, "metadata": tuple(receiver.metadata().items())}
        begun = [
            call.unary_unary(METHODS["traces"]).future(traces().SerializeToString(), **options) for call in channels
        ]
        calls = [finished(call, f"one span on connection {number} of 20") for number, call in enumerate(begun, 1)]
    finally:
        for call in channels:
            call.close()
    return next(filter(None, (accepted(call) for call in calls if call.code != "UNAVAILABLE")), None)


@check("grpc.cancelled.harmless")
def cancelled_harmless(receiver: Receiver) -> Verdict:
    """Cancel twenty calls, then send a span."""
    stub = receiver.channel.unary_unary(METHODS["traces"])
    for _ in range(20):
        stub.future(traces(500).SerializeToString(), metadata=tuple(receiver.metadata().items())).cancel()
    return accepted(_one_span(receiver, "one span, after 20 calls were cancelled"))


@check("grpc.deadline.kept")
def deadline_kept(receiver: Receiver) -> Verdict:
    """Give a large request a deadline that cannot be kept."""
    data = traces(2_000).SerializeToString()
    late = receiver.call(data, timeout_s=0.0005, sent="2,000 spans with a deadline of 0.5 ms")
    return code_in(late, ("DEADLINE_EXCEEDED", "OK")) or accepted(
        _one_span(receiver, "one span, after a deadline passed")
    )


@check("grpc.data.sent_again")
def sent_again(receiver: Receiver) -> Verdict:
    """Send the same span twice."""
    data = traces().SerializeToString()
    first, second = (accepted(receiver.call(data, sent=f"a span, {time} time")) for time in ("first", "second"))
    return first or second


_UNAUTHENTICATED: Final = ("UNAUTHENTICATED", "PERMISSION_DENIED")


def _undecodable(receiver: Receiver) -> Call:
    return receiver.call(b"\xff nonsense", sent="undecodable bytes")


@check("grpc.error.final")
def error_final(receiver: Receiver) -> Verdict:
    """Send undecodable bytes."""
    return not_to_be_retried(_undecodable(receiver))


@check("grpc.error.explained")
def error_explained(receiver: Receiver) -> Verdict:
    """Send undecodable bytes."""
    call = _undecodable(receiver)
    return fault(call, "an error") if call.code == "OK" else None if call.details else fault(call, "a status message")


@check("grpc.error.details")
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


@check("grpc.method.unknown")
def method_unknown(receiver: Receiver) -> Verdict:
    """Call a method that does not exist."""
    name = "/opentelemetry.proto.collector.trace.v1.TraceService/NoSuchMethod"
    return code_in(receiver.call(b"", method=name, sent="TraceService/NoSuchMethod"), ("UNIMPLEMENTED",))


@check("grpc.service.unknown")
def service_unknown(receiver: Receiver) -> Verdict:
    """Call a service that does not exist."""
    call = receiver.call(traces().SerializeToString(), method="/no.such.Service/Export", sent="no.such.Service/Export")
    after = receiver.call(traces().SerializeToString(), sent="one span, after a call to an unknown service")
    return code_in(call, ("UNIMPLEMENTED",)) or accepted(after)


@check("grpc.size.beyond")
def size_beyond(receiver: Receiver) -> Verdict:
    """Send a request beyond the limit."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + 1024 * 1024
    call = receiver.call(padded(size), sent=f"a request of {size} bytes")
    return code_in(call, ("RESOURCE_EXHAUSTED",)) or not_to_be_retried(call)


@check("grpc.gzip.bomb")
def gzip_bomb(receiver: Receiver) -> Verdict:
    """Send a request that grows a thousandfold, beyond the limit."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + 1024 * 1024
    call = receiver.call(padded(size), compression=grpc.Compression.Gzip, sent=f"gzip that holds {size} bytes")
    return code_in(call, ("RESOURCE_EXHAUSTED",)) or not_to_be_retried(call)


@check("grpc.garbage.harmless")
def garbage_harmless(receiver: Receiver) -> Verdict:
    """Write an HTTP/1.1 request to the gRPC port."""
    address = parse_address(receiver.target.grpc_address)
    with socket.create_connection((address.host, address.port), timeout=receiver.target.timeout_s) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(1000))
    return accepted(receiver.call(traces().SerializeToString(), sent="one span, after bytes that are no HTTP/2"))


@check("grpc.auth.missing")
def auth_missing(receiver: Receiver) -> Verdict:
    """Send no token."""
    if skip := no_token(receiver):
        return skip
    metadata = {key: value for key, value in receiver.metadata().items() if key != "authorization"}
    call = receiver.call(traces().SerializeToString(), metadata=metadata, sent="one span without a token")
    return code_in(call, _UNAUTHENTICATED)


@check("grpc.auth.wrong")
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
