"""HTTP: responses to valid requests (status, content type, body), methods, paths, content types, heads, tokens."""

from __future__ import annotations

import json
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from collectors.conformance._check import (
    Fault,
    Verdict,
    accepted,
    check,
    explained,
    fault,
    no_json,
    no_logs,
    no_token,
    status_in,
    success_of,
    survived,
    typed,
)
from collectors.conformance._receiver import JSON, PROTOBUF, Answer, Receiver, Signal, chunked
from collectors.conformance._requests import logs, logs_json, traces, traces_json


def _protobuf(receiver: Receiver) -> Answer:
    return receiver.post(traces().SerializeToString(), sent="one span as protobuf")


def _json(receiver: Receiver) -> Answer:
    return receiver.post(traces_json(), JSON, sent="one span as JSON")


def _full(answer: Answer, signal: Signal = "traces") -> Fault | None:
    success = success_of(answer, signal)
    if isinstance(success, Fault):
        return success
    # A warning (nothing rejected, but a message) is allowed; an empty partial_success confuses exporters.
    empty = success.partial and not success.rejected and not success.message
    return fault(answer, "partial_success unset, because everything was accepted") if empty else None


@check("http.protobuf.accepted")
def protobuf_accepted(receiver: Receiver) -> Verdict:
    """Send one span."""
    return accepted(_protobuf(receiver))


@check("http.protobuf.type")
def protobuf_type(receiver: Receiver) -> Verdict:
    """Send one span."""
    return typed(_protobuf(receiver), PROTOBUF)


@check("http.protobuf.unset")
def protobuf_unset(receiver: Receiver) -> Verdict:
    """Send one span."""
    return _full(_protobuf(receiver))


@check("http.json.accepted")
def json_accepted(receiver: Receiver) -> Verdict:
    """Send one span."""
    return accepted(_json(receiver))


@check("http.json.type")
def json_type(receiver: Receiver) -> Verdict:
    """Send one span."""
    return no_json(receiver) or typed(_json(receiver), JSON)


@check("http.json.body")
def json_body(receiver: Receiver) -> Verdict:
    """Send one span."""
    return no_json(receiver) or _json_body(_json(receiver))


def _json_body(answer: Answer) -> Fault | None:
    try:
        document = json.loads(answer.body)
    except ValueError:
        return fault(answer, "a body that is JSON")
    if not isinstance(document, dict) or set(document) - {"partialSuccess"}:
        return fault(answer, "an object with no other field than partialSuccess")
    return _full(answer)


@check("http.logs.protobuf")
def logs_protobuf(receiver: Receiver) -> Verdict:
    """Send one log record."""
    if skip := no_logs(receiver):
        return skip
    answer = receiver.post(logs().SerializeToString(), signal="logs", sent="one log record as protobuf")
    return accepted(answer, "logs") or typed(answer, PROTOBUF) or _full(answer, "logs")


@check("http.logs.json")
def logs_as_json(receiver: Receiver) -> Verdict:
    """Send one log record."""
    if skip := no_json(receiver) or no_logs(receiver):
        return skip
    answer = receiver.post(logs_json(), JSON, signal="logs", sent="one log record as JSON")
    return accepted(answer, "logs") or typed(answer, JSON)


@check("http.empty.protobuf")
def empty_protobuf(receiver: Receiver) -> Verdict:
    """Send no bytes."""
    return accepted(receiver.post(b"", sent="an empty body as protobuf"))


@check("http.empty.json")
def empty_json(receiver: Receiver) -> Verdict:
    """Send `{}` and `{"resourceSpans": []}`."""
    if skip := no_json(receiver):
        return skip
    bodies = (b"{}", b'{"resourceSpans": []}')
    return next(filter(None, (accepted(receiver.post(body, JSON, sent=body.decode())) for body in bodies)), None)


@check("http.empty.envelopes")
def empty_envelopes(receiver: Receiver) -> Verdict:
    """Send empty envelopes next to a span."""
    request = traces()
    request.resource_spans.extend([ResourceSpans(), ResourceSpans()])
    request.resource_spans[-1].scope_spans.add()
    return accepted(receiver.post(request.SerializeToString(), sent="empty envelopes next to one span"))


_METHOD_NOT_ALLOWED: Final = 405
_UNREADABLE: Final = (415, 400)


@check("http.method.get")
def method_get(receiver: Receiver) -> Verdict:
    """Send a GET."""
    answer = receiver.request("GET", "/v1/traces", b"", receiver.headers(None), sent="GET /v1/traces")
    if answer.status == _METHOD_NOT_ALLOWED and "POST" not in answer.headers.get("allow", "").upper():
        return fault(answer, "the header `Allow` with POST in it")
    return status_in(answer, (_METHOD_NOT_ALLOWED,))


@check("http.path.unknown")
def path_unknown(receiver: Receiver) -> Verdict:
    """POST a span to an unknown path."""
    body = traces().SerializeToString()
    answer = receiver.request("POST", "/v1/no-such-signal", body, receiver.headers(), sent="POST /v1/no-such-signal")
    return status_in(answer, (404,))


@check("http.type.charset")
def type_charset(receiver: Receiver) -> Verdict:
    """Send JSON with a charset, as many HTTP libraries do."""
    kind = "application/json; charset=utf-8"
    return no_json(receiver) or accepted(receiver.post(traces_json(), kind, sent=f"one span as {kind}"))


