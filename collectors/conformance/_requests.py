"""Requests to send: ordinary, unusual but valid, invalid, and malicious ones.

Ids are new each time, so that no receiver treats a request as a duplicate of an earlier one.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import time
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

SERVICE: Final = "otlp-conformance"
NAME: Final = "conformance check"


def traces(count: int = 1, *, name: str = NAME) -> ExportTraceServiceRequest:
    """Return a request of one trace with `count` spans."""
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = SERVICE
    part = block.scope_spans.add()
    part.scope.name = SERVICE
    trace_id, now = os.urandom(16), time.time_ns()
    for _ in range(count):
        part.spans.add(
            trace_id=trace_id,
            span_id=os.urandom(8),
            name=name,
            kind=1,
            start_time_unix_nano=now,
            end_time_unix_nano=now + 1000,
        )
    return request


def only_span(request: ExportTraceServiceRequest) -> Span:
    """Return the first span of a request, for modification."""
    return request.resource_spans[0].scope_spans[0].spans[0]


def logs(count: int = 1) -> ExportLogsServiceRequest:
    """Return a request of log records that belong to a span."""
    request = ExportLogsServiceRequest()
    block = request.resource_logs.add()
    block.resource.attributes.add(key="service.name").value.string_value = SERVICE
    part = block.scope_logs.add()
    trace_id, span_id = os.urandom(16), os.urandom(8)
    for _ in range(count):
        record = part.log_records.add(
            trace_id=trace_id, span_id=span_id, time_unix_nano=time.time_ns(), event_name=NAME, severity_number=9
        )
        record.body.string_value = "hello"
    return request


def span(**changes: Any) -> dict[str, Any]:
    """Return a span in OTLP/JSON."""
    now = time.time_ns()
    return {
        "traceId": os.urandom(16).hex(),
        "spanId": os.urandom(8).hex(),
        "name": NAME,
        "kind": 1,
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 1000),
        **changes,
    }


def attribute(value: object) -> list[dict[str, Any]]:
    """Return an attribute list of one AnyValue."""
    return [{"key": "checked", "value": value}]


def traces_document(spans: Sequence[dict[str, Any]], **block: Any) -> dict[str, Any]:
    """Return a traces request in OTLP/JSON; `block` adds fields to its one ResourceSpans."""
    service = [{"key": "service.name", "value": {"stringValue": SERVICE}}]
    return {
        "resourceSpans": [
            {"resource": {"attributes": service}, "scopeSpans": [{"scope": {"name": SERVICE}, "spans": spans}], **block}
        ]
    }


def traces_json(*spans: dict[str, Any]) -> bytes:
    """Return the bytes of a traces request in OTLP/JSON, with one ordinary span if none is given."""
    return json.dumps(traces_document(spans or (span(),))).encode()


def logs_json(**changes: Any) -> bytes:
    """Return the bytes of a logs request in OTLP/JSON with one record."""
    record = {
        "traceId": os.urandom(16).hex(),
        "spanId": os.urandom(8).hex(),
        "timeUnixNano": str(time.time_ns()),
        "severityNumber": 9,
        "eventName": NAME,
        "body": {"stringValue": "hello"},
        **changes,
    }
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}).encode()


def zipped(data: bytes) -> bytes:
    """Return the bytes compressed with gzip, deterministically."""
    return gzip.compress(data, mtime=0)


_MEGABYTE = 1024 * 1024
_LAST_NS = 2**64 - 1
#: The tag of field 999, length-delimited.
_FUTURE = b"\xba\x3e"


def rich() -> bytes:
    """Return a span with every field set."""
    request = traces(name="Grüße 你好 🤖")
    block = request.resource_spans[0]
    block.schema_url = block.scope_spans[0].schema_url = "https://opentelemetry.io/schemas/1.37.0"
    block.scope_spans[0].scope.version = "1.2.3"
    span = only_span(request)
    span.parent_span_id, span.trace_state, span.flags = b"\7" * 8, "vendor=1", 0x101
    span.status.code, span.status.message = Status.STATUS_CODE_ERROR, "failed"
    span.dropped_attributes_count = span.dropped_events_count = span.dropped_links_count = 3
    _fill(span)
    span.events.add(name="event", time_unix_nano=span.start_time_unix_nano)
    span.links.add(trace_id=b"\5" * 16, span_id=b"\6" * 8)
    return request.SerializeToString()


def _fill(span: Span) -> None:
    """Add an attribute of every kind of value."""
    values = span.attributes
    values.add(key="text").value.string_value = "a\nb"
    values.add(key="truth").value.bool_value = False
    values.add(key="least").value.int_value = -(2**63)
    values.add(key="double").value.double_value = 0.5
    values.add(key="bytes").value.bytes_value = b"\xff\0"
    values.add(key="list").value.array_value.values.add().string_value = ""
    values.add(key="map").value.kvlist_value.values.add(key="k").value.int_value = 1
    values.add(key="unset")


def unknown_field() -> bytes:
    """Return a request with field 999, which no version of OTLP defines."""
    return traces().SerializeToString() + _FUTURE + _varint(6) + b"future"


def padded(size: int) -> bytes:
    """Return a decodable request of at least `size` bytes, nearly all of which are zeros in an unknown field."""
    return traces().SerializeToString() + _FUTURE + _varint(size) + bytes(size)


def large_attribute() -> bytes:
    """Return a span with an attribute of 1 MiB."""
    request = traces()
    only_span(request).attributes.add(key="large").value.string_value = "x" * _MEGABYTE
    return request.SerializeToString()


def not_finite() -> bytes:
    """Return a span with numbers that are not finite."""
    request = traces()
    for key, number in (("nan", math.nan), ("inf", math.inf), ("-inf", -math.inf)):
        only_span(request).attributes.add(key=key).value.double_value = number
    return request.SerializeToString()


def odd_times() -> bytes:
    """Return spans with implausible times."""
    request = traces(4)
    times = ((0, 0), (_LAST_NS, _LAST_NS), (_LAST_NS, 0), (2_000, 1_000))
    for span, (start, end) in zip(request.resource_spans[0].scope_spans[0].spans, times, strict=True):
        span.start_time_unix_nano, span.end_time_unix_nano = start, end
        span.events.add(name="event", time_unix_nano=end)
    return request.SerializeToString()


def odd_text() -> bytes:
    """Return spans with names and keys that could break tables and terminals."""
    request = traces(4)
    spans = request.resource_spans[0].scope_spans[0].spans
    for span, name in zip(spans, ("a\0b", "", "x" * 1_000_000, "\x1b[2J\r\n"), strict=True):
        span.name = name
        for value in ("first", "second\0"):
            span.attributes.add(key="twice").value.string_value = value
        span.attributes.add(key="").value.string_value = ""
    return request.SerializeToString()


def many_attributes(count: int) -> bytes:
    """Return a span with `count` attributes."""
    request = traces()
    for number in range(count):
        only_span(request).attributes.add(key=f"key.{number}").value.int_value = number
    return request.SerializeToString()


def deep(levels: int) -> bytes:
    """Return a span with an attribute of nested lists, encoded by hand because protobuf refuses to build it."""
    value = AnyValue(string_value="bottom").SerializeToString()
    for _ in range(levels):
        value = _field(5, _field(1, value))  # AnyValue.array_value, ArrayValue.values
    request = traces()
    span = only_span(request).SerializeToString() + _field(9, _field(1, b"deep") + _field(2, value))
    return _field(1, _field(2, _field(2, span)))


def not_utf8() -> bytes:
    """Return a span whose name is encoded in Latin-1."""
    return traces(name="MARK").SerializeToString().replace(b"MARK", b"Gr\xfc\xdf")


def with_trace_id(trace_id: bytes) -> bytes:
    """Return a span with another trace id."""
    request = traces()
    only_span(request).trace_id = trace_id
    return request.SerializeToString()


def half_good() -> bytes:
    """Return a request with a valid span and one without ids."""
    request = traces(2)
    only_span(request).trace_id = only_span(request).span_id = b""
    return request.SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 — seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])
