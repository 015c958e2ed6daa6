"""Request heads over HTTP: in pieces, broken, contradictory, huge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collectors.conformance._check import accepted, check, fault, status_in, survived
from collectors.conformance._receiver import chunked
from collectors.conformance._requests import traces

if TYPE_CHECKING:
    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver


@check(
    "http.head.split",
    "GUARD",
    "a head that comes byte by byte is read",
    spec="RFC 9112, 2.2",
    fix="collect the head regardless of its pieces",
)
def head_split(receiver: Receiver) -> Verdict:
    """Write a request in single bytes."""
    content = receiver.valid_request()
    with receiver.wire() as wire:
        for position in range(len(content)):
            wire.send(content[position : position + 1])
        return accepted(wire.answer("one span, written byte by byte"))


@check(
    "http.head.garbage",
    "GUARD",
    "bytes that are no HTTP are refused with 400, or the connection ends; others are served on",
    spec="RFC 9112, 2.2",
    fix="answer 400 and close: port scanners and TLS senders on a plain port will come",
)
def head_garbage(receiver: Receiver) -> Verdict:
    """Write the beginning of a TLS handshake to the plain port."""
    with receiver.wire() as wire:
        wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 400 + b"\r\n\r\n")
        answer = wire.answer("bytes that are no HTTP")
        if not answer.error and (problem := status_in(answer, (400,))):
            return problem
        if answer.error and not wire.is_closed():
            return fault(answer, "HTTP 400, or the end of the connection")
    return accepted(receiver.post(traces().SerializeToString(), sent="one span, after bytes that are no HTTP"))


@check(
    "http.head.length",
    "MUST",
    "a Content-Length that is no number is refused with 400",
    spec="RFC 9112, 6.3",
    fix="answer 400 and close",
)
def head_length(receiver: Receiver) -> Verdict:
    """Send `Content-Length: many`."""
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length="many") + b"nonsense")
        return status_in(wire.answer("Content-Length: many"), (400,))


@check(
    "http.head.two_lengths",
    "MUST",
    "a request with both Content-Length and chunks cannot smuggle another one",
    spec="RFC 9112, 6.1",
    fix="refuse it with 400, or read the chunks and close the connection after the answer",
)
def two_lengths(receiver: Receiver) -> Verdict:
    """Hide a request behind the chunks of a request whose length covers both."""
    body, hidden = b"".join(chunked(traces().SerializeToString(), 4096)), receiver.valid_request()
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length=str(len(body + hidden)), transfer_encoding="chunked") + body + hidden)
        sent = "one span with both Content-Length and Transfer-Encoding, and a request hidden behind its chunks"
        first, second = wire.answer(sent), wire.answer(sent)
    return survived(first) or (fault(second, "the end of the connection after one answer") if second.status else None)


@check(
    "http.head.huge",
    "GUARD",
    "a head of 1 MiB is refused with 4xx, or the connection ends",
    spec="RFC 6585, 5",
    fix="bound the head (8 to 64 KiB is usual) and answer 431",
)
def head_huge(receiver: Receiver) -> Verdict:
    """Send a header of 1 MiB."""
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length="0", x_padding="x" * 1024 * 1024))
        answer = wire.answer("a header of 1 MiB")
        return None if answer.error and wire.is_closed() else status_in(answer, (400, 413, 431))
