"""A new store as a copy of one that the migrations made: to run them anew is most of what a small store costs."""

from __future__ import annotations

import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from otel_agentic.config import StoreSettings
from otel_agentic.store.connection import open_database
from otel_agentic.store.maintenance.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection


def copying(folder: Path) -> Callable[..., DuckDBPyConnection]:
    """Return an `open_database` that makes no new file: a copy of an empty store is there before it opens.

    That store is made in `folder` when it is first needed.
    """

    def opened(path: Path, settings: StoreSettings, *, create: bool, **more: Any) -> DuckDBPyConnection:
        if create and not path.exists():
            with suppress(OSError):  # what is wrong with the place is told by what opens the file
                _copy(_made(folder / "template.duckdb"), path)
        return open_database(path, settings, create=create, **more)

    return opened


def _made(template: Path) -> Path:
    if not template.exists():
        draft = template.with_suffix(".draft")
        con = open_database(draft, StoreSettings(db=draft), create=True)
        migrate(con, str(draft))
        con.execute("CHECKPOINT")
        con.close()
        draft.replace(template)
    return template


def _copy(template: Path, path: Path) -> None:
    """Lay a copy where no file is; whoever looks finds it whole or not at all."""
    draft = path.with_name(f".{uuid4().hex}")
    try:
        shutil.copyfile(template, draft)
        path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
