"""A copy of a store's file, taken while nobody writes to it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import duckdb

from otel_agentic.store.database import describe

if TYPE_CHECKING:
    from pathlib import Path


def copy_store(source: Path, target: Path) -> None:
    """Copy a DuckDB file with what waits in its log, and leave it as it is.

    Raises:
        StoreBusyError: another process writes to the file; names it.
        StoreUnusableError: it is not a DuckDB file, or cannot be read.
    """
    try:
        con = duckdb.connect(str(source), read_only=True)
    except duckdb.Error as error:
        raise describe(error, source) from error
    with con:
        # The log first: a process that closes a file gives up its locks on it, so after the file itself a writer may come.
        for suffix in (".wal", ""):
            part = source.with_name(source.name + suffix)
            if part.is_file():
                shutil.copy(part, target.with_name(target.name + suffix))
