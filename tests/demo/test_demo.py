"""The demo, run once as a user runs it."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.demo import _new_folder
from otel_agentic.demo.run import DB_NAME
from tests.cli.running import COMMAND, done, environment, run
from tests.snapshots import passage

if TYPE_CHECKING:
    from tests.demo_run import DemoRun


def _environment() -> dict[str, str]:
    return environment({"COLUMNS": "100"})


def split(command: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the program and the arguments of a command, as a shell reads it."""
    words = shlex.split(command)
    return tuple(words[: len(COMMAND)]), words[len(COMMAND) :]


def _ask(demo: DemoRun, *arguments: str) -> str:
    return done(*arguments, "--db", demo.stored / DB_NAME).out


def test_it_succeeds_and_prints_no_log_noise(demo: DemoRun) -> None:
    assert (0, "") == (demo.exit_code, demo.err), demo.out
    assert "Traceback" not in demo.out


def test_it_fits_on_a_screen(demo: DemoRun) -> None:
    assert len(demo.out.splitlines()) <= 40


def test_one_agent_is_ready_and_the_new_version_of_another_is_worse(demo: DemoRun) -> None:
    assert re.search(r"refund-desk +2\.3\.0 +40/40 +100% ", demo.out)
    assert passage(demo.out) == snapshot("refund-desk 2.3.0: ready")
    assert re.search(r"trip-planner +1\.0\.0 +23/24 +96% ", demo.out)
    assert re.search(r"trip-planner +1\.1\.0 +13/24 +100% ", demo.out)
    assert passage(demo.out) == snapshot("trip-planner 1.1.0: needs_improvement")


def test_the_wrong_parameter_is_named_with_its_values_its_version_and_a_conversation(demo: DemoRun) -> None:
    assert passage(demo.out) == snapshot(
        "1. book_seat was given a wrong seat_class: 6 conversations, only in version 1.1.0"
    )
    assert 'parameter seat_class was "first", expected "second"' in demo.out
    assert "   in lyon-family-1.1.0-3" in demo.out


def test_the_late_span_made_a_second_revision_that_superseded_the_first(demo: DemoRun) -> None:
    sql = "SELECT revision, superseded, outcome FROM conversation_scores WHERE conversation_id = 'lyon-family-1.0.0-2'"
    rows = json.loads(_ask(demo, "query", sql, "--format", "json"))
    assert [(1, True, "pass"), (2, False, "pass")] == sorted(
        (row["revision"], row["superseded"], row["outcome"]) for row in rows
    )
    assert passage(demo.out) == snapshot(
        "A late span of lyon-family-1.0.0-2 arrived after it had closed: revision 2 replaced it (pass)."
    )


def test_the_backend_received_the_pass_pow_3_that_the_report_gives(demo: DemoRun) -> None:
    groups = json.loads(_ask(demo, "report", "--by", "version", "--format", "json"))["groups"]
    (group,) = [group for group in groups if group["agent_version"] == "1.1.0"]
    reported = group["estimates"][group["default_estimator"]]["pass_pow_k"]["3"]["value"]
    arrived = re.search(r"pass\^3 of trip-planner 1\.1\.0 is ([0-9.]+) there, too", demo.out)
    assert arrived is not None
    assert float(arrived[1]) == pytest.approx(reported, abs=5e-5)
    counts = re.search(r"([\d,]+) points of (\d+) metrics and ([\d,]+) events", demo.out)
    assert counts is not None
    assert all(int(count.replace(",", "")) > 0 for count in counts.groups())


def _is_gone(group: int) -> bool:
    """Return whether a process group has ended; the process 1 of some containers takes seconds to reap its last member."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_nothing_is_left_running(demo: DemoRun) -> None:
    assert _is_gone(demo.group)
    assert [DB_NAME] == [path.name for path in demo.stored.iterdir()]


def test_the_last_lines_are_commands_that_a_shell_runs_as_printed(demo: DemoRun, tmp_path: Path) -> None:
    console, *others = demo.out.splitlines()[-3:]
    results = []
    for command in others:
        program, arguments = split(command)
        assert program == COMMAND
        results.append(done(*arguments).out)
    assert "lyon-family-1.1.0-3" in results[0]
    assert "seat_class" in results[1]
    with subprocess.Popen(
        ["sh", "-c", f"exec {console} --no-browser"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=_environment(),
        text=True,
    ) as process:
        assert process.stdout is not None
        link = [process.stdout.readline() for _ in range(2)][1].strip()
        page = httpx.get(link)
        process.terminate()
    assert (page.status_code, "This link works only once" in page.text) == (200, True)
    assert process.returncode == 0


def test_without_a_folder_the_store_is_in_the_cache_and_replaces_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        folder = _new_folder(None)
        assert (tmp_path / "otel-agentic" / "demo", []) == (folder, [*folder.iterdir()])
        (folder / DB_NAME).touch()


@pytest.mark.slow
def test_without_a_folder_the_demo_uses_one_in_the_cache_again_and_again(tmp_path: Path) -> None:
    environment = {**_environment(), "XDG_CACHE_HOME": str(tmp_path)}
    for _ in range(2):
        subprocess.run([*COMMAND, "demo"], check=True, env=environment, stdout=subprocess.DEVNULL)
    folder = tmp_path / "otel-agentic" / "demo"
    assert [folder / DB_NAME] == [*folder.iterdir()]


@pytest.mark.slow
def test_the_live_agents_send_what_their_recordings_contain(demo: DemoRun, tmp_path: Path) -> None:
    live = subprocess.run(
        [*COMMAND, "demo", "--live", "--keep", str(tmp_path)],
        capture_output=True,
        check=True,
        env=_environment(),
        text=True,
    )

    def results(printed: str) -> list[str]:
        return re.findall(r"\d+ conversations, \d+ spans|(?:trip-planner|refund-desk) +\S+ +\d+/\d+ +\d+%", printed)

    assert results(live.stdout) == results(demo.out)


def test_a_folder_with_an_earlier_demo_is_refused(demo: DemoRun) -> None:
    ran = run("demo", "--keep", demo.stored)
    assert 2 == ran.code
    assert "exists already, from an earlier demo" in ran.err


def test_a_demo_that_is_terminated_leaves_nothing_running(tmp_path: Path) -> None:
    live = tmp_path / f"{DB_NAME}.server.json"
    with subprocess.Popen(
        [*COMMAND, "demo", "--keep", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        env=_environment(),
        start_new_session=True,
    ) as process:
        while not live.exists() and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
    assert 128 + signal.SIGTERM == process.returncode
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain", None)
    ran = run("demo", "--live")
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("pip install 'otel-agentic[demo]'")
