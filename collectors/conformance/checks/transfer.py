"""HTTP bodies and connections: content encodings, chunks, reused connections, slow senders, sizes.

A check of a slow sender waits for a timeout of the receiver: up to `--timeout` seconds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import zstandard

from collectors.conformance._check import (
    TOO_LARGE,
    Fault,
    Skip,
    Verdict,
    accepted,
    check,
    fault,
    is_refused,
    no_json,
    no_size,
    rejected_or_refused,
    status_in,
    success_of,
)
from collectors.conformance._receiver import JSON, PARALLEL, PROTOBUF, Answer, Receiver, chunked
from collectors.conformance._requests import half_good, padded, span, traces, traces_json, zipped


def _refused(receiver: Receiver, content: bytes, sent: str) -> Fault | None:
    return status_in(receiver.post(content, encoding="gzip", sent=sent), (400,))


@check("http.gzip.accepted")
def gzip_accepted(receiver: Receiver) -> Verdict:
    """Send protobuf in gzip."""
    content = zipped(traces(20).SerializeToString())
    return accepted(receiver.post(content, encoding="gzip", sent="20 spans as protobuf in gzip"))


@check("http.gzip.json")
def gzip_json(receiver: Receiver) -> Verdict:
    """Send JSON in gzip."""
    content = zipped(traces_json())
    return no_json(receiver) or accepted(receiver.post(content, JSON, encoding="gzip", sent="one span as JSON in gzip"))


@check("http.gzip.empty")
def gzip_empty(receiver: Receiver) -> Verdict:
    """Send the gzip of nothing."""
    return accepted(receiver.post(zipped(b""), encoding="gzip", sent="gzip of no bytes"))


@check("http.gzip.multi_member")
def gzip_multi_member(receiver: Receiver) -> Verdict:
    """Send a bad span in the second member: a receiver that stops after the first one accepts it."""
    good, bad = traces().SerializeToString(), b"\xff nonsense"
    sent = "two gzip members, the second undecodable"
    complete = receiver.post(
        zipped(good[:9]) + zipped(good[9:]), encoding="gzip", sent="one span cut into two gzip members"
    )
    answer = receiver.post(zipped(good) + zipped(bad), encoding="gzip", sent=sent)
    return accepted(complete) or (
        None if is_refused(answer) else fault(answer, "HTTP 400, because the second member is bad")
    )


@check("http.gzip.truncated")
def gzip_truncated(receiver: Receiver) -> Verdict:
    """Send gzip without its end."""
    return _refused(receiver, zipped(traces(20).SerializeToString())[:-9], "gzip without its last 9 bytes")


@check("http.gzip.trailing")
def gzip_trailing(receiver: Receiver) -> Verdict:
    """Send gzip and something else."""
    return _refused(receiver, zipped(traces().SerializeToString()) + b"garbage", "gzip with `garbage` after it")


@check("http.gzip.not_gzip")
def not_gzip(receiver: Receiver) -> Verdict:
    """Send plain protobuf as gzip."""
    return _refused(receiver, traces().SerializeToString(), "plain protobuf as gzip")


@check("http.gzip.bomb")
def gzip_bomb(receiver: Receiver) -> Verdict:
    """Send a body that grows a thousandfold, beyond the limit."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + 1024 * 1024
    bomb = zipped(padded(size))
    return status_in(
        receiver.post(bomb, encoding="gzip", sent=f"{len(bomb)} bytes of gzip that hold {size}"), TOO_LARGE
    )


@check("http.encoding.identity")
def encoding_identity(receiver: Receiver) -> Verdict:
    """Send protobuf with the encoding `identity`."""
    content = traces().SerializeToString()
    return accepted(receiver.post(content, encoding="identity", sent="one span with encoding `identity`"))


@check("http.encoding.case")
def encoding_case(receiver: Receiver) -> Verdict:
    """Send `Content-Encoding: GZIP`."""
    content = zipped(traces().SerializeToString())
    return accepted(receiver.post(content, encoding="GZIP", sent="one span with encoding `GZIP`"))


@check("http.encoding.unknown")
def encoding_unknown(receiver: Receiver) -> Verdict:
    """Send an unknown encoding."""
    content = traces().SerializeToString()
    return status_in(
        receiver.post(content, encoding="x-unknown", sent="one span with encoding `x-unknown`"), (415, 400)
    )


@check("http.encoding.zstd")
def encoding_zstd(receiver: Receiver) -> Verdict:
    """Send zstd."""
    content = zstandard.ZstdCompressor().compress(traces().SerializeToString())
    answer = receiver.post(content, encoding="zstd", sent="one span in zstd")
    return None if answer.status in {415, 400} else accepted(answer)


_REQUESTS: Final = 50


@check("http.chunked.accepted")
def chunked_accepted(receiver: Receiver) -> Verdict:
    """Send a body in three chunks."""
    body = traces().SerializeToString()
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked") + b"".join(chunked(body, len(body) // 3 + 1)))
        return accepted(wire.answer("one span in three chunks"))


@check("http.chunked.bytewise")
def chunked_bytewise(receiver: Receiver) -> Verdict:
    """Send a body byte by byte."""
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked"))
        for piece in chunked(traces().SerializeToString(), 1):
            wire.send(piece)
        return accepted(wire.answer("one span in chunks of one byte"))


@check("http.chunked.broken")
def chunked_broken(receiver: Receiver) -> Verdict:
    """Send a chunk of size `zz`."""
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked") + b"zz\r\nnonsense\r\n0\r\n\r\n")
        answer = wire.answer("a chunk of size `zz`")
        if answer.error:
            return None if wire.is_closed() else fault(answer, "HTTP 400, or the end of the connection")
        return status_in(answer, (400,))


