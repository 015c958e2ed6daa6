"""Stores with real DuckDB files, closed after each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store


class OpenStore(Protocol):
    """Opens the test's file."""

    def __call__(self, **changes: Any) -> Store: ...


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """The DuckDB file of the test."""
    return tmp_path / "t.duckdb"


@pytest.fixture(scope="session")
def reader() -> Reader:
    """The installed dialects."""
    return Reader.from_settings(ConversationSettings())


@pytest.fixture
def open_store(db: Path, reader: Reader) -> Iterator[OpenStore]:
    """Open the test's file; `clock`, `create`, `upgrade` and `schema` go to the store, other names are store settings."""
    with ExitStack() as stack:

        def opened(**changes: Any) -> Store:
            own = {name: changes.pop(name) for name in ("clock", "create", "upgrade", "schema") if name in changes}
            settings = StoreSettings.model_validate({"db": db, **changes})
            return stack.enter_context(Store(settings, reader, **own))

        yield opened


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory, reader: Reader) -> Path:
    """A file with the schema and nothing in it."""
    path = tmp_path_factory.mktemp("empty") / "empty.duckdb"
    Store(StoreSettings(db=path), reader).close()
    return path


@pytest.fixture
def store(open_store: OpenStore, empty_file: Path, db: Path) -> Store:
    """An empty store."""
    shutil.copy(empty_file, db)
    return open_store()
