"""Agents are checked against their objectives as their results become final."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from otel_agentic.config import EmitSettings
from otel_agentic.errors import StoreUnusableError
from otel_agentic.live.reporting import MonitorLoop
from otel_agentic.reports.objectives import Monitors, objectives_report
from otel_agentic.results import to_json
from otel_agentic.stats.sequential import BlockEvidence, Evidence, log_e_path
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import NOON_NS, SECOND_NS, speak_genai
from tests.builders import CASE, ask_hotel, feed, rows, save_outcomes
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.snapshots import opening, passage

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import OpenEngine

    Start = Callable[..., tuple[Engine, MonitorLoop]]

NINE: dict[str, Any] = {"target": 0.9}
LATENESS_NS = 3_600 * SECOND_NS
STORED = "SELECT * EXCLUDE (computed_at, watermark) FROM monitors ORDER BY agent, agent_version, objective"


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    built = Telemetry.from_settings(EmitSettings(), run_id="run", trigger="online")
    yield built
    built.shutdown(1.0)


@pytest.fixture
def start(open_engine: OpenEngine, telemetry: Telemetry) -> Start:
    """Open an engine with objectives, an hour after everything became final; and monitoring on it."""

    def started(*objectives: dict[str, Any], **slo: Any) -> tuple[Engine, MonitorLoop]:
        # One by one, unless a test is about blocks: the effect of a single conversation is easier to see.
        engine = open_engine(slo={"block": "none", "objectives": objectives or (NINE,), **slo})
        set_clock(engine, NOON_NS)
        return engine, MonitorLoop(engine, telemetry)

    return started


def set_clock(engine: Engine, now_ns: int) -> None:
    engine.clock = lambda: now_ns


def outcomes(*counts: int) -> list[str]:
    """Return so many passes, so many failures, so many passes, …"""
    return [("pass", "fail")[index % 2] for index, count in enumerate(counts) for _ in range(count)]


def e_of(path: list[str], p0: float = 0.9) -> Any:
    return pytest.approx(float(np.exp(log_e_path([item == "pass" for item in path], p0)[-1])))


def test_every_group_is_held_to_the_objectives_of_its_agent(start: Start) -> None:
    engine, monitoring = start(NINE, {"agent": "cl*", "k": 3, "target": 0.7, "name": "three in a row"})
    clerk, other = outcomes(5, 2), outcomes(3, 1)
    save_outcomes(engine, clerk)
    save_outcomes(engine, other, subject=2, agent="driver", name="d")

    result = [(item.key.agent, item.objective.label, item.n, item.c, item.e_value) for item in monitoring.refresh()]

    assert [
        ("clerk", "pass^1>=0.9", 7, 5, e_of(clerk)),
        ("clerk", "three in a row", 7, 5, e_of(clerk, 0.7 ** (1 / 3))),
        ("driver", "pass^1>=0.9", 4, 3, e_of(other)),
    ] == result


def test_what_was_not_evaluated_and_what_is_not_final_is_not_looked_at(start: Start) -> None:
    engine, monitoring = start()
    save_outcomes(engine, ["pass", "not_evaluated", "fail"])
    save_outcomes(engine, ["fail"], first_ns=NOON_NS - LATENESS_NS + 1, name="young")

    assert [2] == [item.n for item in monitoring.refresh()]

    set_clock(engine, NOON_NS + 1)
    assert [3] == [item.n for item in monitoring.refresh()]


def test_going_on_gives_the_rows_that_starting_anew_gives(start: Start, telemetry: Telemetry) -> None:
    engine, monitoring = start(NINE, {"target": 0.8, "method": "per_case"}, {"target": 0.95, "target_run_length": 20})
    rng = np.random.default_rng(1)
    for step in range(6):
        first_ns = NOON_NS + step * LATENESS_NS
        built = ["pass" if item else "fail" for item in rng.random(30) < 0.85]
        save_outcomes(engine, built, first_ns=first_ns, name=f"s{step}", cases=[*rng.integers(1, 6, 29).tolist(), None])
        set_clock(engine, first_ns + LATENESS_NS + 15_000)  # the second half becomes final in the next round
        monitoring.refresh()
    set_clock(engine, NOON_NS + 10 * LATENESS_NS)
    monitoring.refresh()
    stored = rows(engine, STORED)
    assert {180} == {row[10] for row in stored}

    MonitorLoop(engine, telemetry).refresh()

    assert approximate(stored) == rows(engine, STORED)


def approximate(result: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(pytest.approx(item) if isinstance(item, float) else item for item in row) for row in result]


@pytest.mark.parametrize("late", [("pass", "fail"), ("fail", "pass")])
def test_a_late_or_restated_result_is_as_if_it_had_always_been_so(start: Start, late: tuple[str, str]) -> None:
    engine, monitoring = start()
    save_outcomes(engine, outcomes(6, 2))
    monitoring.refresh()

    changed = save_outcomes(engine, late)  # the first two conversations get another result
    changed += save_outcomes(engine, ["fail"], first_ns=1_500, name="late")
    monitoring.changed(changed)
    set_clock(engine, NOON_NS + SECOND_NS)
    result = monitoring.refresh()

    order = [late[0], "fail", late[1], *outcomes(4, 2)]
    assert [(9, e_of(order))] == [(item.n, item.e_value) for item in result]
    assert [(9,)] == rows(engine, "SELECT n FROM monitors")


def test_a_result_that_is_gone_is_gone_from_the_evidence(start: Start) -> None:
    engine, monitoring = start()
    ended_ns = save_outcomes(engine, outcomes(2, 3))
    monitoring.refresh()

    engine.store.write(lambda con: con.execute("DELETE FROM results WHERE conversation_id = 'c-000003'").fetchall())
    monitoring.changed([ended_ns[3]])

    assert [(4, e_of(outcomes(2, 2)))] == [(item.n, item.e_value) for item in monitoring.refresh()]


def test_only_groups_of_which_a_result_changed_begin_anew(start: Start) -> None:
    engine, monitoring = start()
    ended_ns = save_outcomes(engine, outcomes(2, 3))
    save_outcomes(engine, outcomes(3, 1), subject=2, agent="driver", name="d")
    monitoring.refresh()
    save_outcomes(engine, ["pass"], first_ns=NOON_NS - LATENESS_NS + 1, subject=2, agent="driver", name="young")
    set_clock(engine, NOON_NS + 1)
    _, driver = monitoring.refresh()

    for outcome, correct in (("fail", 1), ("pass", 2)):  # and back again
        save_outcomes(engine, [outcome])
        monitoring.changed(ended_ns[:1])
        clerk_now, driver_now = monitoring.refresh()
        assert correct == clerk_now.c
        assert driver_now is driver


def test_a_group_that_lost_its_last_result_has_no_monitor(start: Start) -> None:
    engine, monitoring = start()
    ended_ns = save_outcomes(engine, ["fail"])
    save_outcomes(engine, ["pass"], subject=2, agent="driver", name="d")
    monitoring.refresh()

    engine.store.write(lambda con: con.execute("DELETE FROM results WHERE subject = 1").fetchall())
    monitoring.changed(ended_ns)

    assert ["driver"] == [item.key.agent for item in monitoring.refresh()]
    assert [("driver",)] == rows(engine, "SELECT agent FROM monitors")

    save_outcomes(engine, ["pass"])
    monitoring.changed(ended_ns)
    assert [1, 1] == [item.c for item in monitoring.refresh()]


def test_an_open_conversation_holds_back_what_ended_after_it(start: Start) -> None:
    engine, monitoring = start()
    save_outcomes(engine, ["fail"], first_ns=NOON_NS - 90 * SECOND_NS)
    save_outcomes(engine, ["fail"], first_ns=NOON_NS + 90 * SECOND_NS, name="after")
    set_clock(engine, NOON_NS + 2 * LATENESS_NS)
    feed(engine, *speak_genai(ask_hotel(), start_ns=NOON_NS).spans)
    reopen = "UPDATE conversations SET closed_by = NULL"
    engine.store.write(lambda con: con.execute(reopen).fetchall())

    assert [1] == [item.n for item in monitoring.refresh()]


def test_counting_starts_where_the_settings_say(start: Start) -> None:
    engine, monitoring = start(since="1970-01-01T00:00:00.000003Z")
    save_outcomes(engine, outcomes(0, 5))
    assert [3] == [item.n for item in monitoring.refresh()]


def test_an_alarm_is_logged_once_and_not_again_after_a_restart(
    start: Start, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    engine, monitoring = start({"target": 0.9, "target_run_length": 1e9})
    ended_ns = save_outcomes(engine, outcomes(0, 4))
    with caplog.at_level(logging.WARNING):
        monitoring.refresh()
        save_outcomes(engine, ["fail"], first_ns=5_000, name="more")
        monitoring.changed([5_000])
        monitoring.refresh()
        MonitorLoop(engine, telemetry).refresh()

    (reported,) = [record.getMessage() for record in caplog.records]
    stored = rows(engine, "SELECT description, kind, agent, objective, acknowledged_by FROM alarms")
    assert stored == [(reported, "broken", "clerk", "pass^1>=0.9", None)]
    assert opening(reported) == snapshot(
        "agent clerk, version 1, environment production, service shop: pass^1>=0.9 is broken: e-value"
    )
    assert passage(reported) == snapshot("false in at most 5 % of agents, ever")
    reached = int(np.flatnonzero(log_e_path([False] * 4, 0.9) >= np.log(20))[0])
    assert [(ended_ns[reached],)] == rows(engine, "SELECT epoch_ns(alarmed_at) FROM monitors")


def test_an_alarm_from_before_the_counting_began_anew_does_not_hush_the_next(
    start: Start, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    engine, monitoring = start({"target": 0.9, "target_run_length": 1e9})
    save_outcomes(engine, outcomes(0, 4))
    with caplog.at_level(logging.WARNING):
        monitoring.refresh()
        save_outcomes(engine, outcomes(0, 3), first_ns=SECOND_NS, name="later")
        since = engine.settings.slo.model_copy(update={"since": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)})
        engine.settings = engine.settings.model_copy(update={"slo": since})
        MonitorLoop(engine, telemetry).refresh()

    before, after = [record.getMessage() for record in caplog.records]
    assert "after 4 conversations" in before
    assert "after 3 conversations" in after


def test_another_promise_under_the_same_name_raises_its_own_alarm(
    start: Start, telemetry: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    engine, monitoring = start({"name": "steady", "target": 0.9, "target_run_length": 1e9})
    save_outcomes(engine, outcomes(0, 6))
    with caplog.at_level(logging.WARNING):
        monitoring.refresh()
        (objective,) = engine.settings.slo.objectives
        softer = engine.settings.slo.model_copy(update={"objectives": (objective.model_copy(update={"target": 0.8}),)})
        engine.settings = engine.settings.model_copy(update={"slo": softer})
        MonitorLoop(engine, telemetry).refresh()

    assert 2 == len(caplog.records)


def test_a_change_is_logged_with_the_conversation_that_showed_it(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    engine, monitoring = start({"target": 0.9, "alpha": 1e-9, "target_run_length": 50})
    save_outcomes(engine, outcomes(200, 4))
    with caplog.at_level(logging.WARNING):
        monitoring.refresh()
    (reported,) = [record.getMessage() for record in caplog.records]
    assert passage(reported) == snapshot("the pass rate seems to have fallen below 0.900 (pass^1>=0.9)")
    ((changes, changed_ns),) = rows(engine, "SELECT changes, epoch_ns(changed_at) FROM monitors")
    assert 1 == changes
    assert 200 * 1_000 < changed_ns < 206 * 1_000


def test_the_stored_row_says_everything(start: Start) -> None:
    engine, monitoring = start({"k": 3, "target": 0.7, "alpha": 0.01, "target_run_length": 500})
    path = outcomes(3, 1)
    save_outcomes(engine, path)
    monitoring.refresh()

    ((*row,),) = rows(engine, STORED)

    log_e = log_e_path([item == "pass" for item in path], 0.7 ** (1 / 3))
    assert row[:12] == [
        *("clerk", "1", "production", "shop"),
        *("pass^3>=0.7", 3, 0.7, pytest.approx(0.7 ** (1 / 3)), 0.01, "pooled", 4, 3),
    ]
    assert row[12:16] == [e_of(path, 0.7 ** (1 / 3)), pytest.approx(log_e[-1]), e_of(path, 0.7 ** (1 / 3)), None]
    assert row[16:] == [pytest.approx(float(row[16])), 500.0, 0, None, "none", 4, "correct", ""]
    assert row[16] > 0
    watermark = "SELECT epoch_ns(watermark), epoch_ns(computed_at) FROM monitors"
    assert [(NOON_NS - LATENESS_NS, NOON_NS)] == rows(engine, watermark)


@pytest.mark.parametrize("block", ["auto", "hour"])
def test_a_block_counts_once_it_is_closed_also_after_a_restart(start: Start, block: str) -> None:
    engine, monitoring = start(NINE, block=block)
    hour_ns = 3_600 * SECOND_NS
    last_ns = NOON_NS - 4 * hour_ns
    for first_ns, name in ((last_ns, "a"), (last_ns + hour_ns, "b"), (NOON_NS - 7 * hour_ns // 4, "c")):
        save_outcomes(engine, outcomes(1, 1), first_ns=first_ns, name=name)
    columns = "SELECT n, c, blocks, block, e_value FROM monitors"
    set_clock(engine, NOON_NS - hour_ns // 2)

    monitoring.refresh()
    expected = float(np.exp(BlockEvidence.none(0.9).then([0.5, 0.5], 0.9)[0].log_e))
    assert [(4, 2, 2, block, pytest.approx(expected))] == rows(engine, columns)
    assert [(2, 4)] == [(status.pending, status.n) for status in objectives_report(engine)]

    set_clock(engine, NOON_NS + 2 * hour_ns)
    monitoring.refresh()
    later = rows(engine, columns)
    MonitorLoop(engine, monitoring._telemetry).refresh()
    assert [(6, 3, 3)] == [row[:3] for row in later]
    assert later == rows(engine, columns)

    save_outcomes(engine, outcomes(0, 2), first_ns=last_ns, name="a")  # a late revision: its block is computed again
    monitoring.changed([last_ns])
    monitoring.refresh()
    changed = float(np.exp(BlockEvidence.none(0.9).then([0.0, 0.5, 0.5], 0.9)[0].log_e))
    assert [(6, 2, 3, block, pytest.approx(changed))] == rows(engine, columns)


def test_evidence_beyond_any_number_is_kept_as_its_logarithm(start: Start) -> None:
    engine, monitoring = start()
    save_outcomes(engine, outcomes(0, 1_000))
    monitoring.refresh()
    expected = Evidence.none().then([0] * 1_000, [False] * 1_000, 0.9)[0].log_e
    assert expected > 710  # a double ends there
    assert [(1e300, 1e300, pytest.approx(expected))] == rows(engine, "SELECT e_value, largest, log_e FROM monitors")


def test_the_e_value_is_a_gauge(start: Start, telemetry: Telemetry) -> None:
    engine, monitoring = start({"k": 3, "target": 0.7})
    save_outcomes(engine, outcomes(2, 1))
    monitoring.refresh()
    (line,) = [line for line in telemetry.render()[1].decode().splitlines() if line.startswith("agentic_slo_e_value{")]
    assert 'agentic_objective="pass^3>=0.7"' in line
    assert 'agentic_k="3"' in line
    assert 'gen_ai_agent_name="clerk"' in line
    assert e_of(outcomes(2, 1), 0.7 ** (1 / 3)) == float(line.rsplit(" ", 1)[1])


def test_objectives_that_are_no_longer_set_leave_no_row(
    open_engine: OpenEngine, telemetry: Telemetry, start: Start
) -> None:
    engine, monitoring = start()
    save_outcomes(engine, ["fail"])
    monitoring.refresh()
    engine.settings = engine.settings.model_copy(update={"slo": type(engine.settings.slo)()})

    later = MonitorLoop(engine, telemetry)
    later.start()
    later.stop()

    assert [] == rows(engine, "SELECT * FROM monitors")


def test_what_could_not_be_saved_is_saved_the_next_time(start: Start) -> None:
    engine, monitoring = start()
    save_outcomes(engine, ["fail"])
    monitoring.refresh()
    save_outcomes(engine, ["fail"], first_ns=NOON_NS - LATENESS_NS + 1, name="next")
    set_clock(engine, NOON_NS + 1)
    engine.store.write(lambda con: con.execute("ALTER TABLE monitors RENAME TO elsewhere").fetchall())
    with pytest.raises(StoreUnusableError, match="monitors"):
        monitoring.refresh()
    engine.store.write(lambda con: con.execute("ALTER TABLE elsewhere RENAME TO monitors").fetchall())

    monitoring.refresh()

    assert [(2,)] == rows(engine, "SELECT n FROM monitors")


def test_a_report_is_made_from_the_store(start: Start) -> None:
    engine, _ = start({"k": 3, "target": 0.7})
    save_outcomes(engine, outcomes(0, 3))
    save_outcomes(engine, ["fail"], first_ns=NOON_NS, name="young")

    (result,) = objectives_report(engine)

    p0 = 0.7 ** (1 / 3)
    assert {
        "agent": "clerk",
        "agent_version": "1",
        "environment": "production",
        "service": "shop",
        "objective": "pass^3>=0.7",
        "k": 3,
        "target": 0.7,
        "p0": pytest.approx(p0),
        "method": "pooled",
        "block": "none",
        "blocks": 3,
        "n": 3,
        "c": 0,
        "pending": 1,
        "e_value": e_of(outcomes(0, 3), p0),
        "alpha": 0.05,
        "alarm": True,
        "alarmed_at": "1970-01-01T00:00:00.000003000Z",
        "target_run_length": 1000.0,
        "changes": 0,
        "changed_at": None,
    } == to_json(result)


def test_a_report_has_only_the_agents_asked_for_and_those_of_which_nothing_is_final_yet(start: Start) -> None:
    engine, _ = start()
    save_outcomes(engine, ["fail"])
    save_outcomes(engine, ["fail"], subject=2, agent="driver", first_ns=NOON_NS, name="young")
    save_outcomes(engine, ["not_evaluated"], subject=3, agent="mute", name="none")

    assert [("clerk", 1, 0), ("driver", 0, 1)] == [
        (status.agent, status.n, status.pending) for status in objectives_report(engine)
    ]
    assert ["driver"] == [status.agent for status in objectives_report(engine, "dr*")]


def test_the_watermark_never_goes_back(start: Start) -> None:
    engine, _ = start()
    save_outcomes(engine, outcomes(0, 4))
    monitors = Monitors(engine.settings.slo)
    with engine.store.read() as con:
        assert monitors.advance(con, 3_000)
        assert not monitors.advance(con, 2_000)
        assert monitors.advance(con, 9_000)
    assert [4] == [item.n for item in monitors.all]


def test_the_query_of_the_guide_is_answered(start: Start) -> None:
    engine, monitoring = start()
    save_outcomes(engine, outcomes(0, 1))
    monitoring.refresh()
    guide = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text("utf-8")
    (sql,) = re.findall(r'otel-agentic query "([^"]+)"', guide)
    assert [("clerk", "1", "pass^1>=0.9", e_of(outcomes(0, 1)), None, None)] == rows(engine, sql)


def test_a_running_collector_watches_its_agents(tmp_path: Path) -> None:
    settings = live_settings(
        tmp_path / "t.duckdb",
        slo={"objectives": [{"target": 0.9}], "block": "none"},
        windows={"widths": ["1h"], "step_s": 1, "lateness_s": 0.1},
    )
    with running(settings, cases=[("cases.jsonl", CASE)]) as (live, addresses):
        for number in range(3):
            reply = ask_hotel(f"c-{number}").answers("The Savoy.")
            export(addresses, speak_genai(reply, start_ns=just_now()).spans)

        state = "SELECT n, c, alarmed_at IS NOT NULL FROM monitors"
        eventually(lambda: rows(live.engine, state), [(3, 0, True)])
        (objective,) = ask(settings, "report")["objectives"]
        assert (3, 0, True) == (objective["n"], objective["c"], objective["alarm"])
        metrics = live.metrics()[1].decode()
        assert f" {objective['e_value']}\n"[:9] in metrics
