"""Spans and log records in protobuf, the same over HTTP and over gRPC: rich, large, many, strange, bad."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from collectors.conformance import _requests as _hostile
from collectors.conformance._check import Check, accepted, bad_data, rejected_or_refused, survived
from collectors.conformance._requests import logs, traces
from collectors.conformance.checks._skips import no_logs, no_such_service

if TYPE_CHECKING:
    from collections.abc import Callable

    from collectors.conformance._check import Answer, Call, Severity, Signal, Transport, Verdict
    from collectors.conformance._receiver import Receiver

_PROTO: Final = "OTLP: trace.proto"
_BAD_DATA: Final = "OTLP: Response, Failures and Bad Data"
_PARTIAL: Final = "OTLP: Response, Partial Success"
_HARDENING: Final = "none: hardening; OTLP: retryable codes"
_REFUSE: Final = "answer 400 or INVALID_ARGUMENT, nothing that senders try again"
_TEACH: Final = "answer a partial success that counts the bad ones in rejected_spans, or refuse"
_SURVIVE: Final = "read it, cut it or refuse it: an unforeseen exception must not become 5xx, UNKNOWN or INTERNAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A request that is checked on both transports."""

    name: str
    severity: Severity
    holds: str
    spec: str
    fix: str
    sent: str
    build: Callable[[], bytes]
    expect: Callable[[Answer | Call], Verdict]
    signal: Signal = "traces"


_REJECTS_ONE: Final = partial(rejected_or_refused, count=1)


