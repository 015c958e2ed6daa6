"""Content encodings over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import zstandard

from collectors.conformance._check import JSON, TOO_LARGE, Fault, accepted, check, fault, is_refused, status_in
from collectors.conformance._requests import padded, traces, traces_json, zipped
from collectors.conformance.checks._skips import no_json, no_size

if TYPE_CHECKING:
    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

_COMPRESSION: Final = "OTLP: Protocol Details"
_BAD_DATA: Final = "OTLP: OTLP/HTTP Response, Bad Data"
_REFUSE_DAMAGE: Final = "answer 400 to compressed bytes that do not open: a retryable status would repeat them forever"


def _refused(receiver: Receiver, content: bytes, sent: str) -> Fault | None:
    return status_in(receiver.post(content, encoding="gzip", sent=sent), (400,))


@check(
    "http.gzip.accepted",
    "MUST",
    "gzip is read",
    spec=_COMPRESSION,
    fix="decompress by Content-Encoding before decoding",
)
def gzip_accepted(receiver: Receiver) -> Verdict:
    """Send protobuf in gzip."""
    content = zipped(traces(20).SerializeToString())
    return accepted(receiver.post(content, encoding="gzip", sent="20 spans as protobuf in gzip"))


@check(
    "http.gzip.json",
    "MUST",
    "gzip is read for JSON too",
    spec=_COMPRESSION,
    fix="decompress before choosing the decoder",
)
def gzip_json(receiver: Receiver) -> Verdict:
    """Send JSON in gzip."""
    content = zipped(traces_json())
    return no_json(receiver) or accepted(receiver.post(content, JSON, encoding="gzip", sent="one span as JSON in gzip"))


@check(
    "http.gzip.empty",
    "SHOULD",
    "an empty request in gzip succeeds",
    spec="OTLP: OTLP/HTTP Response, Full Success",
    fix="take a gzip member of no bytes for an empty message",
)
def gzip_empty(receiver: Receiver) -> Verdict:
    """Send the gzip of nothing."""
    return accepted(receiver.post(zipped(b""), encoding="gzip", sent="gzip of no bytes"))


@check(
    "http.gzip.multi_member",
    "SHOULD",
    "a gzip body of several members is read to its end",
    spec="RFC 1952, 2.2",
    fix="continue after the first member: it is followed by data, not garbage",
)
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


@check("http.gzip.truncated", "MUST", "truncated gzip is refused with 400", spec=_BAD_DATA, fix=_REFUSE_DAMAGE)
def gzip_truncated(receiver: Receiver) -> Verdict:
    """Send gzip without its end."""
    return _refused(receiver, zipped(traces(20).SerializeToString())[:-9], "gzip without its last 9 bytes")


@check(
    "http.gzip.trailing",
    "GUARD",
    "gzip with garbage after it is refused with 400",
    spec=_BAD_DATA,
    fix="check that nothing but another member (or zeros) follows a member",
)
def gzip_trailing(receiver: Receiver) -> Verdict:
    """Send gzip and something else."""
    return _refused(receiver, zipped(traces().SerializeToString()) + b"garbage", "gzip with `garbage` after it")


@check("http.gzip.not_gzip", "MUST", "a body that is not the gzip it claims to be is refused with 400", spec=_BAD_DATA,
       fix=_REFUSE_DAMAGE)  # fmt: skip
def not_gzip(receiver: Receiver) -> Verdict:
    """Send plain protobuf as gzip."""
    return _refused(receiver, traces().SerializeToString(), "plain protobuf as gzip")


@check(
    "http.gzip.bomb",
    "MUST",
    "the size is bounded after decompression: a gzip bomb is refused",
    spec="OTLP: OTLP/HTTP Request",
    fix="count the bytes while decompressing and stop at the limit; answer 413",
)
def gzip_bomb(receiver: Receiver) -> Verdict:
    """Send a body that grows a thousandfold, beyond the limit."""
    if skip := no_size(receiver):
        return skip
    size = receiver.target.max_bytes + 1024 * 1024
    bomb = zipped(padded(size))
    return status_in(
        receiver.post(bomb, encoding="gzip", sent=f"{len(bomb)} bytes of gzip that hold {size}"), TOO_LARGE
    )


@check(
    "http.encoding.identity",
    "GUARD",
    "`Content-Encoding: identity` is no encoding",
    spec="RFC 9110, 8.4.1",
    fix="read the body as it is",
)
def encoding_identity(receiver: Receiver) -> Verdict:
    """Send protobuf with the encoding `identity`."""
    content = traces().SerializeToString()
    return accepted(receiver.post(content, encoding="identity", sent="one span with encoding `identity`"))


@check(
    "http.encoding.case",
    "SHOULD",
    "the content encoding is read in any case",
    spec="RFC 9110, 8.4.1",
    fix="compare content codings in lower case",
)
def encoding_case(receiver: Receiver) -> Verdict:
    """Send `Content-Encoding: GZIP`."""
    content = zipped(traces().SerializeToString())
    return accepted(receiver.post(content, encoding="GZIP", sent="one span with encoding `GZIP`"))


@check(
    "http.encoding.unknown",
    "SHOULD",
    "an unknown content encoding is refused with 415 or 400",
    spec="RFC 9110, 15.5.16",
    fix="answer 415 with Accept-Encoding; decoding bytes in an unknown encoding cannot end well",
)
def encoding_unknown(receiver: Receiver) -> Verdict:
    """Send an unknown encoding."""
    content = traces().SerializeToString()
    return status_in(
        receiver.post(content, encoding="x-unknown", sent="one span with encoding `x-unknown`"), (415, 400)
    )


@check(
    "http.encoding.zstd",
    "GUARD",
    "zstd is read, or refused with 415 or 400",
    spec="RFC 8878; RFC 9110, 15.5.16",
    fix="support zstd or respond with 415: the OTel Collector can send it",
)
def encoding_zstd(receiver: Receiver) -> Verdict:
    """Send zstd."""
    content = zstandard.ZstdCompressor().compress(traces().SerializeToString())
    answer = receiver.post(content, encoding="zstd", sent="one span in zstd")
    return None if answer.status in {415, 400} else accepted(answer)
