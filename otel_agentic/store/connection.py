"""Opens a DuckDB file and manages its connections, the evaluation that each one shows, and values as JSON.

`open_database` sets limits, hardens the connection, and translates DuckDB's errors into clear ones. `ConnectionManager`
provides connections, detects that DuckDB invalidated the database, and opens the file again.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import duckdb

from otel_agentic.errors import StoreBusyError, StoreUnusableError, UsageError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from duckdb import DuckDBPyConnection


#: The connection that `Store.write` and `Store.read` provide, for packages that may not import DuckDB themselves.
Connection: TypeAlias = duckdb.DuckDBPyConnection
T = TypeVar("T")

#: The oldest file format with every feature that is used here, so that other DuckDB versions can open the file too.
FILE_FORMAT: Final = "v1.4.0"
_HOLDER: Final = re.compile(r"PID (\d+)")
#: Messages of operating systems if nothing more can be written, because of the disk, a quota or a process limit.
_DISK_FULL: Final = re.compile(r"no space left|disk quota exceeded|file too large", re.IGNORECASE)
#: Messages of DuckDB if another process holds the file.
_LOCKED: Final = re.compile(r"could not set lock|conflicting lock", re.IGNORECASE)
#: Errors about values; their messages quote the values.
_ERRORS_WITH_VALUES: Final = (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException)
_BAD_LOG: Final = re.compile(r"\bWAL\b")
_DAMAGED: Final = re.compile(r"corrupt|checksum", re.IGNORECASE)
#: Messages of DuckDB if this process has the file open already.
_OPEN_HERE: Final = re.compile(r"configuration has been locked|different configuration than existing connections")


#: Memory that each thread needs to join and group large tables by spilling to disk, MB: with two threads in 256 MB, a
#: report on 1.25 million conversations ran out of memory.
_THREAD_MB: Final = 256


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
        StoreUnusableError: the file or its folder is missing; or the file is missing but its log exists: DuckDB would
            remove the log, and the acknowledged data in it, when creating the file.
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
    """Return a hardened connection to the file: no file-system access, configuration changes or external extensions.

    SQL can read and write files in `export_folder` only; None allows no file access. With `read_only`, several
    processes may have the file open if all of them open it read-only; each needs its own folder `spill` for data that
    does not fit in memory.

    Raises:
        StoreBusyError: another process holds the file; the message names it.
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
        con.execute("PRAGMA disable_checkpoint_on_shutdown")  # for the same reason
        con.execute("SET max_vacuum_tasks = 0")  # checkpoints only write new data: merging old data would delay senders
        con.execute(f"SET memory_limit = '{settings.memory_limit_mb}MB'")
        con.execute(f"SET threads = {_threads(settings.memory_limit_mb)}")
        if spill is not None:
            con.execute("SET temp_directory = $spill", {"spill": spill})
        con.execute(f"SET max_temp_directory_size = '{settings.temp_limit_mb}MB'")
        con.execute("SET pandas_analyze_sample = 0")  # registered object arrays contain text; analysing them takes time
        # Under `python -c`, DuckDB prints a progress bar to standard output after 2 s.
        con.execute("SET enable_progress_bar = false")
        con.execute("SET python_enable_replacements = false")  # a name in SQL must not refer to a Python variable
        con.execute("SET GLOBAL TimeZone = 'UTC'")  # global, because each reader has its own connection
        if export_folder is not None:
            # Resolved, because DuckDB refuses paths that leave the folder through a symbolic link.
            con.execute("SET allowed_directories = $folders", {"folders": [str(export_folder.resolve())]})
        con.execute("SET enable_external_access = false")  # allowed folders can be set only before this
        if not read_only:
            con.execute("SET allowed_configs = ['memory_limit']")  # for `release_memory`
        con.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        if con is not None:
            con.close()
        raise describe(error, path) from error
    return con


#: Memory that DuckDB keeps after `release_memory`, MB.
_KEPT_MB: Final = 16


