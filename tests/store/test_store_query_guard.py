"""SQL for people: one statement that reads, bounded in time and rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.config import StoreSettings
from otel_agentic.errors import QueryError
from otel_agentic.store.connection import open_database, show
from otel_agentic.store.queries.sql import check_statement
from otel_agentic.testing import batch, span
from tests.store.store_queries import ask_sql, value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store import Store


@pytest.fixture
def filled(store: Store) -> Store:
    """A store of three spans."""
    store.accept(batch(*(span(f"s{number}") for number in range(3))))
    return store


@pytest.fixture(scope="module")
def con(empty_file: Path) -> Iterator[DuckDBPyConnection]:
    """A connection as the process of a query opens it. Statements are checked in it, without a process for each."""
    result = open_database(empty_file, StoreSettings(db=empty_file), create=False, read_only=True)
    show(result, "default")
    yield result
    result.close()


def test_rows_come_with_names_and_types(filled: Store) -> None:
    result = ask_sql(filled, "SELECT name, kind FROM spans ORDER BY name LIMIT 2")

    assert (["name", "kind"], ["VARCHAR", "UTINYINT"]) == (result["columns"], result["types"])
    assert ([["s0", 1], ["s1", 1]], False, None) == (result["rows"], result["truncated"], result["cut_by"])


@pytest.mark.parametrize(
    "sql",
    [
        "FROM spans",
        "TABLE spans",
        "VALUES (1)",
        "DESCRIBE spans",
        "SUMMARIZE spans",
        "SHOW TABLES",
        "WITH query AS (SELECT 1 AS a) SELECT a FROM query -- getenv('HOME')",
        "SELECT query, answer FROM turns WHERE query LIKE '%getenv(%' AND query IN ('a')",
        "SELECT list_transform([1, 2], lambda x: x + 1);",
        "EXPLAIN SELECT count(*) FROM spans",
        "EXPLAIN ANALYZE SELECT count(*) FROM spans",
        "EXPLAIN (FORMAT JSON) SELECT count(*) FROM spans",
        "SELECT * FROM v_reliability UNION ALL SELECT * FROM v_reliability",
        "SELECT unnest([1, 2]) AS a, a + 1 QUALIFY row_number() OVER () = 1",
        "FROM (SELECT kind FROM spans) PIVOT (count(*) FOR kind IN (1, 2))",
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'spans'",
    ],
)
def test_statements_that_read_are_run(con: DuckDBPyConnection, sql: str) -> None:
    con.execute("BEGIN TRANSACTION READ ONLY")
    try:
        assert con.execute(check_statement(con, sql)).description
    finally:
        con.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1; SELECT 2", "2 statements; give exactly one SELECT"),
        ("", "0 statements"),
        ("SELEC 1", "not SQL: .*SELEC"),
        ("INSERT INTO annotations SELECT * FROM annotations", "INSERT is not allowed: .*SELECT or EXPLAIN"),
        ("DELETE FROM spans", "DELETE is not allowed"),
        ("COPY spans TO 'out.csv'", "COPY is not allowed"),
        ("ATTACH 'other.duckdb'", "ATTACH is not allowed"),
        ("PRAGMA database_list", "not allowed"),
        ("CALL pragma_version()", "CALL is not allowed"),
        ("SET threads = 1", "SET is not allowed"),
        ("INSTALL httpfs", "not allowed"),
        ("CREATE TABLE t (a INT)", "CREATE is not allowed"),
        ("CHECKPOINT", "not allowed"),
        ("EXPLAIN ANALYZE DELETE FROM spans", "EXPLAIN .*of one SELECT"),
        ("EXPLAIN (ANALYZE) DELETE FROM spans", "EXPLAIN .*of one SELECT"),
        ("WITH gone AS (DELETE FROM spans RETURNING *) SELECT * FROM gone", "only SELECT|DELETE is not allowed inside"),
        ("SELECT * FROM read_csv('/etc/passwd')", "function .* is not allowed"),
        ("SELECT * FROM read_text('/etc/passwd')", "function .* is not allowed"),
        ("SELECT * FROM glob('/etc/*')", "function .* is not allowed"),
        ("SELECT * FROM '/etc/passwd.csv'", "table /etc/passwd.csv is not allowed"),
        ("SELECT getenv('HOME')", "function getenv is not allowed"),
        ("SELECT \"GetEnv\" /* here */ ('HOME')", "function getenv is not allowed"),
        ("SELECT 'HOME'.getenv()", "function getenv is not allowed"),
        ("SELECT (SELECT current_setting('memory_limit'))", "function current_setting is not allowed"),
        ("EXPLAIN SELECT current_setting('memory_limit')", "function current_setting is not allowed"),
        ("FROM duckdb_settings()", "function duckdb_settings is not allowed"),
        ("FROM pg_catalog.pg_settings", "table pg_settings is not allowed"),
        ("FROM query('FROM duckdb_' || 'settings()')", "function query is not allowed"),
        ("FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))", "json_execute_serialized_sql is not"),
    ],
)
def test_statements_that_change_leave_or_reveal_are_refused_readably(
    con: DuckDBPyConnection, sql: str, why: str
) -> None:
    with pytest.raises(QueryError, match=rf"(?s){why}"):
        check_statement(con, sql)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1; SELECT 2", "2 statements; give exactly one SELECT"),
        ("DELETE FROM spans", "DELETE is not allowed"),
        ("SELECT * FROM read_csv('/etc/passwd')", "function .* is not allowed"),
        ("SELECT nothing FROM spans", 'query failed: .*"nothing" not found'),
    ],
)
def test_what_is_refused_is_refused_by_the_process_of_the_query_too(filled: Store, sql: str, why: str) -> None:
    with pytest.raises(QueryError, match=rf"(?s){why}"):
        ask_sql(filled, sql)

    assert 3 == value(filled, "SELECT count(*) FROM spans")


def test_values_of_every_type_come_back_as_json_can_hold_them(filled: Store) -> None:
    result = ask_sql(
        filled,
        "SELECT 170141183460469231731687303715884105727, '\\x01a'::BLOB, [1], {'a': NULL}, 1.5::DECIMAL(9,1), "
        "TIMESTAMPTZ '2026-01-02 03:04:05+00', 'nan'::DOUBLE",
    )

    expected = [str(2**127 - 1), "0161", [1], {"a": None}, 1.5, "2026-01-02T03:04:05+00:00", None]
    assert expected == result["rows"][0]
