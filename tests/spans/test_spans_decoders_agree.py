"""The JSON reader compared with protobuf: one request in both encodings gives one batch."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from otel_agentic.errors import DecodeError
from otel_agentic.spans import Limits, decode_document, decode_logs, decode_logs_json, decode_traces, decode_traces_json

if TYPE_CHECKING:
    from google.protobuf.message import Message


ID_FIELDS = {"traceId", "spanId", "parentSpanId"}

texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
times = st.sampled_from([0, 1, 1_795_199_667_137_025_564, 2**63 - 1, 2**63, 2**64 - 1])
ids_16 = st.sampled_from([b"", bytes(16), b"\1" * 15]) | st.binary(min_size=16, max_size=16)
ids_8 = st.sampled_from([b"", bytes(8), b"\1" * 9]) | st.binary(min_size=8, max_size=8)
scalars = (
    st.builds(AnyValue, string_value=texts)
    | st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1))
    | st.builds(AnyValue, double_value=st.floats())
    | st.builds(AnyValue, bool_value=st.booleans())
    | st.builds(AnyValue, bytes_value=st.binary(max_size=5))
    | st.just(AnyValue())
)


def nested(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    arrays = st.builds(ArrayValue, values=st.lists(values, max_size=3))
    maps = st.builds(KeyValueList, values=st.lists(st.builds(KeyValue, key=texts, value=values), max_size=3))
    return st.builds(AnyValue, array_value=arrays) | st.builds(AnyValue, kvlist_value=maps)


values = st.recursive(scalars, nested, max_leaves=4)
attributes = st.lists(st.builds(KeyValue, key=texts, value=values), max_size=3)
scopes = st.builds(InstrumentationScope, name=texts | st.just("otel_agentic"), version=texts, attributes=attributes)
resources = st.builds(Resource, attributes=attributes)
spans = st.builds(
    Span,
    trace_id=ids_16,
    span_id=ids_8,
    parent_span_id=ids_8,
    name=texts,
    kind=st.integers(0, 7),
    start_time_unix_nano=times,
    end_time_unix_nano=times,
    attributes=attributes,
    status=st.builds(Status, code=st.sampled_from([0, 1, 2]), message=texts),
    events=st.lists(st.builds(Span.Event, name=texts, time_unix_nano=times, attributes=attributes), max_size=2),
    links=st.lists(st.builds(Span.Link, trace_id=ids_16, span_id=ids_8, attributes=attributes), max_size=2),
)
records = st.builds(
    LogRecord,
    trace_id=ids_16,
    span_id=ids_8,
    time_unix_nano=times,
    observed_time_unix_nano=times,
    event_name=texts,
    body=values,
    attributes=st.lists(st.builds(KeyValue, key=texts | st.just("gen_ai.system"), value=values), max_size=3),
)
# One good item first: a request with none could be taken for the other kind.
good_span = Span(trace_id=b"\1" * 16, span_id=b"\1" * 8, start_time_unix_nano=1, end_time_unix_nano=2)
good_record = LogRecord(trace_id=b"\1" * 16, span_id=b"\1" * 8, time_unix_nano=1, event_name="e")
trace_requests = st.builds(
    lambda resource, scope, items: ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=resource, scope_spans=[ScopeSpans(scope=scope, spans=[good_span, *items], schema_url="u")]
            )
        ]
    ),
    resources,
    scopes,
    st.lists(spans, max_size=3),
)
log_requests = st.builds(
    lambda resource, scope, items: ExportLogsServiceRequest(
        resource_logs=[
            ResourceLogs(resource=resource, scope_logs=[ScopeLogs(scope=scope, log_records=[good_record, *items])])
        ]
    ),
    resources,
    scopes,
    st.lists(records, max_size=3),
)
law = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


def to_otlp_json(request: Message) -> bytes:
    """Encode as OTLP/JSON: protobuf's JSON, but ids in hex and unset enumerations left out."""
    return json.dumps(_with_hex_ids(MessageToDict(request, use_integers_for_enums=True))).encode()


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64decode(item).hex() if key in ID_FIELDS and isinstance(item, str) else _with_hex_ids(item)
        for key, item in value.items()
    }


@law
@given(request=trace_requests)
def test_a_traces_request_reads_the_same_in_both_encodings(limits: Limits, request: ExportTraceServiceRequest) -> None:
    expected = decode_traces(request.SerializeToString(), limits)
    encoded = to_otlp_json(request)
    assert expected == decode_traces_json(encoded, limits)
    assert expected == decode_document(encoded, limits)


@law
@given(request=log_requests)
def test_a_logs_request_reads_the_same_in_both_encodings(limits: Limits, request: ExportLogsServiceRequest) -> None:
    expected = decode_logs(request.SerializeToString(), limits)
    assert expected == decode_logs_json(to_otlp_json(request), limits)


@law
@given(data=st.binary(max_size=200))
def test_random_bytes_never_raise_anything_but_a_decode_error(limits: Limits, data: bytes) -> None:
    for decode in (decode_traces, decode_logs, decode_traces_json, decode_logs_json, decode_document):
        try:
            decode(data, limits)
        except DecodeError:
            continue
