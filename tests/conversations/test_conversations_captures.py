"""Real exports of agent frameworks against the truth written for them by hand, with the shared comparison."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from inline_snapshot import snapshot

from tests.golden.comparing import compared
from tests.shared import SHARED, why_absent

CAPTURES: Final = SHARED / "captures"

pytestmark = pytest.mark.skipif(why_absent(CAPTURES) is not None, reason=str(why_absent(CAPTURES)))

NAMES: Final = sorted(path.parent.name for path in CAPTURES.glob("*/expected.json"))


def test_no_capture_is_left_out() -> None:
    assert 59 == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_capture_is_rebuilt_as_its_truth_tells(name: str) -> None:
    result = compared(CAPTURES / name)

    assert ([], result["turns"], 0) == (result["notes"], result["right"], result["extra"])


@pytest.mark.slow
@pytest.mark.timeout(900)  # two processes a capture
def test_the_comparison_over_the_command_line_reaches_every_capture() -> None:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))

    ran = subprocess.run(
        [sys.executable, SHARED / "tools" / "compare_captures.py", *sorted(CAPTURES.iterdir()), "--min", "0.95"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert (ran.returncode, ran.stdout.splitlines()[-1]) == snapshot(
        (0, "825 of 825 turns right; 59 of 59 captures reach 95% with no conversation too many")
    )
