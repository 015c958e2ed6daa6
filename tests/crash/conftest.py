"""Collectors of the crash suite: none is left when a test ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.builders import CASE
from tests.crash.serving import Server


class MakeServer(Protocol):
    """Makes a collector that is not started yet; `settings` are variables without their prefix."""

    def __call__(self, *options: str, db: Path | None = None, **settings: Any) -> Server: ...


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """A case that each conversation of the senders is an attempt at."""
    path = tmp_path / "cases.jsonl"
    path.write_text(CASE + "\n")
    return path


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    """Make collectors; they are killed after the test."""
    with ExitStack() as stack:

        def make(*options: str, db: Path | None = None, **settings: Any) -> Server:
            return stack.enter_context(closing(Server(db or tmp_path / "t.duckdb", *options, **settings)))

        yield make
