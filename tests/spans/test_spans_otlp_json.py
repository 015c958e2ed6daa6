from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.errors import DecodeError
from otel_agentic.spans import Limits, SpanBatch, decode_document, decode_logs_json, decode_traces_json
from otel_agentic.spans.model import BAD_TRACE_ID, LOGS_ON_TRACES, OUTSIDE_SPAN, OWN_TELEMETRY, SPANS_ON_LOGS
from otel_agentic.spans.otlp_json import NOT_OTLP

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"


def new_span(**fields: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": "5", "endTimeUnixNano": 9}
    return {"traceId": TRACE, "spanId": SPAN, "name": "chat", **times, **fields}


def traces(*spans: dict[str, Any], scope: str = "lib") -> bytes:
    parts = [{"scope": {"name": scope}, "spans": list(spans)}]
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": parts}]}).encode()


def value_of(limits: Limits, value: str) -> Any:
    text = traces(new_span(attributes=[{"key": "a", "value": "VALUE"}])).decode().replace('"VALUE"', value)
    return decode_traces_json(text.encode(), limits).spans[0].attributes["a"]


def test_ids_are_hex_of_any_case(limits: Limits) -> None:
    [span] = decode_traces_json(traces(new_span(traceId=TRACE.upper(), parentSpanId="AB" * 8)), limits).spans
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE, SPAN, "ab" * 8)


@pytest.mark.parametrize("trace_id", ["", "0" * 32, "CvdlGRbNQ92ESOshHIAxnA==", None, 5])
def test_an_id_that_is_not_hex_rejects_the_span(limits: Limits, trace_id: object) -> None:
    batch = decode_traces_json(traces(new_span(traceId=trace_id)), limits)
    assert batch == SpanBatch(rejected={BAD_TRACE_ID: 1})


@pytest.mark.parametrize("kind", [3, "3", "SPAN_KIND_CLIENT", "CLIENT"])
def test_enumerations_are_integers_or_names(limits: Limits, kind: object) -> None:
    raw = new_span(kind=kind, status={"code": "STATUS_CODE_ERROR", "message": "boom"})
    [span] = decode_traces_json(traces(raw), limits).spans
    assert (span.kind, span.status, span.status_message) == (3, 2, "boom")


@pytest.mark.parametrize("kind", [99, -1, "SPAN_KIND_TELEPATHY", None, {}, "9" * 5000])
def test_an_unknown_enumeration_value_is_unset(limits: Limits, kind: object) -> None:
    assert decode_traces_json(traces(new_span(kind=kind)), limits).spans[0].kind == 0


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"stringValue": "x"}', "x"),
        ('{"stringValue": ""}', ""),
        ('{"intValue": "42"}', 42),
        ('{"intValue": 42}', 42),
        ('{"intValue": 42.0}', 42),
        ('{"intValue": "-9223372036854775808"}', -(2**63)),
        ('{"intValue": "9223372036854775808"}', "9223372036854775808"),
        ('{"intValue": "many"}', "many"),
        ('{"boolValue": true}', True),
        ('{"boolValue": false}', False),
        ('{"doubleValue": 2.5}', 2.5),
        ('{"doubleValue": "2.5"}', 2.5),
        ('{"doubleValue": "NaN"}', "NaN"),
        ('{"doubleValue": "-Infinity"}', "-Infinity"),
        ('{"doubleValue": NaN}', "NaN"),
        ('{"doubleValue": 1e999}', "Infinity"),
        ('{"bytesValue": "aGk="}', b"hi"),
        ('{"bytesValue": "-_8"}', b"\xfb\xff"),
        ('{"bytesValue": "not base64!"}', "not base64!"),
        ('{"arrayValue": {"values": [{"intValue": 1}, {}]}}', [1, None]),
        ('{"arrayValue": {}}', []),
        ('{"kvlistValue": {"values": [{"key": "k", "value": {"stringValue": "v"}}]}}', {"k": "v"}),
        ('{"string_value": "snake"}', "snake"),
        ('{"stringValue": "\\ud800 lone"}', "\ufffd lone"),
        ('{"stringValue": "nul \\u0000"}', "nul \ufffd"),
        ("{}", None),
        ("null", None),
        ('{"futureValue": 1}', None),
        ('{"stringValue": 7}', "7"),
    ],
)
def test_a_value_becomes_plain_python(limits: Limits, value: str, expected: object) -> None:
    decoded = value_of(limits, value)
    assert decoded == expected
    assert type(decoded) is type(expected)


