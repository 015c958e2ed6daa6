"""How much is taken over HTTP, and what else hangs on sending twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.conformance._check import (
    JSON,
    PROTOBUF,
    TOO_LARGE,
    Fault,
    Skip,
    accepted,
    check,
    fault,
    is_refused,
    rejected_or_refused,
    status_in,
    success_of,
)
from collectors.conformance._receiver import chunked
from collectors.conformance._requests import half_good, padded, span, traces, traces_json
from collectors.conformance.checks._skips import no_json, no_size

if TYPE_CHECKING:
    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

_MEGABYTE: Final = 1024 * 1024
_PARTIAL: Final = "OTLP: OTLP/HTTP Response, Partial Success"


@check(
    "http.size.taken",
    "SHOULD",
    "5 MiB in one request are taken, where the limit is above",
    spec="OTLP: OTLP/HTTP Request",
    fix="take at least the 20 MiB that OTLP recommends",
)
def size_taken(receiver: Receiver) -> Verdict:
    """Send 5 MiB."""
    if receiver.target.max_bytes < 6 * _MEGABYTE:
        return no_size(receiver) or Skip(reason="the receiver's limit (--max-bytes) is below 6 MiB")
    body = traces(5 * _MEGABYTE // 4096, name="x" * 4096).SerializeToString()
    return accepted(receiver.post(body, sent=f"{len(body)} bytes of spans"))


@check(
    "http.size.beyond",
    "SHOULD",
    "a body beyond the limit is refused with 413",
    spec="OTLP: OTLP/HTTP Request",
    fix="answer 413 by Content-Length, and read on for a while so that the sender sees the answer",
)
def size_beyond(receiver: Receiver) -> Verdict:
    """Send a body beyond the limit, and stop as soon as an answer comes."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + _MEGABYTE
    with receiver.wire() as wire:
        body = padded(size)
        wire.send(receiver.head(content_length=str(len(body))) + body)
        return status_in(wire.answer(f"a body of {size} bytes"), (413,))


@check(
    "http.size.chunked",
    "MUST",
    "a chunked body, which has no length, is bounded, too",
    spec="OTLP: OTLP/HTTP Request",
    fix="count while reading: Content-Length is a claim",
)
def size_chunked(receiver: Receiver) -> Verdict:
    """Send chunks beyond the limit, and stop as soon as an answer comes."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + _MEGABYTE
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked") + b"".join(chunked(padded(size), _MEGABYTE)))
        return status_in(wire.answer(f"a chunked body of {size} bytes"), TOO_LARGE)


@check(
    "http.data.sent_again",
    "MUST",
    "a request sent again, as exporters do when an answer got lost, succeeds",
    spec="OTLP: Known Limitations, Duplicate Data",
    fix="answer success to what you have already; keep it once",
)
def sent_again(receiver: Receiver) -> Verdict:
    """Send the same span twice."""
    body = traces().SerializeToString()
    first, second = (accepted(receiver.post(body, sent=f"a span, {time} time")) for time in ("first", "second"))
    return first or second


@check(
    "http.partial.explained",
    "SHOULD",
    "a partial success has an error_message",
    spec=_PARTIAL,
    fix="name in English the problem of the rejected spans",
)
def partial_explained(receiver: Receiver) -> Verdict:
    """Send a good span and one without ids."""
    answer = receiver.post(half_good(), PROTOBUF, sent="a good span and one without ids")
    success = success_of(answer)
    if is_refused(answer) or (not isinstance(success, Fault) and not success.rejected):
        return Skip(reason="the receiver makes no partial success of one bad span in two: see http.data.half_good")
    if isinstance(success, Fault):
        return success
    return None if success.message else fault(answer, "an error_message with the reason why a span was rejected")


@check(
    "http.partial.json",
    "MUST",
    "a partial success in JSON counts with rejectedSpans, a 64-bit integer and therefore text",
    spec="OTLP: JSON Protobuf Encoding; ProtoJSON format",
    fix='write {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "…"}}',
)
def partial_json(receiver: Receiver) -> Verdict:
    """Send a good span and one with a bad id."""
    if skip := no_json(receiver):
        return skip
    answer = receiver.post(
        traces_json(span(), span(traceId="zz")), JSON, sent="a good span and one with a bad trace id"
    )
    if is_refused(answer):
        return Skip(reason="the receiver refuses a request for one bad span in two")
    text = b'"rejectedSpans":"1"' in answer.body.replace(b" ", b"")
    return rejected_or_refused(answer, 1) or (None if text else fault(answer, 'the text "1" as rejectedSpans'))
