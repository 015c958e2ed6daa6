from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.stats.model import Estimate
from otel_agentic.telemetry import names
from otel_agentic.windows.model import GroupKey, WindowPoint
from otel_agentic.windows.objectives import ObjectivePoint
from tests.snapshots import passage
from tests.telemetry.builders import agents, estimates, summary, window_point

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry
    from tests.telemetry.receiver.over_http import HttpReceiver


class Table:
    """Makes its points when it is asked, and counts how often."""

    def __init__(self, *points: WindowPoint) -> None:
        self._points = points
        self.reads = 0

    def points(self) -> Iterable[WindowPoint]:
        self.reads += 1
        return self._points


def objective_point(
    key: GroupKey | None = None, e_value: float = 3.5, objective: str = "pass^3>=0.7"
) -> ObjectivePoint:
    return ObjectivePoint(key=key or GroupKey(agent="travel"), objective=objective, k=3, e_value=e_value)


def test_a_table_becomes_points_once_and_only_when_it_is_collected(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    unread, table = Table(window_point()), Table(window_point("24h"))
    telemetry.set_windows(unread)
    telemetry.set_windows(table)
    assert (unread.reads, table.reads) == (0, 0)
    telemetry.render()
    assert telemetry.force_flush(5.0)
    telemetry.render()
    assert (unread.reads, table.reads) == (0, 1)
    assert receiver.received.values("agentic.success.ratio", "agentic.window") == {("24h",): 0.9}


def test_points_may_come_from_a_generator(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    telemetry.set_windows(window_point(window) for window in ("1h", "24h"))
    for objectives in ([], [objective_point()]):
        telemetry.set_objectives(objectives)
        assert telemetry.force_flush(5.0)
        values = receiver.received.values("agentic.coverage.ratio", "agentic.window")
        assert set(values) == {("1h",), ("24h",)}


class BrokenTable:
    """Cannot be made into points."""

    def points(self) -> Iterable[WindowPoint]:
        raise ArithmeticError("unforeseen")


def test_a_table_that_fails_stops_no_other_metric_and_the_next_one_is_shown(
    telemetry: Telemetry, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    def passed() -> float:
        assert telemetry.force_flush(5.0)
        return receiver.received.values("agentic.window.conversations", "agentic.outcome")[("pass",)]

    telemetry.set_windows([window_point()])
    telemetry.record_late(2)
    assert passed() == 9
    with caplog.at_level(logging.ERROR):
        telemetry.set_windows(BrokenTable())
        assert [passed(), passed()] == [9, 9]
    assert receiver.received.values("agentic.ingest.late_spans") == {(): 2}
    assert b"agentic_ingest_late_spans_total 2.0" in telemetry.render()[1]
    assert [record.getMessage() for record in caplog.records] == snapshot(
        ["window points could not be shown; gauges keep their last values"]
    )
    telemetry.set_windows([window_point(c=5)])
    assert passed() == 5


def test_the_cap_counts_in_the_same_export_that_shows_it(make_telemetry: MakeTelemetry, receiver: HttpReceiver) -> None:
    telemetry = make_telemetry(receiver.endpoint, max_groups=2)
    telemetry.set_windows([window_point(key=key) for key in agents(5)])
    assert telemetry.force_flush(5.0)
    assert receiver.received.values("agentic.telemetry.groups_dropped") == {(): 3}
    assert b"agentic_telemetry_groups_dropped_total 3.0" in telemetry.render()[1]


def test_a_scrape_and_a_push_at_once_never_wait_for_each_other_for_ever(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    keys, pushes, over = agents(4), 6, threading.Event()

    def again_and_again(step: Callable[[], object]) -> None:
        while not over.is_set():
            step()

    steps: tuple[Callable[[], object], ...] = (
        telemetry.render,
        lambda: telemetry.set_windows([window_point(key=key) for key in keys]),
    )
    threads = [threading.Thread(target=again_and_again, args=(step,), daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    pushed = [telemetry.force_flush(20.0) for _ in range(pushes)]
    over.set()
    assert pushed == [True] * pushes
    assert receiver.requests == pushes


def test_more_estimators_are_emitted_where_they_are_asked_for(
    make_telemetry: MakeTelemetry, receiver: HttpReceiver
) -> None:
    telemetry = make_telemetry(receiver.endpoint, estimators=("plugin", "bayesian", "per_case"))
    telemetry.set_windows([window_point()])
    assert telemetry.force_flush(5.0)
    values = receiver.received.values("agentic.pass_pow_k.ratio", "agentic.estimator", "agentic.k")
    assert values == {("bayesian", 1): 0.9, ("bayesian", 3): 0.73, ("plugin", 1): 0.9, ("plugin", 3): 0.99}
    assert len(receiver.received.points("agentic.coverage.ratio")) == 1


def test_a_window_of_the_last_n_is_shown_by_its_name(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    point = WindowPoint(window="n200", width_ns=None, end_ns=1, summary=summary())
    telemetry.set_windows([point])
    assert telemetry.force_flush(5.0)
    assert receiver.received.values("agentic.success.ratio", "agentic.window") == {("n200",): 0.9}


def test_groups_by_tag_are_emitted_alongside_all_conversations(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    untagged, tagged = GroupKey(agent="travel"), GroupKey(agent="travel", tag="refund")
    telemetry.set_windows([window_point(key=untagged), window_point(key=tagged, c=1)])
    assert telemetry.force_flush(5.0)
    values = receiver.received.values("agentic.window.conversations", "agentic.case.tag", "agentic.outcome")
    assert (values[None, "pass"], values["refund", "pass"]) == (9, 1)


def test_objectives_are_gauges_of_their_group_until_they_are_not_given_any_more(
    telemetry: Telemetry, receiver: HttpReceiver
) -> None:
    telemetry.set_objectives([objective_point(), objective_point(objective="pass^1>=0.9", e_value=0.0)])
    assert telemetry.force_flush(5.0)
    assert receiver.received.by_name()["agentic.slo.e_value"].unit == "{e_value}"
    assert [(labels, point.as_double) for labels, point in receiver.received.points("agentic.slo.e_value")] == [
        ({"gen_ai.agent.name": "travel", "agentic.objective": "pass^3>=0.7", "agentic.k": 3}, 3.5),
        ({"gen_ai.agent.name": "travel", "agentic.objective": "pass^1>=0.9", "agentic.k": 3}, 0.0),
    ]
    telemetry.set_objectives([])
    assert telemetry.force_flush(5.0)
    assert receiver.received.points("agentic.slo.e_value") == []


def test_objectives_and_windows_do_not_replace_each_other(telemetry: Telemetry) -> None:
    telemetry.set_objectives([objective_point()])
    telemetry.set_windows([window_point()])
    telemetry.set_objectives([objective_point(e_value=9.0)])
    text = telemetry.render()[1].decode()
    assert "agentic_success_ratio" in text
    assert passage(text) == snapshot(
        'agentic_slo_e_value{agentic_k="3",agentic_objective="pass^3>=0.7",gen_ai_agent_name="travel"} 9.0'
    )


@pytest.mark.parametrize("e_value", [math.nan, math.inf])
def test_an_e_value_that_is_no_number_is_not_emitted(telemetry: Telemetry, e_value: float) -> None:
    telemetry.set_objectives([objective_point(e_value=e_value)])
    assert b"agentic_slo_e_value{" not in telemetry.render()[1]


def test_the_cap_on_groups_holds_for_objectives_and_prefers_those_with_windows(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(max_groups=2)
    keys = agents(6)
    telemetry.set_windows([window_point(key=keys[5]), window_point(key=keys[4])])
    telemetry.set_objectives([objective_point(key) for key in keys])
    text = telemetry.render()[1].decode()
    lines = [line for line in text.splitlines() if line.startswith("agentic_slo_e_value")]
    assert ["agent-004" in "".join(lines), "agent-005" in "".join(lines), len(lines)] == [True, True, 2]


def test_objectives_of_agents_that_come_and_go_never_melt_into_an_overflow_point(make_telemetry: MakeTelemetry) -> None:
    telemetry = make_telemetry(max_groups=20)
    providers = set()
    for generation in range(9):
        providers.add(telemetry._windows._provider)
        keys = [GroupKey(agent=f"agent-{index}", agent_version=str(generation)) for index in range(20)]
        telemetry.set_objectives([objective_point(key) for key in keys])
        text = telemetry.render()[1]
    assert text.count(b"\nagentic_slo_e_value{") == 20
    assert b"overflow" not in text
    assert len(providers) > 2  # what the SDK remembers is thrown away in time


def test_every_gauge_of_windows_and_objectives_is_in_one_snapshot(telemetry: Telemetry, receiver: HttpReceiver) -> None:
    undefined = estimates({1: Estimate(value=None)})
    telemetry.set_windows([window_point(), window_point("24h", estimates={"bayesian": undefined})])
    telemetry.set_objectives([objective_point()])
    assert telemetry.force_flush(5.0)
    arrived = set(receiver.received.by_name())
    assert {instrument.name for instrument in (*names.WINDOW_INSTRUMENTS, names.SLO_E_VALUE)} <= arrived
