"""OTLP/gRPC over a real channel: accepted and refused requests, and their status."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no py.typed
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from otel_agentic.errors import OverloadedError, UsageError

if TYPE_CHECKING:
    from collectors.otlp_grpc import OtlpGrpcCollector
    from tests.collectors.conftest import RecordingSink

    Serve = Callable[..., OtlpGrpcCollector]

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def protobuf(*names: str, trace_id: bytes = b"\1" * 16) -> bytes:
    request = ExportTraceServiceRequest()
    part = request.resource_spans.add().scope_spans.add()
    for name in names:
        part.spans.add(trace_id=trace_id, span_id=b"\2" * 8, name=name, start_time_unix_nano=1, end_time_unix_nano=2)
    return request.SerializeToString()


def call(collector: OtlpGrpcCollector, data: bytes, *, path: str = TRACES, **options: Any) -> bytes:
    """Return the answer's bytes; raises grpc.RpcError."""
    with grpc.insecure_channel(collector.endpoint.removeprefix("http://")) as channel:
        answer: bytes = channel.unary_unary(path)(data, timeout=20, **options)
        return answer


def refused(collector: OtlpGrpcCollector, data: bytes, **options: Any) -> tuple[grpc.RpcError, Status]:
    with pytest.raises(grpc.RpcError) as caught:
        call(collector, data, **options)
    trailers = {item.key: item.value for item in caught.value.trailing_metadata() or ()}
    return caught.value, Status.FromString(trailers.get("grpc-status-details-bin", b""))


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_arrive(serve_grpc: Serve, sink: RecordingSink, compression: grpc.Compression) -> None:
    assert call(serve_grpc(), protobuf("chat" * 100), compression=compression) == b""
    assert sink.names == ["chat" * 100]


def test_an_empty_request_succeeds(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc()
    assert call(collector, b"") == b""
    assert call(collector, b"", path=LOGS) == b""
    assert sink.batches == []


def test_bad_ids_are_a_partial_success(serve_grpc: Serve) -> None:
    answer = ExportTraceServiceResponse.FromString(call(serve_grpc(), protobuf("a", trace_id=b"\1")))
    assert answer.partial_success.rejected_spans == 1
    assert "16 bytes" in answer.partial_success.error_message


def test_undecodable_bytes_are_invalid_argument(serve_grpc: Serve) -> None:
    error, status = refused(serve_grpc(), b"nonsense")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "not an ExportTraceServiceRequest" in error.details()
    assert (status.code, list(status.details)) == (3, [])


@pytest.mark.parametrize("error", [OverloadedError("the queue is full"), KeyError("unforeseen")])
def test_what_may_be_sent_again_is_unavailable_with_retry_info(
    serve_grpc: Serve, sink: RecordingSink, error: Exception
) -> None:
    sink.error = error
    caught, status = refused(serve_grpc(), protobuf("chat"))
    retry = RetryInfo()
    assert caught.code() is grpc.StatusCode.UNAVAILABLE
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.seconds >= 1
    assert "unforeseen'" not in caught.details()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_request_beyond_the_limit_is_resource_exhausted_without_retry_info(
    serve_grpc: Serve, sink: RecordingSink, compression: grpc.Compression
) -> None:
    collector = serve_grpc(max_request_bytes=100_000)
    error, status = refused(collector, protobuf("x" * 200_000), compression=compression)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert list(status.details) == []
    assert sink.batches == []


def test_more_than_grpcs_own_four_megabytes_are_read(serve_grpc: Serve, sink: RecordingSink) -> None:
    assert call(serve_grpc(), protobuf(*(["x" * 4000] * 2000))) == b""
    assert len(sink.names) == 2000


def test_without_the_token_it_is_unauthenticated(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc(token="s3cret")  # noqa: S106 — a token made up for this test
    for metadata in ((), (("authorization", "Bearer wrong"),)):
        error, status = refused(collector, protobuf("chat"), metadata=metadata)
        assert (error.code(), status.code) == (grpc.StatusCode.UNAUTHENTICATED, 16)
    assert sink.batches == []
    assert call(collector, protobuf("chat"), metadata=(("authorization", "Bearer s3cret"),)) == b""


def test_an_unknown_method_is_unimplemented(serve_grpc: Serve) -> None:
    error, _ = refused(serve_grpc(), b"", path="/opentelemetry.proto.collector.metrics.v1.MetricsService/Export")
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_more_requests_than_allowed_at_once_are_unavailable(serve_grpc: Serve, sink: RecordingSink) -> None:
    address = serve_grpc(max_concurrent_requests=1).endpoint.removeprefix("http://")
    sink.delay_s = 1.0
    channels = [grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(3)]
    calls = [channel.unary_unary(TRACES).future(protobuf("chat"), timeout=20) for channel in channels]
    codes = [item.code() for item in calls]
    for channel in channels:
        channel.close()
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    assert codes.count(grpc.StatusCode.OK) == len(sink.names)


def test_a_taken_port_is_a_usage_error_that_names_it(serve_grpc: Serve) -> None:
    accepted = serve_grpc().endpoint.removeprefix("http://")
    with pytest.raises(UsageError, match=accepted):
        serve_grpc(grpc=accepted)


def test_stopping_releases_the_port(serve_grpc: Serve, sink: RecordingSink) -> None:
    collector = serve_grpc()
    collector.stop(5)
    again = serve_grpc(grpc=collector.endpoint.removeprefix("http://"))
    assert call(again, protobuf("chat")) == b""
    assert sink.names == ["chat"]
