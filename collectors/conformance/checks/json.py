"""OTLP/JSON: the rules of the mapping, and malformed or hostile documents, which are refused or read without a crash."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from collectors.conformance._check import (
    Verdict,
    accepted,
    check,
    no_json,
    no_logs,
    rejected_or_refused,
    status_in,
    survived,
)
from collectors.conformance._receiver import JSON, Receiver
from collectors.conformance._requests import attribute, logs_json, span, traces_document, traces_json


def _accepted_span(receiver: Receiver, sent: str, **changes: Any) -> Verdict:
    """Expect that a span with some fields changed is accepted."""
    return no_json(receiver) or accepted(receiver.post(traces_json(span(**changes)), JSON, sent=sent))


@check("http.json.ids_upper")
def ids_upper(receiver: Receiver) -> Verdict:
    """Send ids in capital letters."""
    return _accepted_span(
        receiver, "ids in capital letters", traceId="ABCDEF" + "0123456789" * 2 + "ABCDEF", spanId="FEDCBA9876543210"
    )


@check("http.json.ids_base64")
def ids_base64(receiver: Receiver) -> Verdict:
    """Send ids as a protobuf library would encode them in JSON."""
    body = traces_json(span(traceId="EjRWeJCrze8SNFZ4kKvN7w==", spanId="EjRWeJCrze8="))
    return no_json(receiver) or rejected_or_refused(receiver.post(body, JSON, sent="a span with ids in base64"), 1)


@check("http.json.int64_text")
def int64_text(receiver: Receiver) -> Verdict:
    """Send the largest integer as text."""
    value = {"intValue": "9223372036854775807"}
    return _accepted_span(
        receiver, "intValue as text", attributes=attribute(value), endTimeUnixNano="1800000000000000001"
    )


@check("http.json.int64_number")
def int64_number(receiver: Receiver) -> Verdict:
    """Send times and a value as numbers."""
    times = {"startTimeUnixNano": 1800000000000000000, "endTimeUnixNano": 1800000000000000001}
    return _accepted_span(receiver, "times and intValue as numbers", attributes=attribute({"intValue": -7}), **times)


@check("http.json.enum_integer")
def enum_integer(receiver: Receiver) -> Verdict:
    """Send kind and status code as integers."""
    return _accepted_span(receiver, "kind 3 and status code 2", kind=3, status={"code": 2, "message": "failed"})


@check("http.json.unknown_fields")
def unknown_fields(receiver: Receiver) -> Verdict:
    """Send fields of a later version."""
    if skip := no_json(receiver):
        return skip
    new: dict[str, Any] = {"fieldOfTheFuture": {"values": [1, None, {"a": []}]}}
    value = {"key": "a", "value": {"stringValue": "b"}, **new}
    document = {**traces_document([span(attributes=[value], status={"code": 1, **new}, **new)], **new), **new}
    return accepted(receiver.post(json.dumps(document).encode(), JSON, sent="unknown fields at every level"))


@check("http.json.null_fields")
def null_fields(receiver: Receiver) -> Verdict:
    """Send nulls."""
    nulls = dict.fromkeys(("parentSpanId", "attributes", "events", "links", "status", "traceState", "flags"))
    return _accepted_span(receiver, "null for every optional field", **nulls)


@check("http.json.bytes")
def bytes_base64(receiver: Receiver) -> Verdict:
    """Send bytes in both alphabets."""
    values = {"arrayValue": {"values": [{"bytesValue": "+/+/AA=="}, {"bytesValue": "-_-_AA"}, {"bytesValue": ""}]}}
    return _accepted_span(receiver, "bytesValue in both alphabets", attributes=attribute(values))


@check("http.json.not_finite")
def not_finite(receiver: Receiver) -> Verdict:
    """Send numbers that are not finite."""
    values = {"arrayValue": {"values": [{"doubleValue": text} for text in ("NaN", "Infinity", "-Infinity")]}}
    return _accepted_span(receiver, "doubles that are not finite, as text", attributes=attribute(values))


@check("http.json.double")
def double_forms(receiver: Receiver) -> Verdict:
    """Send doubles in all notations."""
    values = {"arrayValue": {"values": [{"doubleValue": form} for form in (0.5, 3, 1e-7, "2.5", "1e3")]}}
    return _accepted_span(receiver, "doubles as number, integer, exponent, text", attributes=attribute(values))


@check("http.json.nested")
def nested_values(receiver: Receiver) -> Verdict:
    """Send a map in a list in a map."""
    inner = {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}, {"key": "none", "value": {}}]}}
    middle = {"arrayValue": {"values": [inner, {"stringValue": ""}, {}]}}
    outer = {"kvlistValue": {"values": [{"key": "list", "value": middle}]}}
    return _accepted_span(receiver, "a map in a list in a map", attributes=attribute(outer))


@check("http.json.unicode")
def unicode_text(receiver: Receiver) -> Verdict:
    """Send the same text plain and escaped."""
    if skip := no_json(receiver):
        return skip
    document = traces_document([span(name="Grüße 你好 🤖 \u202e")])
    for ascii_only, sent in ((False, "a name in UTF-8"), (True, "a name in \\u escapes")):
        problem = accepted(receiver.post(json.dumps(document, ensure_ascii=ascii_only).encode(), JSON, sent=sent))
        if problem:
            return problem
    return None


@check("http.json.logs_values")
def logs_values(receiver: Receiver) -> Verdict:
    """Send a body that is a map."""
    if skip := no_json(receiver) or no_logs(receiver):
        return skip
    body = {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}}
    content = logs_json(body=body, observedTimeUnixNano="1800000000000000000")
    return accepted(receiver.post(content, JSON, signal="logs", sent="a log record whose body is a map"), "logs")


_DEEP: Final = 100_000


def _refused(receiver: Receiver, bodies: Iterable[tuple[bytes, str]]) -> Verdict:
    """Expect 400 for each of the bodies."""
    if skip := no_json(receiver):
        return skip
    faults = (status_in(receiver.post(body, JSON, sent=sent), (400,)) for body, sent in bodies)
    return next(filter(None, faults), None)


def _survived(receiver: Receiver, body: bytes, sent: str) -> Verdict:
    return no_json(receiver) or survived(receiver.post(body, JSON, sent=sent))


@check("http.json.truncated")
def truncated(receiver: Receiver) -> Verdict:
    """Send JSON without its end."""
    return _refused(receiver, [(traces_json()[:-5], "JSON without its last 5 bytes")])


@check("http.json.not_object")
def not_object(receiver: Receiver) -> Verdict:
    """Send a list, a text, a number, a truth value."""
    return _refused(receiver, [(text.encode(), f"the JSON value {text}") for text in ("[]", '"spans"', "1", "true")])


@check("http.json.wrong_shape")
def wrong_shape(receiver: Receiver) -> Verdict:
    """Send an object where a list belongs, and a text where an object belongs."""
    spans = json.dumps({"resourceSpans": {"scopeSpans": []}}).encode()
    blocks = json.dumps({"resourceSpans": ["text"]}).encode()
    return _refused(receiver, [(spans, "resourceSpans as an object"), (blocks, "resourceSpans as a list of texts")])


@check("http.json.not_utf8")
def not_utf8(receiver: Receiver) -> Verdict:
    """Send a name in Latin-1."""
    body = traces_json(span(name="MARK")).replace(b"MARK", "Grüße".encode("latin-1"))
    return _refused(receiver, [(body, "a name in Latin-1")])


@check("http.json.enum_name")
def enum_name(receiver: Receiver) -> Verdict:
    """Send `SPAN_KIND_CLIENT`."""
    return _survived(receiver, traces_json(span(kind="SPAN_KIND_CLIENT")), "kind as a name")


@check("http.json.snake_case")
def snake_case(receiver: Receiver) -> Verdict:
    """Send the original field names."""
    body = {"resource_spans": [{"scope_spans": [{"spans": [{"trace_id": "01" * 16, "span_id": "02" * 8}]}]}]}
    return _survived(receiver, json.dumps(body).encode(), "field names in snake_case")


@check("http.json.deep")
def deep(receiver: Receiver) -> Verdict:
    """Send nesting that exhausts the stack of a recursive parser."""
    body = b'{"resourceSpans":' + b"[" * _DEEP + b"]" * _DEEP + b"}"
    return _survived(receiver, body, f"{_DEEP:,} levels of lists")


@check("http.json.deep_value")
def deep_value(receiver: Receiver) -> Verdict:
    """Send an attribute of lists in lists."""
    opening, closing = '{"arrayValue":{"values":[' * 2000, "]}}" * 2000
    body = traces_json(span(attributes=attribute("MARK"))).replace(b'"MARK"', f"{opening}{{}}{closing}".encode())
    return _survived(receiver, body, "2,000 levels of arrayValue")


@check("http.json.duplicate_keys")
def duplicate_keys(receiver: Receiver) -> Verdict:
    """Send a name twice."""
    body = traces_json().replace(b'"name"', b'"name": "first", "name"')
    return _survived(receiver, body, "a span with two names")


@check("http.json.huge_integer")
def huge_integer(receiver: Receiver) -> Verdict:
    """Send a number that takes quadratic time to parse."""
    body = traces_json(span(attributes=attribute({"intValue": "MARK"}), startTimeUnixNano="MARK"))
    return _survived(receiver, body.replace(b'"MARK"', b"9" * 10_000), "integers of 10,000 digits")


@check("http.json.surrogate")
def surrogate(receiver: Receiver) -> Verdict:
    """Send text that cannot be written as UTF-8, and a NUL."""
    body = traces_json(span(name="MARK")).replace(b"MARK", rb"a\ud800b\u0000c")
    return _survived(receiver, body, "a name with a lone surrogate and a NUL")


@check("http.json.bare_nan")
def bare_nan(receiver: Receiver) -> Verdict:
    """Send a NaN as Python's `json` module writes it."""
    body = traces_json(span(attributes=attribute({"doubleValue": float("nan")})))
    return _survived(receiver, body, "NaN without quotes")
