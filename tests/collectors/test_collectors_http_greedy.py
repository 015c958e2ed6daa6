"""Senders over HTTP that cost more than they bring: each is bounded, and other senders are served."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.collectors.raw import address_of, answers, connect, exchange, post, spans, until, until_closed

if TYPE_CHECKING:
    from collectors.otlp_http import OtlpHttpCollector
    from tests.collectors.conftest import RecordingSink

    Serve = Callable[..., OtlpHttpCollector]

CHUNKED = (
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n"
)
#: A request whose answer is as long as one can be.
LONG_REQUEST = b"GET /" + b"%ff" * 500 + b" HTTP/1.1\r\nHost: x\r\n\r\n"


def stuff(connection: socket.socket) -> None:
    """Ask, and read no answer, until the other side takes no more for half a second, or closes."""
    connection.settimeout(0.5)
    try:
        while True:
            connection.sendall(LONG_REQUEST * 40)
    except OSError:
        return


def test_who_takes_no_answers_loses_its_place(serve_http: Serve, sink: RecordingSink) -> None:
    collector = serve_http(max_connections=1, body_timeout_s=0.5)
    with socket.socket() as greedy:
        greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        greedy.connect(address_of(collector.endpoint))
        stuff(greedy)
        deadline_s = time.monotonic() + 5
        while [200] != answers(exchange(collector.endpoint, post(spans("chat"), "Connection: close"))):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
    assert ["chat"] == sink.names


def test_a_body_in_chunks_of_a_byte_each_is_cut_off_soon(serve_http: Serve, sink: RecordingSink) -> None:
    with connect(serve_http().endpoint) as connection:
        connection.sendall(CHUNKED)
        received = b""
        try:
            for _ in range(100):
                connection.sendall(b"1\r\nx\r\n" * 1000)
        except OSError:
            pass
        received = until_closed(connection)
    assert answers(received) in ([400], [])  # a reset may overtake the answer
    assert [] == sink.names


@pytest.mark.parametrize("size", [1, 100])
def test_small_chunks_are_read_like_any(serve_http: Serve, sink: RecordingSink, size: int) -> None:
    body = spans("chat" * (1000 if size == 1 else 100_000))
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    with connect(serve_http(max_name_bytes=1_000_000).endpoint) as connection:
        connection.sendall(CHUNKED + chunks + b"0\r\n\r\n")
        assert [200] == answers(connection.recv(65536))
    assert 1 == len(sink.names)


def test_a_long_head_is_431_though_it_comes_in_one_piece(serve_http: Serve) -> None:
    assert [431] == answers(exchange(serve_http().endpoint, post(b"", "X-Long: " + "a" * 120_000)))


def test_stopping_while_a_refused_body_is_thrown_away_is_no_error(
    serve_http: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    collector = serve_http()
    with connect(collector.endpoint) as connection, caplog.at_level(logging.WARNING):
        connection.sendall(post(b"", length=1000).replace(b"x-protobuf", b"x-other"))
        until(connection, b"is not supported")
        collector.stop(0.1)
    assert "ASGI" not in caplog.text


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_without_a_length_is_not_taken_for_none_in_http_1_0(
    serve_http: Serve, sink: RecordingSink, *, chunked: bool
) -> None:
    begun = b"POST /v1/traces HTTP/1.0\r\nContent-Type: application/x-protobuf\r\n"
    body = spans("chat")
    rest = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else b"\r\n" + body
    assert [411] == answers(exchange(serve_http().endpoint, begun + rest))
    assert [] == sink.names


def test_an_origin_with_a_port_of_five_thousand_digits_is_foreign(
    serve_http: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        sent = post(spans("chat"), "Connection: close", "Origin: http://localhost:" + "9" * 5000)
        assert [403] == answers(exchange(serve_http().endpoint, sent))
    assert "" == caplog.text


def test_a_body_refused_at_its_head_gets_one_answer_and_the_next_request_its_own(
    serve_http: Serve, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collectors.otlp_http._LINGER_S", 0.2)  # then the rest is left to the connection
    refused = post(b"", length=300_000).replace(b"x-protobuf", b"x-other")
    with connect(serve_http(header_timeout_s=0.5).endpoint) as connection:
        connection.sendall(refused)
        first = until(connection, b"is not supported")
        time.sleep(0.8)
        connection.sendall(bytes(300_000) + post(spans("chat"), "Connection: close"))
        rest = until_closed(connection)
    assert ([415], [200]) == (answers(first), answers(rest))
    assert ["chat"] == sink.names
