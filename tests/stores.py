"""Engines on real DuckDB files; a prepared store is filled once per run, tests that change it take a copy."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine

if TYPE_CHECKING:
    from tests.once_per_run import OncePerRun


class OpenEngine(Protocol):
    """Opens an engine."""

    def __call__(self, db: Path | None = None, **sections: dict[str, Any]) -> Engine: ...


def settings_for(db: Path, **sections: dict[str, Any]) -> Settings:
    """Return settings for a file; `sections` are settings sections."""
    return Settings.model_validate({**sections, "store": {"db": db, **sections.get("store", {})}})


@pytest.fixture(scope="session")
def empty_file(once_per_run: OncePerRun) -> Path:
    """A store with nothing in it. Only read it, or a copy."""

    def fill(folder: Path) -> None:
        Engine(settings_for(folder / "empty.duckdb"), create=True).close()

    return once_per_run("empty", fill) / "empty.duckdb"


@pytest.fixture
def open_engine(tmp_path: Path) -> Iterator[OpenEngine]:
    """Open engines that are closed after the test."""
    with ExitStack() as stack:

        def opened(db: Path | None = None, **sections: dict[str, Any]) -> Engine:
            file = db or tmp_path / "t.duckdb"
            return stack.enter_context(Engine(settings_for(file, **sections), create=True))

        yield opened


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    """An engine on an empty file."""
    return open_engine()


@pytest.fixture(scope="session")
def tau(shared_dir: Path) -> Path:
    """The folder of tau-airline."""
    return shared_dir / "data" / "tau-airline"


@pytest.fixture(scope="session")
def tau_truth(tau: Path) -> dict[str, Any]:
    """Arguments of `evaluate`: the cases and labels of tau-airline."""
    return {name: [(file, (tau / file).read_text("utf-8"))] for name, file in FILES.items()}


FILES = {"cases": "cases.jsonl", "labels": "labels.csv"}


@pytest.fixture(scope="session")
def tau_file(tau: Path, once_per_run: OncePerRun) -> Path:
    """A file with tau-airline, not evaluated. Leave it as it is."""

    def fill(folder: Path) -> None:
        with Engine(settings_for(folder / "tau.duckdb"), create=True) as engine:
            ingest_files(engine, [str(tau / "spans.jsonl.gz")], lambda *_: None)

    return once_per_run("tau", fill) / "tau.duckdb"


@pytest.fixture(scope="session")
def labelled_file(tau_file: Path, tau_truth: dict[str, Any], once_per_run: OncePerRun) -> Path:
    """A file with tau-airline, evaluated with its labels. Leave it as it is."""

    def fill(folder: Path) -> None:
        db = Path(shutil.copy(tau_file, folder / "tau.duckdb"))
        with Engine(settings_for(db)) as engine:
            Commands(engine).evaluate(**tau_truth)

    return once_per_run("labelled", fill) / "tau.duckdb"


@pytest.fixture(scope="session")
def labelled_engine(labelled_file: Path) -> Iterator[Engine]:
    """An engine on tau-airline, evaluated with its labels. Only read it."""
    with Engine(settings_for(labelled_file)) as engine:
        yield engine


@pytest.fixture
def copy_of(tmp_path: Path, open_engine: OpenEngine) -> CopyOf:
    """Open a copy of a prepared file."""

    def copied(file: Path, **sections: dict[str, Any]) -> Engine:
        db = tmp_path / f"copy-of-{file.name}"
        shutil.copy(file, db)
        return open_engine(db, **sections)

    return copied


class PreparedStore(Protocol):
    """Fills a store once per run."""

    def __call__(self, fill: Callable[[Engine], object], **sections: dict[str, Any]) -> Path: ...


@pytest.fixture(scope="session")
def prepared_store(once_per_run: OncePerRun) -> PreparedStore:
    """Return the file that a function filled, which is called once; open copies of it, or only read it.

    The function is one of a module, or a `partial` of it with keyword arguments.
    """

    def prepared(fill: Callable[[Engine], object], **sections: dict[str, Any]) -> Path:
        function, arguments = (fill.func, fill.keywords) if isinstance(fill, partial) else (fill, {})
        key = f"{function.__module__}.{function.__qualname__} {arguments} {sections}"

        def fill_folder(folder: Path) -> None:
            with Engine(settings_for(folder / "prepared.duckdb", **sections), create=True) as engine:
                fill(engine)

        return once_per_run(f"prepared-{sha256(key.encode()).hexdigest()}", fill_folder) / "prepared.duckdb"

    return prepared


class CopyOf(Protocol):
    """Opens a copy of a file."""

    def __call__(self, file: Path, **sections: dict[str, Any]) -> Engine: ...
