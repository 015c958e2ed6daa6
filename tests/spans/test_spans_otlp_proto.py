from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otel_agentic.errors import DecodeError
from otel_agentic.spans import Limits, SpanBatch, decode_logs, decode_message, decode_traces
from otel_agentic.spans.model import (
    BAD_SPAN_ID,
    BAD_TRACE_ID,
    LOGS_ON_TRACES,
    NOT_AN_EVENT,
    OUTSIDE_SPAN,
    OWN_TELEMETRY,
    SPANS_ON_LOGS,
)
from otel_agentic.spans.sanitize import CUT_ATTRIBUTES, CUT_EVENTS, CUT_NAME, CUT_VALUE, DROPPED_LINK, MENDED_PARENT

TRACE, SPAN = bytes(range(1, 17)), bytes(range(1, 9))


def new_span(**fields: object) -> Span:
    given = {"trace_id": TRACE, "span_id": SPAN, "name": "chat", "start_time_unix_nano": 5, "end_time_unix_nano": 9}
    return Span(**{**given, **fields})  # type: ignore[arg-type]  # fields of a message, by name


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def traces(*spans: Span, scope: str = "lib") -> bytes:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.append(text("service.name", "desk"))
    part = block.scope_spans.add()
    part.scope.name = scope
    part.spans.extend(spans)
    return request.SerializeToString()


def logs(*records: LogRecord, scope: str = "lib") -> bytes:
    request = ExportLogsServiceRequest()
    part = request.resource_logs.add().scope_logs.add()
    part.scope.name = scope
    part.log_records.extend(records)
    return request.SerializeToString()


def event(**fields: object) -> LogRecord:
    given = {"trace_id": TRACE, "span_id": SPAN, "time_unix_nano": 7, "event_name": "gen_ai.choice"}
    return LogRecord(**{**given, **fields})  # type: ignore[arg-type]  # fields of a message, by name


def test_a_span_keeps_every_field(limits: Limits) -> None:
    raw = new_span(
        parent_span_id=b"\2" * 8,
        kind=3,
        status=Status(code=Status.STATUS_CODE_ERROR, message="boom"),
        attributes=[text("a", "b"), KeyValue(key="empty", value=AnyValue(string_value="")), KeyValue(key="unset")],
        events=[Span.Event(name="e", time_unix_nano=6, attributes=[text("x", "y")])],
        links=[Span.Link(trace_id=TRACE, span_id=b"\3" * 8)],
    )
    [span] = decode_traces(traces(raw), limits).spans
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE.hex(), SPAN.hex(), "02" * 8)
    assert (span.name, span.kind, span.status, span.status_message) == ("chat", 3, 2, "boom")
    assert (span.start_ns, span.end_ns) == (5, 9)
    assert span.attributes == {"a": "b", "empty": "", "unset": None}
    assert [(item.name, item.time_ns, item.attributes) for item in span.events] == [("e", 6, {"x": "y"})]
    assert [(link.trace_id, link.span_id) for link in span.links] == [(TRACE.hex(), "03" * 8)]
    assert span.resource.attributes == {"service.name": "desk"}
    assert span.scope.name == "lib"


def test_spans_of_one_block_share_resource_and_scope(limits: Limits) -> None:
    first, second = decode_traces(traces(new_span(), new_span(span_id=b"\7" * 8)), limits).spans
    assert first.resource is second.resource
    assert first.scope is second.scope


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b""}, BAD_TRACE_ID),
        ({"trace_id": b"\1" * 15}, BAD_TRACE_ID),
        ({"trace_id": bytes(16)}, BAD_TRACE_ID),
        ({"span_id": b"\1" * 9}, BAD_SPAN_ID),
        ({"span_id": bytes(8)}, BAD_SPAN_ID),
    ],
)
def test_a_span_with_a_bad_id_is_rejected_and_its_neighbours_are_kept(
    limits: Limits, fields: dict[str, bytes], reason: str
) -> None:
    batch = decode_traces(traces(new_span(), new_span(**fields)), limits)
    assert len(batch.spans) == 1
    assert batch.rejected == {reason: 1}


def test_a_zero_parent_is_none_and_a_malformed_one_too_but_counted(limits: Limits) -> None:
    zero, malformed = new_span(parent_span_id=bytes(8)), new_span(parent_span_id=b"\1\2")
    batch = decode_traces(traces(zero, malformed), limits)
    assert [span.parent_span_id for span in batch.spans] == [None, None]
    assert batch.altered == {MENDED_PARENT: 1}


