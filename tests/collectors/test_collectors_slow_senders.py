"""A thousand almost idle connections, and the senders next to them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest

from otel_agentic.net import raise_file_limit
from tests.collectors.raw import (
    EXPORT,
    PREFACE,
    address_of,
    answers,
    call_headers,
    connect,
    frame,
    message,
    post,
    spans,
)

if TYPE_CHECKING:
    import socket

    from collectors.otlp_grpc import OtlpGrpcCollector
    from collectors.otlp_http import OtlpHttpCollector
    from tests.collectors.conftest import RecordingSink

pytestmark = pytest.mark.slow
SLOW: int = 1000
GOOD: int = 300


class Trickle:
    """Sends a byte a second over each of many connections, until the block ends."""

    def __init__(self, connections: list[socket.socket], byte: bytes) -> None:
        self._connections = connections
        self._byte = byte
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            for connection in self._connections:
                try:
                    connection.sendall(self._byte)
                except OSError:
                    continue

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def p99_s(send: Callable[[], None]) -> float:
    took_s = []
    for _ in range(GOOD):
        began_s = time.perf_counter()
        send()
        took_s.append(time.perf_counter() - began_s)
    return sorted(took_s)[math.ceil(0.99 * GOOD) - 1]


@pytest.mark.parametrize("max_connections", [200, 2000])
@pytest.mark.parametrize("what", ["nothing", "half a head", "half a body"])
def test_over_http_good_senders_are_answered(
    serve_http: Callable[..., OtlpHttpCollector], sink: RecordingSink, what: str, max_connections: int
) -> None:
    raise_file_limit(4 * SLOW)
    collector = serve_http(max_connections=max_connections)
    begun = {
        "nothing": b"",
        "half a head": b"POST /v1/traces HTTP/1.1\r\nX-A: ",
        "half a body": post(b"", length=500_000),
    }
    with ExitStack() as open_:
        slow = [open_.enter_context(connect(collector.endpoint)) for _ in range(SLOW)]
        for connection in slow:
            try:
                connection.sendall(begun[what])
            except OSError:
                continue

        def with_a_new_connection() -> None:
            with connect(collector.endpoint) as connection:
                connection.sendall(post(spans("chat"), "Connection: close"))
                assert [200] == answers(connection.recv(65536))

        with Trickle([] if what == "nothing" else slow, b"x"):
            found_s = p99_s(with_a_new_connection)
    print(f"\nHTTP, {what}, {max_connections} places: p99 {found_s * 1e3:.0f} ms")  # noqa: T201 — a figure for people
    assert GOOD == len(sink.names)


@pytest.mark.parametrize("what", ["nothing", "half a message"])
def test_over_grpc_good_senders_are_answered(
    serve_grpc: Callable[..., OtlpGrpcCollector], sink: RecordingSink, what: str
) -> None:
    raise_file_limit(4 * SLOW)
    collector = serve_grpc(max_connections=2000)
    host, port = address_of(collector.endpoint)
    begun = PREFACE + call_headers(1) + frame(0, 0, 1, message(b"\n", length=100_000))
    with ExitStack() as open_:
        slow = [open_.enter_context(connect(collector.endpoint)) for _ in range(SLOW)]
        if what == "half a message":
            for connection in slow:
                connection.sendall(begun)

        def with_a_new_channel() -> None:
            with grpc.insecure_channel(f"{host}:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
                assert b"" == channel.unary_unary(EXPORT)(spans("chat"), timeout=20)

        with Trickle([] if what == "nothing" else slow, frame(0, 0, 1, b"\n")):
            found_s = p99_s(with_a_new_channel)
    print(f"\ngRPC, {what}: p99 {found_s * 1e3:.0f} ms")  # noqa: T201 — a figure for people
    assert GOOD == len(sink.names)
