"""Killed while it exports and removes: never half a file, never half a conversation, nothing gone that is in no file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


def told_after(kills: int, folder: Path) -> list[str]:
    """Return what is said of the stores and files that so many kills left."""
    said = subprocess.run(
        [sys.executable, "-m", "tests.crash.keeping_killed", str(folder), str(kills), "6"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return said.stdout.splitlines() or [said.stderr]


@pytest.mark.slow
def test_eighty_kills_in_an_export_and_a_removal_leave_whole_files_and_whole_conversations(tmp_path: Path) -> None:
    assert ["done"] == told_after(80, tmp_path)
