"""The demo, run once as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic.demo.run import DB_NAME
from tests.snapshots import passage

CLI = [sys.executable, "-m", "otel_agentic.cli"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run of the demo left behind."""

    exit_code: int
    printed: str
    complaints: str
    group: int
    folder: Path


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**own, "COLUMNS": "100"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("demo")
    with subprocess.Popen(
        [*CLI, "demo", "--keep", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        text=True,
        start_new_session=True,  # a group of its own, to see what stays behind
    ) as process:
        printed, complaints = process.communicate(timeout=240)
    return Run(
        exit_code=process.returncode,
        printed=printed,
        complaints=complaints,
        group=process.pid,
        folder=folder,
    )


def _ask(demo: Run, *arguments: str) -> str:
    done = subprocess.run(
        [*CLI, *arguments, "--db", str(demo.folder / DB_NAME)],
        capture_output=True,
        check=True,
        env=_environment(),
        text=True,
    )
    return done.stdout


def test_it_succeeds_and_prints_no_log_noise(demo: Run) -> None:
    assert (0, "") == (demo.exit_code, demo.complaints), demo.printed
    assert "Traceback" not in demo.printed


def test_the_questions_are_answered_in_the_order_in_which_a_reader_asks(demo: Run) -> None:
    questions = (
        "How reliable is each agent?",
        "What is wrong with which tool?",
        "What do other metrics show?",
        "One failing conversation, expected vs. actual",
        "What the telemetry backend received",
        "Now you",
    )
    positions = [demo.printed.index(question) for question in questions]
    assert sorted(positions) == positions


def test_the_new_version_is_worse_and_says_so(demo: Run) -> None:
    assert re.search(r"trip-planner 1\.0\.0 +23/24 +96% ", demo.printed)
    assert re.search(r"trip-planner 1\.1\.0 +13/24 +100% ", demo.printed)
    assert passage(demo.printed) == snapshot("trip-planner 1.1.0: needs_improvement")


def test_all_attempts_right_are_still_insufficient_evidence_when_they_are_few(demo: Run) -> None:
    assert re.search(r"refund-desk 2\.3\.0 +10/10 +100% ", demo.printed)
    assert re.search(r"refund-desk 2\.3\.0: insufficient_evidence; leaning ready, \d+ more conversations", demo.printed)


def test_the_failing_tool_is_named_with_dimension_parameter_values_and_version(demo: Run) -> None:
    faulty_receiver = r'book_seat +parameters +seat_class: expected "second", actual "first" +6 +1\.1\.0 only'
    assert re.search(faulty_receiver, demo.printed)
    assert re.search(r"get_weather +selection +missing: not called +2 +1\.1\.0 only", demo.printed)
    assert re.search(r"search_trains +none +errored: then tried again +2 +1\.0\.0, 1\.1\.0", demo.printed)


def test_the_metrics_tell_which_layer_of_the_new_version_broke_first(demo: Run) -> None:
    assert re.search(r"its calls broke first +0 of 10 +0 of 24 +(9|1\d) of 24", demo.printed)
    assert re.search(r"tool F1 +1\.00 +1\.00 +0\.\d\d", demo.printed)


def test_expected_and_actual_are_shown_together(demo: Run) -> None:
    assert re.search(r'seat_class="second", passengers=2\) +seat_class="first", passengers=2\)', demo.printed)


def test_the_late_span_made_a_second_revision_that_superseded_the_first(demo: Run) -> None:
    sql = "SELECT revision, superseded, outcome FROM conversation_scores WHERE conversation_id = 'lyon-family-1.0.0-2'"
    rows = json.loads(_ask(demo, "query", sql, "--format", "json"))
    assert [(1, True, "pass"), (2, False, "pass")] == sorted(
        (row["revision"], row["superseded"], row["outcome"]) for row in rows
    )
    assert passage(demo.printed) == snapshot(
        "lyon-family-1.0.0-2 arrived after the conversation had closed: revision 2"
    )


def test_the_backend_received_the_pass_pow_3_that_the_report_gives(demo: Run) -> None:
    groups = json.loads(_ask(demo, "report", "--by", "version", "--format", "json"))["groups"]
    (group,) = [group for group in groups if group["agent_version"] == "1.1.0"]
    reported = group["estimates"][group["default_estimator"]]["pass_pow_k"]["3"]["value"]
    arrived = re.search(r"agentic\.pass_pow_k\.ratio\{[^}]*agentic\.k=3\} = ([0-9.]+),", demo.printed)
    assert arrived is not None
    assert float(arrived[1]) == pytest.approx(reported, abs=5e-5)
    counts = re.search(r"([\d,]+) points of (\d+) metrics, ([\d,]+) gen_ai.evaluation.result events", demo.printed)
    assert counts is not None
    assert all(int(count.replace(",", "")) > 0 for count in counts.groups())


def test_nothing_is_left_running(demo: Run) -> None:
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.group, 0)
    assert [DB_NAME] == [path.name for path in demo.folder.iterdir()]


def test_the_last_line_is_a_command_that_a_shell_runs_as_printed(demo: Run) -> None:
    command = demo.printed.splitlines()[-1]
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=True, env=_environment(), text=True)
    assert "trip-planner" in done.stdout


def test_a_folder_with_an_earlier_demo_is_refused(demo: Run) -> None:
    done = subprocess.run(
        [*CLI, "demo", "--keep", str(demo.folder)], capture_output=True, check=False, env=_environment(), text=True
    )
    assert 2 == done.returncode
    assert "exists already, from an earlier demo" in done.stderr


def test_a_demo_that_is_terminated_leaves_nothing_running(tmp_path: Path) -> None:
    live = tmp_path / f"{DB_NAME}.server.json"
    with subprocess.Popen(
        [*CLI, "demo", "--keep", str(tmp_path)], stdout=subprocess.DEVNULL, env=_environment(), start_new_session=True
    ) as process:
        while not live.exists() and process.poll() is None:
            time.sleep(0.05)
        process.terminate()
    assert 128 + signal.SIGTERM == process.returncode
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['langchain'] = None; from otel_agentic.cli import main; main(['demo'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, env=_environment(), text=True)
    assert 2 == done.returncode
    assert passage(done.stderr) == snapshot("pip install 'otel-agentic[demo]'")
