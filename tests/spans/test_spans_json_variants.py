"""OTLP/JSON as senders really write it, each notation compared with protobuf: one batch for every notation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otel_agentic.spans import Limits, decode_logs, decode_logs_json, decode_traces, decode_traces_json
from tests.spans.test_spans_decoders_agree import log_requests, to_otlp_json, trace_requests

if TYPE_CHECKING:
    from google.protobuf.message import Message


law = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
ID_FIELDS = {"traceId", "spanId", "parentSpanId"}


def rewritten(value: Any, change: Callable[[str, Any], tuple[str, Any]]) -> Any:
    """Return JSON with each member of each object changed, from the leaves up."""
    if isinstance(value, list):
        return [rewritten(item, change) for item in value]
    if isinstance(value, dict):
        return dict(change(key, rewritten(item, change)) for key, item in value.items())
    return value


def snake(key: str, value: Any) -> tuple[str, Any]:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda result: f"_{result[0].lower()}", key), value


def enum_name(key: str, value: Any) -> tuple[str, Any]:
    names: dict[str, Any] = {"kind": Span.SpanKind, "code": Status.StatusCode}
    known = key in names and isinstance(value, int) and value in names[key].values()
    return key, names[key].Name(value) if known else value


def short_enum_name(key: str, value: Any) -> tuple[str, Any]:
    key, named = enum_name(key, value)
    return key, re.sub(r"^(SPAN_KIND|STATUS_CODE)_", "", named) if isinstance(named, str) and named != value else named


def number(key: str, value: Any) -> tuple[str, Any]:
    is_whole = isinstance(value, str) and (key.endswith("UnixNano") or key == "intValue")
    return key, int(value) if is_whole else value


def text(key: str, value: Any) -> tuple[str, Any]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return key, str(value) if is_number and key in {"intValue", "doubleValue", "kind", "code"} else value


def upper_ids(key: str, value: Any) -> tuple[str, Any]:
    return key, value.upper() if key in ID_FIELDS else value


def url_safe_bytes(key: str, value: Any) -> tuple[str, Any]:
    return key, value.replace("+", "-").replace("/", "_").rstrip("=") if key == "bytesValue" else value


CHANGES = (snake, enum_name, short_enum_name, number, text, upper_ids, url_safe_bytes)


def strange(value: Any) -> Any:
    """Return JSON with members that no OTLP has in every object, and every object backwards."""
    if isinstance(value, list):
        return [strange(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {key: strange(item) for key, item in reversed(value.items())}
    return {"aLaterField": [{"stringValue": 1}], **members, "another_one": {"traceId": None}}


def nulls(value: Any) -> Any:
    """Return JSON in which unset fields are null."""
    if isinstance(value, list):
        return [nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    unset = dict.fromkeys(("attributes", "events", "links", "status", "schemaUrl", "droppedAttributesCount"))
    return {**unset, **{key: nulls(item) for key, item in value.items()}}


def reads_alike(request: Message, changed: Any, limits: Limits) -> None:
    is_traces = "resource_spans" in request.DESCRIPTOR.fields_by_name
    expected = (decode_traces if is_traces else decode_logs)(request.SerializeToString(), limits)
    body = json.dumps(changed).encode()
    assert expected == (decode_traces_json if is_traces else decode_logs_json)(body, limits)


@law
@given(
    request=trace_requests | log_requests,
    changes=st.lists(st.sampled_from(CHANGES[1:]), unique=True),
    last=st.booleans(),
)
def test_every_spelling_of_a_field_reads_the_same(
    limits: Limits, request: Message, changes: list[Callable[[str, Any], tuple[str, Any]]], *, last: bool
) -> None:
    document = json.loads(to_otlp_json(request))
    for change in (*changes, snake) if last else changes:
        document = rewritten(document, change)
    reads_alike(request, document, limits)


@law
@given(request=trace_requests | log_requests)
def test_unknown_fields_and_the_order_of_fields_change_nothing(limits: Limits, request: Message) -> None:
    reads_alike(request, strange(json.loads(to_otlp_json(request))), limits)


@law
@given(request=trace_requests | log_requests)
def test_fields_that_are_null_are_unset(limits: Limits, request: Message) -> None:
    reads_alike(request, nulls(json.loads(to_otlp_json(request))), limits)


@law
@given(
    request=trace_requests | log_requests,
    indent=st.sampled_from([None, 1, "\t"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_space_escapes_and_a_byte_order_mark_change_nothing(
    limits: Limits, request: Message, indent: int | str | None, mark: bytes
) -> None:
    is_traces = "resource_spans" in request.DESCRIPTOR.fields_by_name
    expected = (decode_traces if is_traces else decode_logs)(request.SerializeToString(), limits)
    document = json.loads(to_otlp_json(request))
    for plain in (True, False):
        body = mark + json.dumps(document, indent=indent, ensure_ascii=plain).encode()
        assert expected == (decode_traces_json if is_traces else decode_logs_json)(body, limits)