def test_an_integer_of_ten_thousand_digits_does_not_hurt(limits: Limits) -> None:
    assert value_of(limits, '{"intValue": "%s"}' % ("9" * 10_000)) == "9" * 10_000
    assert value_of(limits, '{"intValue": %s}' % ("9" * 10_000)) == "9" * 10_000


def test_snake_case_names_and_unknown_fields_are_tolerated(limits: Limits) -> None:
    raw = {"trace_id": TRACE, "span_id": SPAN, "start_time_unix_nano": 5, "end_time_unix_nano": "9", "newField": [1]}
    document = {"resource_spans": [{"scope_spans": [{"spans": [raw]}], "more": 1}], "later": {}}
    [span] = decode_traces_json(json.dumps(document).encode(), limits).spans
    assert (span.trace_id, span.start_ns, span.end_ns) == (TRACE, 5, 9)


def test_spans_under_both_spellings_of_a_field_are_all_read(limits: Limits) -> None:
    blocks = [{"scopeSpans": [{"spans": [{"traceId": TRACE, "spanId": SPAN}]}]}]
    for camel, snake in (([], blocks), (blocks, blocks)):
        document = {"resourceSpans": camel, "resource_spans": snake}
        batch = decode_traces_json(json.dumps(document).encode(), limits)
        assert len(camel) + len(snake) == len(batch.spans)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b'{"resourceSpans": [',
        b'{"name": "\xff\xfe"}',
        b"[" * 200_000,
        b"[]",
        b"5",
        b'{"resourceSpans": {}}',
        b'{"resourceSpans": [5]}',
        b'{"resourceSpans": [{"resource": []}]}',
        traces({"traceId": TRACE, "spanId": SPAN, "attributes": {"a": 1}}),
        traces({"traceId": TRACE, "spanId": SPAN, "attributes": [{"key": "a", "value": "bare"}]}),
    ],
)
def test_what_is_not_otlp_json_is_a_decode_error(limits: Limits, data: bytes) -> None:
    with pytest.raises(DecodeError, match=r"not (OTLP/)?JSON"):
        decode_traces_json(data, limits)


def test_of_equal_keys_the_last_wins(limits: Limits) -> None:
    pairs = [{"key": "a", "value": {"intValue": 1}}, {"key": "a", "value": {"intValue": 2}}]
    [span] = decode_traces_json(traces(new_span(attributes=pairs)), limits).spans
    assert span.attributes == {"a": 2}


def test_a_request_on_the_wrong_path_is_refused_with_the_right_one(limits: Limits) -> None:
    logs = b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{}, {}]}]}]}'
    assert decode_traces_json(logs, limits) == SpanBatch(rejected={LOGS_ON_TRACES: 2})
    assert decode_logs_json(traces(new_span()), limits) == SpanBatch(rejected={SPANS_ON_LOGS: 1})


def test_a_document_may_hold_spans_and_log_records(limits: Limits) -> None:
    document = json.loads(traces(new_span()))
    record = {"traceId": TRACE, "spanId": SPAN, "observedTimeUnixNano": "7", "eventName": "e", "body": {"intValue": 1}}
    document["resourceLogs"] = [{"scopeLogs": [{"logRecords": [record, {}]}]}]
    batch = decode_document(json.dumps(document).encode(), limits)
    assert len(batch.spans) == 1
    assert [(log.time_ns, log.event_name, log.body) for log in batch.logs] == [(7, "e", 1)]
    assert batch.ignored == {OUTSIDE_SPAN: 1}


def test_a_document_of_another_kind_is_ignored_and_counted(limits: Limits) -> None:
    assert decode_document(b'{"resourceMetrics": []}', limits) == SpanBatch(ignored={NOT_OTLP: 1})
    assert decode_document(b'{"resourceSpans": []}', limits) == SpanBatch()


def test_our_own_telemetry_is_ignored_in_json_too(limits: Limits) -> None:
    assert decode_document(traces(new_span(), scope="otel_agentic"), limits).ignored == {OWN_TELEMETRY: 1}


def test_a_byte_order_mark_is_skipped(limits: Limits) -> None:
    assert decode_document(b"\xef\xbb\xbf" + traces(new_span()), limits).spans
