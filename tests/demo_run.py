"""The demo, run once per run as a user runs it: tests read what it prints and the store that it keeps."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.running import COMMAND, environment

if TYPE_CHECKING:
    from tests.once_per_run import OncePerRun


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """What a run of the demo left behind: its output, its process group, and the folder that it keeps."""

    exit_code: int
    out: str
    err: str
    group: int
    folder: str

    @property
    def stored(self) -> Path:
        """The folder with the store."""
        return Path(self.folder)


@pytest.fixture(scope="session")
def demo(once_per_run: OncePerRun) -> DemoRun:
    """Run the demo; leave its folder as it is."""
    folder = once_per_run("demo", _run_demo)
    ran = DemoRun(**json.loads((folder / "run.json").read_text("utf-8")))
    stored = str(folder / "stored")  # each process has a copy, and the output names the folder
    return replace(ran, folder=stored, out=ran.out.replace(ran.folder, stored))


def _run_demo(folder: Path) -> None:
    stored = folder / "stored"
    with subprocess.Popen(
        [*COMMAND, "demo", "--keep", str(stored)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment({"COLUMNS": "100"}),
        text=True,
        start_new_session=True,  # a group of its own, to see what stays behind
    ) as process:
        out, err = process.communicate(timeout=240)
    ran = DemoRun(exit_code=process.returncode, out=out, err=err, group=process.pid, folder=str(stored))
    (folder / "run.json").write_text(json.dumps(asdict(ran)), "utf-8")
