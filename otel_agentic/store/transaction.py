"""One transaction that either is durable or did not happen at all, even after an error."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.database import error_summary, is_disk_full

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.store.living import ConnectionManager

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Waits between retries of a transaction that ran out of memory, seconds.
_MEMORY_WAITS_S: Final = (0.05, 0.2, 0.5)


class Transactions:
    """Transactions of the one connection that writes. Used by the writer thread only."""

    def __init__(self, database: ConnectionManager) -> None:
        self._database = database

    def durably(self, con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Return the result of `work` once it is committed; `work` is run again if memory was short.

        Raises:
            StoreUnusableError: the file is missing, or a COMMIT failed in a way that leaves its outcome unknown: the file must
                then be opened again.
        """
        for wait_s in _MEMORY_WAITS_S:
            try:
                return self._once(con, work)
            except (duckdb.OutOfMemoryException, MemoryError) as error:
                if self._database.problem is not None:
                    raise
                _log.warning("no memory for a write (%s); trying again", error_summary(error))
                time.sleep(wait_s)
        return self._once(con, work)

    def _once(self, con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        self._database.check_in_place()
        con.execute("BEGIN TRANSACTION")
        try:
            result = work(con)
        except BaseException as error:
            self._database.has_failed(error)  # before the rollback, whose own error would hide this reason
            self._rollback(con)
            raise
        self._commit(con)
        return result

    def _commit(self, con: duckdb.DuckDBPyConnection) -> None:
        try:
            con.execute("COMMIT")
        except duckdb.Error as error:
            self._rollback(con)
            if is_disk_full(error):
                raise  # DuckDB truncates the partial write from the log
            # After any other failure, such as a lack of memory, the data may be stored all the same, or only in memory: a retry
            # could store it twice. So the file is opened again and searched for it.
            raise StoreUnusableError(self._database.give_up(error)) from error

    def _rollback(self, con: duckdb.DuckDBPyConnection) -> None:
        try:
            con.execute("ROLLBACK")
        except duckdb.TransactionException as error:
            _log.debug("rollback: %s", error)  # a failed COMMIT has been rolled back already
        except duckdb.Error as error:
            self._database.give_up(error)  # the connection is stuck in a transaction that accepts nothing
