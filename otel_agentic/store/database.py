"""Opening the DuckDB file: format, limits, locks and clear errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import StoreBusyError, StoreUnusableError

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import StoreSettings

#: The oldest file format that has everything we use, so that other DuckDB versions open the file too.
_FILE_FORMAT: Final = "v1.4.0"
_HOLDER: Final = re.compile(r"PID (\d+)")


def open_database(path: Path, settings: StoreSettings, *, create: bool) -> duckdb.DuckDBPyConnection:
    """Return a connection to the file, hardened: no file system, no configuration changes, no extensions from outside.

    Raises:
        StoreBusyError: another process holds the file; names it.
        StoreUnusableError: the file is missing (and not to be created), is not a DuckDB file, or cannot be written.
    """
    if not create and not path.is_file():
        raise StoreUnusableError(f"{path}: no such DuckDB file; `otel-agentic ingest --db {path} …` makes one")
    if not path.absolute().parent.is_dir():
        raise StoreUnusableError(f"{path}: folder {path.absolute().parent} does not exist")
    try:
        con = duckdb.connect(
            str(path),
            config={
                "storage_compatibility_version": _FILE_FORMAT,
                "enable_external_access": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        con.execute(f"SET checkpoint_threshold = '{settings.checkpoint_threshold_mb}MB'")
        con.execute("SET TimeZone = 'UTC'")
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise describe(error, path) from error
    return con


def describe(error: duckdb.Error, path: Path) -> StoreBusyError | StoreUnusableError:
    """Return the error that tells a person what is wrong with the file."""
    text = str(error)
    if "lock" in text.lower():
        holder = _HOLDER.search(text)
        who = f"process {holder[1]}" if holder else "another process"
        return StoreBusyError(
            f"{path} is held by {who}: DuckDB lets one process at a time open a file. "
            "If that is a running collector, use --server URL; else stop that process"
        )
    first_line = text.splitlines()[0]
    if "not a valid DuckDB database" in text:
        return StoreUnusableError(f"{path} is not a DuckDB file; give another --db")
    return StoreUnusableError(f"{path} cannot be used: {first_line}")
