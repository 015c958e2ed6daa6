"""Live receivers for a fuzzer: bytes are sent over a real socket, and no answer may be a 500, UNKNOWN or INTERNAL."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import grpc as grpcio  # type: ignore[import-untyped]  # grpcio ships no types

from collectors.otlp_grpc import OtlpGrpcCollector
from collectors.otlp_http import OtlpHttpCollector
from otel_agentic.spans import Receipt, SpanBatch

if TYPE_CHECKING:
    from otel_agentic.config import ReceiveSettings

_TIMEOUT_S: Final = 20.0
#: What a connection begins with: the preface of HTTP/2 and an empty SETTINGS frame.
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
_METHODS: Final = (
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
)
_DROPPED: Final = {grpcio.StatusCode.UNKNOWN, grpcio.StatusCode.INTERNAL}
#: A request as a whole, so that mutations begin from something that is answered.
HEAD: Final = b"POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"


class Sink:
    """Takes everything that is sound."""

    def __init__(self, check: Callable[[SpanBatch], None]) -> None:
        self._check = check

    def accept(self, batch: SpanBatch) -> Receipt:
        """Return the receipt of a checked batch."""
        self._check(batch)
        rejected, ignored = sum(batch.rejected.values()), sum(batch.ignored.values())
        return Receipt(accepted=len(batch.spans) + len(batch.logs), rejected=rejected, ignored=ignored)


@contextmanager
def http(settings: ReceiveSettings, sink: Sink) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that sends bytes to a live OTLP/HTTP receiver: as a connection, and as a body."""
    collector = OtlpHttpCollector(settings)
    collector.start(sink)
    host, port = collector.endpoint.removeprefix("http://").rsplit(":", 1)
    try:
        yield lambda data: _talk((host, int(port)), data)
    finally:
        collector.stop(5)


def _talk(address: tuple[str, int], data: bytes) -> None:
    kind = data[0] % 4 if data else 0
    if kind == 1:
        body = data[1:]
        data = b"x" + HEAD % (len(body), body)
    elif kind == 2:
        size, rest = data[1] if len(data) > 1 else 0, data[2:]
        chunks = [rest[at : at + size + 1] for at in range(0, len(rest), size + 1)]
        sent = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        head = b"POST /v1/logs HTTP/1.1\r\nhost: a\r\ncontent-type: application/x-protobuf\r\ncontent-encoding: "
        data = (
            b"x" + head + (b"gzip", b"zstd", b"identity")[size % 3] + b"\r\ntransfer-encoding: chunked\r\n\r\n" + sent
        )
    answer = _exchange(address, data[1:])
    statuses = [line.split()[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert b"500" not in statuses, answer


def _exchange(address: tuple[str, int], data: bytes) -> bytes:
    with socket.create_connection(address, _TIMEOUT_S) as connection:
        answer = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except (ConnectionError, BrokenPipeError):
            pass  # closed because of the request; whether it was answered is checked by the caller
        return answer


@contextmanager
def grpc(settings: ReceiveSettings, sink: Sink) -> Iterator[Callable[[bytes], None]]:
    """Yield a function that sends bytes to a live OTLP/gRPC receiver: as HTTP/2 frames, and as a message."""
    collector = OtlpGrpcCollector(settings)
    collector.start(sink)
    target = collector.endpoint.removeprefix("http://")
    host, port = target.rsplit(":", 1)
    channel = grpcio.insecure_channel(target)
    try:
        yield lambda data: _call(channel, (host, int(port)), data)
    finally:
        channel.close()
        collector.stop(5)


def _call(channel: Any, address: tuple[str, int], data: bytes) -> None:
    kind = data[0] % 4 if data else 0
    if kind == 0:
        _exchange(address, _PREFACE + data[1:])
        data = b"1"
    elif kind == 1:
        _exchange(address, data[1:])
        data = b"1"
    method = channel.unary_unary(_METHODS[kind % 2])
    try:
        method(data[1:], timeout=_TIMEOUT_S)
    except grpcio.RpcError as error:
        if error.code() in _DROPPED:
            raise
