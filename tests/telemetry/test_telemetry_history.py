from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from otel_agentic.config import EmitSettings
from otel_agentic.errors import BackendError, ConfigError
from otel_agentic.telemetry import OtlpHistory, names
from otel_agentic.telemetry.delivery import MAX_POINTS_PER_REQUEST
from otel_agentic.telemetry.events import ConversationResult
from otel_agentic.telemetry.history import TRIES
from tests.snapshots import raises
from tests.telemetry.builders import NOON_NS, SECOND_NS, agents, conversation, failing_score, window_point
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.over_http import HttpReceiver, http_receiver
from tests.telemetry.receiver.received import attributes

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry

HOUR_NS = 3600 * SECOND_NS
PAST_NS = NOON_NS - 90 * 24 * HOUR_NS


@pytest.fixture
def make_history() -> Iterator[Callable[..., OtlpHistory]]:
    histories: list[OtlpHistory] = []

    def make(endpoint: str, **emit: Any) -> OtlpHistory:
        settings = EmitSettings.model_validate({"timeout_s": 0.5, **emit})
        histories.append(OtlpHistory(settings, endpoint, sleep=lambda _: None))
        return histories[-1]

    yield make
    for history in histories:
        history.close()


def times(receiver: HttpReceiver, metric: str) -> list[int]:
    return [point.time_unix_nano for _, point in receiver.received.points(metric)]


def test_points_arrive_at_the_ends_of_their_windows(
    make_history: Callable[..., OtlpHistory], receiver: HttpReceiver
) -> None:
    ends = [PAST_NS + step * HOUR_NS for step in range(3)]
    sent = make_history(receiver.endpoint).send(
        [window_point(end_ns=end_ns, c=step) for step, end_ns in enumerate(ends)]
    )
    arrived = [point for name in receiver.received.by_name() for point in receiver.received.points(name)]
    assert sent == len(arrived) > 0
    for instrument in names.WINDOW_INSTRUMENTS:
        assert sorted(set(times(receiver, instrument.name))) == ends
    passed = {
        point.time_unix_nano: point.as_int
        for labels, point in receiver.received.points("agentic.window.conversations")
        if labels["agentic.outcome"] == "pass"
    }
    assert passed == dict(zip(ends, (0, 1, 2), strict=True))


