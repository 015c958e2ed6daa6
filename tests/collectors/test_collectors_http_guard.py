"""Limits of connections over HTTP, and answers to requests that no exporter sends."""

from __future__ import annotations

import gzip
import json
import logging
import time
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no py.typed
from inline_snapshot import snapshot

from otel_agentic.errors import OverloadedError
from tests.collectors.raw import answers, connect, exchange, post, spans, until_closed

if TYPE_CHECKING:
    from collectors.otlp_http import OtlpHttpCollector
    from tests.collectors.conftest import RecordingSink

    Serve = Callable[..., OtlpHttpCollector]

PROTOBUF = {"content-type": "application/x-protobuf"}
CHUNKED = (
    b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n"
)


def send(collector: OtlpHttpCollector, content: bytes | None = None) -> httpx.Response:
    return httpx.post(f"{collector.endpoint}/v1/traces", content=content or spans("chat"), headers=PROTOBUF)


# Connections


def test_connections_that_do_nothing_give_their_places_to_new_ones(serve_http: Serve, sink: RecordingSink) -> None:
    collector = serve_http(max_connections=8)
    with ExitStack() as open_:
        silent = [open_.enter_context(connect(collector.endpoint)) for _ in range(30)]
        assert [200] * 20 == [send(collector).status_code for _ in range(20)]
        assert b"" == until_closed(silent[0])  # the oldest went first
    assert 20 == len(sink.names)


def test_a_sender_that_was_answered_keeps_its_connection_while_others_do_nothing(serve_http: Serve) -> None:
    collector = serve_http(max_connections=8)
    with ExitStack() as open_, httpx.Client(headers=PROTOBUF) as client:
        first = client.post(f"{collector.endpoint}/v1/traces", content=spans("one"))
        for _ in range(40):
            open_.enter_context(connect(collector.endpoint))
        second = client.post(f"{collector.endpoint}/v1/traces", content=spans("two"))
        assert first.extensions["network_stream"] is second.extensions["network_stream"]
    assert (200, 200) == (first.status_code, second.status_code)


def test_of_idle_senders_the_one_that_was_quiet_for_longest_goes(serve_http: Serve) -> None:
    collector = serve_http(max_connections=3)
    with ExitStack() as open_:
        results = []
        for _ in range(3):
            results.append(open_.enter_context(connect(collector.endpoint)))
            results[-1].sendall(post(spans("chat")))
            assert [200] == answers(results[-1].recv(65536))
        results[0].sendall(post(spans("again")))  # the first is the busiest now
        assert [200] == answers(results[0].recv(65536))
        assert 200 == send(collector).status_code
        assert b"" == until_closed(results[1])
        results[0].sendall(post(spans("and again")))
        assert [200] == answers(results[0].recv(65536))


def test_where_every_connection_waits_for_its_answer_a_new_one_is_asked_to_come_back(
    serve_http: Serve, sink: RecordingSink
) -> None:
    collector = serve_http(max_connections=2)
    sink.delay_s = 1.5
    with connect(collector.endpoint) as first, connect(collector.endpoint) as two:
        for connection in (first, two):
            connection.sendall(post(spans("chat")))
        time.sleep(0.3)
        refused = exchange(collector.endpoint, b"")
        assert [200, 200] == [answers(connection.recv(65536))[0] for connection in (first, two)]
    head, _, body = refused.partition(b"\r\n\r\n")
    assert [503] == answers(refused)
    assert b"retry-after: " in head.lower()
    assert 14 == json.loads(body)["code"]


def test_a_connection_lives_on_between_requests_for_as_long_as_it_may(serve_http: Serve) -> None:
    collector = serve_http(idle_timeout_s=1, header_timeout_s=0.3)
    with connect(collector.endpoint) as connection:
        for pause_s in (0.0, 0.6):  # longer than a head may take, because it has not begun
            time.sleep(pause_s)
            connection.sendall(post(spans("chat")))
            assert [200] == answers(connection.recv(65536))
        assert b"" == until_closed(connection)


# Slow senders


