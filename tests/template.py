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


def copying(folder: Path) -> Callable[..., DuckDBPyConnection]:
    """Return an `open_database` that places a copy of an empty store at a new path before it opens it.

    The empty store is created in `folder` on first use.
    """

    def opened(path: Path, settings: StoreSettings, *, create: bool, **more: Any) -> DuckDBPyConnection:
        if create and not path.exists():
            with suppress(OSError):  # opening the file reports a bad path
                _copy(_template(folder / "template.duckdb"), path)
        return open_database(path, settings, create=create, **more)

    return opened


def _template(template: Path) -> Path:
    if not template.exists():
        draft = template.with_suffix(".draft")
        con = open_database(draft, StoreSettings(db=draft), create=True)
        migrate(con, str(draft))
        con.execute("CHECKPOINT")
        con.close()
        draft.replace(template)
    return template


def _copy(template: Path, path: Path) -> None:
    """Place a copy at a free path; other processes see a complete file or none."""
    draft = path.with_name(f".{uuid4().hex}")
    try:
        shutil.copyfile(template, draft)
        path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
