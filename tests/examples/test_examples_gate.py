"""The script of a CI job, run as such a job runs it: each of its ends, by the exit code alone and by what is printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import pytest

from tests.cli.judged import write_run
from tests.cli.small import write_cases

if TYPE_CHECKING:
    from tests.cli.judged import Files

SCRIPT: Final = Path(__file__).parents[2] / "examples" / "ci_gate.sh"
RIGHT: Final = {name: [True] * 3 for name in "ABCD"}
WRONG: Final = {name: [True, False, name == "A"] for name in "ABCD"}

pytestmark = pytest.mark.skipif(shutil.which("sh") is None, reason="a shell runs it")


def ci_job(folder: Path, files: Files, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder of its own, with our commands in front of the path."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "GITHUB_"))}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    own["TMPDIR"] = str(folder / "tmp")
    (folder / "tmp").mkdir()
    (folder / "work").mkdir()
    ran = subprocess.run(
        ["sh", SCRIPT, files.spans, files.cases, *options],
        capture_output=True,
        check=False,
        cwd=folder / "work",
        env=own,
        text=True,
        timeout=120,
    )
    assert [] == list((folder / "tmp").iterdir())  # the store is gone with the job
    return ran


def junit(folder: Path) -> ET.Element:
    """Return what the job left for the CI system."""
    return ET.parse(folder / "work" / "gate.xml").getroot()  # noqa: S314 — our own file


def test_it_is_listed() -> None:
    assert "(ci_gate.sh)" in (SCRIPT.parent / "README.md").read_text()


@pytest.mark.slow
def test_a_good_agent_passes(tmp_path: Path) -> None:
    ran = ci_job(tmp_path, write_run(tmp_path, RIGHT))
    assert (0, "") == (ran.returncode, ran.stderr)
    assert ran.stdout.splitlines()[-1] == "gate passed: 4 conditions of clerk hold"
    assert "0" == junit(tmp_path).get("failures")


def test_a_bad_agent_fails_and_the_condition_is_named(tmp_path: Path) -> None:
    ran = ci_job(tmp_path, write_run(tmp_path, WRONG))
    assert (1, "") == (ran.returncode, ran.stderr)
    assert "gate failed: 1 of 4 conditions of clerk does not hold" in ran.stdout
    (failed,) = junit(tmp_path).findall(".//testcase[failure]")
    assert "pass^3 >= .700" == failed.get("name")


@pytest.mark.slow
def test_missing_data_fails_and_what_is_missing_is_told(tmp_path: Path) -> None:
    files = write_run(tmp_path, RIGHT)
    write_cases(files.cases, [{"case_id": "another", "turns": [{"query": "What else?", "answer": "Nothing."}]}])
    ran = ci_job(tmp_path, files)
    assert 1 == ran.returncode
    assert "for want of data" in ran.stdout
    assert "none of 12 conversations was evaluated: 12 x unmatched" in " ".join(ran.stdout.split())


@pytest.mark.slow
def test_an_unknown_metric_is_a_mistake_in_the_script(tmp_path: Path) -> None:
    ran = ci_job(tmp_path, write_run(tmp_path, RIGHT), "--threshold", "politeness=4")
    assert (2, "") == (ran.returncode, ran.stdout)
    assert "--threshold politeness: no metric 'politeness'" in ran.stderr
    assert not (tmp_path / "work" / "gate.xml").exists()
