from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import ConfigError
from otel_agentic.telemetry.delivery import loggable, signal_endpoint
from otel_agentic.telemetry.events import ConversationResult
from tests.snapshots import raises
from tests.telemetry.builders import CALL_SPAN_ID, conversation, failing_score, window_point
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.received import wait_until

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://collector:4318", "http://collector:4318/v1/metrics"),
        ("http://collector:4318/", "http://collector:4318/v1/metrics"),
        ("https://collector/otlp", "https://collector/otlp/v1/metrics"),
        ("http://collector:4318/v1/metrics", "http://collector:4318/v1/metrics"),
        ("http://collector:4318/v1/traces/", "http://collector:4318/v1/metrics"),
    ],
)
def test_the_signal_is_appended_to_the_base_address(endpoint: str, expected: str) -> None:
    assert signal_endpoint(endpoint, "metrics", "http/protobuf") == expected


def test_grpc_addresses_have_no_path() -> None:
    assert signal_endpoint("https://collector:4317/v1/logs", "logs", "grpc") == "https://collector:4317"


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://", "", "/v1/metrics"])
def test_anything_but_an_http_address_is_refused_with_advice(make_telemetry: MakeTelemetry, endpoint: str) -> None:
    with raises(
        ConfigError,
        snapshot("emit.endpoint: <endpoint> is not an OTLP endpoint; use http(s)://host:port"),
        endpoint=repr(endpoint),
    ):
        signal_endpoint(endpoint, "metrics", "http/protobuf")
    if endpoint:
        with pytest.raises(ConfigError):
            make_telemetry(endpoint)


def test_credentials_in_an_address_are_never_shown() -> None:
    assert loggable("https://me:secret@collector:4318/otlp?key=1") == "https://collector:4318"


def test_http_exports_go_to_both_paths_compressed_and_with_secret_headers(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint, headers={"Authorization": "Bearer token-1", "X-Scope": "a"})
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    assert telemetry.force_flush(5.0)
    assert set(receiver.received.paths) == {"/v1/metrics", "/v1/logs"}
    headers = receiver.received.headers
    assert (headers["authorization"], headers["x-scope"]) == ("Bearer token-1", "a")
    assert (headers["content-encoding"], headers["content-type"]) == ("gzip", "application/x-protobuf")


def test_a_connection_is_used_again(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    for _ in range(4):
        assert telemetry.force_flush(5.0)
    assert (receiver.requests, receiver.connections) == (4, 1)


def test_grpc_carries_metrics_events_and_headers(make_telemetry: MakeTelemetry) -> None:
    with grpc_receiver() as server:
        telemetry = make_telemetry(server.endpoint, protocol="grpc", headers={"Authorization": "Bearer token-1"})
        telemetry.set_windows([window_point()])
        telemetry.record_scores([ConversationResult(conversation(), failing_score())])
        assert telemetry.force_flush(5.0)
        assert server.received.values("agentic.success.ratio", "agentic.window") == {("1h",): 0.9}
        assert len(server.received.points("agentic.evaluation.conversations")) == 1
        events = {event["gen_ai.evaluation.name"]: record for event, record in server.received.events()}
        assert events["agentic.tool.call"].span_id.hex() == CALL_SPAN_ID
        assert server.received.headers["authorization"] == "Bearer token-1"
        telemetry.shutdown(2.0)


def test_metrics_go_out_by_themselves_at_the_interval(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, interval_s=0.1)
    telemetry.set_windows([window_point()])
    wait_until(lambda: len(receiver.received.metrics) >= 2)
    assert receiver.received.values("agentic.success.ratio", "agentic.window") == {("1h",): 0.9}


@pytest.mark.parametrize(("interval_s", "repeats_s"), [(15, 15), (3600, 60)])
def test_gauges_repeat_at_least_once_a_minute(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver, interval_s: float, repeats_s: float
) -> None:
    telemetry = make_telemetry(receiver.endpoint, interval_s=interval_s)
    assert telemetry._backend is not None
    assert telemetry._backend.reader._export_interval_millis == repeats_s * 1000


def test_shutting_down_sends_what_waits(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint)
    telemetry.set_windows([window_point()])
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    telemetry.shutdown(5.0)
    telemetry.shutdown(5.0)
    assert receiver.received.values("agentic.success.ratio", "agentic.window") == {("1h",): 0.9}
    assert len(receiver.received.events()) == 5


def test_telemetry_never_touches_the_global_providers(telemetry: Telemetry) -> None:
    from opentelemetry import _logs, metrics  # noqa: PLC0415 — asked after telemetry was built

    assert type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics")
    assert type(_logs.get_logger_provider()).__module__.startswith("opentelemetry._logs")
