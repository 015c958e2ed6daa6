"""Tests that interrupt a process work where the tests themselves were started in the background of a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_IN_BACKGROUND: Final = "OTEL_AGENTIC_TESTS_IN_BACKGROUND"


@pytest.mark.skipif(_IN_BACKGROUND not in os.environ, reason="run by the test below, in the background")
def test_a_process_that_a_test_starts_can_be_interrupted() -> None:
    waiting = "import time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"ready\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert -signal.SIGINT == process.returncode


# A worker of xdist imports the same conftest, which restores the handler.
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_ignored_interrupt_is_not_inherited_by_what_tests_start(workers: int) -> None:
    # A shell without job control ignores SIGINT in what it runs in the background.
    name = f"{Path(__file__).relative_to(_ROOT)}::test_a_process_that_a_test_starts_can_be_interrupted"
    tests = f"{sys.executable} -m pytest -q -n {workers} {name} & wait $!"
    ran = subprocess.run(
        ["sh", "-c", tests],
        cwd=_ROOT,
        env={**os.environ, _IN_BACKGROUND: "1"},
        capture_output=True,
        check=False,
        text=True,
    )

    assert "1 passed" in ran.stdout, ran.stdout
