from __future__ import annotations

import logging
import resource
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from otel_agentic.spans.ports import Receipt
from otel_agentic.telemetry.delivery import COMPLAIN_EVERY_S, Delivery
from otel_agentic.telemetry.pushing import MAX_WAITING_EVENTS
from tests.telemetry.builders import conversation, failing_score, window_point
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.over_http import GIGABYTE, Behaviour, http_receiver
from tests.telemetry.receiver.received import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def test_a_broken_backend_slows_no_recording(broken: Telemetry) -> None:
    broken.set_windows([window_point()])
    took = []
    for _ in range(300):
        began = time.perf_counter()
        broken.record_receipt(Receipt(accepted=1))
        broken.record_score(conversation(), failing_score(), restated=False)
        took.append(time.perf_counter() - began)
    # Below the 0.5 s that each export waits. A busy machine may stop a process for a while: some may be slow, most are not.
    assert sorted(took)[280] < 0.45
    assert b"agentic_ingest_spans_total" in broken.render()[1]


def test_flushing_into_a_broken_backend_says_so_in_time(broken: Telemetry) -> None:
    began = time.monotonic()
    assert not broken.force_flush(0.7)
    assert time.monotonic() - began < 2.0


def test_shutting_down_keeps_its_deadline(broken: Telemetry) -> None:
    broken.record_score(conversation(), failing_score(), restated=False)
    began = time.monotonic()
    broken.shutdown(0.3)
    assert time.monotonic() - began < 1.5


def test_a_broken_backend_is_one_line_of_warning_and_no_traceback(
    broken: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            broken.record_score(conversation(), failing_score(), restated=False)
            broken.force_flush(0.8)
    told = [record for record in caplog.records if "telemetry backend" in record.getMessage()]
    assert [record for record in caplog.records if record not in told] == []
    assert 1 <= len(told) <= 2  # one for metrics, one for events
    assert [record.exc_info for record in told if record.exc_info] == []
    assert "127.0.0.1" in told[0].getMessage()


def test_events_beyond_the_queue_are_dropped_and_memory_stays_bounded(make_telemetry: MakeTelemetry) -> None:
    with http_receiver("hang") as server:
        telemetry = make_telemetry(server.endpoint, timeout_s=20.0)
        judged, score = conversation(), failing_score()
        for _ in range(MAX_WAITING_EVENTS // 5):  # five events each: the queue is full afterwards
            telemetry.record_score(judged, score, restated=False)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(400):
            telemetry.record_score(judged, score, restated=False)
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
    assert ["takes metrics again" in record.getMessage() for record in caplog.records] == [False, True]


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
    assert [record.getMessage() for record in caplog.records] == [
        "telemetry backend http://collector:4318 does not take metrics (export 1 in a row): refused",
        "telemetry backend http://collector:4318 does not take metrics (export 6 in a row): refused",
    ]


def test_other_users_of_the_sdk_keep_their_log(make_telemetry: MakeTelemetry, caplog: pytest.LogCaptureFixture) -> None:
    make_telemetry()
    with caplog.at_level(logging.WARNING):
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").error("theirs")
    assert [record.getMessage() for record in caplog.records] == ["theirs"]


def test_a_process_ends_although_its_backend_hangs() -> None:
    with http_receiver("hang") as server:
        code = (
            "from otel_agentic.config import EmitSettings\n"
            "from otel_agentic.telemetry import Telemetry\n"
            f"emit = EmitSettings(endpoint={server.endpoint!r}, interval_s=0.05, timeout_s=25)\n"
            "telemetry = Telemetry.from_settings(emit, run_id='r', trigger='cli')\n"
            "telemetry.record_late(1)\n"
            "telemetry.shutdown(0.3)\n"
        )
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stderr) == (0, "")
        assert time.monotonic() - began < 10
