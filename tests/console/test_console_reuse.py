"""Reports are reused while nothing is committed, and for a time in proportion to their duration, until a verdict is recorded."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from otel_agentic.console.reports import CommandClient, ReportPendingError, Reports
from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.live.collector import LiveCollector
from tests.console.conftest import serving
from tests.live.running_collector import eventually


class _Commands:
    """Commands that take a time, by a clock of their own; while it collects, the store changes all the time."""

    def __init__(self, duration_s: float) -> None:
        self.duration_s = duration_s
        self.now_s = 100.0
        self.calls: list[str] = []
        self.changed = 0
        self.collects = True

    def changes(self) -> int:
        self.changed += self.collects
        return self.changed

    def clock(self) -> float:
        return self.now_s

    def run(self, name: str, arguments: Mapping[str, Any]) -> int:  # noqa: ARG002 — each call counts
        self.now_s += self.duration_s
        self.calls.append(name)
        return len(self.calls)


def test_a_slow_report_is_reused_for_five_times_its_duration() -> None:
    commands = _Commands(2.0)
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    assert client.call("report", by=["version"]) == 1
    commands.now_s += 9.9
    assert client.call("report", by=["version"]) == 1
    assert client.call("report", by=["case"]) == 2
    assert client.as_of is None


@pytest.mark.parametrize(("duration_s", "age_s"), [(2.0, 10.1), (30.0, 150.1)])
def test_a_slow_report_is_displayed_with_its_time_while_a_new_one_is_computed(duration_s: float, age_s: float) -> None:
    commands = _Commands(duration_s)
    reports = Reports(commands.changes, commands.clock)
    client = CommandClient(commands.run, reports)

    before = datetime.now(UTC)
    assert (client.call("report"), client.as_of) == (1, None)
    commands.now_s += age_s
    assert client.call("report") == 1
    assert client.as_of is not None
    assert before <= client.as_of <= datetime.now(UTC)

    later = CommandClient(commands.run, reports)
    eventually(lambda: later.call("report"), 2)
    assert len(commands.calls) == 2


def test_a_slow_report_is_not_renewed_before_five_times_its_duration() -> None:
    commands = _Commands(30.0)
    reports = Reports(commands.changes, commands.clock)
    client = CommandClient(commands.run, reports)

    assert client.call("report") == 1
    commands.now_s += 149.9
    assert (client.call("report"), client.as_of is None) == (1, False)
    assert (reports._waiting, commands.calls) == (set(), ["report"])


def test_a_slow_report_of_an_unchanged_store_is_displayed_with_its_time_after_ten_minutes() -> None:
    commands = _Commands(30.0)
    commands.collects = False
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    assert client.call("report") == 1
    commands.now_s += 599.9
    assert (client.call("report"), client.as_of) == (1, None)
    commands.now_s += 3_600
    assert client.call("report") == 1
    assert client.as_of is not None
    eventually(lambda: client.call("report"), 2)


def test_a_report_of_a_changed_store_is_never_older_than_ten_minutes() -> None:
    commands = _Commands(30.0)
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    assert client.call("report") == 1
    commands.now_s += 600.1
    assert (client.call("report"), client.as_of) == (2, None)


def test_no_page_shows_an_old_report_of_a_small_store() -> None:
    commands = _Commands(0.9)
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    assert client.call("report") == 1
    commands.now_s += 4.6
    assert (client.call("report"), client.as_of) == (2, None)


def test_slow_reports_are_renewed_one_after_another_and_a_failure_leaves_the_old_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    commands, running, most = _Commands(2.0), [], []

    def run(name: str, arguments: Mapping[str, Any]) -> int:
        running.append(name)
        most.append(len(running))
        if arguments.get("agent") == "b" and commands.now_s > 200:
            running.remove(name)
            message = "the store is full"
            raise StoreUnusableError(message)
        time.sleep(0.01)
        running.remove(name)
        return commands.run(name, arguments)

    client = CommandClient(run, Reports(commands.changes, commands.clock))
    first = [client.call("report", agent=name) for name in "abc"]
    commands.now_s += 200
    with caplog.at_level("INFO"):
        assert [client.call("report", agent=name) for name in "abc"] == first
        eventually(lambda: "the store is full" in caplog.text, True)
        eventually(lambda: client.call("report", agent="c") > first[-1], True)
    assert client.call("report", agent="b") == first[1]
    assert max(most) == 1


def test_a_verdict_makes_all_reports_new() -> None:
    commands = _Commands(2.0)
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    client.call("report")
    client.call("label", verdict="pass")
    assert client.call("report") == 3


def test_other_commands_are_never_reused_and_the_number_of_reports_is_bounded() -> None:
    commands = _Commands(2.0)
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    assert [client.call("conversations_page"), client.call("conversations_page")] == [1, 2]
    assert client.call("report", agent="first") == 3
    for number in range(40):
        client.call("report", agent=str(number))
    assert client.call("report", agent="first") == 44


def test_a_fast_report_is_reused_for_ten_minutes_while_nothing_changes() -> None:
    commands = _Commands(0.0)
    commands.collects = False
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock))

    assert client.call("report") == 1
    commands.now_s += 599.9
    assert client.call("report") == 1
    commands.changed += 1
    assert client.call("report") == 2
    commands.now_s += 600.1
    assert client.call("report") == 3


def test_concurrent_requests_compute_a_report_once() -> None:
    commands = _Commands(2.0)
    has_begun, may_end = threading.Event(), threading.Event()

    def run(name: str, arguments: Mapping[str, Any]) -> int:
        has_begun.set()
        assert may_end.wait(10)
        return commands.run(name, arguments)

    client = CommandClient(run, Reports(commands.changes, commands.clock))
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(client.call, "report")
        assert has_begun.wait(10)
        second = threads.submit(client.call, "report")
        may_end.set()
        assert [first.result(10), second.result(10)] == [1, 1]
    assert commands.calls == ["report"]


class _Slow(_Commands):
    """Commands that end when the test lets them; agent `x` has no report."""

    def __init__(self) -> None:
        super().__init__(2.0)
        self.may_end = threading.Event()
        self.failures = 0

    def run(self, name: str, arguments: Mapping[str, Any]) -> int:
        assert self.may_end.wait(10)
        if arguments.get("agent") == "x":
            self.failures += 1
            message = "no agent 'x'"
            raise StoreUnusableError(message)
        return super().run(name, arguments)


def is_pending(client: CommandClient, **arguments: Any) -> bool:
    try:
        client.call("report", **arguments)
    except ReportPendingError:
        return True
    return False


def test_a_page_that_does_not_wait_gets_the_report_at_a_later_request() -> None:
    commands = _Slow()
    reports = Reports(commands.changes, commands.clock)
    client = CommandClient(commands.run, reports, patience_s=0.0)

    assert [is_pending(client), is_pending(client)] == [True, True]
    commands.may_end.set()
    eventually(lambda: is_pending(client), False)
    assert (client.call("report"), client.as_of, commands.calls) == (1, None, ["report"])


def test_verdicts_do_not_keep_a_page_from_its_report() -> None:
    commands = _Slow()
    reports = Reports(commands.changes, commands.clock)
    client = CommandClient(commands.run, reports, patience_s=0.0)

    assert is_pending(client)
    reports.clear()
    commands.may_end.set()
    eventually(lambda: len(commands.calls), 1)
    reports.clear()
    eventually(lambda: is_pending(client), False)
    assert client.as_of is not None  # it may lack the verdict
    assert commands.calls == ["report"]
    eventually(lambda: is_pending(CommandClient(commands.run, reports, patience_s=0.0)), False)
    assert commands.calls == ["report", "report"]


def test_a_report_that_no_page_asked_for_again_is_forgotten() -> None:
    commands = _Slow()
    reports = Reports(commands.changes, commands.clock)
    client = CommandClient(commands.run, reports, patience_s=0.0)

    assert is_pending(client)
    commands.may_end.set()
    eventually(lambda: len(commands.calls), 1)
    commands.now_s += 700.0
    eventually(lambda: is_pending(client), False)
    assert (commands.calls, client.as_of) == (["report", "report"], None)


def test_the_error_of_a_report_is_that_of_the_page_and_the_next_request_tries_again() -> None:
    commands = _Slow()
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock), patience_s=0.0)

    def fails() -> bool:
        try:
            is_pending(client, agent="x")
        except StoreUnusableError:
            return True
        return False

    assert is_pending(client, agent="x")
    commands.may_end.set()
    eventually(fails, True)
    assert commands.failures == 1
    eventually(fails, True)
    assert commands.failures == 2


def test_the_number_of_reports_that_are_computed_for_pages_is_bounded() -> None:
    commands = _Slow()
    client = CommandClient(commands.run, Reports(commands.changes, commands.clock), patience_s=0.0)

    assert all(is_pending(client, agent=str(number)) for number in range(8))
    with pytest.raises(OverloadedError, match="8 reports are being computed already"):
        client.call("report", agent="8")
    assert is_pending(client, agent="7")
    commands.may_end.set()
    eventually(lambda: is_pending(client, agent="7"), False)


def test_a_page_states_that_its_report_is_being_computed_and_reloads_itself_while_its_twins_wait(
    tmp_path: Path, demo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, run = threading.Event(), LiveCollector.run

    def slow(self: LiveCollector, name: str, *arguments: Any) -> Any:
        assert name != "report" or may_end.wait(30)
        return run(self, name, *arguments)

    monkeypatch.setattr(LiveCollector, "run", slow)
    monkeypatch.setattr("otel_agentic.console.app._PATIENCE_S", 0.0)
    for console in serving(Path(shutil.copy(demo_file, tmp_path / "demo.duckdb"))):
        with console.session() as session, ThreadPoolExecutor(2) as threads:
            page = session.get("/?by=agent")
            assert (page.status_code, page.headers["refresh"], page.headers["retry-after"]) == (202, "3", "3")
            assert "Computing the report" in page.text
            assert 'href="/?by=agent">reload it now' in page.text
            twins = [threads.submit(session.get, f"/reliability.{kind}?by=agent") for kind in ("json", "csv")]
            may_end.set()
            assert [twin.result().status_code for twin in twins] == [200, 200]
            eventually(lambda: session.get("/?by=agent").status_code, 200)


def test_the_reports_of_a_large_store_are_computed_after_a_log_in(
    tmp_path: Path, demo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    run = LiveCollector.run

    def counted(self: LiveCollector, name: str, *arguments: Any) -> Any:
        computed.append(name)
        return run(self, name, *arguments)

    monkeypatch.setattr("otel_agentic.console.app._LARGE_BYTES", 0)
    # As on a large store, what the start stores later does not make pages wait.
    monkeypatch.setattr("otel_agentic.console.reports._SLOW_S", 0.0)
    monkeypatch.setattr(Reports, "_start_to_renew", lambda *_: None)
    monkeypatch.setattr(LiveCollector, "run", counted)
    for console in serving(Path(shutil.copy(demo_file, tmp_path / "demo.duckdb"))):
        with console.session() as session:
            eventually(lambda: computed.count("matches_page") >= 3, True)  # the last page
            reports = ["report", "report_pictures", "tools_failing", "truth_list", "truth_clusters", "live"]
            before = [computed.count(name) for name in reports]
            for path in ("/", "/tools", "/cases", "/matches", "/collector"):
                assert session.get(path).status_code == 200
            assert [computed.count(name) for name in reports] == before
            assert 0 not in before


def test_pages_and_their_twins_show_the_time_of_numbers_that_are_not_current(
    tmp_path: Path, demo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_agentic.console.reports._SLOW_S", 0.0)
    monkeypatch.setattr("otel_agentic.console.reports._MAX_REUSE_S", 0.0)
    for console in serving(Path(shutil.copy(demo_file, tmp_path / "demo.duckdb"))):
        with console.session() as session:
            # What the start stores outdates the first numbers.
            eventually(lambda: "last-modified" in session.get("/tools.json").headers, False)
            eventually(lambda: "These numbers are from" in session.get("/tools").text, False)

            monkeypatch.setattr(Reports, "_start_to_renew", lambda *_: None)
            conversation_id = session.get("/conversations.json").json()["rows"][0]["conversation_id"]
            console.run("label", conversation_id=conversation_id, annotator="ana", verdict="pass")
            assert session.get("/tools.json").headers["last-modified"].endswith("GMT")
            assert "These numbers are from" in session.get("/tools").text
