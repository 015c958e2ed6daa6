"""Connections over HTTP: bodies in chunks, connections used again, requests in a row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from collectors.conformance._check import Fault, accepted, check, fault, is_refused, status_in
from collectors.conformance._receiver import PARALLEL, chunked
from collectors.conformance._requests import traces

if TYPE_CHECKING:
    from collectors.conformance._check import Answer, Verdict
    from collectors.conformance._receiver import Receiver

_REQUESTS: Final = 50
_CHUNKS: Final = "RFC 9112, 7.1"


@check(
    "http.chunked.accepted",
    "MUST",
    "a chunked body without Content-Length is read",
    spec=_CHUNKS,
    fix="read the transfer coding `chunked`: the JavaScript exporters send it",
)
def chunked_accepted(receiver: Receiver) -> Verdict:
    """Send a body in three chunks."""
    body = traces().SerializeToString()
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked") + b"".join(chunked(body, len(body) // 3 + 1)))
        return accepted(wire.answer("one span in three chunks"))


@check(
    "http.chunked.bytewise",
    "GUARD",
    "chunks of one byte, each written on its own, are read",
    spec=_CHUNKS,
    fix="collect the body regardless of its pieces",
)
def chunked_bytewise(receiver: Receiver) -> Verdict:
    """Send a body byte by byte."""
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked"))
        for piece in chunked(traces().SerializeToString(), 1):
            wire.send(piece)
        return accepted(wire.answer("one span in chunks of one byte"))


@check(
    "http.chunked.broken",
    "SHOULD",
    "a chunk size that is no number is refused with 400, or the connection ends",
    spec=_CHUNKS,
    fix="end the connection on broken framing: the remaining bytes cannot be interpreted",
)
def chunked_broken(receiver: Receiver) -> Verdict:
    """Send a chunk of size `zz`."""
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked") + b"zz\r\nnonsense\r\n0\r\n\r\n")
        answer = wire.answer("a chunk of size `zz`")
        if answer.error:
            return None if wire.is_closed() else fault(answer, "HTTP 400, or the end of the connection")
        return status_in(answer, (400,))


@check(
    "http.connection.reused",
    "SHOULD",
    f"{_REQUESTS} requests one after another are answered on one connection",
    spec="OTLP: OTLP/HTTP Connection; RFC 9112, 9.3",
    fix="keep connections open: a new one for each batch costs senders and you",
)
def connection_reused(receiver: Receiver) -> Verdict:
    """Send many requests on one connection."""
    with receiver.wire() as wire:
        for number in range(1, _REQUESTS + 1):
            wire.send(receiver.valid_request())
            problem = accepted(wire.answer(f"request {number} of {_REQUESTS} on one connection"))
            if problem:
                return problem
    return None


@check(
    "http.connection.pipelined",
    "SHOULD",
    "requests written at once are all answered, in their order",
    spec="RFC 9112, 9.3.2",
    fix="respond to one request after the other; do not drop bytes that were read ahead",
)
def connection_pipelined(receiver: Receiver) -> Verdict:
    """Write five requests, the third of them bad, before reading any answer."""
    bad = receiver.head(content_length="8") + b"nonsense"
    with receiver.wire() as wire:
        wire.send(receiver.valid_request() * 2 + bad + receiver.valid_request() * 2)
        answers = [
            wire.answer(f"request {number} of 5 written at once, the third undecodable") for number in range(1, 6)
        ]
    third = answers.pop(2)
    in_order = None if is_refused(third) else fault(third, "HTTP 400 as the third answer")
    return in_order or next(filter(None, map(accepted, answers)), None)


@check(
    "http.connection.after_error",
    "SHOULD",
    "after a refused request the connection is usable, or its response has `Connection: close`",
    spec="RFC 9112, 9.6",
    fix="read the refused body to its end, or close openly",
)
def connection_after_error(receiver: Receiver) -> Verdict:
    """Send a bad request and then a good one on the same connection."""
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length="8") + b"nonsense")
        first = wire.answer("undecodable protobuf, then one span on the same connection")
        if first.error or first.headers.get("connection", "").lower() == "close":
            return fault(first, "an answer") if first.error else None
        wire.send(receiver.valid_request())
        return accepted(wire.answer("one span, after a refused request on the same connection"))


@check(
    "http.connection.abandoned",
    "GUARD",
    "senders that disconnect in the middle of a body do not affect others",
    spec="OTLP: OTLP/HTTP Response, All Other Responses",
    fix="free what a request held when its connection ends",
)
def connection_abandoned(receiver: Receiver) -> Verdict:
    """Hang up twenty times, then send a span."""
    for _ in range(20):
        with receiver.wire() as wire:
            wire.send(receiver.head(content_length="100000") + b"x" * 1000)
    return accepted(receiver.post(traces().SerializeToString(), sent="one span, after 20 senders hung up"))


@check(
    "http.expect.continue",
    "MUST",
    "`Expect: 100-continue` is answered before the body comes",
    spec="RFC 9110, 10.1.1",
    fix="send `100 Continue`, or the final status: curl waits for it before larger bodies",
)
def expect_continue(receiver: Receiver) -> Verdict:
    """Send a head alone, and the body once something came."""
    body = traces().SerializeToString()
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length=str(len(body)), expect="100-continue"))
        informed = wire.has_answer(receiver.target.timeout_s)
        wire.send(body)
        answer = wire.answer("one span with `Expect: 100-continue`")
    return accepted(answer) if informed else fault(answer, "100 Continue before the body was sent")


@check(
    "http.parallel.answered",
    "SHOULD",
    f"{PARALLEL} requests at once all get a response: accepted, or retryable (429, 503)",
    spec="OTLP: OTLP/HTTP Concurrent Requests; OTLP/HTTP Throttling",
    fix="refuse surplus with 429 or 503 and Retry-After; a dropped connection or a 500 loses the batch",
)
def parallel_answered(receiver: Receiver) -> Verdict:
    """Send a hundred requests at once, on as many connections."""

    def send_one(number: int) -> Answer:
        return receiver.post(
            traces(5).SerializeToString(), sent=f"request {number} of {PARALLEL} at once", patient=False
        )

    with ThreadPoolExecutor(PARALLEL) as pool:
        answers = list(pool.map(send_one, range(1, PARALLEL + 1)))
    return _answered(answers)


def _answered(answers: list[Answer]) -> Fault | None:
    for answer in answers:
        if answer.status not in {429, 503} and (problem := accepted(answer)):
            return problem
    accepted_count = sum(answer.status == 200 for answer in answers)  # noqa: PLR2004 — HTTP OK
    return None if accepted_count else fault(answers[0], "at least one accepted request")
