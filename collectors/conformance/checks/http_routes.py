"""Methods, paths and content types over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from collectors.conformance._check import JSON, accepted, check, explained, fault, status_in
from collectors.conformance._requests import traces, traces_json
from collectors.conformance.checks._skips import no_json

if TYPE_CHECKING:
    from collectors.conformance._check import Verdict
    from collectors.conformance._receiver import Receiver

_METHOD_NOT_ALLOWED: Final = 405
_UNREADABLE: Final = (415, 400)


@check(
    "http.method.get",
    "SHOULD",
    "GET on the traces path is answered 405, with the allowed methods",
    spec="RFC 9110, 15.5.6",
    fix="answer other methods with 405 and `Allow: POST`",
)
def method_get(receiver: Receiver) -> Verdict:
    """Send a GET."""
    answer = receiver.request("GET", "/v1/traces", b"", receiver.headers(None), sent="GET /v1/traces")
    if answer.status == _METHOD_NOT_ALLOWED and "POST" not in answer.headers.get("allow", "").upper():
        return fault(answer, "the header `Allow` with POST in it")
    return status_in(answer, (_METHOD_NOT_ALLOWED,))


@check(
    "http.path.unknown",
    "SHOULD",
    "an unknown path is answered 404, which exporters do not retry",
    spec="RFC 9110, 15.5.5",
    fix="answer 404; a 200 there hides a wrong endpoint from its owner",
)
def path_unknown(receiver: Receiver) -> Verdict:
    """POST a span elsewhere."""
    body = traces().SerializeToString()
    answer = receiver.request("POST", "/v1/no-such-signal", body, receiver.headers(), sent="POST /v1/no-such-signal")
    return status_in(answer, (404,))


@check(
    "http.type.charset",
    "SHOULD",
    "`application/json; charset=utf-8` is JSON",
    spec="RFC 9110, 8.3.1",
    fix="compare the media type without its parameters",
)
def type_charset(receiver: Receiver) -> Verdict:
    """Send JSON with a charset, as many HTTP libraries do."""
    kind = "application/json; charset=utf-8"
    return no_json(receiver) or accepted(receiver.post(traces_json(), kind, sent=f"one span as {kind}"))


@check(
    "http.type.case",
    "SHOULD",
    "the content type is read in any case",
    spec="RFC 9110, 8.3.1",
    fix="compare media types in lower case",
)
def type_case(receiver: Receiver) -> Verdict:
    """Send `Application/X-Protobuf`."""
    kind = "Application/X-Protobuf"
    return accepted(receiver.post(traces().SerializeToString(), kind, sent=f"one span as {kind}"))


@check(
    "http.type.unknown",
    "SHOULD",
    "an unknown content type is refused with 415 or 400",
    spec="RFC 9110, 15.5.16",
    fix="refuse what you cannot read: guessing loses data in silence",
)
def type_unknown(receiver: Receiver) -> Verdict:
    """Send `text/plain`."""
    answer = receiver.post(traces().SerializeToString(), "text/plain", sent="one span as text/plain")
    return status_in(answer, _UNREADABLE)


@check(
    "http.type.missing",
    "SHOULD",
    "a request without content type is refused with 415 or 400, or read by its content",
    spec="OTLP: OTLP/HTTP Request; RFC 9110, 8.3",
    fix="answer 415; never 5xx",
)
def type_missing(receiver: Receiver) -> Verdict:
    """Send protobuf without a content type."""
    content, headers = traces().SerializeToString(), receiver.headers(None)
    answer = receiver.post(content, headers=headers, sent="one span without content type")
    return status_in(answer, (*_UNREADABLE, 200))


@check(
    "http.type.mismatch",
    "MUST",
    "JSON that claims to be protobuf is refused with 400",
    spec="OTLP: OTLP/HTTP Response, Bad Data",
    fix="decode by Content-Type, and refuse other content",
)
def type_mismatch(receiver: Receiver) -> Verdict:
    """Send JSON as protobuf."""
    return status_in(receiver.post(traces_json(), sent="JSON as application/x-protobuf"), (400,))


@check(
    "http.error.explained",
    "MUST",
    "the body of a 4xx to protobuf is a google.rpc.Status in protobuf, with a message",
    spec="OTLP: OTLP/HTTP Response, Failures",
    fix="serialize a google.rpc.Status whose message is the reason, as application/x-protobuf",
)
def error_explained(receiver: Receiver) -> Verdict:
    """Send undecodable protobuf."""
    answer = receiver.post(b"nonsense", sent="undecodable protobuf")
    if answer.type == JSON:
        return fault(answer, "content type application/x-protobuf")
    return status_in(answer, range(400, 500)) or explained(answer)


@check(
    "http.error.explained_json",
    "MUST",
    "the body of a 4xx to JSON is a google.rpc.Status in JSON, with a message",
    spec="OTLP: OTLP/HTTP Response, Failures",
    fix='answer {"code": 3, "message": "…"} as application/json',
)
def error_explained_json(receiver: Receiver) -> Verdict:
    """Send undecodable JSON."""
    if skip := no_json(receiver):
        return skip
    answer = receiver.post(b'{"resourceSpans": [', JSON, sent="truncated JSON")
    if answer.type != JSON:
        return fault(answer, "content type application/json")
    return status_in(answer, range(400, 500)) or explained(answer)
