"""Limits of calls over gRPC, calls refused before their message is received, and calls that no exporter sends."""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest
import zstandard
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from inline_snapshot import snapshot
from pydantic import ValidationError

from otel_agentic.config import ReceiveSettings
from otel_agentic.errors import OverloadedError
from tests.collectors.raw import (
    EXPORT,
    PREFACE,
    address_of,
    call_headers,
    connect,
    frame,
    message,
    spans,
    until,
    until_closed,
)

if TYPE_CHECKING:
    import socket

    from collectors.otlp_grpc import OtlpGrpcCollector
    from tests.collectors.conftest import RecordingSink

    Serve = Callable[..., OtlpGrpcCollector]

TOKEN = "s3cret"  # noqa: S105 — made up for these tests


def call(collector: OtlpGrpcCollector, data: bytes, *, path: str = EXPORT, **options: Any) -> tuple[str, Status]:
    """Return the name and the details of a call's status."""
    host, port = address_of(collector.endpoint)
    with grpc.insecure_channel(f"{host}:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        request = channel.unary_unary(path).future(data, timeout=20, **options)
        trailers = {item.key: item.value for item in request.trailing_metadata() or ()}
        return request.code().name, Status.FromString(trailers.get("grpc-status-details-bin", b""))


def retry_s(status: Status) -> float:
    retry = RetryInfo()
    assert status.details[0].Unpack(retry)
    result: float = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return result


def begin(connection: socket.socket) -> None:
    """Open a call and send the beginning of a message that never ends."""
    connection.sendall(PREFACE + call_headers(1) + frame(0, 0, 1, message(b"\n", length=1000)))


# Slow and many


def test_a_message_that_never_ends_is_cut_off(serve_grpc: Serve) -> None:
    collector = serve_grpc(body_timeout_s=0.5)
    with connect(collector.endpoint) as connection:
        begin(connection)
        received = until(connection, b"within 0.5 s")
    assert b"grpc-status" in received


def test_calls_that_never_send_their_message_block_no_sender(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc(max_concurrent_requests=8, body_timeout_s=600.0)  # so that none of them ends by itself
    with ExitStack() as open_:
        for _ in range(40):
            begin(open_.enter_context(connect(collector.endpoint)))
        time.sleep(0.3)
        assert ["OK"] * 20 == [call(collector, spans("chat"))[0] for _ in range(20)]
    assert 20 == len(sink.names)


def test_a_silent_connection_is_closed(serve_grpc: Serve) -> None:
    collector = serve_grpc(header_timeout_s=0.5)
    with connect(collector.endpoint) as connection:
        until_closed(connection)  # gRPC's own greeting, and the end


def test_an_idle_connection_is_closed(serve_grpc: Serve) -> None:
    collector = serve_grpc(idle_timeout_s=0.5)
    with connect(collector.endpoint) as connection:
        connection.sendall(PREFACE)
        until_closed(connection)


def test_connections_beyond_the_cap_are_closed_and_those_within_go_on(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc(max_connections=4)
    host, port = address_of(collector.endpoint)
    with grpc.insecure_channel(f"{host}:{port}") as channel, ExitStack() as open_:
        export = channel.unary_unary(EXPORT)
        export(spans("one"), timeout=10)
        many = [open_.enter_context(connect(collector.endpoint, timeout_s=1)) for _ in range(12)]
        closed = 0
        for connection in many:
            try:
                connection.sendall(PREFACE)
                while connection.recv(65536):
                    pass
                closed += 1
            except TimeoutError:
                continue
            except OSError:
                closed += 1
        export(spans("two"), timeout=10)
    assert closed >= 8
    assert ["one", "two"] == sink.names


def test_pings_without_end_close_the_connection(serve_grpc: Serve) -> None:
    with connect(serve_grpc().endpoint) as connection:
        connection.sendall(PREFACE)
        try:
            for _ in range(50):
                connection.sendall(frame(6, 0, 0, bytes(8)))
                time.sleep(0.01)
        except OSError:
            return
        assert b"too_many_pings" in until_closed(connection)


def test_numbers_larger_than_those_of_grpc_are_its_largest(serve_grpc: Serve, sink: RecordingSink) -> None:
    largest = {"max_connections": 2**40, "max_concurrent_requests": 2**40, "max_request_bytes": 2**40}
    assert "OK" == call(serve_grpc(**largest, idle_timeout_s=86_400), spans("chat"))[0]
    assert ["chat"] == sink.names


@pytest.mark.parametrize("name", ["header_timeout_s", "body_timeout_s", "idle_timeout_s"])
@pytest.mark.parametrize("value", [0, 1e6, float("inf"), float("nan")])
def test_a_deadline_has_an_end(name: str, value: float) -> None:
    with pytest.raises(ValidationError, match=name):
        ReceiveSettings.model_validate({name: value})


# Refused before the message is received


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((), "UNAUTHENTICATED"),
        ((("authorization", "Bearer wrong"),), "UNAUTHENTICATED"),
        ((("authorization", f"Basic {TOKEN}"),), "UNAUTHENTICATED"),
        ((("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")), "UNAUTHENTICATED"),
        ((("authorization-bin", f"Bearer {TOKEN}".encode()),), "UNAUTHENTICATED"),
        ((("authorization", "Bearer " + "a" * 9000),), "UNAUTHENTICATED"),
        ((("authorization", f"bearer {TOKEN}"),), "OK"),
    ],
    ids=["none", "wrong", "basic", "twice", "binary", "long", "right"],
)
def test_only_one_right_token_lets_a_call_in(
    serve_grpc: Serve, sink: RecordingSink, metadata: Any, expected: str
) -> None:
    code, status = call(serve_grpc(token=TOKEN), spans("chat"), metadata=metadata)
    assert expected == code
    assert TOKEN not in status.message
    assert (["chat"] if expected == "OK" else []) == sink.names


def test_without_the_token_not_even_the_message_is_waited_for(serve_grpc: Serve) -> None:
    with connect(serve_grpc(token=TOKEN).endpoint) as connection:
        begin(connection)
        until(connection, b"a bearer token is required")


def test_metadata_beyond_bounds_is_refused(serve_grpc: Serve, sink: RecordingSink) -> None:
    code, _ = call(serve_grpc(), spans("chat"), metadata=[(f"x-{n}", "a" * 8000) for n in range(10)])
    assert "RESOURCE_EXHAUSTED" == code
    assert [] == sink.names


def test_after_the_sink_was_full_calls_are_refused_for_a_moment_without_being_decoded(
    serve_grpc: Serve, sink: RecordingSink
) -> None:
    host, port = address_of(serve_grpc().endpoint)
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        export = channel.unary_unary(EXPORT)
        sink.error = OverloadedError("the queue is full")
        codes = [export.future(data).code().name for data in (spans("chat"), b"nonsense")]
        sink.error = None
        time.sleep(0.1)
        codes.append(export.future(spans("chat")).code().name)
    assert ["UNAVAILABLE", "UNAVAILABLE", "OK"] == codes


def test_refused_senders_are_asked_to_come_back_at_different_times(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc()
    sink.error = OverloadedError("the queue is full")
    waits_s = {retry_s(call(collector, spans("chat"))[1]) for _ in range(5)}
    assert 5 == len(waits_s)
    assert all(1 <= wait_s < 2 for wait_s in waits_s)


# The content of a message


@pytest.mark.parametrize(
    "compress",
    [bytes, gzip.compress, zlib.compress, zstandard.ZstdCompressor().compress],
    ids=["identity", "gzip", "deflate", "zstd"],
)
def test_compressed_content_is_opened_with_any_declared_type(
    serve_grpc: Serve, sink: RecordingSink, compress: Callable[[bytes], bytes]
) -> None:
    assert "OK" == call(serve_grpc(), compress(spans("chat" * 30)))[0]
    assert ["chat" * 30] == sink.names


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_what_grpc_compresses_is_opened(serve_grpc: Serve, sink: RecordingSink, compression: Any) -> None:
    assert "OK" == call(serve_grpc(), spans("chat" * 30), compression=compression)[0]
    assert ["chat" * 30] == sink.names


def test_a_bomb_is_refused_in_words_of_our_own_and_without_asking_for_it_again(serve_grpc: Serve) -> None:
    code, status = call(serve_grpc(max_request_bytes=1_000_000), bytes(60_000_000), compression=grpc.Compression.Gzip)
    assert ("RESOURCE_EXHAUSTED", 8, []) == (code, status.code, list(status.details))
    assert "send smaller batches" in status.message


@pytest.mark.parametrize(
    ("data", "explanation"),
    [
        (gzip.compress(spans("chat"))[:-5], "truncated gzip"),
        (gzip.compress(spans("chat")) + b"rest", "1 complete gzip member"),
        (b"nonsense", "not an ExportTraceServiceRequest"),
    ],
)
def test_what_cannot_be_read_is_invalid_argument(serve_grpc: Serve, data: bytes, explanation: str) -> None:
    code, status = call(serve_grpc(), data)
    assert ("INVALID_ARGUMENT", 3) == (code, status.code)
    assert explanation in status.message


def test_a_call_without_a_message_is_invalid_argument(serve_grpc: Serve) -> None:
    host, port = address_of(serve_grpc().endpoint)
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        request = channel.stream_unary(EXPORT).future(iter(()), timeout=20)
        assert (request.code().name, request.details()) == snapshot(
            ("INVALID_ARGUMENT", "the call ended without a message")
        )


@pytest.mark.parametrize(
    ("path", "explanation"),
    [
        ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "metrics are not collected here"),
        ("/opentelemetry.proto.collector.trace.v1.TraceService/Import", "spans are received at TraceService/Export"),
        ("/grpc.health.v1.Health/Check", "spans are received at TraceService/Export"),
    ],
)
def test_other_methods_are_unimplemented_and_the_message_names_the_known_ones(
    serve_grpc: Serve, path: str, explanation: str
) -> None:
    code, status = call(serve_grpc(), b"", path=path)
    assert ("UNIMPLEMENTED", 12) == (code, status.code)
    assert explanation in status.message


def test_a_caller_that_goes_away_leaves_nothing_behind(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc(max_concurrent_requests=2)
    sink.delay_s = 0.3
    host, port = address_of(collector.endpoint)
    for _ in range(8):
        with grpc.insecure_channel(f"{host}:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
            request = channel.unary_unary(EXPORT).future(spans("gone"))
            time.sleep(0.02)
            request.cancel()
    sink.delay_s = 0
    deadline_s = time.monotonic() + 20
    while call(collector, spans("chat"))[0] != "OK":
        assert time.monotonic() < deadline_s


def test_stopping_lets_the_call_under_way_finish(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc()
    sink.delay_s = 0.5
    codes: list[str] = []
    sender = threading.Thread(target=lambda: codes.append(call(collector, spans("chat"))[0]))
    sender.start()
    assert sink.requested.wait(20)
    collector.stop(5)
    sender.join()
    assert (["OK"], ["chat"]) == (codes, sink.names)
