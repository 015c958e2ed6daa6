"""The open file: lends connections, tells when DuckDB gave the file up, and opens it again."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.database import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: How long readers of a dead instance may take to return their connections before these are taken from them.
_RETURN_S: Final = 2.0
_POLL_S: Final = 0.01
#: After one of these DuckDB may answer nothing any more, not even reads, until the file is opened again.
_DEADLY: Final = (duckdb.FatalException, duckdb.InternalException)
_INVALIDATED: Final = "database has been invalidated"
_PROBE: Final = "SELECT 1"


class LivingDatabase:
    """One file, opened; opened again by `reopen` when DuckDB gave up on it. Thread-safe, but for `reopen` itself.

    DuckDB gives up, even on reads, when a checkpoint or an fsync fails. While any connection of the dead instance is
    left, the same process is handed that very instance again: so every connection is lent, known, and taken back.
    """

    def __init__(self, path: Path, connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        """Open the file.

        Args:
            path: the file, without symbolic links.
            connect: opens it; called again by `reopen`.

        Raises:
            StoreError: whatever `connect` raises.
        """
        self.path = path
        self._connect = connect
        self._lock = threading.Lock()
        self._lent: set[duckdb.DuckDBPyConnection] = set()
        self._trouble: str | None = None
        #: Called when a reader found the instance dead.
        self.on_death: Callable[[], None] = lambda: None
        self._root = connect()
        self._identity = _identity(path)

    @property
    def trouble(self) -> str | None:
        """Why the file cannot be used now; None while it can."""
        return self._trouble

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a connection of its own.

        Raises:
            StoreUnusableError: the file is closed, or DuckDB gave up on it before or while the connection was used.
        """
        con = self.lend()
        try:
            yield con
        except Exception as error:
            if self.found_dead(error) or not self._is_lent(con):
                self.on_death()
                raise StoreUnusableError(
                    f"{self.path} is being opened again after a failure; ask again in a moment"
                ) from error
            if self._trouble is not None and isinstance(error, duckdb.InterruptException):
                raise StoreUnusableError(
                    self._trouble
                ) from error  # by us, to open the file again: it says nothing of the query
            raise
        finally:
            self.take_back(con)

    def lend(self, *, to_owner: bool = False) -> duckdb.DuckDBPyConnection:
        """Return a connection that the caller gives back to `take_back`.

        Args:
            to_owner: also before `recovered` was called, to whoever opens the file again.

        Raises:
            StoreUnusableError: the file cannot be used now.
        """
        with self._lock:
            if self._trouble is not None and not to_owner:
                raise StoreUnusableError(self._trouble)
            con = self._root.cursor()
            self._lent.add(con)
        return con

    def take_back(self, con: duckdb.DuckDBPyConnection) -> None:
        """Close a lent connection."""
        con.close()
        with self._lock:
            self._lent.discard(con)

    def found_dead(self, error: BaseException) -> bool:
        """Return whether an error says that DuckDB gave up on the file; if so, nothing is lent any more."""
        if self._trouble is None and (_is_deadly(error) and not self._answers()):
            self.give_up(error)
        return self._trouble is not None and _is_deadly(error)

    def give_up(self, error: BaseException) -> str:
        """Lend nothing any more until the file is opened again; return why."""
        self._give_up(f"{self.path} failed and is being opened again: {told(error)}")
        return str(self._trouble)

    @property
    def displaced(self) -> str | None:
        """Why the path does not name the file that is open; None while it does."""
        # Never by opening it: to close any handle of the file gives up this process's lock on it.
        if _identity(self.path) == self._identity:
            return None
        return (
            f"{self.path} was removed or replaced while it was open: nothing is stored. "
            "Put the file back, or restart the collector to go on with what is there now"
        )

    def check_in_place(self) -> None:
        """Return if the path still names the file that is open.

        What is committed to a file that somebody removed is gone with this process, so it must not be acknowledged.

        Raises:
            StoreUnusableError: the file was removed, moved away or replaced.
        """
        if (displaced := self.displaced) is not None:
            raise StoreUnusableError(displaced)

    def reopen(self) -> None:
        """Open the file again, once all connections of the dead instance are closed.

        Raises:
            StoreError: it cannot be opened, or a reader holds on to a connection. The next call may fare better.
        """
        self._give_up(f"{self.path} failed and is being opened again")
        if not self._end_lent(_RETURN_S):
            raise StoreUnusableError(f"{self.path}: a query of the failed database does not end")
        self._root.close()
        self._root = self._connect()
        self._identity = _identity(self.path)

    def recovered(self) -> None:
        """Lend connections again."""
        with self._lock:
            self._trouble = None

    @property
    def has_readers(self) -> bool:
        """Whether somebody has a connection."""
        return bool(self._left())

    def close(self) -> bool:
        """Release the file; whoever reads is interrupted. Return False where one does not end: then the file stays open."""
        self._give_up(f"{self.path} is closed")
        if not self._end_lent(_RETURN_S):
            return False
        self._root.close()
        return True

    def _give_up(self, trouble: str) -> None:
        with self._lock:
            self._trouble = self._trouble or trouble

    def _answers(self) -> bool:
        """Return whether the instance still runs queries."""
        try:
            with self._root.cursor() as probe:
                probe.execute(_PROBE).fetchall()
        except duckdb.Error:
            return False
        return True

    def _is_lent(self, con: duckdb.DuckDBPyConnection) -> bool:
        with self._lock:
            return con in self._lent

    def _end_lent(self, patience_s: float) -> bool:
        """Interrupt whoever reads and wait for the connections; take them away from those that do not ask just now."""
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
            return list(self._lent)

    def _seize(self) -> bool:
        for con in self._left():
            try:
                con.close()  # refused while a query of it runs
            except duckdb.Error:
                continue
            with self._lock:
                self._lent.discard(con)
        return not self._left()


def _is_deadly(error: BaseException | None) -> bool:
    """Return whether an error, or one that led to it, is of those after which DuckDB may be dead."""
    while error is not None:
        if isinstance(error, _DEADLY) or (isinstance(error, duckdb.Error) and _INVALIDATED in str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 — a tenth of Path.stat's time, and asked at each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino
