"""The connections to an open file: acquired, released, and opened again after DuckDB gave up on the file."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.database import error_summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: How long readers of a failed instance may take to release their connections before these are closed, seconds.
_RETURN_S: Final = 2.0
_POLL_S: Final = 0.01
#: After one of these errors DuckDB may refuse everything, even reads, until the file is opened again.
_FATAL: Final = (duckdb.FatalException, duckdb.InternalException)
_INVALIDATED: Final = "database has been invalidated"
_PROBE: Final = "SELECT 1"


class ConnectionManager:
    """The connections to one file; `reopen` opens it again after a failure. Thread-safe, except for `reopen` itself.

    DuckDB gives up on a file, even for reads, when a checkpoint or an fsync fails. While any connection of the failed instance
    exists, the same process gets that instance again: so every connection is acquired, tracked and released here.
    """

    def __init__(self, path: Path, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        """Open the file.

        Args:
            path: the file, without symbolic links.
            connect: opens it; called again by `reopen`.

        Raises:
            StoreError: any error of `connect`.
        """
        self.path = path
        self._connect = connect
        self._lock = threading.Lock()
        self._acquired: set[duckdb.DuckDBPyConnection] = set()
        self._problem: str | None = None
        #: Called when a reader found that the instance has failed.
        self.on_failure: Callable[[], None] = lambda: None
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
            StoreUnusableError: the file is closed, or DuckDB gave up on it before or while the connection was used.
        """
        con = self.acquire()
        try:
            yield con
        except Exception as error:
            if self.has_failed(error) or not self._is_acquired(con):
                self.on_failure()
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
            for_recovery: provide it before `recovered` was called too; only the thread that reopens the file sets this.

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
        """Return whether an error means that DuckDB gave up on the file; if so, no connection is provided any more."""
        if self._problem is None and (_is_fatal(error) and not self._answers()):
            self.give_up(error)
        return self._problem is not None and _is_fatal(error)

    def give_up(self, error: BaseException) -> str:
        """Provide no connection until the file is opened again; return the reason."""
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
        """Open the file again, once all connections of the failed instance are closed.

        Raises:
            StoreError: it cannot be opened, or a reader does not release its connection. The next call may succeed.
        """
        self._give_up(f"{self.path} failed and is being opened again")
        if not self._end_acquired(_RETURN_S):
            raise StoreUnusableError(f"{self.path}: a query of the failed database does not end")
        self._root.close()
        self._root = self._connect()
        self._identity = _identity(self.path)

    def recovered(self) -> None:
        """Provide connections again."""
        with self._lock:
            self._problem = None

    @property
    def has_readers(self) -> bool:
        """Whether any connection is in use."""
        return bool(self._left())

    def close(self) -> bool:
        """Release the file, interrupting readers. Return False if a reader does not end: the file then stays open."""
        self._give_up(f"{self.path} is closed")
        if not self._end_acquired(_RETURN_S):
            return False
        self._root.close()
        return True

    def _give_up(self, problem: str) -> None:
        with self._lock:
            self._problem = self._problem or problem

    def _answers(self) -> bool:
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

    def _end_acquired(self, patience_s: float) -> bool:
        """Interrupt readers and wait for their connections; close those that are idle at the end."""
        deadline = time.monotonic() + patience_s
        while self._left():
            for con in self._left():
                con.interrupt()
            if time.monotonic() > deadline:
                return self._seize()
            time.sleep(_POLL_S)
        return True

    def _left(self) -> list[duckdb.DuckDBPyConnection]:
        with self._lock:
            return list(self._acquired)

    def _seize(self) -> bool:
        for con in self._left():
            try:
                con.close()  # refused while it runs a query
            except duckdb.Error:
                continue
            with self._lock:
                self._acquired.discard(con)
        return not self._left()


def _is_fatal(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is of a kind after which DuckDB may have failed."""
    while error is not None:
        if isinstance(error, _FATAL) or (isinstance(error, duckdb.Error) and _INVALIDATED in str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 — a tenth of Path.stat's time, and asked at each commit
    except OSError:
        return None
    return status.st_dev, status.st_ino
