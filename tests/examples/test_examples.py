"""Every example runs as a new user runs it: as a program, in an empty folder, without a network."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from inline_snapshot import snapshot

from otel_agentic import LiveCollector, load_settings
from tests.snapshots import passage

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
#: Modules that examples share: no examples themselves.
SHARED_MODULES: Final = {"sample_spans"}

#: What each example must print.
PRINTS: Final = {
    "langchain_agent": (
        "host 2.1.0, dinner-42",
        'tool:  find_table {"guests": 2, "time": "19:30"} -> {"table": 7, "guests": 2, "time": "19:30"}',
        "agent: Table 7 is yours at 19:30.",
    ),
    "in_process": ("adder, sums-1: 2 turns", 'And 40 plus 2 ? -> add {"numbers": [40, 2]} -> That makes 42.'),
    "backfill_from_file": (
        "16 spans stored, 0 rejected",
        "once more: 16 duplicates",
        "8 conversations scored: {'fail': 3, 'pass': 5}",
        "pass@3: 0.909, 95 % in [",
        "pass^3: 0.255, 95 % in [",
        "fault: get_weather, city: expected Oslo, actual Rome",
    ),
    "evaluate_in_python": (
        "8 conversations, 1 case: 5 passed, 3 failed, 0 not evaluated",
        "right three times in a row: 0.255, 95 % in [",
        "refund-1: pass, answer score",
        "refund-2: fail, answer score",
        "fault: cancel_order, order_id: expected 17, actual '17'",
        "my own judge: {'pass': 1, 'fail': 1, 'not_evaluated': 0}",
    ),
    "custom_evaluators": (
        "order-17, turn 2: desk.brief: 0.0",
        "order-17: desk.promises: 1.0",
        "order-17, turn 2: desk.tone: excited",
        "order-18: desk.tone: no score, content_not_captured",
    ),
    "prometheus_scrape": (
        'agentic_success_ratio{agentic_criterion="correct",agentic_estimator="bayesian"',
        'agentic_k="3"',
        'gen_ai_agent_name="weather"',
        "agentic_pass_pow_k_lower_ratio{",
        "agentic_coverage_ratio{",
    ),
    "query_duckdb": (
        "| weather | 1.0.0 | 5 | 8 | 1.0",
        "| get_weather | parameters | wrong_parameters | city | 3",
        "| chat-1 | wrong_answer |",
    ),
}


#: Examples that set no state of their process, so that this process can run them, too.
WITHOUT_STATE: Final = ["backfill_from_file", "custom_evaluators", "evaluate_in_python", "query_duckdb"]
#: `langchain_agent` also runs in `test_the_langchain_agent_sends_to_a_collector_that_is_there_already`.
ELSEWHERE: Final = {*WITHOUT_STATE, "langchain_agent"}


def test_every_example_is_tested_and_listed() -> None:
    missing = {path.stem for path in EXAMPLES.glob("*.py")} - SHARED_MODULES
    listed = (EXAMPLES / "README.md").read_text()
    assert set(PRINTS) == missing
    assert [] == [name for name in missing if f"({name}.py)" not in listed]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in ELSEWHERE else name for name in sorted(PRINTS)]
)
def test_the_example_runs_and_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    printed = _run(name, folder=tmp_path)
    assert [] == [text for text in PRINTS[name] if text not in printed], printed
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("name", WITHOUT_STATE)
def test_the_example_prints_in_this_process_what_it_promises(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name])
    for variable in [key for key in os.environ if key.startswith("OTEL_")]:
        monkeypatch.delenv(variable)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr()

    assert ([], "") == ([text for text in PRINTS[name] if text not in printed.out], printed.err), printed.out
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow  # a collector of its own: a test above
def test_the_langchain_agent_sends_to_a_collector_that_is_there_already(tmp_path: Path) -> None:
    settings = load_settings(
        store={"db": tmp_path / "test.duckdb"},
        receive={"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
        admin={"address": "127.0.0.1:0"},
    )
    collector = LiveCollector(settings)
    addresses = collector.start()
    try:
        printed = _run("langchain_agent", "--endpoint", str(addresses.http), folder=tmp_path)
        stored = collector.run("query", {"sql": "SELECT name FROM spans WHERE service = 'restaurant'"})
    finally:
        collector.stop()
    assert passage(printed) == snapshot("otel-agentic conversations show dinner-42")
    assert any("find_table" in name for (name,) in stored["rows"])


def _run(name: str, *arguments: str, folder: Path) -> str:
    """Return the output of an example; nothing may be written to standard error."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        check=False,
        cwd=folder,
        env=own,
        text=True,
        timeout=120,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout
