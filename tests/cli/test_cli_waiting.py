"""A command that waits prints the reason."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from inline_snapshot import snapshot

from otel_agentic.cli.progress import reporting_waits
from tests.cli.running import done, run
from tests.snapshots import passage

if TYPE_CHECKING:
    import pytest

    from tests.cli.conftest import Shop


def nothing(stage: str, done: int, total: int | None) -> None:
    """Take progress and do nothing with it."""


def test_messages_about_a_long_wait_become_less_frequent(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting_waits("the judge", nothing, quiet=False, first_s=0.05):
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == snapshot("still waiting after 0.05 s: the judge")
    assert 2 <= len(lines) <= 4


def test_with_progress_or_quiet_there_is_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    output: list[int] = []
    with reporting_waits("the judge", lambda _, done, __: output.append(done), quiet=False, first_s=0.5) as step:
        for number in range(5):
            step("scoring", number, 5)
    with reporting_waits("the judge", nothing, quiet=True, first_s=0.01):
        time.sleep(0.05)
    assert ([0, 1, 2, 3, 4], "") == (output, capsys.readouterr().err)


def test_no_judge_is_blamed_for_a_wait_where_no_model_is_asked(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = shutil.copy(shop.db, tmp_path / "t.duckdb")
    command = importlib.import_module("otel_agentic.cli.evaluate")
    monkeypatch.setattr(command, "reporting_waits", partial(reporting_waits, first_s=0.001))
    errors = done("evaluate", "--db", db, "--force").err
    assert "still waiting" in errors
    assert "judge" not in errors


def test_a_missing_package_is_named_before_anything_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain", None)  # as where it is not installed
    ran = run("evaluate", "--db", tmp_path / "not-there.duckdb", "--judge", "langchain:openai:m")
    assert 2 == ran.code
    assert passage(ran.err) == snapshot("needs the package langchain: pip install")
    assert "still waiting" not in ran.err
