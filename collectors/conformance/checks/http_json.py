"""OTLP/JSON: the rules of the mapping."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from collectors.conformance._check import JSON, accepted, check, rejected_or_refused
from collectors.conformance._requests import attribute, logs_json, span, traces_document, traces_json
from collectors.conformance.checks._skips import no_json, no_logs

if TYPE_CHECKING:
    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

_OTLP: Final = "OTLP: JSON Protobuf Encoding"
_MAPPING: Final = "ProtoJSON format (protobuf.dev)"


def _accepted_span(receiver: Receiver, sent: str, **changes: Any) -> Verdict:
    """Expect that a span with some fields changed is taken."""
    return no_json(receiver) or accepted(receiver.post(traces_json(span(**changes)), JSON, sent=sent))


@check("http.json.ids_upper", "MUST", "ids are hex in any case", spec=_OTLP, fix="read hex without regard to case")
def ids_upper(receiver: Receiver) -> Verdict:
    """Send ids in capital letters."""
    return _accepted_span(
        receiver, "ids in capital letters", traceId="ABCDEF" + "0123456789" * 2 + "ABCDEF", spanId="FEDCBA9876543210"
    )


@check(
    "http.json.ids_base64",
    "SHOULD",
    "ids in base64 are not taken for ids",
    spec=_OTLP,
    fix="read ids as hex: a generic protobuf-JSON parser reads base64 and stores other bytes without an error",
)
def ids_base64(receiver: Receiver) -> Verdict:
    """Send ids as a protobuf library would write them."""
    body = traces_json(span(traceId="EjRWeJCrze8SNFZ4kKvN7w==", spanId="EjRWeJCrze8="))
    return no_json(receiver) or rejected_or_refused(receiver.post(body, JSON, sent="a span with ids in base64"), 1)


@check("http.json.int64_text", "MUST", "64-bit integers may be text", spec=_OTLP, fix="read digits in quotes")
def int64_text(receiver: Receiver) -> Verdict:
    """Send the largest integer as text."""
    value = {"intValue": "9223372036854775807"}
    return _accepted_span(
        receiver, "intValue as text", attributes=attribute(value), endTimeUnixNano="1800000000000000001"
    )


@check("http.json.int64_number", "MUST", "64-bit integers may be numbers", spec=_OTLP, fix="read both text and number")
def int64_number(receiver: Receiver) -> Verdict:
    """Send times and a value as numbers."""
    times = {"startTimeUnixNano": 1800000000000000000, "endTimeUnixNano": 1800000000000000001}
    return _accepted_span(receiver, "times and intValue as numbers", attributes=attribute({"intValue": -7}), **times)


@check(
    "http.json.enum_integer", "MUST", "enumerations are integers", spec=_OTLP, fix="read `kind` and `code` as integers"
)
def enum_integer(receiver: Receiver) -> Verdict:
    """Send kind and status code as integers."""
    return _accepted_span(receiver, "kind 3 and status code 2", kind=3, status={"code": 2, "message": "failed"})


@check(
    "http.json.unknown_fields",
    "MUST",
    "unknown fields are ignored, at every level",
    spec=_OTLP,
    fix="ignore names you do not know: senders newer than you write them",
)
def unknown_fields(receiver: Receiver) -> Verdict:
    """Send fields of a later version."""
    if skip := no_json(receiver):
        return skip
    new: dict[str, Any] = {"fieldOfTheFuture": {"values": [1, None, {"a": []}]}}
    value = {"key": "a", "value": {"stringValue": "b"}, **new}
    document = {**traces_document([span(attributes=[value], status={"code": 1, **new}, **new)], **new), **new}
    return accepted(receiver.post(json.dumps(document).encode(), JSON, sent="unknown fields at every level"))


@check(
    "http.json.null_fields",
    "MUST",
    "null is an unset field",
    spec=_MAPPING,
    fix="treat null as if the field were absent",
)
def null_fields(receiver: Receiver) -> Verdict:
    """Send nulls."""
    nulls = dict.fromkeys(("parentSpanId", "attributes", "events", "links", "status", "traceState", "flags"))
    return _accepted_span(receiver, "null for every optional field", **nulls)


@check(
    "http.json.bytes",
    "MUST",
    "bytes are base64, standard or URL-safe",
    spec=_MAPPING,
    fix="read both alphabets of base64",
)
def bytes_base64(receiver: Receiver) -> Verdict:
    """Send bytes in both alphabets."""
    values = {"arrayValue": {"values": [{"bytesValue": "+/+/AA=="}, {"bytesValue": "-_-_AA"}, {"bytesValue": ""}]}}
    return _accepted_span(receiver, "bytesValue in both alphabets", attributes=attribute(values))


@check(
    "http.json.not_finite",
    "MUST",
    'the texts "NaN", "Infinity" and "-Infinity" are doubles',
    spec=_MAPPING,
    fix="read these three texts as numbers that are not finite",
)
def not_finite(receiver: Receiver) -> Verdict:
    """Send numbers that are not finite."""
    values = {"arrayValue": {"values": [{"doubleValue": text} for text in ("NaN", "Infinity", "-Infinity")]}}
    return _accepted_span(receiver, "doubles that are not finite, as text", attributes=attribute(values))


@check(
    "http.json.double",
    "MUST",
    "doubles may be numbers, integers, exponents or text",
    spec=_MAPPING,
    fix="read all of these",
)
def double_forms(receiver: Receiver) -> Verdict:
    """Send doubles in all their forms."""
    values = {"arrayValue": {"values": [{"doubleValue": form} for form in (0.5, 3, 1e-7, "2.5", "1e3")]}}
    return _accepted_span(receiver, "doubles as number, integer, exponent, text", attributes=attribute(values))


@check(
    "http.json.nested",
    "MUST",
    "lists and maps nest",
    spec=_OTLP,
    fix="read arrayValue and kvlistValue within each other",
)
def nested_values(receiver: Receiver) -> Verdict:
    """Send a map in a list in a map."""
    inner = {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}, {"key": "none", "value": {}}]}}
    middle = {"arrayValue": {"values": [inner, {"stringValue": ""}, {}]}}
    outer = {"kvlistValue": {"values": [{"key": "list", "value": middle}]}}
    return _accepted_span(receiver, "a map in a list in a map", attributes=attribute(outer))


@check(
    "http.json.unicode",
    "MUST",
    "text is Unicode, escaped or not",
    spec="RFC 8259, 7 and 8.1",
    fix="read UTF-8 and \\u escapes",
)
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


@check(
    "http.json.logs_values", "MUST", "a log record's body may be any value", spec=_OTLP, fix="read body as an AnyValue"
)
def logs_values(receiver: Receiver) -> Verdict:
    """Send a body that is a map."""
    if skip := no_json(receiver) or no_logs(receiver):
        return skip
    body = {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "hi"}}]}}
    content = logs_json(body=body, observedTimeUnixNano="1800000000000000000")
    return accepted(receiver.post(content, JSON, signal="logs", sent="a log record whose body is a map"), "logs")