def test_a_head_that_comes_byte_by_byte_is_cut_off_in_the_second_request_too(serve_http: Serve) -> None:
    collector = serve_http(header_timeout_s=0.5)
    with connect(collector.endpoint) as connection:
        connection.sendall(post(spans("chat")))
        assert [200] == answers(connection.recv(65536))
        received = b""
        connection.settimeout(0.1)
        for byte in post(spans("chat")):
            try:
                connection.sendall(bytes([byte]))
                received += connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if received:
                break
    assert [408] == answers(received)


def test_a_body_slower_than_the_least_pace_is_cut_off_long_before_its_deadline(
    serve_http: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_agentic.net.guards._RATE_AFTER_S", 0.5)
    collector = serve_http(body_timeout_s=60, min_body_rate=1000)
    with connect(collector.endpoint, timeout_s=0.1) as connection:
        connection.sendall(post(b"\n", length=100_000))
        received, began_s = b"", time.monotonic()
        while not received and time.monotonic() - began_s < 20:
            try:
                connection.sendall(b"x")
                received = connection.recv(65536)
            except TimeoutError:
                continue
    status = Status.FromString(received.partition(b"\r\n\r\n")[2])
    assert [408] == answers(received)
    assert (status.code, status.message) == snapshot((4, "the body arrived at less than 1000 bytes per second"))


def test_a_body_that_is_merely_not_fast_arrives(
    serve_http: Serve, sink: RecordingSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_agentic.net.guards._RATE_AFTER_S", 0.3)
    collector = serve_http(min_body_rate=1000)
    body = spans("chat" * 2500)
    with connect(collector.endpoint) as connection:
        connection.sendall(post(b"", length=len(body)))
        for start in range(0, len(body), 1000):
            connection.sendall(body[start : start + 1000])
            time.sleep(0.1)
        assert [200] == answers(connection.recv(65536))
    assert 1 == len(sink.names)


# Refused before the body is read


def test_a_length_beyond_the_limit_is_413_before_the_body_is_sent(serve_http: Serve) -> None:
    collector = serve_http(max_request_bytes=1000)
    with connect(collector.endpoint) as connection:
        connection.sendall(post(b"", "Expect: 100-continue", length=2000))
        received = until_closed(connection)
    assert [413] == answers(received)
    assert b"connection: close" in received.lower()


def test_a_client_that_expects_100_gets_continue(serve_http: Serve, sink: RecordingSink) -> None:
    body = spans("chat")
    with connect(serve_http().endpoint) as connection:
        connection.sendall(post(b"", "Expect: 100-continue", length=len(body)))
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert [200] == answers(connection.recv(65536))
    assert ["chat"] == sink.names


@pytest.mark.parametrize("refuse", ["token", "type", "overload"])
def test_a_refused_request_leaves_its_connection_usable(serve_http: Serve, sink: RecordingSink, refuse: str) -> None:
    collector = serve_http(**{"token": "s3cret"} if refuse == "token" else {})
    if refuse == "overload":
        sink.error = OverloadedError("full")
    kind = "text/plain" if refuse == "type" else "application/x-protobuf"
    with httpx.Client(headers={"content-type": kind}) as client:
        first, two = (client.post(f"{collector.endpoint}/v1/traces", content=bytes(300_000)) for _ in range(2))
        assert first.extensions["network_stream"] is two.extensions["network_stream"]
    expected = {"token": 401, "type": 415, "overload": 400}[refuse]
    assert expected == first.status_code


def test_after_the_sink_was_full_requests_are_refused_for_a_moment_without_being_decoded(
    serve_http: Serve, sink: RecordingSink
) -> None:
    collector = serve_http()
    with httpx.Client(headers=PROTOBUF) as client:
        send = partial(client.post, f"{collector.endpoint}/v1/traces")
        sink.error = OverloadedError("the queue is full")
        first, second = send(content=spans("chat")), send(content=b"nonsense")
        sink.error = None
        time.sleep(0.1)
        third = send(content=spans("chat"))
    assert [503, 503, 200] == [first.status_code, second.status_code, third.status_code]
    assert "a moment ago" in Status.FromString(second.content).message
    assert 1 <= int(second.headers["retry-after"]) <= 3


def test_requests_that_hold_too_much_memory_together_are_asked_to_come_back(serve_http: Serve) -> None:
    collector = serve_http(max_request_bytes=10_000)  # four of these fit
    with ExitStack() as open_:
        for _ in range(4):
            connection = open_.enter_context(connect(collector.endpoint))
            connection.sendall(post(b"\n" * 9_990, length=10_000))
        time.sleep(0.2)
        refused = send(collector, bytes(5000))
    assert 503 == refused.status_code
    assert "already hold" in Status.FromString(refused.content).message


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_refused_in_bounded_memory(serve_http: Serve, encoding: str) -> None:
    collector = serve_http(max_request_bytes=1_000_000)
    zeros = bytes(60_000_000)
    bomb = gzip.compress(zeros) if encoding == "gzip" else zlib.compress(zeros)
    assert len(bomb) < 80_000
    tracemalloc.start()
    try:
        headers = {**PROTOBUF, "content-encoding": encoding}
        answer = httpx.post(f"{collector.endpoint}/v1/traces", content=bomb, headers=headers)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 413 == answer.status_code
    assert peak_bytes < 5_000_000


# Malformed requests


TWO_WAYS = {
    "both lengths": CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": post(b"", "Content-Length: 5"),
    "a signed length": post(b"").replace(b"Content-Length: 0", b"Content-Length: +0"),
    "a negative length": post(b"").replace(b"Content-Length: 0", b"Content-Length: -1"),
    "a list of lengths": post(b"").replace(b"Content-Length: 0", b"Content-Length: 0, 5"),
    "one length twice": post(b"", "Content-Length: 0"),
    "one length twice in a list": post(b"").replace(b"Content-Length: 0", b"Content-Length: 0, 0"),
    "a length that is continued": post(b"").replace(b"Content-Length: 0", b"Content-Length:\r\n 0"),
    "a continued header": post(b"", "X-A: b\r\n\tc"),
    "chunked on a continued line": CHUNKED.replace(b": chunked", b":\r\n chunked") + b"\r\n0\r\n\r\n",
    "bare line feeds": post(b"").replace(b"\r\n", b"\n"),
    "a bare line feed at the end": post(b"")[:-2] + b"\n",
    "a bare line feed before the request": b"\n" + post(b""),
    "a bare carriage return": post(b"", "X-A: b\rX-B: c"),
    "a bare line feed behind the chunks": CHUNKED + b"\r\n0\r\nX-A: b\n\r\n",
    "a continued trailer": CHUNKED + b"\r\n0\r\nX-A: b\r\n c\r\n\r\n",
    "chunked twice": CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked and more": CHUNKED.replace(b"chunked", b"gzip, chunked") + b"\r\n0\r\n\r\n",
    "a chunk of no size": CHUNKED + b"\r\nxyz\r\n\r\n",
    "a chunk that is longer": CHUNKED + b"\r\n1\r\nabc\r\n0\r\n\r\n",
    "space before the colon": post(b"", "X-A : b"),
    "no host": b"POST /v1/traces HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "another version": b"GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "NUL": post(b"", "X-A: \0b"),
    "a bare line feed in a value": post(b"", "X-A: a\nb\x01"),
}


@pytest.mark.parametrize("sent", TWO_WAYS.values(), ids=TWO_WAYS)
def test_what_can_be_read_in_two_ways_or_none_is_400_and_the_connection_closes(
    serve_http: Serve, sink: RecordingSink, sent: bytes
) -> None:
    behind = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    received = exchange(serve_http().endpoint, sent + behind)
    kinds = {status // 100 for status in answers(received)}
    assert {4} == kinds
    assert 1 == len(answers(received))
    assert [] == sink.names


def test_not_http_is_answered_with_a_status_and_fills_no_log(
    serve_http: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        received = exchange(serve_http().endpoint, b"\0\1\2 nonsense\r\n\r\n")
    assert [400] == answers(received)
    assert 3 == json.loads(received.partition(b"\r\n\r\n")[2])["code"]
    assert "nvalid HTTP" not in caplog.text


def test_a_head_that_is_too_long_is_431(serve_http: Serve) -> None:
    received = exchange(serve_http().endpoint, post(b"", "X-Long: " + "a" * 70_000)[:-4])
    assert [431] == answers(received)


def test_requests_behind_each_other_are_answered_in_order(serve_http: Serve, sink: RecordingSink) -> None:
    row = post(spans("one")) + post(b"nonsense") + post(spans("two"), "Connection: close")
    assert [200, 400, 200] == answers(exchange(serve_http().endpoint, row))
    assert ["one", "two"] == sink.names


def test_http_1_0_is_answered_and_closed(serve_http: Serve, sink: RecordingSink) -> None:
    assert [200] == answers(exchange(serve_http().endpoint, post(spans("chat"), version="1.0")))
    assert ["chat"] == sink.names


@pytest.mark.parametrize(
    "path", ["/v1/traces", "/v1/traces/", "//v1/traces", "/v1/traces?a=b&c", "/%76%31/traces", "/v1//traces//"]
)
def test_slashes_too_many_and_query_strings_are_forgiven(serve_http: Serve, sink: RecordingSink, path: str) -> None:
    assert [200] == answers(exchange(serve_http().endpoint, post(spans("chat"), "Connection: close", path=path)))
    assert ["chat"] == sink.names


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "BREW"])
def test_other_methods_are_405_and_say_which_one_it_is(serve_http: Serve, method: str) -> None:
    answer = httpx.request(method, f"{serve_http().endpoint}/v1/traces")
    assert (405, "POST") == (answer.status_code, answer.headers["allow"])
    assert (b"" == answer.content) is (method == "HEAD")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/metrics", "metrics are not collected here"),
        ("/v1development/profiles", "profiles are not collected here"),
        ("/v1/traces/v1/traces", "send spans by POST to /v1/traces"),
        ("/../v1/traces", "send spans by POST to /v1/traces"),
        ("/v1/TRACES", "send spans by POST to /v1/traces"),
    ],
)
def test_other_paths_are_404_with_a_sentence(serve_http: Serve, path: str, message: str) -> None:
    received = exchange(serve_http().endpoint, post(b"", "Connection: close", path=path))
    assert [404] == answers(received)
    assert message in Status.FromString(received.partition(b"\r\n\r\n")[2]).message