_CASES: Final = (
    _Case(
        name="rich",
        severity="MUST",
        holds="a span with every field and every kind of value is taken",
        spec=_PROTO,
        fix="read events, links, status, flags, trace state, scope, schema URLs and all values",
        sent="a span with every field",
        build=_hostile.rich,
        expect=accepted,
    ),
    _Case(
        name="unknown_field",
        severity="MUST",
        holds="fields of a later version are ignored",
        spec="OTLP: Future Versions and Interoperability",
        fix="do not refuse unknown fields",
        sent="a request with an unknown field",
        build=_hostile.unknown_field,
        expect=accepted,
    ),
    _Case(
        name="many_spans",
        severity="SHOULD",
        holds="10,000 spans in one request are taken",
        spec="OTLP: Request",
        fix="bound requests by bytes, not by a small number of spans",
        sent="10,000 spans",
        build=lambda: traces(10_000).SerializeToString(),
        expect=accepted,
    ),
    _Case(
        name="large_attribute",
        severity="SHOULD",
        holds="an attribute of 1 MiB is taken",
        spec="OTLP: Request",
        fix="take it, cut if you must: prompts are long",
        sent="an attribute of 1 MiB",
        build=_hostile.large_attribute,
        expect=accepted,
    ),
    _Case(
        name="not_finite",
        severity="MUST",
        holds="NaN and infinite numbers are taken",
        spec="OTLP: common.proto; proto3: double",
        fix="keep the span even if your database cannot store the number",
        sent="attributes NaN, Infinity, -Infinity",
        build=_hostile.not_finite,
        expect=accepted,
    ),
    _Case(
        name="odd_times",
        severity="GUARD",
        holds="times of 0 and 2^64-1 and an end before the start end in success or refusal",
        spec=_HARDENING,
        fix=_SURVIVE,
        sent="spans with impossible times",
        build=_hostile.odd_times,
        expect=survived,
    ),
    _Case(
        name="odd_text",
        severity="GUARD",
        holds="NUL, an empty name, a name of 1 MB and doubled keys end in success or refusal",
        spec=_HARDENING,
        fix=_SURVIVE,
        sent="spans with NUL, without a name, with a name of 1 MB, with one key twice",
        build=_hostile.odd_text,
        expect=survived,
    ),
    _Case(
        name="many_attributes",
        severity="GUARD",
        holds="a span with 10,000 attributes ends in success or refusal",
        spec=_HARDENING,
        fix=_SURVIVE,
        sent="a span with 10,000 attributes",
        build=lambda: _hostile.many_attributes(10_000),
        expect=survived,
    ),
    _Case(
        name="deep_value",
        severity="GUARD",
        holds="an attribute nested 5,000 levels deep ends in success or refusal",
        spec=_HARDENING,
        fix=_SURVIVE,
        sent="an attribute nested 5,000 levels deep",
        build=lambda: _hostile.deep(5_000),
        expect=survived,
    ),
    _Case(
        name="undecodable",
        severity="MUST",
        holds="bytes that are no protobuf are refused as bad data",
        spec=_BAD_DATA,
        fix=_REFUSE,
        sent="undecodable bytes",
        build=lambda: b"\xff nonsense",
        expect=bad_data,
    ),
    _Case(
        name="truncated",
        severity="MUST",
        holds="truncated protobuf is refused as bad data",
        spec=_BAD_DATA,
        fix=_REFUSE,
        sent="protobuf without its last 5 bytes",
        build=lambda: traces().SerializeToString()[:-5],
        expect=bad_data,
    ),
    _Case(
        name="not_utf8",
        severity="SHOULD",
        holds="text that is not UTF-8 is refused as bad data",
        spec="proto3: string",
        fix=_REFUSE,
        sent="a name that is not UTF-8",
        build=_hostile.not_utf8,
        expect=bad_data,
    ),
    _Case(
        name="short_ids",
        severity="SHOULD",
        holds="a span whose ids are too short is rejected or refused, not taken in silence",
        spec=_PROTO,
        fix=_TEACH,
        sent="a span with a trace id of 3 bytes",
        build=lambda: _hostile.with_trace_id(b"\1\2\3"),
        expect=_REJECTS_ONE,
    ),
    _Case(
        name="zero_ids",
        severity="SHOULD",
        holds="a span whose ids are all zero is rejected or refused, not taken in silence",
        spec=_PROTO,
        fix=_TEACH,
        sent="a span with a trace id of zeros",
        build=lambda: _hostile.with_trace_id(bytes(16)),
        expect=_REJECTS_ONE,
    ),
    _Case(
        name="half_good",
        severity="SHOULD",
        holds="of a good and a bad span, exactly the bad one is rejected, or both are refused",
        spec=_PARTIAL,
        fix=_TEACH,
        sent="a good span and one without ids",
        build=_hostile.half_good,
        expect=_REJECTS_ONE,
    ),
    _Case(
        name="logs_as_traces",
        severity="GUARD",
        holds="a logs request sent to traces is not taken in silence",
        spec=_PARTIAL,
        fix="reject what has no ids, and name the right path",
        sent="a logs request to traces",
        build=lambda: logs().SerializeToString(),
        expect=_REJECTS_ONE,
    ),
    _Case(
        name="traces_as_logs",
        severity="GUARD",
        holds="a traces request sent to logs is not taken in silence",
        spec=_PARTIAL,
        fix="reject records without any content, and name the right path",
        sent="a traces request to logs",
        build=lambda: traces().SerializeToString(),
        expect=partial(_REJECTS_ONE, signal="logs"),
        signal="logs",
    ),
)


def _run(case: _Case, transport: Transport, receiver: Receiver) -> Verdict:
    if transport == "grpc":
        call = receiver.call(case.build(), signal=case.signal, sent=case.sent)
        return no_such_service(call) or case.expect(call)
    skip = no_logs(receiver) if case.signal == "logs" else None
    return skip or case.expect(receiver.post(case.build(), signal=case.signal, sent=case.sent))


def _severity(case: _Case, transport: Transport) -> Severity:
    # Over HTTP the status 400 is prescribed; over gRPC INVALID_ARGUMENT is recommended (see grpc.error.final).
    return "SHOULD" if case.expect is bad_data and transport == "grpc" else case.severity


def _check_of(case: _Case, transport: Transport) -> Check:
    return Check(
        id=f"{transport}.data.{case.name}",
        severity=_severity(case, transport),
        holds=case.holds,
        spec=case.spec,
        fix=case.fix,
        run=partial(_run, case, transport),
    )


HTTP: Final = tuple(_check_of(case, "http") for case in _CASES)
GRPC: Final = tuple(_check_of(case, "grpc") for case in _CASES)
