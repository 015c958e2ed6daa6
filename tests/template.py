"""New stores as copies of an empty one: running the migrations is most of the cost of a small store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from otel_agentic.config import StoreSettings
from otel_agentic.store.connection import open_database
from otel_agentic.store.maintenance.migrations import migrate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def copying(template: Callable[[], Path]) -> Callable[..., DuckDBPyConnection]:
    """Return an `open_database` that places a copy of the empty store `template()` at a new path before it opens it."""

    def opened(path: Path, settings: StoreSettings, *, create: bool, **more: Any) -> DuckDBPyConnection:
        if create and not path.exists():
            with suppress(OSError):  # opening the file reports a bad path
                _copy(template(), path)
        return open_database(path, settings, create=create, **more)

    return opened


def create_template(file: Path) -> None:
    """Create an empty store."""
    con = open_database(file, StoreSettings(db=file), create=True)
    migrate(con, str(file))
    con.execute("CHECKPOINT")
    con.close()


def _copy(template: Path, path: Path) -> None:
    """Place a copy at a free path; other processes see a complete file or none."""
    draft = path.with_name(f".{uuid4().hex}")
    try:
        shutil.copyfile(template, draft)
        path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
