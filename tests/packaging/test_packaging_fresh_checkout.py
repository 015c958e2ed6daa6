"""A fresh checkout on a machine with Python and make: the first command that the README names."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
_GENERATED: Final = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "*.duckdb", "dist", "build"
)


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make as a user does, without the make variables and environment of this test run."""
    mine = ("MAKE", "MFLAGS", "VIRTUAL_ENV", "PYTHONPATH", "OTEL_AGENTIC_", "PYTEST_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return subprocess.run(
        ["make", *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=280
    )


@pytest.mark.slow
def test_make_demo_installs_all_it_needs_once_and_leaves_the_checkout_clean(tmp_path: Path) -> None:
    checkout = tmp_path / "otel-agentic"
    shutil.copytree(ROOT, checkout, ignore=_GENERATED)
    before = {path for path in checkout.rglob("*") if "__pycache__" not in path.parts}

    ran = make(checkout, "demo")

    assert 0 == ran.returncode, ran.stdout + ran.stderr
    assert "pass^" in ran.stdout
    created = {
        path for path in checkout.rglob("*") if not {".venv", "__pycache__"} & set(path.relative_to(checkout).parts)
    }
    assert before == created
    assert 0 == make(checkout, "--question", ".venv/.installed-project-runtime").returncode