@check("http.type.case")
def type_case(receiver: Receiver) -> Verdict:
    """Send `Application/X-Protobuf`."""
    kind = "Application/X-Protobuf"
    return accepted(receiver.post(traces().SerializeToString(), kind, sent=f"one span as {kind}"))


@check("http.type.unknown")
def type_unknown(receiver: Receiver) -> Verdict:
    """Send `text/plain`."""
    answer = receiver.post(traces().SerializeToString(), "text/plain", sent="one span as text/plain")
    return status_in(answer, _UNREADABLE)


@check("http.type.missing")
def type_missing(receiver: Receiver) -> Verdict:
    """Send protobuf without a content type."""
    content, headers = traces().SerializeToString(), receiver.headers(None)
    answer = receiver.post(content, headers=headers, sent="one span without content type")
    return status_in(answer, (*_UNREADABLE, 200))


@check("http.type.mismatch")
def type_mismatch(receiver: Receiver) -> Verdict:
    """Send JSON as protobuf."""
    return status_in(receiver.post(traces_json(), sent="JSON as application/x-protobuf"), (400,))


@check("http.error.explained")
def error_explained(receiver: Receiver) -> Verdict:
    """Send undecodable protobuf."""
    answer = receiver.post(b"nonsense", sent="undecodable protobuf")
    if answer.type == JSON:
        return fault(answer, "content type application/x-protobuf")
    return status_in(answer, range(400, 500)) or explained(answer)


@check("http.error.explained_json")
def error_explained_json(receiver: Receiver) -> Verdict:
    """Send undecodable JSON."""
    if skip := no_json(receiver):
        return skip
    answer = receiver.post(b'{"resourceSpans": [', JSON, sent="truncated JSON")
    if answer.type != JSON:
        return fault(answer, "content type application/json")
    return status_in(answer, range(400, 500)) or explained(answer)


@check("http.head.split")
def head_split(receiver: Receiver) -> Verdict:
    """Write a request in single bytes."""
    content = receiver.valid_request()
    with receiver.wire() as wire:
        for position in range(len(content)):
            wire.send(content[position : position + 1])
        return accepted(wire.answer("one span, written byte by byte"))


@check("http.head.garbage")
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


@check("http.head.length")
def head_length(receiver: Receiver) -> Verdict:
    """Send `Content-Length: many`."""
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length="many") + b"nonsense")
        return status_in(wire.answer("Content-Length: many"), (400,))


@check("http.head.two_lengths")
def two_lengths(receiver: Receiver) -> Verdict:
    """Hide a request behind the chunks of a request whose length covers both."""
    body, smuggled_request = b"".join(chunked(traces().SerializeToString(), 4096)), receiver.valid_request()
    with receiver.wire() as wire:
        wire.send(
            receiver.head(content_length=str(len(body + smuggled_request)), transfer_encoding="chunked")
            + body
            + smuggled_request
        )
        sent = "one span with both Content-Length and Transfer-Encoding, and a request hidden behind its chunks"
        first, second = wire.answer(sent), wire.answer(sent)
    return survived(first) or (fault(second, "the end of the connection after one answer") if second.status else None)


@check("http.head.huge")
def head_huge(receiver: Receiver) -> Verdict:
    """Send a header of 1 MiB."""
    with receiver.wire() as wire:
        wire.send(receiver.head(content_length="0", x_padding="x" * 1024 * 1024))
        answer = wire.answer("a header of 1 MiB")
        return None if answer.error and wire.is_closed() else status_in(answer, (400, 413, 431))


def _with(receiver: Receiver, authorization: str | None, sent: str) -> Answer:
    headers = {key: value for key, value in receiver.headers().items() if key != "authorization"}
    request_headers = headers if authorization is None else {**headers, "authorization": authorization}
    return receiver.post(traces().SerializeToString(), headers=request_headers, sent=sent)


@check("http.auth.missing")
def auth_missing(receiver: Receiver) -> Verdict:
    """Send no token."""
    if skip := no_token(receiver):
        return skip
    answer = _with(receiver, None, "one span without a token")
    if answer.status == 401 and "www-authenticate" not in answer.headers:  # noqa: PLR2004 — Unauthorized
        return fault(answer, "the header WWW-Authenticate")
    return status_in(answer, (401,)) or explained(answer)


@check("http.auth.wrong")
def auth_wrong(receiver: Receiver) -> Verdict:
    """Send tokens that are nearly right."""
    if skip := no_token(receiver):
        return skip
    token = receiver.target.token or ""
    tokens = {
        "a token that is cut": f"Bearer {token[:-1]}",
        "a token with more after it": f"Bearer {token}x",
        "the token without its scheme": token,
        "the token under another scheme": f"Basic {token}",
        "bytes that are no ASCII": "Bearer \xff\xfe",
    }
    faults = (status_in(_with(receiver, header, sent), (401, 403)) for sent, header in tokens.items())
    return next(filter(None, faults), None)


@check("http.auth.untold")
def auth_untold(receiver: Receiver) -> Verdict:
    """Look for the token in a refusal."""
    if skip := no_token(receiver):
        return skip
    token = receiver.target.token or ""
    answer = _with(receiver, f"Bearer {token}x", "a wrong token that holds the right one")
    is_leaked = token.encode() in answer.body or any(token in value for value in answer.headers.values())
    return fault(answer, "an answer without the token in it") if is_leaked else status_in(answer, (401, 403))
