"""The bound on what one request may hold, before anything is parsed: never less than a parser makes, and cheap."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_agentic.config import ReceiveSettings
from otel_agentic.errors import DecodeError, TooLargeError
from otel_agentic.spans import (
    Limits,
    SpanBatch,
    decode_document,
    decode_logs,
    decode_logs_json,
    decode_message,
    decode_traces,
    decode_traces_json,
)
from otel_agentic.spans.sanitize import count_messages, message_fields, require_few_items, require_few_json_items
from tests.snapshots import raises
from tests.spans.test_spans_decoders_agree import log_requests, to_otlp_json, trace_requests

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message


FEW: Final = replace(Limits.from_settings(ReceiveSettings()), max_items=100)
TRACE_FIELDS: Final = message_fields(ExportTraceServiceRequest.DESCRIPTOR, {})
NO_LIMIT: Final = 10**9
IDS: Final = b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + b"\2" * 8
DECODERS: Final = (decode_traces, decode_logs, decode_message)
JSON_DECODERS: Final = (decode_traces_json, decode_logs_json, decode_document)


def field(tag: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([tag]) + length + bytes([size]) + body


def span(content: bytes) -> bytes:
    return field(0x0A, field(0x12, field(0x12, IDS + content)))


#: Items of two bytes, or little more, at every place that takes memory for each.
BOMBS: Final = {
    "resource blocks": b"\x0a\x00" * 500,
    "scope blocks": field(0x0A, b"\x12\x00" * 500),
    "spans": field(0x0A, field(0x12, b"\x12\x00" * 500)),
    "spans with a long tag": field(0x0A, field(0x12, b"\x92\x80\x00\x80\x00" * 500)),
    "spans with a long length": field(0x0A, field(0x12, b"\x12\x80\x80\x00" * 500)),
    "attributes": span(b"\x4a\x00" * 500),
    "events": span(b"\x5a\x00" * 500),
    "links": span(b"\x6a\x00" * 500),
    "attributes of a link": span(field(0x6A, b"\x22\x00" * 500)),
    "elements of a list": span(field(0x4A, field(0x12, field(0x2A, b"\x0a\x00" * 500)))),
    "members of an object": span(field(0x4A, field(0x12, field(0x32, b"\x0a\x00" * 500)))),
    "a value that changes its kind": span(field(0x4A, field(0x12, b"\x2a\x00\x32\x00" * 250))),
    "texts of an entity": field(0x0A, field(0x0A, field(0x1A, b"\x1a\x00" * 500))),
}


def descendants(message: Message) -> Iterator[Message]:
    for result, value in message.ListFields():
        if result.message_type is not None:
            for child in value if result.is_repeated else [value]:
                yield child
                yield from descendants(child)


def texts(message: Message) -> int:
    messages = [message, *descendants(message)]
    listed = [(result, value) for item in messages for result, value in item.ListFields() if result.is_repeated]
    return sum(len(value) for result, value in listed if result.message_type is None)


def is_refused(decode: Callable[[bytes, Limits], SpanBatch], data: bytes, limits: Limits) -> bool:
    try:
        decode(data, limits)
    except TooLargeError:
        return True
    return False


@pytest.mark.parametrize("name", BOMBS)
def test_a_body_of_very_many_small_items_is_refused_before_it_is_parsed(name: str) -> None:
    assert [True] * 3 == [is_refused(decode, BOMBS[name], FEW) for decode in DECODERS]
    assert [False] * 3 == [is_refused(decode, BOMBS[name], replace(FEW, max_items=1_000 * 8)) for decode in DECODERS]


def test_a_bomb_of_log_records_is_refused_on_the_traces_path_too() -> None:
    record = field(0x32, b"") * 500 + field(0x4A, b"\1" * 16)
    data = field(0x0A, field(0x12, field(0x12, record)))
    assert [True] * 3 == [is_refused(decode, data, FEW) for decode in DECODERS]


def test_the_refusal_says_what_to_do() -> None:
    with raises(
        TooLargeError,
        snapshot(
            "the request holds more than 100 spans, attributes, events and values: send smaller batches, or raise receive.max_items"
        ),
    ):
        decode_traces(BOMBS["attributes"], FEW)
    with raises(TooLargeError, snapshot("holds 13 spans or log records, more than 12: send smaller batches")):
        decode_traces(field(0x0A, field(0x12, field(0x12, IDS) * 13)), FEW)


def test_spans_and_log_records_count_as_eight_in_every_encoding() -> None:
    spans = [{"traceId": "01" * 16, "spanId": f"{number:016x}"} for number in range(1, 14)]
    blocks = [{"scopeSpans": [{"spans": [first]}]} for first in spans]
    few = replace(FEW, max_items=104)
    assert len(decode_traces_json(json.dumps({"resourceSpans": blocks}).encode(), few).spans) == 13
    with raises(TooLargeError, snapshot("13 spans or log records, more than 12")):
        decode_traces_json(json.dumps({"resourceSpans": blocks}).encode(), FEW)
    with raises(TooLargeError, snapshot("13 spans or log records, more than 12")):
        decode_logs(field(0x0A, field(0x12, field(0x12, field(0x4A, b"\1" * 16)) * 13)), FEW)


#: Bytes that a parser of OTLP finds its way through: tags and lengths of every spelling.
wire = st.lists(
    st.sampled_from([bytes([tag]) for tag in (0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x32, 0x4A, 0x5A, 0x6A, 0x7A)])
    | st.sampled_from([b"\x92\x00", b"\x8a\x80\x00", b"\x98\x06", b"\x13", b"\x14", b"\x0b", b"\x0c", b"\x09", b"\x0d"])
    | st.sampled_from([b"\x00", b"\x02", b"\x04", b"\x06", b"\x82\x00", b"\x84\x80\x80\x00", b"\x10\x01", b"\x80" * 9])
    | st.binary(min_size=1, max_size=3),
    max_size=60,
).map(b"".join)


@given(
    data=wire
    | wire.map(span)
    | wire.map(lambda content: field(0x0A, field(0x12, content)))
    | wire.map(lambda content: span(field(0x4A, field(0x12, content))))
)
def test_no_parser_makes_more_messages_of_any_bytes_than_are_counted(data: bytes) -> None:
    for kind in (ExportTraceServiceRequest, ExportLogsServiceRequest):
        try:
            request = kind.FromString(data)
        except Exception:  # noqa: BLE001, S112 — bytes that are no message take no memory
            continue
        actual = sum(1 for _ in descendants(request)) + texts(request)
        assert actual <= count_messages(data, message_fields(kind.DESCRIPTOR, {}), NO_LIMIT)


@settings(max_examples=30)
@given(request=trace_requests | log_requests)
def test_of_a_sound_request_the_count_is_exact(request: Message) -> None:
    descriptor: Descriptor = request.DESCRIPTOR  # type: ignore[assignment]  # the stubs name two classes of them
    fields = message_fields(descriptor, {})
    actual = sum(1 for _ in descendants(request)) + texts(request)
    assert actual == count_messages(request.SerializeToString(), fields, NO_LIMIT)


def test_every_list_of_otlp_is_of_messages_or_texts() -> None:
    # A list of numbers could be packed, without a tag for each: it would have to be counted by bytes.
    visited, waiting = set(), [ExportTraceServiceRequest.DESCRIPTOR, ExportLogsServiceRequest.DESCRIPTOR]
    while waiting:
        descriptor = waiting.pop()
        visited.add(descriptor.full_name)
        for result in descriptor.fields:
            assert not result.is_repeated or result.message_type is not None or result.type == result.TYPE_STRING
            if result.message_type is not None and result.message_type.full_name not in visited:
                waiting.append(result.message_type)
    assert len(visited) >= 18


JSON_BOMBS: Final = {
    "spans": b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 500 + b"{}]}]}]}",
    "lists": b'{"x":[' + b"[]," * 500 + b"[]]}",
    "texts": b'{"x":[' + b'"",' * 500 + b'""]}',
    "numbers": b'{"x":[' + b"1," * 500 + b"1]}",
    "members": b'{"x":{' + b",".join(b'"%d":1' % number for number in range(500)) + b"}}",
    "nested": b'{"x":[' + b'{"a":{"b":[[{}]]}},' * 100 + b"1]}",
    "after text that hides a quote": b'{"x":["\\\\\\"","\\\\",' + b"{}," * 500 + b"{}]}",
}


@pytest.mark.parametrize("name", JSON_BOMBS)
def test_json_of_very_many_small_values_is_refused_before_it_is_parsed(name: str) -> None:
    assert [True] * 3 == [is_refused(decode, JSON_BOMBS[name], FEW) for decode in JSON_DECODERS]
    assert [False] * 3 == [
        is_refused(decode, JSON_BOMBS[name], replace(FEW, max_items=8_000)) for decode in JSON_DECODERS
    ]


def test_marks_inside_of_json_text_are_not_counted() -> None:
    text = '{"a": [1, 2, "x\\y"], ' * 200
    body = json.dumps({"x": text, "y": text * 400}).encode()
    require_few_json_items(body, FEW)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(st.sampled_from('a,{["\\ü\n'), max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('a,{["\\'), max_size=3), inner),
    max_leaves=40,
)


def size_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(size_of(item) for item in value.values())
    return 1 + sum(map(size_of, value)) if isinstance(value, list) else 1


@given(value=json_values, indent=st.none() | st.integers(0, 2))
def test_json_that_is_let_through_holds_no_more_than_twice_the_limit(value: Any, indent: int | None) -> None:
    body = json.dumps(value, indent=indent).encode()
    limits = replace(FEW, max_items=5)
    try:
        require_few_json_items(body, limits)
    except TooLargeError:
        # Marks are one for each value beyond the first, and one for each list or object: no more than two a value.
        assert 2 * size_of(value) > 2 * limits.max_items
    else:
        assert size_of(value) <= 2 * limits.max_items + 1


@settings(max_examples=25)
@given(request=trace_requests)
def test_the_bound_never_refuses_what_is_within_it(request: Message) -> None:
    actual = sum(1 for _ in descendants(request)) + texts(request)
    require_few_items(request.SerializeToString(), replace(FEW, max_items=max(actual, 1)))
    marks = to_otlp_json(request).translate(None, bytes(set(range(256)) - set(b"{[,")))
    require_few_json_items(to_otlp_json(request), replace(FEW, max_items=max(len(marks), 1)))


MANY: Final = 1_990_000
#: The bodies that take the most memory of those that the default limit lets through, and one that it does not.
WORST: Final[dict[str, tuple[Callable[[bytes, Limits], SpanBatch], Callable[[], bytes]]]] = {
    "64 MiB of empty spans": (decode_traces, lambda: field(0x0A, field(0x12, b"\x12\x00" * 2**25))),
    "empty spans": (decode_traces, lambda: field(0x0A, field(0x12, b"\x12\x00" * MANY))),
    "smallest spans": (decode_traces, lambda: field(0x0A, field(0x12, b"".join(map(smallest, range(1, 250_000)))))),
    "attributes that are cut": (decode_traces, lambda: span(b"\x4a\x00" * MANY)),
    "attributes that are kept": (decode_traces, lambda: b"".join(span(small_attributes()) for _ in range(245))),
    "elements of a list": (decode_traces, lambda: span(field(0x4A, field(0x12, field(0x2A, b"\x0a\x00" * MANY))))),
    "JSON objects": (decode_traces_json, lambda: b'{"x":[' + b"{}," * MANY + b"1]}"),
    "JSON lists": (decode_traces_json, lambda: b'{"x":[' + b"[]," * MANY + b"1]}"),
    "JSON members": (decode_traces_json, lambda: b"{%s}" % b",".join(b'"%x":1' % at for at in range(2 * MANY))),
}


def smallest(number: int) -> bytes:
    return field(0x12, b"\x0a\x10" + b"\1" * 16 + b"\x12\x08" + number.to_bytes(8, "big"))


def small_attributes() -> bytes:
    return b"".join(field(0x4A, field(0x0A, b"%x" % at) + field(0x12, field(0x0A, b"%x" % at))) for at in range(4000))


def growth_mib(name: str) -> tuple[str, int]:
    """Return the outcome of a body, and by how many MiB the decoding process grew."""
    decode, body = WORST[name]
    data, limits = body(), Limits.from_settings(ReceiveSettings())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    batch = "refused" if is_refused(decode, data, limits) else "read"
    return batch, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024


def growth_apart(name: str) -> tuple[str, int]:
    code = f"from tests.spans.test_spans_items import growth_mib; print(*growth_mib({name!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    message, grown = done.stdout.split()
    return message, int(grown)


@pytest.mark.slow  # of an HTTP request: tests/collectors/test_collectors_http_guard.py
def test_a_bomb_of_a_whole_request_takes_no_memory() -> None:
    message, grown = growth_apart("64 MiB of empty spans")
    assert message == "refused"
    assert grown < 20


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_the_worst_body_within_the_limit_takes_a_bounded_amount(name: str) -> None:
    _, grown = growth_apart(name)
    assert grown < 450


def test_damaged_bytes_are_counted_without_an_error() -> None:
    for data in (b"\x0a", b"\x0a\xff", b"\x0a\x05\x12", b"\xff" * 400, b"\x0f" * 400, BOMBS["spans"][:-1]):
        with pytest.raises((DecodeError, TooLargeError)):
            decode_traces(data, FEW)
    assert count_messages(b"\x0a\xff\xff", TRACE_FIELDS, NO_LIMIT) == 0
