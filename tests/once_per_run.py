"""Folders that are filled once per run, although each process of pytest-xdist sets up its own session fixtures."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest


class OncePerRun(Protocol):
    """Returns this process's copy of a folder that a function fills once per run."""

    def __call__(self, name: str, fill: Callable[[Path], object]) -> Path: ...


@pytest.fixture(scope="session")
def once_per_run(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> OncePerRun:
    """Fill a folder in the first process that asks for it; the others wait and copy it.

    Each process has a copy, because DuckDB lets one process at a time open a file. The function closes what it opens.
    """
    base = tmp_path_factory.getbasetemp()
    run = base.parent if hasattr(pytestconfig, "workerinput") else base
    copies: dict[str, Path] = {}

    def filled(name: str, fill: Callable[[Path], object]) -> Path:
        if name not in copies:
            copies[name] = Path(shutil.copytree(_original(run / "once", name, fill), base / "copies" / name))
        return copies[name]

    return filled


def _original(folder: Path, name: str, fill: Callable[[Path], object]) -> Path:
    original, draft = folder / name, folder / f"{name}.draft"
    folder.mkdir(exist_ok=True)
    with _locked(folder / f"{name}.lock"):
        if not original.exists():
            shutil.rmtree(draft, ignore_errors=True)  # of a process whose function failed
            draft.mkdir()
            fill(draft)
            draft.rename(original)
    return original


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:  # closing it releases the lock
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
