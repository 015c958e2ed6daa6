"""Spans and log records in protobuf, the same over HTTP and gRPC: with all fields, large, many, unusual, invalid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from collectors.conformance._check import (
    Verdict,
    accepted,
    bad_data,
    check,
    no_logs,
    no_such_service,
    rejected_or_refused,
    survived,
)
from collectors.conformance._requests import (
    deep,
    half_good,
    large_attribute,
    logs,
    many_attributes,
    not_finite,
    not_utf8,
    odd_text,
    odd_times,
    rich,
    traces,
    unknown_field,
    with_trace_id,
)

if TYPE_CHECKING:
    from collectors.conformance._receiver import Answer, Call, Receiver, Signal


@dataclass(frozen=True, slots=True)
class _Request:
    """A request that is sent over both transports, and the expected response."""

    sent: str
    build: Callable[[], bytes]
    expect: Callable[[Answer | Call], Verdict]
    signal: Signal = "traces"


_ONE_REJECTED: Final = partial(rejected_or_refused, count=1)
#: By the last part of the check's id.
_REQUESTS: Final = {
    "rich": _Request("a span with every field", rich, accepted),
    "unknown_field": _Request("a request with an unknown field", unknown_field, accepted),
    "many_spans": _Request("10,000 spans", lambda: traces(10_000).SerializeToString(), accepted),
    "large_attribute": _Request("an attribute of 1 MiB", large_attribute, accepted),
    "not_finite": _Request("attributes NaN, Infinity, -Infinity", not_finite, accepted),
    "odd_times": _Request("spans with impossible times", odd_times, survived),
    "odd_text": _Request("spans with NUL, without a name, with a name of 1 MB, with one key twice", odd_text, survived),
    "many_attributes": _Request("a span with 10,000 attributes", lambda: many_attributes(10_000), survived),
    "deep_value": _Request("an attribute nested 5,000 levels deep", lambda: deep(5_000), survived),
    "undecodable": _Request("undecodable bytes", lambda: b"\xff nonsense", bad_data),
    "truncated": _Request("protobuf without its last 5 bytes", lambda: traces().SerializeToString()[:-5], bad_data),
    "not_utf8": _Request("a name that is not UTF-8", not_utf8, bad_data),
    "short_ids": _Request("a span with a trace id of 3 bytes", lambda: with_trace_id(b"\1\2\3"), _ONE_REJECTED),
    "zero_ids": _Request("a span with a trace id of zeros", lambda: with_trace_id(bytes(16)), _ONE_REJECTED),
    "half_good": _Request("a good span and one without ids", half_good, _ONE_REJECTED),
    "logs_as_traces": _Request("a logs request to traces", lambda: logs().SerializeToString(), _ONE_REJECTED),
    "traces_as_logs": _Request(
        "a traces request to logs",
        lambda: traces().SerializeToString(),
        partial(_ONE_REJECTED, signal="logs"),
        signal="logs",
    ),
}


def _over_http(request: _Request, receiver: Receiver) -> Verdict:
    skip = no_logs(receiver) if request.signal == "logs" else None
    return skip or request.expect(receiver.post(request.build(), signal=request.signal, sent=request.sent))


def _over_grpc(request: _Request, receiver: Receiver) -> Verdict:
    call = receiver.call(request.build(), signal=request.signal, sent=request.sent)
    return no_such_service(call) or request.expect(call)


CHECKS: Final = tuple(
    check(f"{transport}.data.{name}")(partial(run, request))
    for transport, run in (("http", _over_http), ("grpc", _over_grpc))
    for name, request in _REQUESTS.items()
)