@check("http.connection.reused")
def connection_reused(receiver: Receiver) -> Verdict:
    """Send many requests on one connection."""
    with receiver.wire() as wire:
        for number in range(1, _REQUESTS + 1):
            wire.send(receiver.valid_request())
            problem = accepted(wire.answer(f"request {number} of {_REQUESTS} on one connection"))
            if problem:
                return problem
    return None


@check("http.connection.pipelined")
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


@check("http.connection.after_error")
def connection_after_error(receiver: Receiver) -> Verdict:
    """Send a bad request and then a good one on the same connection."""
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length="8") + b"nonsense")
        first = wire.answer("undecodable protobuf, then one span on the same connection")
        if first.error or first.headers.get("connection", "").lower() == "close":
            return fault(first, "an answer") if first.error else None
        wire.send(receiver.valid_request())
        return accepted(wire.answer("one span, after a refused request on the same connection"))


@check("http.connection.abandoned")
def connection_abandoned(receiver: Receiver) -> Verdict:
    """Disconnect twenty times during a request, then send a span."""
    for _ in range(20):
        with receiver.wire() as wire:
            wire.send(receiver.head(content_length="100000") + b"x" * 1000)
    return accepted(receiver.post(traces().SerializeToString(), sent="one span, after 20 senders hung up"))


@check("http.expect.continue")
def expect_continue(receiver: Receiver) -> Verdict:
    """Send only a head, and the body after the first response."""
    body = traces().SerializeToString()
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length=str(len(body)), expect="100-continue"))
        has_interim_response = wire.has_answer(receiver.target.timeout_s)
        wire.send(body)
        answer = wire.answer("one span with `Expect: 100-continue`")
    return accepted(answer) if has_interim_response else fault(answer, "100 Continue before the body was sent")


@check("http.parallel.answered")
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


_CLIENT_ERRORS: Final = range(400, 500)


@check("http.slow.head")
def slow_head(receiver: Receiver) -> Verdict:
    """Send a head byte by byte."""
    return _cut_off(receiver, b"POST ", "a head, a byte at a time, without end")


@check("http.slow.body")
def slow_body(receiver: Receiver) -> Verdict:
    """Send a body byte by byte."""
    return _cut_off(receiver, receiver.head(content_length="100000"), "a body, a byte at a time, without end")


@check("http.slow.silent")
def slow_silent(receiver: Receiver) -> Verdict:
    """Send half a body and wait."""
    return _cut_off(receiver, receiver.head(content_length="100000") + b"x" * 500, "half a body, then nothing", drops=0)


def _cut_off(receiver: Receiver, begin: bytes, sent: str, *, drops: int = 100) -> Verdict:
    with receiver.wire() as wire:
        wire.send(begin)
        is_ended = wire.trickle(b"x" * drops) if drops else wire.has_answer(receiver.target.timeout_s)
        timeout_answer = Answer(sent=sent, error=f"still waiting after {receiver.target.timeout_s:g} s")
        answer = wire.answer(sent) if is_ended else timeout_answer
    if is_ended and (answer.error or answer.status in _CLIENT_ERRORS):
        return None
    return fault(answer, "408, or the end of the connection (within --timeout)")


_MEGABYTE: Final = 1024 * 1024


@check("http.size.taken")
def size_taken(receiver: Receiver) -> Verdict:
    """Send 5 MiB."""
    if receiver.target.max_bytes < 6 * _MEGABYTE:
        return no_size(receiver) or Skip(reason="the receiver's limit (--max-bytes) is below 6 MiB")
    body = traces(5 * _MEGABYTE // 4096, name="x" * 4096).SerializeToString()
    return accepted(receiver.post(body, sent=f"{len(body)} bytes of spans"))


@check("http.size.beyond")
def size_beyond(receiver: Receiver) -> Verdict:
    """Send a body beyond the limit, and stop as soon as a response arrives."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + _MEGABYTE
    with receiver.wire() as wire:
        body = padded(size)
        wire.send(receiver.head(content_length=str(len(body))) + body)
        return status_in(wire.answer(f"a body of {size} bytes"), (413,))


@check("http.size.chunked")
def size_chunked(receiver: Receiver) -> Verdict:
    """Send chunks beyond the limit, and stop as soon as a response arrives."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + _MEGABYTE
    with receiver.wire() as wire:
        wire.send(receiver.head(transfer_encoding="chunked") + b"".join(chunked(padded(size), _MEGABYTE)))
        return status_in(wire.answer(f"a chunked body of {size} bytes"), TOO_LARGE)


@check("http.data.sent_again")
def sent_again(receiver: Receiver) -> Verdict:
    """Send the same span twice."""
    body = traces().SerializeToString()
    first, second = (accepted(receiver.post(body, sent=f"a span, {time} time")) for time in ("first", "second"))
    return first or second


@check("http.partial.explained")
def partial_explained(receiver: Receiver) -> Verdict:
    """Send a good span and one without ids."""
    answer = receiver.post(half_good(), PROTOBUF, sent="a good span and one without ids")
    success = success_of(answer)
    if is_refused(answer) or (not isinstance(success, Fault) and not success.rejected):
        return Skip(reason="the receiver makes no partial success of one bad span in two: see http.data.half_good")
    if isinstance(success, Fault):
        return success
    return None if success.message else fault(answer, "an error_message with the reason why a span was rejected")


@check("http.partial.json")
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