def test_the_past_has_the_names_units_and_attributes_of_the_present(
    make_history: Callable[..., OtlpHistory], telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    def described() -> dict[str, Any]:
        return {
            name: (
                metric.unit,
                metric.description,
                metric.WhichOneof("data"),
                sorted(str(labels) for labels, _ in receiver.received.points(name)),
            )
            for name, metric in receiver.received.by_name().items()
            if name in {instrument.name for instrument in names.WINDOW_INSTRUMENTS}
        }

    telemetry.set_windows([window_point()])
    assert telemetry.force_flush(5.0)
    live = described()
    make_history(receiver.endpoint).send([window_point()])
    assert described() == live
    tier = receiver.received.by_name()["agentic.tier.status"].sum
    assert (tier.is_monotonic, tier.aggregation_temporality) == (False, AGGREGATION_TEMPORALITY_CUMULATIVE)


def test_the_same_history_sent_again_is_the_same_series(
    make_history: Callable[..., OtlpHistory], receiver: HttpReceiver
) -> None:
    for _ in range(2):
        make_history(receiver.endpoint, instance_id="store-1").send([window_point(end_ns=PAST_NS)])
    first, second = receiver.received.metrics
    assert first == second
    resource = attributes(first.resource_metrics[0].resource.attributes)
    assert (resource[names.SERVICE_NAME], resource[names.SERVICE_INSTANCE_ID]) == ("otel-agentic", "store-1")
    scope = first.resource_metrics[0].scope_metrics[0]
    assert scope.scope.name == names.SCOPE
    assert (first.resource_metrics[0].schema_url, scope.schema_url) == (names.SCHEMA_URL, names.SCHEMA_URL)


def test_points_go_out_in_order_of_time_in_requests_of_bounded_size(
    make_history: Callable[..., OtlpHistory], receiver: HttpReceiver
) -> None:
    points = [window_point(key=key, end_ns=PAST_NS + step) for key in agents(30) for step in range(20, 0, -1)]
    sent = make_history(receiver.endpoint).send(points)
    requests = receiver.received.metrics
    per_request = [
        [
            point.time_unix_nano
            for metric in request.resource_metrics[0].scope_metrics[0].metrics
            for point in (metric.gauge.data_points or metric.sum.data_points)
        ]
        for request in requests
    ]
    assert sum(map(len, per_request)) == sent
    assert max(map(len, per_request)) == MAX_POINTS_PER_REQUEST
    assert [(max(before), min(after)) for before, after in pairwise(per_request) if max(before) > min(after)] == []


def test_the_cap_on_groups_holds_at_each_end(make_history: Callable[..., OtlpHistory], receiver: HttpReceiver) -> None:
    early, late = agents(6)[:3], agents(6)[3:]
    points = [window_point(key=key, end_ns=PAST_NS) for key in early]
    points += [window_point(key=key, end_ns=PAST_NS + HOUR_NS) for key in late]
    make_history(receiver.endpoint, max_groups=2).send(points)
    values = receiver.received.values("agentic.coverage.ratio", "gen_ai.agent.name")
    assert len(values) == 4


@pytest.mark.parametrize("estimators", [(), ("plugin",), ("bayesian", "plugin")])
def test_the_estimators_that_the_settings_name_are_sent_else_the_headline_one(
    make_history: Callable[..., OtlpHistory], receiver: HttpReceiver, estimators: tuple[str, ...]
) -> None:
    make_history(receiver.endpoint, estimators=estimators).send([window_point()])
    values = receiver.received.values("agentic.success.ratio", "agentic.estimator")
    assert values == {(name,): 0.9 for name in estimators or ("bayesian",)}


def test_history_goes_over_grpc_too(make_history: Callable[..., OtlpHistory]) -> None:
    with grpc_receiver() as server:
        history = make_history(server.endpoint, protocol="grpc", headers={"Authorization": "Bearer token-1"})
        assert history.send([window_point(end_ns=PAST_NS)]) > 0
        ((_, point),) = server.received.points("agentic.coverage.ratio")
        assert point.time_unix_nano == PAST_NS
        assert server.received.headers["authorization"] == "Bearer token-1"
        history.close()


@pytest.mark.parametrize("behaviour", ["error", "unreachable"])
def test_a_backend_that_takes_nothing_is_an_error_that_names_it(
    make_history: Callable[..., OtlpHistory], behaviour: str, caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver("error") as server, caplog.at_level(logging.WARNING):
        endpoint = server.endpoint if behaviour == "error" else "http://me:secret@127.0.0.1:1"
        history = make_history(endpoint)
        with raises(
            BackendError,
            snapshot(
                "telemetry backend <endpoint> does not accept window points of the past (<tries> attempts): Failed to export metrics batch "
            ),
            endpoint=endpoint.replace("me:secret@", ""),
            tries=TRIES,
        ):
            history.send([window_point()])
        assert server.requests == (TRIES if behaviour == "error" else 0)
    assert caplog.records == []


def test_a_backend_that_comes_back_between_tries_has_everything(make_history: Callable[..., OtlpHistory]) -> None:
    waited: list[float] = []
    with http_receiver("error") as server:

        def recover(seconds: float) -> None:
            waited.append(seconds)
            server.behaviour = "ok"

        history = OtlpHistory(EmitSettings(timeout_s=0.5), server.endpoint, sleep=recover)
        assert history.send([window_point()]) == sum(
            len(server.received.points(name)) for name in server.received.by_name()
        )
        history.close()
    assert len(waited) == 1


def test_what_the_backend_left_out_is_not_counted_as_sent(
    make_history: Callable[..., OtlpHistory], caplog: pytest.LogCaptureFixture
) -> None:
    with http_receiver("partial") as server, caplog.at_level(logging.WARNING):
        history = make_history(server.endpoint)
        sent = history.send([window_point()])
        history.send([window_point()])
        arrived = sum(len(server.received.points(name)) for name in server.received.by_name())
    assert sent == arrived - 3
    assert [record.getMessage().partition(" rejected ")[2] for record in caplog.records] == snapshot(
        ["3 points of the past: too old"]
    )


def test_an_address_that_is_none_is_refused_at_once(make_history: Callable[..., OtlpHistory]) -> None:
    with pytest.raises(ConfigError):
        make_history("collector:4318")


def test_events_of_a_backfill_have_the_time_of_what_was_judged(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint, trigger="backfill")
    old = conversation(ended_ns=PAST_NS)
    telemetry.record_scores([ConversationResult(old, failing_score())])
    assert telemetry.force_flush(5.0)
    records = {event["agentic.trigger"]: record for event, record in receiver.received.events()}
    assert set(records) == {"backfill"}
    of_conversation = [
        record
        for event, record in receiver.received.events()
        if event["gen_ai.evaluation.name"] == "agentic.conversation"
    ]
    assert [record.time_unix_nano for record in of_conversation] == [PAST_NS]
