"""OTLP/gRPC: responses to valid calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types

from collectors.conformance._check import Fault, Skip, accepted, check, code_in, fault, success_of
from collectors.conformance._receiver import METHODS, PARALLEL, finished
from collectors.conformance._requests import logs, traces
from collectors.conformance.checks._skips import no_such_service

if TYPE_CHECKING:
    from collectors.conformance._check import Call, Verdict
    from collectors.conformance._receiver import Receiver

_SUCCESS: Final = "OTLP: OTLP/gRPC Response, Full Success"
_MEGABYTE: Final = 1024 * 1024
_TAKES_FOUR: Final = "below 6 MiB; OTLP allows a receiver no more than 4"


def _one_span(receiver: Receiver, sent: str, **options: Any) -> Call:
    return receiver.call(traces().SerializeToString(), sent=sent, **options)


@check(
    "grpc.traces.accepted",
    "MUST",
    "TraceService/Export answers OK with an ExportTraceServiceResponse",
    spec=_SUCCESS,
    fix="serve opentelemetry.proto.collector.trace.v1.TraceService",
)
def traces_accepted(receiver: Receiver) -> Verdict:
    """Send one span."""
    return accepted(_one_span(receiver, "one span"))


@check(
    "grpc.traces.unset",
    "MUST",
    "partial_success is unset where everything was taken",
    spec=_SUCCESS,
    fix="leave partial_success out unless something was rejected or there is a warning",
)
def traces_unset(receiver: Receiver) -> Verdict:
    """Send one span."""
    call = _one_span(receiver, "one span")
    success = success_of(call)
    if isinstance(success, Fault):
        return success
    return fault(call, "partial_success unset") if success.partial and not success.message else None


@check(
    "grpc.logs.accepted",
    "MUST",
    "LogsService/Export answers OK with an ExportLogsServiceResponse",
    spec=_SUCCESS,
    fix="serve opentelemetry.proto.collector.logs.v1.LogsService",
)
def logs_accepted(receiver: Receiver) -> Verdict:
    """Send one log record."""
    call = receiver.call(logs().SerializeToString(), signal="logs", sent="one log record")
    return no_such_service(call) or accepted(call, "logs")


@check(
    "grpc.gzip.accepted",
    "MUST",
    "gzip is read",
    spec="OTLP: Protocol Details",
    fix="enable the gzip compressor of the gRPC library",
)
def gzip_accepted(receiver: Receiver) -> Verdict:
    """Send spans in gzip."""
    data = traces(20).SerializeToString()
    return accepted(receiver.call(data, compression=grpc.Compression.Gzip, sent="20 spans in gzip"))


@check(
    "grpc.empty.accepted",
    "SHOULD",
    "an empty request succeeds",
    spec=_SUCCESS,
    fix="take an empty message for a success",
)
def empty_accepted(receiver: Receiver) -> Verdict:
    """Send no bytes."""
    return accepted(receiver.call(b"", sent="an empty request"))


@check(
    "grpc.metadata.unknown",
    "MUST",
    "unknown metadata is ignored, binary too",
    spec="gRPC over HTTP/2: Custom-Metadata",
    fix="ignore what you do not know",
)
def metadata_unknown(receiver: Receiver) -> Verdict:
    """Send metadata that means nothing."""
    more: dict[str, str | bytes] = {"x-checked": "yes", "x-checked-bin": b"\0\xff", "traceparent": "00-nonsense"}
    return accepted(_one_span(receiver, "one span with unknown metadata", metadata={**receiver.metadata(), **more}))


@check(
    "grpc.size.taken",
    "GUARD",
    "5 MiB in one request are taken: more than the 4 MiB of gRPC libraries",
    spec="OTLP: OTLP/gRPC Request",
    fix="raise the library's largest message size; exporters drop requests that are refused for their size",
)
def size_taken(receiver: Receiver) -> Verdict:
    """Send 5 MiB."""
    if receiver.target.max_bytes < 6 * _MEGABYTE:
        return Skip(reason=f"the receiver's limit (--max-bytes) is unknown, or {_TAKES_FOUR}")
    data = traces(5 * _MEGABYTE // 4096, name="x" * 4096).SerializeToString()
    return accepted(receiver.call(data, sent=f"{len(data)} bytes of spans"))


@check(
    "grpc.parallel.streams",
    "SHOULD",
    f"{PARALLEL} calls at once on one connection are all answered: taken, or UNAVAILABLE",
    spec="OTLP: OTLP/gRPC Concurrent Requests; OTLP/gRPC Throttling",
    fix="refuse surplus with UNAVAILABLE and RetryInfo",
)
def parallel_streams(receiver: Receiver) -> Verdict:
    """Begin a hundred calls, then read their answers."""
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
    return None if any(call.code == "OK" for call in calls) else fault(calls[0], "at least one call taken")


@check(
    "grpc.parallel.channels",
    "SHOULD",
    "20 connections at once are all answered",
    spec="OTLP: OTLP/gRPC Concurrent Requests",
    fix="accept connections while calls are running",
)
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


@check(
    "grpc.cancelled.harmless",
    "GUARD",
    "calls that their sender cancels do not affect other calls",
    spec="gRPC: Cancellation",
    fix="free what a call held when it ends",
)
def cancelled_harmless(receiver: Receiver) -> Verdict:
    """Cancel twenty calls, then send a span."""
    stub = receiver.channel.unary_unary(METHODS["traces"])
    for _ in range(20):
        stub.future(traces(500).SerializeToString(), metadata=tuple(receiver.metadata().items())).cancel()
    return accepted(_one_span(receiver, "one span, after 20 calls were cancelled"))


@check(
    "grpc.deadline.kept",
    "MUST",
    "a call whose deadline is over ends as DEADLINE_EXCEEDED, and others are served on",
    spec="gRPC: Deadlines",
    fix="do not hold the connection for a call that is over",
)
def deadline_kept(receiver: Receiver) -> Verdict:
    """Give a large request a deadline that cannot be kept."""
    data = traces(2_000).SerializeToString()
    late = receiver.call(data, timeout_s=0.0005, sent="2,000 spans with a deadline of 0.5 ms")
    return code_in(late, ("DEADLINE_EXCEEDED", "OK")) or accepted(
        _one_span(receiver, "one span, after a deadline passed")
    )


@check(
    "grpc.data.sent_again",
    "MUST",
    "a request sent again, as exporters do when an answer got lost, succeeds",
    spec="OTLP: Known Limitations, Duplicate Data",
    fix="answer success to what you have already; keep it once",
)
def sent_again(receiver: Receiver) -> Verdict:
    """Send the same span twice."""
    data = traces().SerializeToString()
    first, second = (accepted(receiver.call(data, sent=f"a span, {time} time")) for time in ("first", "second"))
    return first or second
