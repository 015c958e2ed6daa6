"""SQL for people: one statement that reads, bounded in time and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.errors import QueryError
from otel_agentic.store.query_guard import QueryLimits, run_query
from otel_agentic.testing import batch, span
from tests.store.asking import value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from otel_agentic.store.query_guard import Result


@pytest.fixture
def filled(store: Store) -> Store:
    """A store of three spans."""
    store.accept(batch(*(span(f"s{number}") for number in range(3))))
    return store


def ask(store: Store, sql: str, *, timeout_s: float = 10.0, max_rows: int = 100) -> Result:
    limits = QueryLimits(timeout_s=timeout_s, max_rows=max_rows, max_bytes=1_000_000)
    with store.connection() as con:
        return run_query(con, sql, limits, queries=store.user_queries)


def test_rows_come_with_names_and_types(filled: Store) -> None:
    found = ask(filled, "SELECT name, kind FROM spans ORDER BY name LIMIT 2")

    assert (("name", "kind"), ("VARCHAR", "UTINYINT")) == (tuple(found.columns), tuple(found.types))
    assert [("s0", 1), ("s1", 1)] == found.rows
    assert not found.truncated


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
def test_whatever_reads_is_run(filled: Store, sql: str) -> None:
    assert ask(filled, sql).columns


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1; SELECT 2", "2 statements; give exactly one SELECT"),
        ("", "0 statements"),
        ("SELEC 1", "not SQL: .*SELEC"),
        ("INSERT INTO labels SELECT * FROM labels", "INSERT is not allowed: .*SELECT or EXPLAIN"),
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
        ("SELECT nothing FROM spans", 'query failed: .*"nothing" not found'),
    ],
)
def test_whatever_changes_leaves_or_reveals_is_refused_readably(filled: Store, sql: str, why: str) -> None:
    with pytest.raises(QueryError, match=rf"(?s){why}"):
        ask(filled, sql)

    assert 3 == value(filled, "SELECT count(*) FROM spans")


def test_a_query_that_takes_too_long_is_interrupted(filled: Store) -> None:
    with pytest.raises(QueryError, match=r"longer than 0\.2 s; narrow it \(store\.query_timeout_s\)"):
        ask(filled, "SELECT count(*) FROM range(10000000) a, range(10000000) b", timeout_s=0.2)

    assert [(3,)] == ask(filled, "SELECT count(*) FROM spans").rows


def test_rows_beyond_the_limit_are_cut_and_told(filled: Store) -> None:
    found = ask(filled, "SELECT * FROM range(1000000)", max_rows=10)

    assert (10, True) == (len(found.rows), found.truncated)
    assert not ask(filled, "SELECT * FROM range(10)", max_rows=10).truncated


def test_an_asker_sees_spans_that_were_acknowledged_before(filled: Store) -> None:
    filled.accept(batch(span("new")))

    assert [(4,)] == ask(filled, "SELECT count(*) FROM spans").rows


def test_values_of_every_type_come_back(filled: Store) -> None:
    found: Any = ask(
        filled, "SELECT 170141183460469231731687303715884105727, 'a'::BLOB, [1], {'a': NULL}, 1.5::DECIMAL(9,1)"
    )

    assert (2**127 - 1, b"a", [1], {"a": None}) == found.rows[0][:4]
