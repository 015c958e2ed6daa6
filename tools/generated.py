"""Generated pages: a tool writes them, and `make check` verifies that they are current."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def publish(page: Path, write: Callable[[], str]) -> int:
    """Write a page, or with `--check` compare it with the generated text; return the exit code."""
    parser = argparse.ArgumentParser(description=f"Write {page.relative_to(ROOT)} from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is not current")
    if not parser.parse_args().check:
        page.write_text(write(), encoding="utf-8")
        return 0
    problem = stale(page, write())
    if problem:
        print(problem)
    return 1 if problem else 0


def stale(page: Path, generated: str) -> str | None:
    """Return the diff between a page and the generated text, or None if the page is current."""
    current = page.read_text(encoding="utf-8") if page.is_file() else ""
    if current == generated:
        return None
    lines = difflib.unified_diff(
        current.splitlines(), generated.splitlines(), "on disk", "from the code", lineterm="", n=1
    )
    return "\n".join([f"{page.relative_to(ROOT)} is not current; run `make docs`", *list(lines)[:40]])


def run(page: Path, write: Callable[[], str]) -> None:
    """Publish a page and exit with the exit code."""
    sys.exit(publish(page, write))
