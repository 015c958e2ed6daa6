"""Monitors: alarms that a running collector raised, their conversations, and their acknowledgement."""

from __future__ import annotations

import json
import re
import shutil
import time
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.conftest import RunningConsole, serving
from tests.console.test_console_pages import text_of
from tests.live.receivers import webhook
from tests.live.running_collector import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

OBJECTIVE = {"agent": "trip-*", "target": 0.9, "name": "nine of <b>ten</b>"}


@pytest.fixture
def console(tmp_path: Path, demo_file: Path) -> Iterator[RunningConsole]:
    """Serve a store with an objective that trip-planner 1.1.0 breaks."""
    db = tmp_path / "demo.duckdb"
    shutil.copy(demo_file, db)
    yield from serving(db, slo={"objectives": [OBJECTIVE], "block": "none"}, windows={"lateness_s": 1.0})


def raised(session: httpx.Client) -> list[dict[str, Any]]:
    """Return the alarms, once there are some."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        alarms: list[dict[str, Any]] = session.get("/monitors.json").json()["alarms"]
        if alarms:
            return alarms
        time.sleep(0.2)
    pytest.fail("no alarm was raised")


def test_an_alarm_leads_to_its_conversations_and_is_acknowledged(console: RunningConsole) -> None:
    with console.session() as session:
        broken = next(alarm for alarm in raised(session) if alarm["kind"] == "broken")
        page = session.get("/monitors")
        link = re.search(r'<a href="(/conversations\?[^"]+)">failed conversations</a>', page.text)

        assert (broken["agent"], broken["agent_version"]) == ("trip-planner", "1.1.0")
        assert "nine of <b>ten</b> is broken: e-value" in text_of(page)
        assert "<b>ten" not in page.text
        assert link is not None
        listed = session.get(unescape(link[1]).replace("/conversations", "/conversations.json")).json()["rows"]
        assert {(row["agent_version"], row["outcome"]) for row in listed} == {("1.1.0", "fail")}
        assert len(listed) == 11

        answer = session.post(
            "/acknowledge", data={"alarm_id": broken["alarm_id"], "note": "rolled back"}, follow_redirects=True
        )
        assert "rolled back" in text_of(answer)
        (again,) = (alarm for alarm in raised(session) if alarm["alarm_id"] == broken["alarm_id"])
        assert (again["acknowledged_by"], again["note"]) == ("ana", "rolled back")
        assert session.post("/acknowledge", data={"alarm_id": "x"}).status_code == 400


def test_the_evidence_over_time_crosses_the_limit_where_the_alarm_was_raised(console: RunningConsole) -> None:
    with console.session() as session:
        alarm = next(alarm for alarm in raised(session) if alarm["kind"] == "broken")
        twin = session.get("/monitors.json").json()
        page = session.get("/monitors")
        later = session.get("/monitors.json?since=1h").json()["histories"]

    history, other = sorted(twin["histories"], key=lambda row: row["alarmed_ns"] is None)
    limit = 1 / history["alpha"]
    crossed = next(end for end, value in zip(history["end_ns"], history["e_value"], strict=True) if value >= limit)
    objective = next(row for row in twin["objectives"] if row["agent_version"] == history["agent_version"])

    assert [row["objective"] for row in twin["histories"]] == [row["objective"] for row in twin["objectives"]]
    assert (history["agent_version"], history["alarmed_ns"]) == (alarm["agent_version"], crossed)
    assert history["end_ns"] == sorted(history["end_ns"])
    assert (len(history["end_ns"]), history["e_value"][-1]) == (objective["n"], objective["e_value"])
    assert other["alarmed_ns"] is None
    assert max(other["e_value"]) < limit
    assert page.text.count('<svg class="plot narrow" role="img"') == 2
    assert page.text.count(f"alarm at {limit:g}</text>") == 4
    assert page.text.count("■<title>the objective is broken</title>") == 2
    assert [len(row["end_ns"]) for row in later] == [len(row["end_ns"]) for row in twin["histories"]]


def test_an_alarm_is_sent_to_each_target_although_one_does_not_answer(tmp_path: Path, demo_file: Path) -> None:
    db = tmp_path / "demo.duckdb"
    shutil.copy(demo_file, db)
    with webhook() as silent, webhook() as answering:
        silent.held.clear()
        targets = [
            {"name": "silent", "kind": "webhook", "url": silent.url},
            {"name": "on-<b>call</b>", "kind": "slack", "url": answering.url},
            {"name": "shop", "kind": "slack", "url": answering.url, "agent": "shop-*"},
        ]
        for console in serving(
            db,
            slo={"objectives": [OBJECTIVE], "block": "none"},
            windows={"lateness_s": 1.0},
            notify={"targets": targets, "timeout_s": 600},
        ):
            with console.session() as session:
                message = json.loads(answering.received.get(timeout=60).body)["text"]
                link = re.search(r"<(http://[^|>]+)\|Failed conversations>", message)
                assert link is not None
                assert len(session.get(link[1].replace("/conversations", "/conversations.json")).json()["rows"]) == 11
                eventually(lambda: "on-<b>call</b>: sent" in text_of(session.get("/monitors")), expected=True)
                alarm = raised(session)[0]
                assert [item["target"] for item in alarm["notifications"]] == ["on-<b>call</b>", "silent"]
                assert [item["sent_at"] is not None for item in alarm["notifications"]] == [True, False]
        assert silent.posts()


def test_without_an_objective_the_page_names_the_setting(empty: RunningConsole) -> None:
    with empty.session() as session:
        page = text_of(session.get("/monitors"))

    assert "slo.objectives" in page
    assert "No alarm was raised" in page
