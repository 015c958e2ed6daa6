"""OTLP/JSON that is wrong, or meant to harm: refused or read, never a crash."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from collectors.conformance._check import JSON, check, status_in, survived
from collectors.conformance._requests import attribute, span, traces_json
from collectors.conformance.checks._skips import no_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

_BAD_DATA: Final = "OTLP: OTLP/HTTP Response, Bad Data"
_HARDENING: Final = "none: hardening; OTLP: Retryable Response Codes"
_REFUSE: Final = "answer 400: a 5xx or a success both lose the sender's data in silence"
_SURVIVE: Final = "catch it while reading: a retryable status repeats it forever, a crash loses the rest of the batch"
_DEEP: Final = 100_000


def _refused(receiver: Receiver, bodies: Iterable[tuple[bytes, str]]) -> Verdict:
    """Expect 400 to each of some bodies."""
    if skip := no_json(receiver):
        return skip
    faults = (status_in(receiver.post(body, JSON, sent=sent), (400,)) for body, sent in bodies)
    return next(filter(None, faults), None)


def _survived(receiver: Receiver, body: bytes, sent: str) -> Verdict:
    return no_json(receiver) or survived(receiver.post(body, JSON, sent=sent))


@check("http.json.truncated", "MUST", "truncated JSON is refused with 400", spec=_BAD_DATA, fix=_REFUSE)
def truncated(receiver: Receiver) -> Verdict:
    """Send JSON without its end."""
    return _refused(receiver, [(traces_json()[:-5], "JSON without its last 5 bytes")])


@check("http.json.not_object", "MUST", "JSON that is no object is refused with 400", spec=_BAD_DATA, fix=_REFUSE)
def not_object(receiver: Receiver) -> Verdict:
    """Send a list, a text, a number, a truth value."""
    return _refused(receiver, [(text.encode(), f"the JSON value {text}") for text in ("[]", '"spans"', "1", "true")])


@check("http.json.wrong_shape", "MUST", "fields of another type are refused with 400", spec=_BAD_DATA, fix=_REFUSE)
def wrong_shape(receiver: Receiver) -> Verdict:
    """Send an object where a list belongs, and a text where an object belongs."""
    spans = json.dumps({"resourceSpans": {"scopeSpans": []}}).encode()
    blocks = json.dumps({"resourceSpans": ["text"]}).encode()
    return _refused(receiver, [(spans, "resourceSpans as an object"), (blocks, "resourceSpans as a list of texts")])


@check("http.json.not_utf8", "MUST", "JSON that is not UTF-8 is refused with 400", spec=_BAD_DATA, fix=_REFUSE)
def not_utf8(receiver: Receiver) -> Verdict:
    """Send a name in Latin-1."""
    body = traces_json(span(name="MARK")).replace(b"MARK", "Grüße".encode("latin-1"))
    return _refused(receiver, [(body, "a name in Latin-1")])


@check("http.json.enum_name", "GUARD", "enumerations as names are read or refused with 400", spec="OTLP: JSON Protobuf Encoding",
       fix=_SURVIVE)  # fmt: skip
def enum_name(receiver: Receiver) -> Verdict:
    """Send `SPAN_KIND_CLIENT`."""
    return _survived(receiver, traces_json(span(kind="SPAN_KIND_CLIENT")), "kind as a name")


@check("http.json.snake_case", "GUARD", "field names in snake_case are read, ignored or refused with 400",
       spec="OTLP: JSON Protobuf Encoding", fix=_SURVIVE)  # fmt: skip
def snake_case(receiver: Receiver) -> Verdict:
    """Send the original field names."""
    body = {"resource_spans": [{"scope_spans": [{"spans": [{"trace_id": "01" * 16, "span_id": "02" * 8}]}]}]}
    return _survived(receiver, json.dumps(body).encode(), "field names in snake_case")


@check("http.json.deep", "GUARD", f"{_DEEP:,} levels of nesting end in 200 or 400", spec=_HARDENING, fix=_SURVIVE)
def deep(receiver: Receiver) -> Verdict:
    """Send nesting that exhausts the stack of a recursive parser."""
    body = b'{"resourceSpans":' + b"[" * _DEEP + b"]" * _DEEP + b"}"
    return _survived(receiver, body, f"{_DEEP:,} levels of lists")


@check("http.json.deep_value", "GUARD", "2,000 levels of values end in 200 or 400", spec=_HARDENING, fix=_SURVIVE)
def deep_value(receiver: Receiver) -> Verdict:
    """Send an attribute of lists in lists."""
    opened, closed = '{"arrayValue":{"values":[' * 2000, "]}}" * 2000
    body = traces_json(span(attributes=attribute("MARK"))).replace(b'"MARK"', f"{opened}{{}}{closed}".encode())
    return _survived(receiver, body, "2,000 levels of arrayValue")


@check("http.json.duplicate_keys", "GUARD", "duplicate keys end in 200 or 400", spec="RFC 8259, 4", fix=_SURVIVE)
def duplicate_keys(receiver: Receiver) -> Verdict:
    """Send a name twice."""
    body = traces_json().replace(b'"name"', b'"name": "first", "name"')
    return _survived(receiver, body, "a span with two names")


@check("http.json.huge_integer", "GUARD", "integers of 10,000 digits end in 200 or 400", spec=_HARDENING, fix=_SURVIVE)
def huge_integer(receiver: Receiver) -> Verdict:
    """Send a number that costs quadratic time to read."""
    body = traces_json(span(attributes=attribute({"intValue": "MARK"}), startTimeUnixNano="MARK"))
    return _survived(receiver, body.replace(b'"MARK"', b"9" * 10_000), "integers of 10,000 digits")


@check(
    "http.json.surrogate",
    "GUARD",
    "a lone surrogate or NUL in a text ends in 200 or 400",
    spec="RFC 8259, 8.2",
    fix=_SURVIVE,
)
def surrogate(receiver: Receiver) -> Verdict:
    """Send text that cannot be written as UTF-8, and a NUL."""
    body = traces_json(span(name="MARK")).replace(b"MARK", rb"a\ud800b\u0000c")
    return _survived(receiver, body, "a name with a lone surrogate and a NUL")


@check(
    "http.json.bare_nan",
    "GUARD",
    "NaN without quotes, which is no JSON, ends in 200 or 400",
    spec="RFC 8259, 6",
    fix=_SURVIVE,
)
def bare_nan(receiver: Receiver) -> Verdict:
    """Send what Python's json writes for a NaN."""
    body = traces_json(span(attributes=attribute({"doubleValue": float("nan")})))
    return _survived(receiver, body, "NaN without quotes")
