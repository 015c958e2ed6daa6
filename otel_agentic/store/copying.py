"""A copy of a store's file, taken while no process writes to it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import duckdb

from otel_agentic.store.database import describe

if TYPE_CHECKING:
    from pathlib import Path


def copy_store(source: Path, target: Path) -> None:
    """Copy a DuckDB file and its log without changing them.

    Raises:
        StoreBusyError: another process writes to the file; names it.
        StoreUnusableError: it is not a DuckDB file, or cannot be read.
    """
    try:
        con = duckdb.connect(str(source), read_only=True)
    except duckdb.Error as error:
        raise describe(error, source) from error
    with con:
        # The log first: closing a file releases this process's locks on it, so another writer may start after the file is copied.
        for suffix in (".wal", ""):
            part = source.with_name(source.name + suffix)
            if part.is_file():
                shutil.copy(part, target.with_name(target.name + suffix))
