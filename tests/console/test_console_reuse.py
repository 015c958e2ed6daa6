"""Reports are reused while nothing is committed, and for a time in proportion to their duration, until a verdict is recorded."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_agentic.console.app import CommandClient
from otel_agentic.live.collector import LiveCollector
from tests.console.conftest import serving
from tests.live.running_collector import eventually

if TYPE_CHECKING:
    import pytest


class _Commands:
    """Commands that take a time, by a clock of their own; while it collects, the store commits all the time."""

    def __init__(self, duration_s: float) -> None:
        self.duration_s = duration_s
        self.now_s = 100.0
        self.calls: list[str] = []
        self.committed = 0
        self.collects = True

    def commits(self) -> int:
        self.committed += self.collects
        return self.committed

    def clock(self) -> float:
        return self.now_s

    def run(self, name: str, arguments: Mapping[str, Any]) -> int:  # noqa: ARG002 — each call counts
        self.now_s += self.duration_s
        self.calls.append(name)
        return len(self.calls)


def test_a_slow_report_is_reused_for_five_times_its_duration() -> None:
    commands = _Commands(2.0)
    client = CommandClient(commands.run, commands.commits, commands.clock)

    assert client.call("report", by=["version"]) == 1
    commands.now_s += 9.9
    assert client.call("report", by=["version"]) == 1
    assert client.call("report", by=["case"]) == 2
    commands.now_s += 10.1
    assert client.call("report", by=["version"]) == 3


def test_it_is_never_older_than_a_minute() -> None:
    commands = _Commands(30.0)
    client = CommandClient(commands.run, commands.commits, commands.clock)

    assert client.call("report") == 1
    commands.now_s += 60.1
    assert client.call("report") == 2


def test_a_verdict_makes_all_reports_new() -> None:
    commands = _Commands(2.0)
    client = CommandClient(commands.run, commands.commits, commands.clock)

    client.call("report")
    client.call("label", verdict="pass")
    assert client.call("report") == 3


def test_other_commands_are_never_reused_and_the_number_of_reports_is_bounded() -> None:
    commands = _Commands(2.0)
    client = CommandClient(commands.run, commands.commits, commands.clock)

    assert [client.call("conversations_page"), client.call("conversations_page")] == [1, 2]
    assert client.call("report", agent="first") == 3
    for number in range(40):
        client.call("report", agent=str(number))
    assert client.call("report", agent="first") == 44


def test_a_fast_report_is_reused_for_ten_minutes_while_nothing_is_committed() -> None:
    commands = _Commands(0.0)
    commands.collects = False
    client = CommandClient(commands.run, commands.commits, commands.clock)

    assert client.call("report") == 1
    commands.now_s += 599.9
    assert client.call("report") == 1
    commands.committed += 1
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

    client = CommandClient(run, commands.commits, commands.clock)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(client.call, "report")
        assert has_begun.wait(10)
        second = threads.submit(client.call, "report")
        may_end.set()
        assert [first.result(10), second.result(10)] == [1, 1]
    assert commands.calls == ["report"]


def test_the_reports_of_a_large_store_are_computed_after_a_log_in(
    tmp_path: Path, demo_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    run = LiveCollector.run

    def counted(self: LiveCollector, name: str, *arguments: Any) -> Any:
        computed.append(name)
        return run(self, name, *arguments)

    monkeypatch.setattr("otel_agentic.console.app._LARGE_BYTES", 0)
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
