"""Opening the DuckDB file: format, limits, locks and clear errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import duckdb

from otel_agentic.errors import StoreBusyError, StoreUnusableError

#: The connection that `Store.write` and `Store.read` provide, for packages that may not import DuckDB themselves.
Connection: TypeAlias = duckdb.DuckDBPyConnection

#: The oldest file format with every feature that is used here, so that other DuckDB versions can open the file too.
FILE_FORMAT: Final = "v1.4.0"
_HOLDER: Final = re.compile(r"PID (\d+)")
#: Messages of operating systems when nothing more can be written because of the disk, a quota or a process limit.
_FULL: Final = re.compile(r"no space left|disk quota exceeded|file too large", re.IGNORECASE)
#: Messages of DuckDB when another process holds the file, and when this process has it open already.
_HELD: Final = re.compile(r"could not set lock|conflicting lock", re.IGNORECASE)
#: Errors about values; their messages contain the values.
_QUOTING: Final = (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException)
_BAD_LOG: Final = re.compile(r"\bWAL\b")
_DAMAGED: Final = re.compile(r"corrupt|checksum", re.IGNORECASE)
_OPEN_HERE: Final = re.compile(r"configuration has been locked|different configuration than existing connections")


class Limits(Protocol):
    """The resources that DuckDB may use."""

    @property
    def memory_limit_mb(self) -> int:
        """Memory before DuckDB spills to disk, MB."""
        ...

    @property
    def temp_limit_mb(self) -> int:
        """Disk space for spilled data, MB."""
        ...


def require_file(path: Path, *, create: bool) -> None:
    """Check that a file exists, or may be created.

    Raises:
        StoreUnusableError: the file or its folder is missing; or the file is missing while its log exists: DuckDB would remove
            the log when creating the file, and acknowledged data with it.
    """
    if not create and not path.is_file():
        raise StoreUnusableError(f"{path}: no such DuckDB file; `otel-agentic ingest --db {path} …` makes one")
    if not path.absolute().parent.is_dir():
        raise StoreUnusableError(f"{path}: folder {path.absolute().parent} does not exist")
    log = Path(f"{path.resolve()}.wal")
    if not path.exists() and log.is_file() and log.stat().st_size:
        raise StoreUnusableError(
            f"{path} is missing, and {log} holds the last data stored in it: put the file back next to its log, or remove the log"
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
    """Return a hardened connection to the file: no file system, no configuration changes, no extensions from outside.

    Only `export_folder`, if there is one, can be read and written. With `read_only`, other processes may have the file open
    if they open it read-only too; each then needs its own folder `spill` for data that does not fit in memory.

    Raises:
        StoreBusyError: another process holds the file; names it.
        StoreUnusableError: the file is missing (and must not be created), is not a DuckDB file, or cannot be written.
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
        con.execute("SET checkpoint_threshold = '1TB'")  # the writer makes checkpoints, because it can undo them
        con.execute("PRAGMA disable_checkpoint_on_shutdown")  # as above
        con.execute("SET max_vacuum_tasks = 0")  # a checkpoint writes new data only: merging would delay senders
        con.execute(f"SET memory_limit = '{settings.memory_limit_mb}MB'")
        if spill is not None:
            con.execute("SET temp_directory = $spill", {"spill": spill})
        con.execute(f"SET max_temp_directory_size = '{settings.temp_limit_mb}MB'")
        con.execute("SET pandas_analyze_sample = 0")  # registered object arrays contain text; analysing them takes time
        con.execute("SET python_enable_replacements = false")  # a name in SQL must not refer to a Python variable
        con.execute("SET GLOBAL TimeZone = 'UTC'")  # global, because each reader has its own connection
        if export_folder is not None:
            # Resolved, because DuckDB refuses paths that leave the folder through a symbolic link.
            con.execute("SET allowed_directories = $folders", {"folders": [str(export_folder.resolve())]})
        con.execute("SET enable_external_access = false")  # allowed folders can be set only before this
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        if con is not None:
            con.close()
        raise describe(error, path) from error
    return con


def error_summary(error: BaseException) -> str:
    """Return the first line of an error for logs; only its class if DuckDB may quote stored values in the message.

    >>> error_summary(duckdb.ConversionException("Conversion Error: Could not convert string 'private' to INT32"))
    'ConversionException'
    >>> error_summary(duckdb.IOException("IO Error: No space left on device"))
    'IO Error: No space left on device'
    """
    if isinstance(error, _QUOTING):
        return type(error).__name__
    return next(iter(str(error).splitlines()), type(error).__name__)


def is_disk_full(error: Exception) -> bool:
    """Return whether an error means that nothing more can be written, because of the disk, a quota or a process limit."""
    return _FULL.search(str(error)) is not None


def describe(error: Exception, path: Path) -> StoreBusyError | StoreUnusableError:
    """Return the error that explains to the user why the file cannot be used."""
    text = str(error)
    if _OPEN_HERE.search(text):
        return StoreBusyError(
            f"{path} is already open in this process: only one Store may have a file open; close it first"
        )
    if _HELD.search(text):
        holder = _HOLDER.search(text)
        who = f"process {holder[1]}" if holder else "another process"
        return StoreBusyError(
            f"{path} is held by {who}: DuckDB lets one process at a time open a file. "
            "If this is a running collector, use --server URL; otherwise stop that process"
        )
    first_line = text.splitlines()[0]
    if "not a valid DuckDB database" in text:
        return StoreUnusableError(f"{path} is not a DuckDB file; give another --db")
    if is_disk_full(error):
        return StoreUnusableError(f"{path}: {first_line}. Nothing was stored; free some disk space")
    return StoreUnusableError(f"{path} cannot be used: {error_summary(error)}{_advice(text, path)}")


def _advice(text: str, path: Path) -> str:
    """Return advice for a damaged file or log."""
    if _BAD_LOG.search(text):
        return (
            f". Its log {path}.wal cannot be replayed: restore a backup (`otel-agentic store restore`), or move the log away "
            "to continue without its content"
        )
    if _DAMAGED.search(text):
        return (
            ". The file is damaged: restore a backup (`otel-agentic store restore BACKUP`), or import the Parquet export into a "
            "new file (`otel-agentic store import FOLDER --db NEW.duckdb`)"
        )
    return ""
