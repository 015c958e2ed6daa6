"""Bytes over real sockets: what no client library would send."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

#: The preface of an HTTP/2 client, with empty settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


def spans(*names: str, trace_id: bytes = b"\1" * 16) -> bytes:
    """Return a request with a span of each name."""
    request = ExportTraceServiceRequest()
    part = request.resource_spans.add().scope_spans.add()
    for name in names:
        part.spans.add(trace_id=trace_id, span_id=b"\2" * 8, name=name, start_time_unix_nano=1, end_time_unix_nano=2)
    return request.SerializeToString()


def address_of(endpoint: str) -> tuple[str, int]:
    """Return host and port of a URL."""
    host, _, port = endpoint.partition("://")[2].rpartition(":")
    return host, int(port)


def connect(endpoint: str, timeout_s: float = 10.0) -> socket.socket:
    """Return a connection."""
    return socket.create_connection(address_of(endpoint), timeout=timeout_s)


def post(
    body: bytes, *headers: str, path: str = "/v1/traces", version: str = "1.1", length: int | None = None
) -> bytes:
    """Return a request as bytes; `length` is what its head claims."""
    answer = len(body) if length is None else length
    lines = [f"POST {path} HTTP/{version}", "Host: 127.0.0.1", "Content-Type: application/x-protobuf"]
    return "\r\n".join([*lines, f"Content-Length: {answer}", *headers, "", ""]).encode() + body


def until_closed(connection: socket.socket) -> bytes:
    """Return everything that comes until the other side closes."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def until(connection: socket.socket, expected: bytes) -> bytes:
    """Return the received bytes up to the expected ones; fail if the other side closes before."""
    received = b""
    while expected not in received:
        chunk = connection.recv(65536)
        assert chunk, received
        received += chunk
    return received


def exchange(endpoint: str, sent: bytes) -> bytes:
    """Send bytes; return everything that comes until the other side closes."""
    with connect(endpoint) as connection:
        connection.sendall(sent)
        return until_closed(connection)


def answers(received: bytes) -> list[int]:
    """Return the status of each answer in a row of them."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def call_headers(stream: int, extra: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return the frame that opens a gRPC call, every header written out."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", EXPORT),
        (":authority", "127.0.0.1"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *extra,
    ]
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
    return frame(1, 4, stream, block)


def message(data: bytes, *, compressed: bool = False, length: int | None = None) -> bytes:
    """Return a gRPC message; `length` is what its prefix claims."""
    return bytes([compressed]) + (len(data) if length is None else length).to_bytes(4, "big") + data


def _text(text: str) -> bytes:
    assert len(text) < 127
    return bytes([len(text)]) + text.encode()
