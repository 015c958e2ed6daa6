"""A command that waits says for what."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_agentic.cli.waiting import telling_waits

if TYPE_CHECKING:
    import pytest


def nothing(stage: str, done: int, total: int | None) -> None:
    """Take progress and do nothing with it."""


def test_a_long_wait_is_told_of_less_and_less_often(capsys: pytest.CaptureFixture[str]) -> None:
    with telling_waits("the judge", nothing, quiet=False, first_s=0.05):
        time.sleep(0.5)
    lines = capsys.readouterr().err.splitlines()
    assert "still waiting after 0.05 s: the judge" == lines[0]
    assert 2 <= len(lines) <= 4


def test_who_hears_of_progress_or_wants_quiet_is_told_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[int] = []
    with telling_waits("the judge", lambda _, done, __: told.append(done), quiet=False, first_s=0.5) as step:
        for number in range(5):
            step("scoring", number, 5)
    with telling_waits("the judge", nothing, quiet=True, first_s=0.01):
        time.sleep(0.05)
    assert ([0, 1, 2, 3, 4], "") == (told, capsys.readouterr().err)
