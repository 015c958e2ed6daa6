"""OTLP/HTTP over a real socket: accepted and refused requests, and their messages."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import zstandard
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from inline_snapshot import snapshot
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_agentic.errors import OverloadedError, StoreUnusableError, UsageError

if TYPE_CHECKING:
    from collectors.otlp_http import OtlpHttpCollector
    from tests.collectors.conftest import RecordingSink

    Serve = Callable[..., OtlpHttpCollector]

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json; charset=utf-8"}


def protobuf(*names: str, trace_id: bytes = b"\1" * 16) -> bytes:
    request = ExportTraceServiceRequest()
    part = request.resource_spans.add().scope_spans.add()
    for name in names:
        part.spans.add(trace_id=trace_id, span_id=b"\2" * 8, name=name, start_time_unix_nano=1, end_time_unix_nano=2)
    return request.SerializeToString()


def document(*names: str, trace_id: str = "01" * 16) -> bytes:
    times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    spans = [{"traceId": trace_id, "spanId": "02" * 8, "name": name, **times} for name in names]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def post(
    collector: OtlpHttpCollector, content: Any, headers: dict[str, str], path: str = "/v1/traces"
) -> httpx.Response:
    return httpx.post(collector.endpoint + path, content=content, headers=headers, timeout=20)


def test_protobuf_is_answered_in_protobuf(serve_http: Serve, sink: RecordingSink) -> None:
    answer = post(serve_http(), protobuf("chat"), PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert sink.names == ["chat"]


def test_json_is_answered_in_json(serve_http: Serve, sink: RecordingSink) -> None:
    answer = post(serve_http(), document("chat"), JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    assert answer.headers["content-type"] == "application/json"
    assert sink.names == ["chat"]


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("identity", bytes),
        ("", bytes),
    ],
)
def test_bodies_may_be_compressed(
    serve_http: Serve, sink: RecordingSink, encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    answer = post(serve_http(), compress(protobuf("chat")), {**PROTOBUF, "content-encoding": encoding})
    assert answer.status_code == 200
    assert sink.names == ["chat"]


def test_a_chunked_body_without_a_length_is_read(serve_http: Serve, sink: RecordingSink) -> None:
    body = protobuf("chat")

    def chunks() -> Iterator[bytes]:
        yield body[:5]
        yield body[5:]

    assert post(serve_http(), chunks(), PROTOBUF).status_code == 200
    assert sink.names == ["chat"]


@pytest.mark.parametrize(("content", "headers"), [(b"", PROTOBUF), (b"{}", JSON), (b"", JSON)])
@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs"])
def test_an_empty_request_succeeds(
    serve_http: Serve, sink: RecordingSink, path: str, content: bytes, headers: dict[str, str]
) -> None:
    assert post(serve_http(), content, headers, path).status_code == 200
    assert sink.batches == []


def test_bad_ids_are_a_partial_success_that_teaches(serve_http: Serve) -> None:
    collector = serve_http()
    answer = post(collector, protobuf("a", "b", trace_id=b"\1"), PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200
    assert (partial.rejected_spans, partial.error_message) == snapshot(
        (2, "2 x trace_id is not 16 bytes or is all zero")
    )
    message = post(collector, document("a", trace_id="zz"), JSON).json()["partialSuccess"]
    assert message == snapshot({"rejectedSpans": "1", "errorMessage": "1 x trace_id is not 16 bytes or is all zero"})


def test_a_logs_request_on_the_traces_path_is_refused_with_the_right_one(serve_http: Serve) -> None:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=5, event_name="e")
    answer = post(serve_http(), request.SerializeToString(), PROTOBUF)
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 1)
    assert "/v1/logs" in partial.error_message


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"nonsense", "", "not an ExportTraceServiceRequest"),
        (gzip.compress(protobuf("chat"))[:-6], "gzip", "truncated gzip"),
        (gzip.compress(protobuf("chat")) + b"rest", "gzip", "1 complete gzip member"),
        (protobuf("chat"), "gzip", "not gzip"),
        (zstandard.ZstdCompressor().compress(protobuf("chat"))[:-3], "zstd", "truncated zstd"),
        (protobuf("chat"), "zstd", "not zstd"),
    ],
)
def test_a_body_that_cannot_be_read_is_400_with_a_status_that_says_why(
    serve_http: Serve, sink: RecordingSink, content: bytes, encoding: str, message: str
) -> None:
    answer = post(serve_http(), content, {**PROTOBUF, "content-encoding": encoding})
    status = Status.FromString(answer.content)
    assert (answer.status_code, status.code) == (400, 3)
    assert message in status.message
    assert sink.batches == []


def test_json_that_cannot_be_read_is_400_in_json(serve_http: Serve) -> None:
    answer = post(serve_http(), b'{"resourceSpans": [', JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, 3)
    assert "not JSON" in answer.json()["message"]


def test_a_gzip_bomb_is_413_and_says_what_to_do(serve_http: Serve, sink: RecordingSink) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    answer = post(serve_http(max_request_bytes=1_000_000), bomb, {**PROTOBUF, "content-encoding": "gzip"})
    status = Status.FromString(answer.content)
    assert (answer.status_code, status.code) == (413, 8)
    assert "send smaller batches" in status.message
    assert list(status.details) == []
    assert sink.batches == []


@pytest.mark.parametrize("content", [bytes(150_000), [bytes(1000)] * 150], ids=["with a length", "chunked"])
def test_a_body_beyond_the_limit_is_413_and_the_client_sees_it(serve_http: Serve, content: Any) -> None:
    assert post(serve_http(max_request_bytes=100_000), content, PROTOBUF).status_code == 413


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"content-type": "text/plain"}, "'text/plain'"),
        ({}, "'unset'"),
        ({**PROTOBUF, "content-encoding": "br"}, "'br'"),
        ({**PROTOBUF, "content-encoding": "gzip, gzip"}, "gzip, gzip"),
    ],
)
def test_an_unknown_type_or_encoding_is_415(serve_http: Serve, headers: dict[str, str], message: str) -> None:
    answer = post(serve_http(), protobuf("chat"), headers)
    assert answer.status_code == 415
    assert message in answer.text


def test_without_the_token_it_is_401_and_with_it_200(serve_http: Serve, sink: RecordingSink) -> None:
    collector = serve_http(token="s3cret")  # noqa: S106 — a token made up for this test
    for displayed in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic s3cret"},
        {"authorization": "s3cret"},
    ):
        answer = post(collector, protobuf("chat"), {**PROTOBUF, **displayed})
        assert (answer.status_code, Status.FromString(answer.content).code) == (401, 16)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "s3cret" not in answer.text
    assert sink.batches == []
    assert post(collector, protobuf("chat"), {**PROTOBUF, "authorization": "Bearer s3cret"}).status_code == 200


@pytest.mark.parametrize("error", [OverloadedError("the queue is full"), StoreUnusableError("the disk is full")])
def test_a_sink_that_cannot_take_the_batch_asks_for_a_retry(
    serve_http: Serve, sink: RecordingSink, error: Exception
) -> None:
    sink.error = error
    answer = post(serve_http(), protobuf("chat"), PROTOBUF)
    status = Status.FromString(answer.content)
    retry = RetryInfo()
    assert (answer.status_code, status.code, status.message) == (503, 14, str(error))
    assert int(answer.headers["retry-after"]) >= 1
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds >= 1


def test_an_unforeseen_error_is_503_never_500_and_is_logged_not_returned(
    serve_http: Serve, sink: RecordingSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.error = KeyError("inner secret")
    answer = post(serve_http(), document("chat"), JSON)
    assert (answer.status_code, answer.json()["code"]) == (503, 14)
    assert "retry-after" in answer.headers
    assert "secret" not in answer.text
    assert "inner secret" in caplog.text


def test_other_paths_and_methods_are_refused_with_the_right_one(serve_http: Serve) -> None:
    collector = serve_http()
    unknown = post(collector, b"", PROTOBUF, "/v1/metrics")
    assert unknown.status_code == 404
    assert "/v1/traces" in Status.FromString(unknown.content).message
    read = httpx.get(collector.endpoint + "/v1/traces")
    assert (read.status_code, read.headers["allow"]) == (405, "POST")
    assert "POST" in read.json()["message"]


@pytest.mark.parametrize("path", ["/", "/healthz"])
def test_health_says_what_is_received(serve_http: Serve, path: str) -> None:
    answer = httpx.get(serve_http().endpoint + path)
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_more_requests_than_allowed_at_once_are_asked_to_come_back(serve_http: Serve, sink: RecordingSink) -> None:
    collector = serve_http(max_concurrent_requests=1)
    sink.delay_s = 1.0
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(post(collector, protobuf("chat"), PROTOBUF).status_code))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(statuses)) == [200, 503]
    assert statuses.count(200) == len(sink.names)


def test_a_body_that_never_ends_is_cut_off(serve_http: Serve) -> None:
    collector = serve_http(body_timeout_s=0.3)
    answer = raw_exchange(
        collector,
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    )
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_head_that_never_ends_is_cut_off(serve_http: Serve) -> None:
    collector = serve_http(header_timeout_s=0.3)
    for begun in (b"", b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n"):
        assert raw_exchange(collector, begun).startswith(b"HTTP/1.1 408 ")


def test_stopping_lets_the_request_under_way_finish_and_releases_the_port(
    serve_http: Serve, sink: RecordingSink
) -> None:
    collector = serve_http()
    sink.delay_s = 0.5
    statuses: list[int] = []
    sender = threading.Thread(target=lambda: statuses.append(post(collector, protobuf("chat"), PROTOBUF).status_code))
    sender.start()
    assert sink.requested.wait(20)
    collector.stop(5)
    sender.join()
    assert (statuses, sink.names) == ([200], ["chat"])
    again = serve_http(http=collector.endpoint.removeprefix("http://"))
    assert again.endpoint == collector.endpoint


def test_a_request_that_outlives_the_grace_is_asked_to_come_back(serve_http: Serve, sink: RecordingSink) -> None:
    collector = serve_http()
    sink.delay_s = 3
    statuses: list[int] = []
    sender = threading.Thread(target=lambda: statuses.append(post(collector, protobuf("chat"), PROTOBUF).status_code))
    sender.start()
    assert sink.requested.wait(20)
    collector.stop(1)
    sender.join()
    assert statuses == [503]


def test_a_taken_port_is_a_usage_error_that_names_it(serve_http: Serve) -> None:
    accepted = serve_http().endpoint.removeprefix("http://")
    with pytest.raises(UsageError, match=accepted):
        serve_http(http=accepted)


def raw_exchange(collector: OtlpHttpCollector, sent: bytes) -> bytes:
    """Send bytes and return all that comes back until the collector closes the connection."""
    port = int(collector.endpoint.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(sent)
        received = b""
        while chunk := connection.recv(4096):
            received += chunk
        return received
