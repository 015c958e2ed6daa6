"""SQL for people: one read-only statement, bounded in time and rows."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import orjson

from otel_agentic.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection

_ALLOWED: Final = frozenset({duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN})
#: Functions that reveal settings or the machine, write to logs, or run SQL that is not there to be looked at.
_DENIED: Final = re.compile(
    r"getenv|current_setting|duckdb_settings|duckdb_secrets|which_secret|write_log|enable_logging|parse_duckdb_log_message"
    r"|duckdb_log\w*|getvariable|pragma_\w+|query|query_table|json_execute_serialized_sql",
    re.IGNORECASE,
)
#: Views of the database system that tell the same.
_DENIED_VIEWS: Final = re.compile(r"pg_settings|duckdb_log\w*|pragma_database_list", re.IGNORECASE)
#: What stands before the statement that EXPLAIN explains.
_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b(\s+ANALYZE\b)?(\s*\([^()]*\))?", re.IGNORECASE)
_PARSED: Final = "SELECT json_serialize_sql($sql::VARCHAR)"


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
    for kind, name in _names(_parsed(con, statements[0])):
        if (_DENIED if kind == "function" else _DENIED_VIEWS).fullmatch(name):
            raise QueryError(f"{kind} {name} is not allowed: it reveals or changes more than the tables")


def _parsed(con: DuckDBPyConnection, statement: duckdb.Statement) -> Any:
    """Return a SELECT, also one that is explained, as DuckDB's own parser reads it: quotes and comments hide nothing."""
    prefix = _EXPLAIN.match(statement.query) if statement.type == duckdb.StatementType.EXPLAIN else None
    text = statement.query[prefix.end() :] if prefix is not None else statement.query
    found = orjson.loads(con.execute(_PARSED, {"sql": text}).fetchall()[0][0])
    if found.get("error") or not found.get("statements"):
        raise QueryError("only SELECT, and EXPLAIN [ANALYZE] of one SELECT, can be run here")
    return found["statements"]


def _names(parsed: Any) -> Iterator[tuple[str, str]]:
    """Yield ("function" or "table", name) for each name that a parsed statement uses."""
    if isinstance(parsed, dict):
        for key, value in parsed.items():
            if key in {"function_name", "table_name"} and isinstance(value, str):
                yield key.removesuffix("_name"), value
            else:
                yield from _names(value)
    elif isinstance(parsed, list):
        for value in parsed:
            yield from _names(value)
