"""Checks of the responses to valid HTTP requests: status, content type, body."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from collectors.conformance._check import JSON, PROTOBUF, Answer, Fault, accepted, check, fault, success_of, typed
from collectors.conformance._requests import logs, logs_json, traces, traces_json
from collectors.conformance.checks._skips import no_json, no_logs

if TYPE_CHECKING:
    from collectors.conformance._check import Signal, Verdict
    from collectors.conformance._receiver import Receiver

_RESPONSE: Final = "OTLP: OTLP/HTTP Response"
_SUCCESS: Final = "OTLP: OTLP/HTTP Response, Full Success"


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
    return fault(answer, "partial_success unset, for everything was taken") if empty else None


@check(
    "http.protobuf.accepted",
    "MUST",
    "a traces request in protobuf is answered HTTP 200 with an ExportTraceServiceResponse",
    spec=_SUCCESS,
    fix="serve POST /v1/traces and answer 200 with the serialized response message (empty bytes if all was taken)",
)
def protobuf_accepted(receiver: Receiver) -> Verdict:
    """Send one span."""
    return accepted(_protobuf(receiver))


@check(
    "http.protobuf.type",
    "MUST",
    "the answer to protobuf has the content type application/x-protobuf",
    spec=_RESPONSE,
    fix="answer in the content type of the request, also where the body is empty",
)
def protobuf_type(receiver: Receiver) -> Verdict:
    """Send one span."""
    return typed(_protobuf(receiver), PROTOBUF)


@check(
    "http.protobuf.unset",
    "MUST",
    "partial_success is unset in protobuf where everything was taken",
    spec=_SUCCESS,
    fix="leave partial_success out unless something was rejected or there is a warning",
)
def protobuf_unset(receiver: Receiver) -> Verdict:
    """Send one span."""
    return _full(_protobuf(receiver))


@check(
    "http.json.accepted",
    "SHOULD",
    "a traces request in JSON is taken at the same address",
    spec="OTLP: OTLP/HTTP Connection",
    fix="choose the decoder by Content-Type and read OTLP/JSON too: browsers and serverless senders write it",
)
def json_accepted(receiver: Receiver) -> Verdict:
    """Send one span."""
    return accepted(_json(receiver))


@check(
    "http.json.type",
    "MUST",
    "the answer to JSON has the content type application/json",
    spec=_RESPONSE,
    fix="answer in the content type of the request",
)
def json_type(receiver: Receiver) -> Verdict:
    """Send one span."""
    return no_json(receiver) or typed(_json(receiver), JSON)


@check(
    "http.json.body",
    "MUST",
    "the answer to JSON is the response message in JSON, `{}` where everything was taken",
    spec=_SUCCESS,
    fix='answer {} or {"partialSuccess": {…}}: not text, not protobuf, not an object of your own',
)
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


@check(
    "http.logs.protobuf",
    "MUST",
    "a logs request in protobuf is answered HTTP 200 with an ExportLogsServiceResponse",
    spec="OTLP: OTLP/HTTP Request",
    fix="serve POST /v1/logs as /v1/traces",
)
def logs_protobuf(receiver: Receiver) -> Verdict:
    """Send one log record."""
    if skip := no_logs(receiver):
        return skip
    answer = receiver.post(logs().SerializeToString(), signal="logs", sent="one log record as protobuf")
    return accepted(answer, "logs") or typed(answer, PROTOBUF) or _full(answer, "logs")


@check(
    "http.logs.json",
    "SHOULD",
    "a logs request in JSON is taken and answered in JSON",
    spec="OTLP: OTLP/HTTP Request",
    fix="read OTLP/JSON at /v1/logs too",
)
def logs_as_json(receiver: Receiver) -> Verdict:
    """Send one log record."""
    if skip := no_json(receiver) or no_logs(receiver):
        return skip
    answer = receiver.post(logs_json(), JSON, signal="logs", sent="one log record as JSON")
    return accepted(answer, "logs") or typed(answer, JSON)


@check(
    "http.empty.protobuf",
    "SHOULD",
    "a request of no bytes, an empty message in protobuf, succeeds",
    spec=_SUCCESS,
    fix="take an empty body for an empty message",
)
def empty_protobuf(receiver: Receiver) -> Verdict:
    """Send no bytes."""
    return accepted(receiver.post(b"", sent="an empty body as protobuf"))


@check(
    "http.empty.json",
    "SHOULD",
    "the empty JSON object, and an empty list of resource spans, succeed",
    spec=_SUCCESS,
    fix="take a request without spans for a success",
)
def empty_json(receiver: Receiver) -> Verdict:
    """Send `{}` and `{"resourceSpans": []}`."""
    if skip := no_json(receiver):
        return skip
    bodies = (b"{}", b'{"resourceSpans": []}')
    return next(filter(None, (accepted(receiver.post(body, JSON, sent=body.decode())) for body in bodies)), None)


@check(
    "http.empty.envelopes",
    "SHOULD",
    "resources without scopes and scopes without spans succeed",
    spec="OTLP: Implementation Recommendations, Empty Telemetry Envelopes",
    fix="ignore empty envelopes: filters in front of you make them",
)
def empty_envelopes(receiver: Receiver) -> Verdict:
    """Send empty envelopes next to a span."""
    request = traces()
    request.resource_spans.extend([ResourceSpans(), ResourceSpans()])
    request.resource_spans[-1].scope_spans.add()
    return accepted(receiver.post(request.SerializeToString(), sent="empty envelopes next to one span"))
