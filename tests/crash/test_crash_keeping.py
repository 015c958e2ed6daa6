"""Killed while it exports and removes: never half a file, never half a conversation, nothing gone that is in no file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


def problems_after(kills: int, folder: Path) -> list[str]:
    """Return the problems of the stores and files after a number of kills."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.crash.keeping_killed", str(folder), str(kills), "6"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return process.stdout.splitlines() or [process.stderr]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eighty_kills_in_an_export_and_a_removal_leave_whole_files_and_whole_conversations(tmp_path: Path) -> None:
    assert ["done"] == problems_after(80, tmp_path)
