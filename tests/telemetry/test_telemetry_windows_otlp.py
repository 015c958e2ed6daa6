from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from otel_agentic.stats.model import TIERS
from otel_agentic.telemetry import names
from otel_agentic.windows.model import GroupKey
from tests.telemetry.builders import agents, empty_window_point, window_point
from tests.telemetry.receiver.received import attributes

if TYPE_CHECKING:
    import pytest

    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver


def test_all_window_metrics_arrive_with_name_unit_and_description(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.set_windows([window_point()])
    assert telemetry.force_flush(5.0)
    arrived = receiver.received.by_name()
    for instrument in names.WINDOW_INSTRUMENTS:
        metric = arrived[instrument.name]
        assert (metric.unit, metric.description) == (instrument.unit, instrument.description)
        assert metric.WhichOneof("data") == ("gauge" if instrument.kind == "observable_gauge" else "sum")


def test_the_resource_and_scope_are_our_own(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.set_windows([window_point()])
    assert telemetry.force_flush(5.0)
    (resource,) = receiver.received.metrics[-1].resource_metrics
    resource_attributes = attributes(resource.resource.attributes)
    assert resource_attributes[names.SERVICE_NAME] == "otel-agentic"
    assert resource_attributes[names.SERVICE_VERSION]
    assert resource_attributes[names.SERVICE_INSTANCE_ID]
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "otel_agentic"


def test_ratios_carry_subject_window_estimator_and_k(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.set_windows([window_point("24h")])
    assert telemetry.force_flush(5.0)
    subject = {
        "gen_ai.agent.name": "travel",
        "gen_ai.agent.version": "2.1.0",
        "deployment.environment.name": "production",
        "agentic.subject.service.name": "concierge",
        "agentic.window": "24h",
    }
    estimated = {**subject, "agentic.estimator": "bayesian"}
    received = receiver.received
    assert [(labels, point.as_double) for labels, point in received.points("agentic.success.ratio")] == [
        (estimated, 0.9)
    ]
    assert [labels for labels, _ in received.points("agentic.coverage.ratio")] == [subject]
    assert received.values("agentic.pass_pow_k.ratio", "agentic.k") == {(1,): 0.9, (3,): 0.73}
    assert received.values("agentic.pass_pow_k.lower.ratio", "agentic.k") == {(1,): 0.8, (3,): 0.5}
    assert received.values("agentic.pass_at_k.upper.ratio", "agentic.k") == {(1,): 0.97, (3,): 1.0}
    assert received.values("agentic.tool_correctness.ratio", "agentic.tool.dimension") == {("selection",): 0.8}
    assert received.values("agentic.window.conversations", "agentic.outcome") == {
        ("pass",): 9,
        ("fail",): 1,
        ("not_evaluated",): 2,
    }


def test_unknown_keys_of_a_group_are_left_out(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.set_windows([window_point(key=GroupKey(agent="travel", tag="smoke"))])
    assert telemetry.force_flush(5.0)
    ((labels, _),) = receiver.received.points("agentic.coverage.ratio")
    assert labels == {"gen_ai.agent.name": "travel", "agentic.case.tag": "smoke", "agentic.window": "1h"}


def test_the_tier_is_a_state_set_that_follows_the_newest_snapshot(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    for tier in ("ready", "not_ready"):
        telemetry.set_windows([window_point(tier=tier)])
        assert telemetry.force_flush(5.0)
        states = receiver.received.values("agentic.tier.status", "agentic.tier")
        assert states == {(name,): int(name == tier) for name in TIERS}
    metric = receiver.received.by_name()["agentic.tier.status"].sum
    assert not metric.is_monotonic
    assert metric.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE


def test_a_window_without_conversations_says_so_and_gives_no_ratio(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    telemetry.set_windows([empty_window_point()])
    assert telemetry.force_flush(5.0)
    assert [name for name in receiver.received.by_name() if name.endswith(".ratio")] == []
    assert set(receiver.received.values("agentic.window.conversations", "agentic.outcome").values()) == {0}


def test_a_group_that_disappears_stops(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    first, other = agents(2)
    telemetry.set_windows([window_point(key=first), window_point(key=other)])
    assert telemetry.force_flush(5.0)
    assert set(receiver.received.values("agentic.success.ratio", "gen_ai.agent.name")) == {
        (first.agent,),
        (other.agent,),
    }
    telemetry.set_windows([window_point(key=other)])
    assert telemetry.force_flush(5.0)
    assert set(receiver.received.values("agentic.success.ratio", "gen_ai.agent.name")) == {(other.agent,)}


def test_gauges_repeat_although_nothing_changes(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.set_windows([window_point()])
    for _ in range(2):
        assert telemetry.force_flush(5.0)
        assert len(receiver.received.points("agentic.success.ratio")) == 1


def test_the_setting_of_another_temporality_does_not_reach_us(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "DELTA")
    telemetry = make_telemetry(receiver.endpoint)
    telemetry.record_late(2)
    assert telemetry.force_flush(5.0)
    metric = receiver.received.by_name()["agentic.ingest.late_spans"].sum
    assert metric.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE


def test_groups_beyond_the_cap_are_dropped_whole_and_counted_once(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint, max_groups=3)
    points = [window_point(window, key=key) for key in agents(5) for window in ("1h", "24h")]
    for _ in range(2):  # the same two groups stay dropped: they are not counted again
        telemetry.set_windows(points)
        assert telemetry.force_flush(5.0)
        values = receiver.received.values("agentic.success.ratio", "gen_ai.agent.name", "agentic.window")
        assert len({agent for agent, _ in values}) == 3
        assert len(values) == 6
        assert receiver.received.values("agentic.telemetry.groups_dropped") == {(): 2}


def test_agents_that_come_and_go_never_melt_into_an_overflow_point(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint, max_groups=60)
    for generation in range(9):
        keys = [GroupKey(agent=f"agent-{index}", agent_version=str(generation)) for index in range(60)]
        # Tiers alone are more than the 2,000 points that the SDK would keep; rates would only take time.
        windows = ("1h", "24h") if generation == 8 else ("24h",)
        points = [window_point(window, key=key, estimates={}) for key in keys for window in windows]
        telemetry.set_windows(points)
        telemetry.render()
    assert telemetry.force_flush(5.0)
    values = receiver.received.values("agentic.tier.status", "gen_ai.agent.name", "agentic.window", "agentic.tier")
    assert len(values) == 60 * len(TIERS)  # once a group, of no window
    assert {window for _, window, _ in values} == {None}
    assert receiver.received.values("agentic.tier.status", "gen_ai.agent.version").keys() == {("8",)}
    assert b"overflow" not in telemetry.render()[1]
    assert len(telemetry._windows._known_groups) <= 2 * 60  # what the SDK remembers is thrown away in time


def test_a_full_snapshot_goes_out_in_requests_of_bounded_size(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint)
    points = [window_point(window, key=key) for key in agents(100) for window in ("1h", "24h", "7d")]
    telemetry.set_windows(points)
    assert telemetry.force_flush(10.0)
    sizes = [request.ByteSize() for request in receiver.received.metrics]
    assert len(sizes) > 1
    assert max(sizes) < 4 * 1024 * 1024


def test_hostile_group_names_do_not_stop_the_export(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    key = GroupKey(agent="broken \ud800 surrogate", service="x" * 1_000_000, environment='quote " and \n newline')
    telemetry.set_windows([window_point(key=key)])
    assert telemetry.force_flush(5.0)
    ((labels, _),) = receiver.received.points("agentic.success.ratio")
    assert labels["gen_ai.agent.name"] == "broken ? surrogate"
    assert len(labels["agentic.subject.service.name"]) == 256
    assert telemetry.render()[1]
