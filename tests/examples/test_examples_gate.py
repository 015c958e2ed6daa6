"""The script of a CI job, run as such a job runs it: each exit code, with its output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from inline_snapshot import snapshot

from tests.cli.judged_runs import Files, case_of, write_run
from tests.cli.running import done
from tests.cli.small import write_cases
from tests.snapshots import passage

SCRIPT: Final = Path(__file__).parents[2] / "examples" / "ci_gate.sh"
BIN: Final = Path(sys.executable).parent
CASES: Final = [case_of(name) for name in "ABCD"]
#: The command line, except that a store that is made already takes the place of `ingest` and `evaluate`: these are the same
#: in every job, and most of its time.
SHORTCUT: Final = f"""#!/bin/sh
case "$1" in
    ingest) cp "$MADE_ALREADY" "$4" ;;
    evaluate) ;;
    *) exec "{BIN}/otel-agentic" "$@" ;;
esac
"""

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="a shell runs it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run of an agent with its cases, and a store that holds it."""

    files: Files
    store: Path


@pytest.fixture(scope="module")
def shortcut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a command line that makes no store."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / "otel-agentic").write_text(SHORTCUT)
    (folder / "otel-agentic").chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A run of an agent that looks the right orders up, and its cases; the store holds it unscored."""
    folder = tmp_path_factory.mktemp("run")
    files = write_run(folder, {name: [True] * 3 for name in "ABCD"})
    done("ingest", files.spans, "--db", folder / "run.duckdb", "--quiet")
    return Job(files=files, store=folder / "run.duckdb")


def scored(folder: Path, run: Job, cases: Sequence[dict[str, Any]]) -> Job:
    """Return the run with these cases, scored by them."""
    files = replace(run.files, cases=write_cases(folder / "cases.jsonl", list(cases)))
    store = Path(shutil.copy(str(run.store), folder / "scored.duckdb"))
    done("evaluate", "--db", store, "--cases", files.cases, "--quiet")
    return Job(files=files, store=store)


def ci_job(folder: Path, job: Job, *options: str, commands: Path = BIN) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder of its own, with our commands in front of the path."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GITHUB_"))}
    own |= {"PATH": f"{commands}{os.pathsep}{own['PATH']}", "TMPDIR": str(folder / "tmp")}
    own |= {"MADE_ALREADY": str(job.store)}
    (folder / "tmp").mkdir()
    (folder / "work").mkdir()
    ran = subprocess.run(
        ["sh", SCRIPT, job.files.spans, job.files.cases, *options],
        capture_output=True,
        check=False,
        cwd=folder / "work",
        env=own,
        text=True,
        timeout=120,
    )
    assert [] == list((folder / "tmp").iterdir())  # the job deletes its store
    return ran


def junit(folder: Path) -> ET.Element:
    """Return the JUnit report of the job."""
    return ET.parse(folder / "work" / "gate.xml").getroot()  # noqa: S314 — our own file


def test_it_is_listed() -> None:
    assert "(ci_gate.sh)" in (SCRIPT.parent / "README.md").read_text()


def test_a_good_agent_passes(tmp_path: Path, run: Job) -> None:
    ran = ci_job(tmp_path, run)  # all of it, as a user would
    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.splitlines()[-1] == snapshot("gate passed: 4 conditions of clerk hold")
    assert "0" == junit(tmp_path).get("failures")


def test_a_bad_agent_fails_and_the_condition_is_named(tmp_path: Path, run: Job, shortcut: Path) -> None:
    others = [{**case, "tools": case_of("Z")["tools"]} for case in CASES[1:]]
    ran = ci_job(tmp_path, scored(tmp_path, run, [CASES[0], *others]), commands=shortcut)
    assert (1, "") == (ran.returncode, ran.stderr)
    assert passage(ran.stdout) == snapshot("gate failed: 1 of 4 conditions of clerk does not hold")
    (failed,) = junit(tmp_path).findall(".//testcase[failure]")
    assert "pass^3 >= .700" == failed.get("name")


@pytest.mark.slow  # what `gate` does then is in tests/cli/test_cli_gate.py
def test_missing_data_fails_and_is_named(tmp_path: Path, run: Job, shortcut: Path) -> None:
    others: list[dict[str, Any]] = [{"case_id": "another", "turns": [{"query": "What else?", "answer": "Nothing."}]}]
    ran = ci_job(tmp_path, scored(tmp_path, run, others), commands=shortcut)
    assert 1 == ran.returncode
    assert passage(ran.stdout) == snapshot("for want of data")
    assert passage(ran.stdout) == snapshot("none of 12 conversations was evaluated: 12 x unmatched")


@pytest.mark.slow  # what `gate` does then is in tests/cli/test_cli_gate.py
def test_a_metric_that_was_not_computed_fails(tmp_path: Path, run: Job, shortcut: Path) -> None:
    ran = ci_job(tmp_path, scored(tmp_path, run, CASES), "--threshold", "helpfulness=3", commands=shortcut)
    assert (1, "") == (ran.returncode, ran.stderr)
    (failed,) = junit(tmp_path).findall(".//testcase[failure]")
    assert "agentest.helpfulness >= 3" == failed.get("name")


@pytest.mark.slow  # what `gate` does then is in tests/cli/test_cli_gate.py
def test_an_unknown_metric_is_a_mistake_in_the_script(tmp_path: Path, run: Job, shortcut: Path) -> None:
    ran = ci_job(tmp_path, run, "--threshold", "politeness=4", commands=shortcut)
    assert (2, "") == (ran.returncode, ran.stdout)
    assert passage(ran.stderr) == snapshot("--threshold politeness: no metric 'politeness'")
    assert not (tmp_path / "work" / "gate.xml").exists()
