"""Opening the DuckDB file: format, limits, locks and clear errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import duckdb

from otel_agentic.errors import StoreBusyError, StoreUnusableError

#: What `Store.write` and `Store.read` lend, for rooms above that may not name DuckDB themselves.
Connection: TypeAlias = duckdb.DuckDBPyConnection

#: The oldest file format that has everything we use, so that other DuckDB versions open the file too.
FILE_FORMAT: Final = "v1.4.0"
_HOLDER: Final = re.compile(r"PID (\d+)")
#: How operating systems say that nothing more can be written: by the disk, by a quota, by a limit of the process.
_FULL: Final = re.compile(r"no space left|disk quota exceeded|file too large", re.IGNORECASE)
#: What DuckDB says when another process has the file, and when this very process has it open already.
_HELD: Final = re.compile(r"could not set lock|conflicting lock", re.IGNORECASE)
#: Errors about values, which DuckDB shows in them.
_QUOTING: Final = (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException)
_BAD_LOG: Final = re.compile(r"\bWAL\b")
_DAMAGED: Final = re.compile(r"corrupt|checksum", re.IGNORECASE)
_OPEN_HERE: Final = re.compile(r"configuration has been locked|different configuration than existing connections")


class Limits(Protocol):
    """What DuckDB may use."""

    @property
    def memory_limit_mb(self) -> int:
        """Memory before it spills to disk, MB."""
        ...

    @property
    def temp_limit_mb(self) -> int:
        """Disk space for what is spilled, MB."""
        ...


def require_file(path: Path, *, create: bool) -> None:
    """Return nothing where a file is there, or may be made.

    Raises:
        StoreUnusableError: it is missing, or its folder is; or it is missing and its log is there: DuckDB would remove that
            to make the file, and with it what was acknowledged.
    """
    if not create and not path.is_file():
        raise StoreUnusableError(f"{path}: no such DuckDB file; `otel-agentic ingest --db {path} …` makes one")
    if not path.absolute().parent.is_dir():
        raise StoreUnusableError(f"{path}: folder {path.absolute().parent} does not exist")
    log = Path(f"{path.resolve()}.wal")
    if not path.exists() and log.is_file() and log.stat().st_size:
        raise StoreUnusableError(
            f"{path} is not there, and {log} holds what was last stored in it: put the file back beside its log, or remove the log"
        )


def open_database(
    path: Path,
    settings: Limits,
    *,
    create: bool,
    export_folder: Path | None = None,
    read_only: bool = False,
    spill: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection to the file, hardened: no file system, no configuration changes, no extensions from outside.

    Of the file system only `export_folder` is left, where one is given. With `read_only` other processes may have the file
    open, too, if they do the same; each then needs a folder `spill` of its own for what does not fit in memory.

    Raises:
        StoreBusyError: another process holds the file; names it.
        StoreUnusableError: the file is missing (and not to be created), is not a DuckDB file, or cannot be written.
    """
    require_file(path, create=create)
    con = None
    try:
        con = duckdb.connect(
            str(path),
            read_only=read_only,
            config={
                "storage_compatibility_version": FILE_FORMAT,
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
            },
        )
        con.execute("SET checkpoint_threshold = '1TB'")  # the writer makes checkpoints, and can undo them
        con.execute("PRAGMA disable_checkpoint_on_shutdown")  # as above
        con.execute("SET max_vacuum_tasks = 0")  # a checkpoint writes what is new: it merges nothing while senders wait
        con.execute(f"SET memory_limit = '{settings.memory_limit_mb}MB'")
        if spill is not None:
            con.execute("SET temp_directory = $spill", {"spill": spill})
        con.execute(f"SET max_temp_directory_size = '{settings.temp_limit_mb}MB'")
        con.execute("SET pandas_analyze_sample = 0")  # arrays of objects that we lend are text; to look costs time
        con.execute("SET python_enable_replacements = false")  # a name in SQL is no variable of ours
        con.execute("SET GLOBAL TimeZone = 'UTC'")  # each reader has a connection of its own
        if export_folder is not None:
            # Resolved: DuckDB refuses what a symbolic link inside the folder leads to.
            con.execute("SET allowed_directories = $folders", {"folders": [str(export_folder.resolve())]})
        con.execute("SET enable_external_access = false")  # what is allowed can only be said before this
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        if con is not None:
            con.close()
        raise describe(error, path) from error
    return con


def told(error: BaseException) -> str:
    """Return an error's first line for logs; where DuckDB may quote what it was given to store, only its class.

    >>> told(duckdb.ConversionException("Conversion Error: Could not convert string 'private' to INT32"))
    'ConversionException'
    >>> told(duckdb.IOException("IO Error: No space left on device"))
    'IO Error: No space left on device'
    """
    if isinstance(error, _QUOTING):
        return type(error).__name__
    return next(iter(str(error).splitlines()), type(error).__name__)


def says_full(error: Exception) -> bool:
    """Return whether an error says that nothing more can be written: by the disk, a quota or a limit of the process."""
    return _FULL.search(str(error)) is not None


def describe(error: Exception, path: Path) -> StoreBusyError | StoreUnusableError:
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
    if says_full(error):
        return StoreUnusableError(f"{path}: {first_line}. Nothing of it was stored; free some space")
    return StoreUnusableError(f"{path} cannot be used: {told(error)}{_advice(text, path)}")


def _advice(text: str, path: Path) -> str:
    """Return what to do about a damaged file or log."""
    if _BAD_LOG.search(text):
        return (
            f". Its log {path}.wal cannot be replayed: restore a backup (`otel-agentic store restore`), or move the log away "
            "to go on without what it holds"
        )
    if _DAMAGED.search(text):
        return (
            ". The file is damaged: restore a backup (`otel-agentic store restore BACKUP`), or import the Parquet export into a "
            "new file (`otel-agentic store import FOLDER --db NEW.duckdb`)"
        )
    return ""