def test_an_offer_to_speak_another_protocol_is_let_pass(serve_http: Serve, sink: RecordingSink) -> None:
    for offer in ("websocket", "h2c"):
        sent = post(spans(offer), "Connection: Upgrade, close", f"Upgrade: {offer}")
        assert [200] == answers(exchange(serve_http().endpoint, sent))
    assert ["websocket", "h2c"] == sink.names


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://evil.example:4318", "null", "http://localhost.evil.example"]
)
def test_a_web_page_cannot_send_spans(serve_http: Serve, sink: RecordingSink, origin: str) -> None:
    answer = httpx.post(
        f"{serve_http().endpoint}/v1/traces", content=spans("chat"), headers={**PROTOBUF, "origin": origin}
    )
    assert 403 == answer.status_code
    assert [] == sink.names


def test_a_page_of_this_machine_or_one_with_the_token_can(serve_http: Serve, sink: RecordingSink) -> None:
    own = {**PROTOBUF, "origin": "http://localhost:5173"}
    assert 200 == httpx.post(f"{serve_http().endpoint}/v1/traces", content=spans("a"), headers=own).status_code
    known = {**PROTOBUF, "origin": "https://app.example", "authorization": "Bearer s3cret"}
    with_token = serve_http(token="s3cret")  # noqa: S106 — a token made up for this test
    assert 200 == httpx.post(f"{with_token.endpoint}/v1/traces", content=spans("b"), headers=known).status_code
    assert ["a", "b"] == sink.names
