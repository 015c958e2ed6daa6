"""One transaction that is durable or did not happen, whatever fails in it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.database import says_full, told

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.store.living import LivingDatabase

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Waits between tries of a transaction for which there was no memory.
_MEMORY_WAITS_S: Final = (0.05, 0.2, 0.5)


class Transactions:
    """Transactions of the one connection that writes. Used by the writer thread alone."""

    def __init__(self, database: LivingDatabase) -> None:
        self._database = database

    def durably(self, con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Return the result of `work` once it is committed; where memory is short it is done again.

        Raises:
            StoreUnusableError: the file is gone, or a COMMIT failed so that only the file knows what became of it: then
                it must be opened again.
        """
        for wait_s in _MEMORY_WAITS_S:
            try:
                return self._once(con, work)
            except (duckdb.OutOfMemoryException, MemoryError) as error:
                if self._database.trouble is not None:
                    raise
                _log.warning("no memory for a write (%s); trying again", told(error))
                time.sleep(wait_s)
        return self._once(con, work)

    def _once(self, con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        self._database.check_in_place()
        con.execute("BEGIN TRANSACTION")
        try:
            result = work(con)
        except BaseException as error:
            self._database.found_dead(error)  # before the rollback: its own error would hide this reason
            self._rollback(con)
            raise
        self._commit(con)
        return result

    def _commit(self, con: duckdb.DuckDBPyConnection) -> None:
        try:
            con.execute("COMMIT")
        except duckdb.Error as error:
            self._rollback(con)
            if says_full(error):
                raise  # DuckDB cuts off what it had begun to write to the log
            # Any other failure, for want of memory say, may leave it stored all the same, or in memory only: a second
            # try could store it twice. So the file is opened again, and asked what it holds.
            raise StoreUnusableError(self._database.give_up(error)) from error

    def _rollback(self, con: duckdb.DuckDBPyConnection) -> None:
        try:
            con.execute("ROLLBACK")
        except duckdb.TransactionException as error:
            _log.debug("rollback: %s", error)  # a failed COMMIT has rolled back already
        except duckdb.Error as error:
            self._database.give_up(error)  # the connection stays in a transaction that takes nothing any more