def test_a_span_is_cut_to_the_limits_and_the_cuts_are_counted(limits: Limits) -> None:
    small = replace(limits, max_attributes=2, max_events=1, max_name_bytes=4, max_value_bytes=3)
    raw = new_span(
        name="invoke_agent",
        attributes=[text("a", "abcdef"), text("b", "x"), text("c", "x"), text("d", "x")],
        events=[Span.Event(name="e"), Span.Event(name="f")],
        links=[Span.Link(trace_id=b"\1", span_id=SPAN)],
    )
    batch = decode_traces(traces(raw, scope="lib"), replace(small, max_name_bytes=12))
    assert batch.spans[0].attributes == {"a": "abc", "b": "x"}
    assert batch.altered[CUT_ATTRIBUTES] == 2
    assert batch.altered[CUT_EVENTS] == 1
    assert batch.altered[CUT_VALUE] == 2  # the service's name and the attribute
    assert batch.altered[DROPPED_LINK] == 1
    named = decode_traces(traces(raw), small)
    assert named.spans[0].name == "invo"
    assert named.altered[CUT_NAME] == 2  # the span's name and the key `service.name`


def test_our_own_telemetry_is_ignored(limits: Limits) -> None:
    assert decode_traces(traces(new_span(), scope="otel_agentic"), limits).ignored == {OWN_TELEMETRY: 1}
    assert decode_logs(logs(event(), scope="otel_agentic"), limits).ignored == {OWN_TELEMETRY: 1}


def test_an_empty_request_is_an_empty_batch(limits: Limits) -> None:
    assert decode_traces(b"", limits) == SpanBatch()
    assert decode_logs(b"", limits) == SpanBatch()
    assert decode_traces(b"", limits).is_empty


@pytest.mark.parametrize("data", [b"nonsense", b"\x0a\xff", traces(new_span())[:-3]])
def test_undecodable_bytes_are_a_decode_error(limits: Limits, data: bytes) -> None:
    with pytest.raises(DecodeError, match="not an ExportTraceServiceRequest"):
        decode_traces(data, limits)


def test_text_that_is_not_utf_8_makes_the_whole_request_undecodable(limits: Limits) -> None:
    damaged = traces(new_span(name="chat")).replace(b"chat", b"ch\xff\xfe")
    with pytest.raises(DecodeError, match="UTF-8"):
        decode_traces(damaged, limits)


def test_a_logs_request_on_the_traces_path_is_recognised(limits: Limits) -> None:
    bodies = [AnyValue(string_value="short"), AnyValue(string_value="x" * 300)]
    data = logs(*(event(body=body, attributes=[text("gen_ai.system", "openai")]) for body in bodies))
    assert decode_traces(data, limits) == SpanBatch(rejected={LOGS_ON_TRACES: 2})


def test_a_traces_request_on_the_logs_path_is_recognised(limits: Limits) -> None:
    data = traces(new_span(attributes=[text("gen_ai.system", "openai")]))
    assert decode_logs(data, limits) == SpanBatch(rejected={SPANS_ON_LOGS: 1})


def test_messages_of_both_kinds_are_distinguished_by_their_content(limits: Limits) -> None:
    assert len(decode_message(traces(new_span()), limits).spans) == 1
    assert len(decode_message(logs(event()), limits).logs) == 1


def test_a_log_record_keeps_its_place_body_and_name(limits: Limits) -> None:
    [record] = decode_logs(logs(event(body=AnyValue(string_value="hi"))), limits).logs
    assert (record.trace_id, record.span_id, record.time_ns) == (TRACE.hex(), SPAN.hex(), 7)
    assert (record.event_name, record.body) == ("gen_ai.choice", "hi")


def test_a_log_record_without_its_own_time_has_the_observed_one(limits: Limits) -> None:
    batch = decode_logs(logs(event(time_unix_nano=0, observed_time_unix_nano=8)), limits)
    assert batch.logs[0].time_ns == 8
    assert batch.altered == {}


def test_an_old_event_name_stands_in_the_attributes(limits: Limits) -> None:
    [record] = decode_logs(logs(event(event_name="", attributes=[text("event.name", "old")])), limits).logs
    assert record.event_name == "old"


def test_a_nameless_record_with_a_gen_ai_attribute_is_kept(limits: Limits) -> None:
    assert decode_logs(logs(event(event_name="", attributes=[text("gen_ai.system", "x")])), limits).logs


def test_records_that_are_no_events_of_a_span_are_ignored_under_their_reason(limits: Limits) -> None:
    plain = event(event_name="", body=AnyValue(string_value="GET /"))
    batch = decode_logs(logs(plain, event(trace_id=b""), event(span_id=bytes(8)), event(span_id=b"\1")), limits)
    assert batch == SpanBatch(ignored={NOT_AN_EVENT: 1, OUTSIDE_SPAN: 2}, rejected={BAD_SPAN_ID: 1})
