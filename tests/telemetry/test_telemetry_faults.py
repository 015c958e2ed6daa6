from __future__ import annotations

import logging
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.spans.model import Receipt
from otel_agentic.telemetry.delivery import COMPLAIN_EVERY_S, MAX_WAITING_EVENTS, Delivery
from otel_agentic.telemetry.events import ConversationResult
from tests.telemetry.builders import conversation, failing_score, window_point
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.over_http import GIGABYTE, Behaviour, HttpReceiver, http_receiver
from tests.telemetry.receiver.received import wait_until

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry

MEGABYTE = 1 << 20


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(params=["unreachable", "hang", "error", "grpc-unreachable"])
def broken(request: pytest.FixtureRequest, make_telemetry: MakeTelemetry) -> Iterator[Telemetry]:
    """Telemetry whose backend does not work, pushing often."""
    if request.param in {"unreachable", "grpc-unreachable"}:
        protocol = "grpc" if request.param.startswith("grpc") else "http/protobuf"
        endpoint = f"http://127.0.0.1:{_closed_port()}"
        yield make_telemetry(endpoint, protocol=protocol, interval_s=0.05, timeout_s=0.5)
        return
    with http_receiver(request.param) as server:
        telemetry = make_telemetry(server.endpoint, interval_s=0.05, timeout_s=0.5)
        yield telemetry
        telemetry.shutdown(0.2)


@pytest.fixture
def hanging(make_telemetry: MakeTelemetry) -> Iterator[tuple[Telemetry, HttpReceiver]]:
    """Telemetry of which one export hangs for longer than anything else here takes."""
    with http_receiver("hang") as server:
        telemetry = make_telemetry(server.endpoint, interval_s=0.05, timeout_s=60)
        wait_until(lambda: bool(server.held))
        yield telemetry, server
        telemetry.shutdown(0.1)


def _record(telemetry: Telemetry, count: int) -> None:
    telemetry.set_windows([window_point()])
    for _ in range(count):
        telemetry.record_receipt(Receipt(accepted=1))
        telemetry.record_scores([ConversationResult(conversation(), failing_score())])


def test_recording_and_scraping_wait_for_no_export(hanging: tuple[Telemetry, HttpReceiver]) -> None:
    telemetry, server = hanging
    _record(telemetry, 300)
    assert b'agentic_ingest_spans_total{agentic_result="accepted"} 300.0' in telemetry.render()[1]
    assert server.held


def test_a_flush_gives_up_on_an_export_that_hangs(hanging: tuple[Telemetry, HttpReceiver]) -> None:
    telemetry, server = hanging
    assert not telemetry.force_flush(0.2)
    assert server.held


def test_shutting_down_does_not_wait_for_an_export_that_hangs(hanging: tuple[Telemetry, HttpReceiver]) -> None:
    telemetry, server = hanging
    _record(telemetry, 1)
    telemetry.shutdown(0.2)
    assert server.held


def test_a_broken_backend_loses_no_count_and_a_flush_says_so(broken: Telemetry) -> None:
    _record(broken, 20)
    assert not broken.force_flush(0.7)
    assert b'agentic_ingest_spans_total{agentic_result="accepted"} 20.0' in broken.render()[1]


def test_a_broken_backend_is_one_line_of_warning_and_no_traceback(
    broken: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            broken.record_scores([ConversationResult(conversation(), failing_score())])
            broken.force_flush(0.7)
    records = [record for record in caplog.records if "telemetry backend" in record.getMessage()]
    assert [record for record in caplog.records if record not in records] == []
    assert 1 <= len(records) <= 2  # one for metrics, one for events
    assert [record.exc_info for record in records if record.exc_info] == []
    assert "127.0.0.1" in records[0].getMessage()


def test_events_beyond_the_queue_are_dropped_and_memory_stays_bounded(make_telemetry: MakeTelemetry) -> None:
    with http_receiver("hang") as server:
        telemetry = make_telemetry(server.endpoint, timeout_s=20.0)
        evaluated, score = conversation(), failing_score()
        for _ in range(MAX_WAITING_EVENTS // 5):  # five events each: the queue is full afterwards
            telemetry.record_scores([ConversationResult(evaluated, score)])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(400):
            telemetry.record_scores([ConversationResult(evaluated, score)])
        grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown_bytes < 30 * MEGABYTE
        telemetry.shutdown(0.2)


@pytest.mark.parametrize("behaviour", ["huge", "endless"])
def test_a_gigabyte_of_answer_is_not_read(make_telemetry: MakeTelemetry, behaviour: Behaviour) -> None:
    with http_receiver(behaviour) as server:
        telemetry = make_telemetry(server.endpoint)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        telemetry.force_flush(5.0)
        wait_until(lambda: server.requests >= 1)
        telemetry.shutdown(0.2)
        grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert grown_bytes < 50 * MEGABYTE
        assert server.answered_bytes < GIGABYTE / 10


def test_a_backend_that_comes_back_gets_the_whole_count(
    make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver("error") as server, caplog.at_level(logging.WARNING):
        telemetry = make_telemetry(server.endpoint, timeout_s=1)
        telemetry.record_late(1)
        assert not telemetry.force_flush(5.0)
        server.behaviour = "ok"
        telemetry.record_late(1)
        assert telemetry.force_flush(5.0)
        assert server.received.values("agentic.ingest.late_spans") == {(): 2}
    assert ["accepts metrics again" in record.getMessage() for record in caplog.records] == [False, True]


def test_a_grpc_backend_that_went_away_is_noticed(make_telemetry: MakeTelemetry) -> None:
    with grpc_receiver() as server:
        telemetry = make_telemetry(server.endpoint, protocol="grpc", timeout_s=0.5)
        assert telemetry.force_flush(5.0)
    assert not telemetry.force_flush(2.0)


def test_the_log_complains_once_a_minute_and_counts(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    delivery = Delivery("metrics", "http://collector:4318", clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            delivery.failed("refused")
            now[0] += COMPLAIN_EVERY_S / 5
    assert [record.getMessage() for record in caplog.records] == snapshot(
        [
            "telemetry backend http://collector:4318 does not accept metrics (export 1 in a row): refused",
            "telemetry backend http://collector:4318 does not accept metrics (export 6 in a row): refused",
        ]
    )


def test_other_users_of_the_sdk_keep_their_log(make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture) -> None:
    make_telemetry()
    with caplog.at_level(logging.WARNING):
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").error("theirs")
    assert [record.getMessage() for record in caplog.records] == ["theirs"]


def test_a_process_ends_although_its_backend_hangs_and_imports_no_grpc_for_http() -> None:
    with http_receiver("hang") as server:
        code = (
            "from otel_agentic.config import EmitSettings\n"
            "from otel_agentic.telemetry import Telemetry\n"
            f"emit = EmitSettings(endpoint={server.endpoint!r}, interval_s=0.05, timeout_s=25)\n"
            "telemetry = Telemetry.from_settings(emit, run_id='r', trigger='cli')\n"
            "telemetry.record_late(1)\n"
            "telemetry.shutdown(0.3)\n"
            "import sys\n"
            "print('grpc' in sys.modules)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
        assert server.held  # it is still asked for an answer
