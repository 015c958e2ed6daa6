"""SQL for people: one read-only statement, bounded in time, memory, rows and bytes.

Two layers, each for itself: what the parser says (`query_check`) and what the instance refuses (a read-only transaction on
a hardened DuckDB, `database`). Beyond them nothing that a query does lasts: its connection ends with it.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from otel_agentic.errors import QueryError
from otel_agentic.store.query_bounds import bound_functions
from otel_agentic.store.query_check import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Future

    from duckdb import DuckDBPyConnection

    from otel_agentic.store.user_queries import UserQueries, UserQuery

#: How often a running query is looked at, seconds.
_LOOK_S: Final = 0.05
#: How far a query gives way to what stores spans, as `nice` counts.
_NICE: Final = 10
#: Rows fetched at once: one at first, for a row may be large.
_MOST_FETCHED: Final = 4096
#: What says nothing about the query: its connection was closed, or the database needs to be opened anew.
_OF_THE_DATABASE: Final = (duckdb.FatalException, duckdb.InternalException, duckdb.ConnectionException)
_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = 4096
_SCALAR_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """What one query may take: `timeout_s` seconds, `max_rows` and `max_bytes` of answer, `max_growth_bytes` of memory."""

    timeout_s: float
    max_rows: int
    max_bytes: int = 64 * 1024 * 1024
    max_growth_bytes: int = 1_024_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Rows of a query, whole. `cut_by` names the setting whose limit cut them, None where nothing did."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    cut_by: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether a limit cut the rows."""
        return self.cut_by is not None


def run_query(
    con: DuckDBPyConnection,
    sql: str,
    limits: QueryLimits,
    *,
    queries: UserQueries,
    gone: Callable[[], bool] = lambda: False,
    hidden: AbstractSet[str] = frozenset(),
    folder: Path | None = None,
) -> Result:
    """Return the rows of one SELECT or EXPLAIN statement.

    Args:
        con: a connection of its own, on a hardened instance, in no transaction; to be closed afterwards.
        sql: the statement.
        limits: beyond which it is interrupted, or its rows are cut.
        queries: those that run on the store; it is among them while it runs.
        gone: whether nobody waits for the answer any more.
        hidden: tables that nobody may read, in lower case.
        folder: the folder whose Parquet files may be read.

    Raises:
        QueryError: it is not one read-only statement, fails, or takes too much.
        duckdb.Error: the database itself is out of order; `Store.connection` knows what to do.
    """
    bound_functions(con)
    statement = checked(con, sql, hidden=hidden, folder=folder)
    with queries.running(con) as query, ThreadPoolExecutor(1, "otel-agentic-query", _give_way) as thread:
        running = thread.submit(_run, query, statement, limits)
        _watch(running, query, queries, limits, gone)
        return running.result()


def _run(query: UserQuery, statement: duckdb.Statement, limits: QueryLimits) -> Result:
    try:
        query.con.execute("BEGIN TRANSACTION READ ONLY")  # the parser is one layer, this is the other
        return _fetched(query.con.execute(statement), limits)
    except _OF_THE_DATABASE:
        raise
    except (duckdb.Error, MemoryError, UnicodeDecodeError) as error:
        raise _refused(error, query) from error
    finally:
        with suppress(duckdb.Error):  # what was interrupted may have ended its transaction
            query.con.execute("ROLLBACK")


def _give_way() -> None:
    """Have this thread, which runs one query and ends, wait for those that store spans where there is not CPU for all."""
    with suppress(OSError, AttributeError):  # only Linux knows a priority of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _refused(error: Exception, query: UserQuery) -> QueryError:
    if query.ended_for is not None:
        return QueryError(query.ended_for)
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)):
        return QueryError(
            "the query needs more memory than it may have (store.memory_limit_mb, store.temp_limit_mb); narrow it"
        )
    message, _, pointer = str(error).rstrip().partition("\n")  # what follows points into the statement
    return QueryError(f"the query failed: {message}{_hint(error)}{pointer and chr(10)}{pointer}")


def _hint(error: Exception) -> str:
    """Return what to write instead, for an error that everybody makes once; else nothing."""
    text = str(error)
    if isinstance(error, duckdb.BinderException) and "TIMESTAMP_NS" in text and "TIMESTAMP WITH TIME ZONE" in text:
        return (
            ". Times in tables are UTC without a time zone: write `now() AT TIME ZONE 'UTC'` instead of now(), or use a view "
            "such as v_conversations, whose times have one"
        )
    return ""


def _fetched(found: DuckDBPyConnection, limits: QueryLimits) -> Result:
    described = found.description or []
    rows, cut_by = _rows(found, limits)
    return Result(
        columns=[str(column[0]) for column in described],
        types=[str(column[1]) for column in described],
        rows=rows,
        cut_by=cut_by,
    )


def _rows(found: DuckDBPyConnection, limits: QueryLimits) -> tuple[list[tuple[Any, ...]], str | None]:
    """Return rows as far as they are allowed, and the setting that cut them."""
    rows: list[tuple[Any, ...]] = []
    left_bytes, count = limits.max_bytes, 1
    while fetched := found.fetchmany(count):
        for row in fetched:
            if len(rows) == limits.max_rows:
                return rows, "store.query_max_rows"
            left_bytes -= size_of(row)
            if left_bytes < 0:
                return rows, "store.query_max_bytes"
            rows.append(row)
        row_bytes = max(1, (limits.max_bytes - left_bytes) // len(rows))
        count = max(1, min(_MOST_FETCHED, 2 * count, left_bytes // row_bytes))
    return rows, None


def size_of(value: Any) -> int:
    """Return about how many bytes a value takes in an answer.

    >>> size_of(("four", 1, [None, b"abc"], {"a": 1}))
    40
    """
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str | bytes | bytearray):
            total += len(each)
        elif isinstance(each, dict):
            waiting += [*each, *each.values()]
        elif isinstance(each, list | tuple):
            total += 0 if each is value else _SCALAR_BYTES
            waiting += each
        else:
            total += _SCALAR_BYTES
    return total


def _watch(
    running: Future[Result], query: UserQuery, queries: UserQueries, limits: QueryLimits, gone: Callable[[], bool]
) -> None:
    """Wait for a query; end it where it takes too long or too much memory, or where nobody waits for it."""
    deadline_s, most_bytes = time.monotonic() + limits.timeout_s, memory_bytes() + limits.max_growth_bytes
    while not wait((running,), _LOOK_S).done:
        if query.ended_for is not None:
            queries.end(query, query.ended_for)  # an interrupt before a statement began was lost
        elif gone():
            queries.end(query, "the query was ended: who asked went away")
        elif time.monotonic() > deadline_s:
            took = f"{limits.timeout_s:g} s"
            queries.end(query, f"the query took longer than {took}; narrow it (store.query_timeout_s)")
        elif memory_bytes() > most_bytes:
            most = f"{limits.max_growth_bytes // 1_000_000:,} MB"
            queries.end(query, f"the query took more than {most} of memory; narrow it (store.query_memory_mb)")


def memory_bytes() -> int:
    """Return the memory of this process, 0 where the system does not tell."""
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
