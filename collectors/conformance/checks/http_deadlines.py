"""How long a slow sender may take. Each waits for a clock of the receiver's: up to `--timeout` seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.conformance._check import Answer, check, fault

if TYPE_CHECKING:
    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

_CLIENT_ERRORS: Final = range(400, 500)
_FIX: Final = "give the {} a deadline of its own: a timeout between bytes never ends for who sends one now and then"


@check(
    "http.slow.head",
    "GUARD",
    "a head that never ends is cut off",
    spec="none: hardening against slow senders",
    fix=_FIX.format("head"),
    waits=True,
)
def slow_head(receiver: Receiver) -> Verdict:
    """Send a head in drops."""
    return _cut_off(receiver, b"POST ", "a head, a byte at a time, without end")


@check(
    "http.slow.body",
    "GUARD",
    "a body that never ends is cut off",
    spec="none: hardening against slow senders",
    fix=_FIX.format("body"),
    waits=True,
)
def slow_body(receiver: Receiver) -> Verdict:
    """Send a body in drops."""
    return _cut_off(receiver, receiver.head(content_length="100000"), "a body, a byte at a time, without end")


@check(
    "http.slow.silent",
    "GUARD",
    "a body that stops coming is cut off",
    spec="none: hardening against slow senders",
    fix=_FIX.format("body"),
    waits=True,
)
def slow_silent(receiver: Receiver) -> Verdict:
    """Send half a body and wait."""
    return _cut_off(receiver, receiver.head(content_length="100000") + b"x" * 500, "half a body, then nothing", drops=0)


def _cut_off(receiver: Receiver, begin: bytes, sent: str, *, drops: int = 100) -> Verdict:
    with receiver.wire() as wire:
        wire.send(begin)
        ended = wire.trickle(b"x" * drops) if drops else wire.has_answer(receiver.target.timeout_s)
        waited = Answer(sent=sent, error=f"still waiting after {receiver.target.timeout_s:g} s")
        answer = wire.answer(sent) if ended else waited
    if ended and (answer.error or answer.status in _CLIENT_ERRORS):
        return None
    return fault(answer, "408, or the end of the connection (within --timeout)")
