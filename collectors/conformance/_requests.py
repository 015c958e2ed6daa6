"""Requests to send: fresh ids each time, so that no receiver takes one for a copy of another."""

from __future__ import annotations

import gzip
import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

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
    """Return the first span of a request, to be changed."""
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
    """Return the bytes of a traces request in OTLP/JSON; one plain span where none is given."""
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
    """Return the bytes in gzip, the same for the same bytes."""
    return gzip.compress(data, mtime=0)
