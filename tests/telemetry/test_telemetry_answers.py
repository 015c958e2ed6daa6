from __future__ import annotations

import logging
import resource
import socket
import socketserver
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.telemetry.delivery import COMPLAIN_EVERY_S, MAX_WAITING_EVENTS, Delivery
from otel_agentic.telemetry.events import ConversationResult
from tests.snapshots import passage
from tests.telemetry.builders import agents, conversation, failing_score, window_point
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.over_http import http_receiver

if TYPE_CHECKING:
    from tests.telemetry.conftest import MakeTelemetry


def test_what_a_backend_leaves_out_is_one_calm_line_a_signal(
    make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver("partial") as server, caplog.at_level(logging.WARNING):
        telemetry = make_telemetry(server.endpoint)
        for _ in range(3):
            telemetry.record_scores([ConversationResult(conversation(), failing_score())])
            assert telemetry.force_flush(5.0)
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"telemetry backend {server.endpoint} rejected 3 events (3 so far): too old",
        f"telemetry backend {server.endpoint} rejected 3 metrics (3 so far): too old",
    ]


def test_what_was_left_out_is_summed_until_the_next_line(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    delivery = Delivery("metrics", "http://collector:4318", clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            delivery.partly(2, "")
            now[0] += COMPLAIN_EVERY_S / 4
    assert [record.getMessage() for record in caplog.records] == snapshot(
        [
            "telemetry backend http://collector:4318 rejected 2 metrics (2 so far): no reason given",
            "telemetry backend http://collector:4318 rejected 2 metrics (10 so far): no reason given",
        ]
    )


def test_an_answer_that_is_no_otlp_is_taken_as_it_is(
    make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver("nonsense") as server:
        telemetry = make_telemetry(server.endpoint)
        assert telemetry.force_flush(5.0)
    assert caplog.records == []


def test_a_redirect_is_no_delivery(make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture) -> None:
    with http_receiver("redirect") as server, caplog.at_level(logging.WARNING):
        telemetry = make_telemetry(server.endpoint)
        assert not telemetry.force_flush(5.0)
        telemetry.shutdown(1.0)
    assert passage(caplog.records[0].getMessage()) == snapshot("redirected (302 Found): use the target address")


def test_a_refusal_for_the_moment_is_tried_again_at_once(make_telemetry: MakeTelemetry) -> None:
    with http_receiver("refuse_first") as server:
        telemetry = make_telemetry(server.endpoint)
        telemetry.record_late(1)
        assert telemetry.force_flush(5.0)
        assert server.received.values("agentic.ingest.late_spans") == {(): 1}
        assert server.requests == 2
        telemetry.shutdown(1.0)


def test_grpc_exports_are_compressed(make_telemetry: MakeTelemetry) -> None:
    with grpc_receiver() as server, Relay(server.endpoint) as relay:
        telemetry = make_telemetry(relay.endpoint, protocol="grpc")
        telemetry.set_windows([window_point(key=key) for key in agents(30)])
        assert telemetry.force_flush(5.0)
        telemetry.shutdown(2.0)
        assert relay.sent_bytes < server.received.metrics[0].ByteSize() / 4


class Relay(socketserver.ThreadingTCPServer):
    """Hands everything on to an endpoint, and counts the bytes on the way there."""

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), RelayHandler)
        host, _, port = endpoint.removeprefix("http://").rpartition(":")
        self.target = (host, int(port))
        self.endpoint = f"http://127.0.0.1:{self.server_address[1]}"
        self.sent_bytes = 0
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class RelayHandler(socketserver.BaseRequestHandler):
    server: Relay

    def handle(self) -> None:
        with socket.create_connection(self.server.target) as target, suppress(OSError):
            threading.Thread(target=self._back, args=(target,), daemon=True).start()
            while data := self.request.recv(1 << 16):
                self.server.sent_bytes += len(data)
                target.sendall(data)

    def _back(self, target: socket.socket) -> None:
        with suppress(OSError):
            while data := target.recv(1 << 16):
                self.request.sendall(data)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_long_outage_keeps_no_more_than_the_queue_of_events(make_telemetry: MakeTelemetry, protocol: str) -> None:
    telemetry = make_telemetry("http://127.0.0.1:1", protocol=protocol, interval_s=0.02, timeout_s=0.05)
    evaluated, score = conversation(), failing_score()

    def live(rounds: int) -> None:
        for generation in range(rounds):
            telemetry.set_windows([window_point(c=generation % 10)])
            telemetry.record_scores([ConversationResult(evaluated, score)])

    live(MAX_WAITING_EVENTS // 5 + 200)  # five events each: the queue is full, every series exists
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    live(4 * MAX_WAITING_EVENTS // 5)
    # Four times the size of the queue was sent: if it were kept, it would be some fifty megabytes.
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 25_000_000
