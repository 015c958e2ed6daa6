"""SQL for people: one read-only statement, bounded in time and rows."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb

from otel_agentic.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

_ALLOWED: Final = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
#: Functions that reveal settings or the machine, or write to logs.
_DENIED: Final = re.compile(
    r"\b(getenv|current_setting|duckdb_settings|duckdb_secrets|which_secret|write_log|enable_logging|parse_duckdb_log_message"
    r"|duckdb_logs\w*|getvariable|pragma_\w+)\s*\(",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Rows of a query, whole. `truncated` says that the row limit cut it."""

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    truncated: bool


def run_query(con: DuckDBPyConnection, sql: str, *, timeout_s: float, max_rows: int) -> Result:
    """Return the rows of one SELECT or EXPLAIN statement.

    Args:
        con: a connection of its own, on a hardened instance.
        sql: the statement.
        timeout_s: time limit, seconds; the statement is interrupted.
        max_rows: rows returned at most.

    Raises:
        QueryError: it is not one read-only statement, fails, or takes too long.
    """
    _check(con, sql)
    clock = threading.Timer(timeout_s, con.interrupt)
    clock.daemon = True
    con.execute("BEGIN TRANSACTION READ ONLY")  # the parser lets EXPLAIN ANALYZE DELETE pass; this does not
    clock.start()
    try:
        found = con.execute(sql)
        described = found.description or []
        rows = found.fetchmany(max_rows + 1)
    except duckdb.InterruptException as error:
        raise QueryError(f"the query took longer than {timeout_s:g} s; narrow it (store.query_timeout_s)") from error
    except duckdb.Error as error:
        raise QueryError(f"the query failed: {str(error).rstrip()}") from error
    finally:
        clock.cancel()
        con.execute("ROLLBACK")
    return Result(
        columns=[str(column[0]) for column in described],
        types=[str(column[1]) for column in described],
        rows=rows[:max_rows],
        truncated=len(rows) > max_rows,
    )


def _check(con: DuckDBPyConnection, sql: str) -> None:
    try:
        statements = con.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(f"not SQL: {str(error).rstrip()}") from error
    if len(statements) != 1:
        raise QueryError(f"{len(statements)} statements; give exactly one SELECT")
    if statements[0].type not in _ALLOWED:
        kind = statements[0].type.name
        raise QueryError(f"{kind} is not allowed: the store is read with SELECT or EXPLAIN, and changed by commands")
    denied = _DENIED.search(sql)
    if denied is not None:
        raise QueryError(f"function {denied[1]} is not allowed: it reveals or changes more than the tables")
