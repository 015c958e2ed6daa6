"""Opening the DuckDB file: format, limits, locks and clear errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

import duckdb

from otel_agentic.errors import StoreBusyError, StoreUnusableError

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.config import StoreSettings

#: What `Store.write` and `Store.read` lend, for rooms above that may not name DuckDB themselves.
Connection: TypeAlias = duckdb.DuckDBPyConnection

#: The oldest file format that has everything we use, so that other DuckDB versions open the file too.
_FILE_FORMAT: Final = "v1.4.0"
_HOLDER: Final = re.compile(r"PID (\d+)")
#: What DuckDB says when another process has the file, and when this very process has it open already.
_HELD: Final = re.compile(r"could not set lock|conflicting lock", re.IGNORECASE)
_OPEN_HERE: Final = re.compile(r"configuration has been locked|different configuration than existing connections")


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
        con.execute(f"SET memory_limit = '{settings.memory_limit_mb}MB'")
        con.execute("SET GLOBAL TimeZone = 'UTC'")  # each reader has a connection of its own
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise describe(error, path) from error
    return con


def describe(error: duckdb.Error, path: Path) -> StoreBusyError | StoreUnusableError:
    """Return the error that tells a person what is wrong with the file."""
    text = str(error)
    if _OPEN_HERE.search(text):
        return StoreBusyError(f"{path} is open in this very process already: a file has one store; close that first")
    if _HELD.search(text):
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