def release_memory(con: DuckDBPyConnection, memory_limit_mb: int) -> None:
    """Return freed memory, and most of the memory in which DuckDB caches parts of the file, to the operating system.

    The operating system caches the file, too; DuckDB itself frees cached data only once it needs all memory that it may
    use.

    Args:
        con: a connection outside a transaction.
        memory_limit_mb: the memory that DuckDB may use, before and after.
    """
    with suppress(duckdb.OutOfMemoryException):  # queries need more now
        con.execute(f"SET memory_limit = '{min(_KEPT_MB, memory_limit_mb)}MB'")
        con.execute(f"SET memory_limit = '{memory_limit_mb}MB'")
    if sys.platform == "linux" and (malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        malloc_trim(0)  # of glibc, which otherwise keeps freed memory for each thread


def _threads(memory_limit_mb: int) -> int:
    return max(1, min(memory_limit_mb // _THREAD_MB, processors()))


def processors() -> int:
    """Return the number of processors available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def out_of_memory_explained(subject: str, settings: Limits) -> Iterator[None]:
    """Raise a `StoreUnusableError` that names the settings if the queries of a subject need too much memory."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise StoreUnusableError(
            f"{subject}: its queries need more than {settings.memory_limit_mb} MB of memory (store.memory_limit_mb), or more than "
            f"{settings.temp_limit_mb} MB of disk for what does not fit (store.temp_limit_mb): raise these limits, or select "
            "fewer conversations"
        ) from error


def run_within_memory(work: Callable[[], T], alone: AbstractContextManager[object]) -> T:
    """Return the result of queries that only read; if the memory does not suffice for all that run now, run them again.

    Args:
        work: runs the queries.
        alone: a lock that is held while queries run again, so that these do so one after another.
    """
    try:
        return work()
    except duckdb.OutOfMemoryException:
        with alone:
            return work()


def error_summary(error: BaseException) -> str:
    """Return the first line of an error for logs; only its class if DuckDB may quote stored values in the message.

    >>> error_summary(duckdb.ConversionException("Conversion Error: Could not convert string 'private' to INT32"))
    'ConversionException'
    >>> error_summary(duckdb.IOException("IO Error: No space left on device"))
    'IO Error: No space left on device'
    """
    if isinstance(error, _ERRORS_WITH_VALUES):
        return type(error).__name__
    return next(iter(str(error).splitlines()), type(error).__name__)


def is_disk_full(error: Exception) -> bool:
    """Return whether an error means that nothing can be written, because of the disk, a quota or a process limit."""
    return _DISK_FULL.search(str(error)) is not None


def describe(error: Exception, path: Path) -> StoreBusyError | StoreUnusableError:
    """Return the error that explains to the user why the file cannot be used."""
    text = str(error)
    if _OPEN_HERE.search(text):
        return StoreBusyError(
            f"{path} is already open in this process: only one Store may have a file open; close it first"
        )
    if _LOCKED.search(text):
        match = _HOLDER.search(text)
        holder = f"process {match[1]}" if match else "another process"
        return StoreBusyError(
            f"{path} is held by {holder}: DuckDB lets one process at a time open a file. "
            "If this is a running collector, use --server URL; otherwise stop that process"
        )
    first_line = next(iter(text.splitlines()), type(error).__name__)
    if "not a valid DuckDB database" in text:
        return StoreUnusableError(f"{path} is not a DuckDB file; give another --db")
    if is_disk_full(error):
        return StoreUnusableError(f"{path}: {first_line}. Nothing was stored; free some disk space")
    return StoreUnusableError(f"{path} cannot be used: {error_summary(error)}{_advice(text, path)}")


def _advice(text: str, path: Path) -> str:
    """Return advice for a damaged file or log, "" for any other error."""
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


#: How long readers of a failed instance may take to release their connections before these are closed, seconds.
_RELEASE_TIMEOUT_S: Final = 2.0
_POLL_S: Final = 0.01
#: After one of these errors DuckDB may refuse everything, even reads, until the file is opened again.
_FATAL: Final = (duckdb.FatalException, duckdb.InternalException)
_INVALIDATED: Final = "database has been invalidated"
_PROBE: Final = "SELECT 1"


class ConnectionManager:
    """The connections to one file; `reopen` opens it again after a failure. Thread-safe, except for `reopen` itself.

    DuckDB invalidates a database, even for reads, when a checkpoint or an fsync fails. As long as any connection to the
    invalidated instance exists, a new connection of the same process gets that instance again. So every connection is
    acquired, tracked and released here.
    """

    def __init__(
        self, path: Path, connect: Callable[[], duckdb.DuckDBPyConnection], on_failure: Callable[[], None]
    ) -> None:
        """Open the file.

        Args:
            path: the file, without symbolic links.
            connect: opens it; called again by `reopen`.
            on_failure: called when a reader detects that the instance has failed.

        Raises:
            StoreError: any error of `connect`.
        """
        self.path = path
        self._connect = connect
        self._lock = threading.Lock()
        self._acquired: set[duckdb.DuckDBPyConnection] = set()
        self._problem: str | None = None
        self._on_failure = on_failure
        self._root = connect()
        self._identity = _identity(path)

    @property
    def problem(self) -> str | None:
        """Why the file cannot be used now, or None if it can."""
        return self._problem

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a connection.

        Raises:
            StoreUnusableError: the file is closed, or DuckDB invalidated the database before or during the use of the
                connection.
        """
        con = self.acquire()
        try:
            yield con
        except Exception as error:
            if self.has_failed(error) or not self._is_acquired(con):
                self._on_failure()
                raise StoreUnusableError(
                    f"{self.path} is being opened again after a failure; ask again in a moment"
                ) from error
            if self._problem is not None and isinstance(error, duckdb.InterruptException):
                raise StoreUnusableError(
                    self._problem
                ) from error  # interrupted by `reopen`, so the error does not concern the query
            raise
        finally:
            self.release(con)

    def acquire(self, *, for_recovery: bool = False) -> duckdb.DuckDBPyConnection:
        """Return a connection that the caller must pass to `release`.

        Args:
            for_recovery: return a connection even before `recovered` is called; only the thread that reopens the file
                sets this.

        Raises:
            StoreUnusableError: the file cannot be used now.
        """
        with self._lock:
            if self._problem is not None and not for_recovery:
                raise StoreUnusableError(self._problem)
            con = self._root.cursor()
            self._acquired.add(con)
        return con

    def release(self, con: duckdb.DuckDBPyConnection) -> None:
        """Close an acquired connection."""
        con.close()
        with self._lock:
            self._acquired.discard(con)

    def has_failed(self, error: BaseException) -> bool:
        """Return whether an error means that DuckDB invalidated the database; if so, stop providing connections."""
        if self._problem is None and (_is_fatal(error) and not self._is_responsive()):
            self.give_up(error)
        return self._problem is not None and _is_fatal(error)

    def give_up(self, error: BaseException) -> str:
        """Stop providing connections until the file is opened again; return the reason."""
        self._give_up(f"{self.path} failed and is being opened again: {error_summary(error)}")
        return str(self._problem)

    @property
    def displaced(self) -> str | None:
        """Why the path no longer refers to the open file, or None if it does."""
        # Checked without opening the file: closing any handle of it would release this process's lock.
        if _identity(self.path) == self._identity:
            return None
        return (
            f"{self.path} was removed or replaced while it was open: nothing is stored. "
            "Put the file back, or restart the collector to continue with the current file"
        )

    def check_in_place(self) -> None:
        """Check that the path still refers to the open file.

        Data committed to a removed file disappears with this process, so it must not be acknowledged.

        Raises:
            StoreUnusableError: the file was removed, moved away or replaced.
        """
        if (displaced := self.displaced) is not None:
            raise StoreUnusableError(displaced)

    def reopen(self) -> None:
        """Close all connections to the failed instance, and open the file again.

        Raises:
            StoreError: the file cannot be opened, or a reader does not release its connection. The next call may
                succeed.
        """
        self._give_up(f"{self.path} failed and is being opened again")
        if not self._end_readers(_RELEASE_TIMEOUT_S):
            raise StoreUnusableError(f"{self.path}: a query of the failed database does not end")
        self._root.close()
        self._root = self._connect()
        self._identity = _identity(self.path)

    def recovered(self) -> None:
        """Resume providing connections."""
        with self._lock:
            self._problem = None

    @property
    def has_readers(self) -> bool:
        """Whether any connection is in use."""
        return bool(self._open_connections())

    def close(self) -> bool:
        """Interrupt readers and close the file; return False if a reader does not end, and the file stays open."""
        self._give_up(f"{self.path} is closed")
        if not self._end_readers(_RELEASE_TIMEOUT_S):
            return False
        self._root.close()
        return True

    def _give_up(self, problem: str) -> None:
        with self._lock:
            self._problem = self._problem or problem

    def _is_responsive(self) -> bool:
        """Return whether the instance still runs queries."""
        try:
            with self._root.cursor() as probe:
                probe.execute(_PROBE).fetchall()
        except duckdb.Error:
            return False
        return True

    def _is_acquired(self, con: duckdb.DuckDBPyConnection) -> bool:
        with self._lock:
            return con in self._acquired

    def _end_readers(self, timeout_s: float) -> bool:
        """Interrupt readers until they release their connections; return whether all are closed.

        After the timeout, connections that run no query are closed here.
        """
        deadline = time.monotonic() + timeout_s
        while self._open_connections():
            for con in self._open_connections():
                con.interrupt()
            if time.monotonic() > deadline:
                return self._close_idle()
            time.sleep(_POLL_S)
        return True

    def _open_connections(self) -> list[duckdb.DuckDBPyConnection]:
        with self._lock:
            return list(self._acquired)

    def _close_idle(self) -> bool:
        """Close the connections that run no query; return whether all are closed."""
        for con in self._open_connections():
            try:
                con.close()  # refused while it runs a query
            except duckdb.Error:
                continue
            with self._lock:
                self._acquired.discard(con)
        return not self._open_connections()


def _is_fatal(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is of a class after which the database may be invalid."""
    while error is not None:
        if isinstance(error, _FATAL) or (isinstance(error, duckdb.Error) and _INVALIDATED in str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None if it is missing."""
    try:
        status = os.stat(path)  # noqa: PTH116 — takes a tenth of Path.stat's time, and runs at each commit
    except OSError:
        return None
    return status.st_dev, status.st_ino


#: The evaluation that commands show by default, and the only one that windows, monitors and events use.
DEFAULT: Final = "default"
#: SQL condition that a row of scores belongs to the evaluation that a connection shows; used as `s.{IN_EVALUATION}`.
IN_EVALUATION: Final = f"evaluation = coalesce(getvariable('evaluation'), '{DEFAULT}')"
_SHOW: Final = "SET VARIABLE evaluation = $name"
_NAMES: Final = "SELECT DISTINCT evaluation FROM evaluations ORDER BY evaluation"


def show(con: DuckDBPyConnection, name: str) -> None:
    """Make the queries and views of a connection show the scores of one of the evaluations in the store."""
    con.execute(_SHOW, {"name": name})


def evaluation_names(con: DuckDBPyConnection) -> list[str]:
    """Return the names of the evaluations in the store."""
    return [str(name) for (name,) in con.execute(_NAMES).fetchall()]


def require_evaluation(con: DuckDBPyConnection, name: str) -> None:
    """Check that the store has an evaluation with this name; `default` always exists.

    Raises:
        UsageError: it does not exist; the message lists those that do.
    """
    if name == DEFAULT:
        return
    names = {DEFAULT, *evaluation_names(con)}
    if name not in names:
        raise UsageError(
            f"unknown evaluation {name!r}; this store has {', '.join(sorted(names))} "
            f"(`otel-agentic evaluate --evaluation {name}` adds it)"
        )


_INT_END: Final = 2**63


def to_json_value(value: Any) -> Any:  # noqa: PLR0911 — one return per type
    """Return a value from the database as a JSON value: times as ISO 8601 text, decimals as numbers."""
    match value:
        case bool() | None | str() | float():
            return value
        case int():  # text for integers of more than 64 bits, which JSON readers cannot represent
            return value if -_INT_END <= value < _INT_END else str(value)
        case Mapping():
            return {str(key): to_json_value(inner) for key, inner in value.items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case _:
            return str(value)
