"""What a query may take: seconds, memory, rows, bytes; and who else may end it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.errors import QueryError
from otel_agentic.store.query_guard import QueryLimits, memory_bytes, run_query
from otel_agentic.testing import batch, span
from tests.store.asking import value

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.store import Store
    from otel_agentic.store.query_guard import Result

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
MEGABYTE = 1_000_000


def ask(
    store: Store,
    sql: str,
    *,
    timeout_s: float = 20.0,
    max_rows: int = 100,
    max_bytes: int = MEGABYTE,
    max_growth_bytes: int = 1000 * MEGABYTE,
    gone: Callable[[], bool] = lambda: False,
) -> Result:
    limits = QueryLimits(timeout_s=timeout_s, max_rows=max_rows, max_bytes=max_bytes, max_growth_bytes=max_growth_bytes)
    with store.connection() as con:
        return run_query(con, sql, limits, queries=store.user_queries, gone=gone)


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        f"EXPLAIN ANALYZE {ENDLESS}",
        "WITH RECURSIVE t AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM t) SELECT max(a) FROM t",
        "SELECT * FROM range(1000000000000) WHERE range < 0",
        "SELECT max(a) FROM generate_series(1, 1000000000000) t(a)",
    ],
)
def test_what_takes_too_long_is_interrupted_while_it_computes(store: Store, sql: str) -> None:
    with pytest.raises(QueryError, match=r"longer than 0\.2 s; narrow it \(store\.query_timeout_s\)"):
        ask(store, sql, timeout_s=0.2)

    assert 0 == len(store.user_queries)
    assert [(1,)] == ask(store, "SELECT 1").rows


def test_what_takes_too_long_is_interrupted_while_rows_are_fetched(store: Store) -> None:
    slow = "SELECT a.range FROM range(1000000000) a WHERE a.range % 1000000 = 0"

    with pytest.raises(QueryError, match=r"longer than 0\.2 s"):
        ask(store, slow, timeout_s=0.2, max_rows=10**9)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 10000000000)",
        "SELECT 'x'.repeat(10000000000)",
        "SELECT repeat(repeat('x', 10000), 10000)",
        "SELECT length(lpad('x', 1000000000, 'y'))",
        "SELECT length(rpad(name, 1000000000, 'y')) FROM spans",
        "SELECT len(range(1000000000))",
        "SELECT len(range(0, 1000000000))",
        "SELECT len(generate_series(1, 1000000000))",
        "SELECT len(generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2100-01-01', INTERVAL 1 microsecond))",
        "SELECT list_resize([1], 1000000000)",
        "SELECT list_transform([1000000000], lambda x: range(x))",
        "SELECT [y FOR y IN range(1000000000)]",
        "SELECT levenshtein(repeat('x', 10000), repeat('y', 10000))",
        "SELECT jaro_similarity(repeat('x', 10000), repeat('y', 10000))",
    ],
)
def test_a_value_that_would_fill_the_memory_is_not_begun(filled: Store, sql: str) -> None:
    before = memory_bytes()

    with pytest.raises(QueryError, match=r"more than 10000|too long to compare"):
        ask(filled, sql)

    assert memory_bytes() - before < 100 * MEGABYTE


@pytest.mark.parametrize("sql", ["SELECT system.main.repeat('x', 3)", "SELECT main.range(3)", "SELECT system.range(3)"])
def test_the_unbounded_functions_are_not_reached_by_their_schema(store: Store, sql: str) -> None:
    with pytest.raises(QueryError, match="call it without its schema"):
        ask(store, sql)


def test_bounded_functions_do_what_they_did(store: Store) -> None:
    (row,) = ask(
        store,
        "SELECT repeat('ab', 2), repeat([1], 2), lpad('x', 3, '-'), range(1, 6, 2), range(3, 1, -1), range(NULL), "
        "generate_series(DATE '2026-01-01', DATE '2026-01-02', INTERVAL 1 day)[2]::DATE::VARCHAR, "
        "levenshtein('ab', 'ac'), list_resize([1], 2)",
    ).rows

    expected: Any = ("abab", [1, 1], "--x", [1, 3, 5], [3, 2], None, "2026-01-02", 1, [1, None])
    assert expected == row


def test_memory_for_sorts_and_groups_is_bounded(open_store: Callable[..., Store]) -> None:
    small = open_store(memory_limit_mb=64, temp_limit_mb=8)

    for sql in (
        "SELECT * FROM range(50000000) ORDER BY hash(range)",
        "SELECT len(list(range)) FROM range(100000000)",
        "SELECT length(string_agg(range::VARCHAR)) FROM range(100000000)",
        "WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    ):
        with pytest.raises(QueryError, match=r"store\.memory_limit_mb, store\.temp_limit_mb"):
            ask(small, sql)
    assert [(1,)] == ask(small, "SELECT 1").rows


def test_a_query_under_which_the_process_grows_is_ended(store: Store) -> None:
    wide = "SELECT max(length(a || a)) FROM (SELECT repeat('x', 10000) || range AS a FROM range(100000000))"

    with pytest.raises(QueryError, match=r"more than 10 MB of memory; narrow it \(store\.query_memory_mb\)"):
        ask(store, wide, max_growth_bytes=10 * MEGABYTE)


def test_rows_of_a_billion_are_cut(store: Store) -> None:
    found = ask(store, "SELECT * FROM range(1000000000)", max_rows=1000)

    assert (1000, "store.query_max_rows") == (len(found.rows), found.cut_by)


def test_large_cells_are_cut_by_their_bytes(store: Store) -> None:
    found = ask(store, "SELECT repeat('x', 10000) FROM range(1000000)", max_rows=10**6)

    assert (100, "store.query_max_bytes") == (len(found.rows), found.cut_by)
    assert [] == ask(store, "SELECT repeat('x', 10000)", max_bytes=1000).rows


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "not SQL: .*depth"),
        ("SELECT * FROM " + "(SELECT * FROM " * 500 + "spans" + ")" * 500, "nested too deeply"),
        ("SELECT 1" + "+1" * 5000, "not SQL: .*depth"),
        ("SELECT a" + ".a" * 100, "a name of 101 parts; allowed: 50"),
        ("SELECT 1 FROM spans" + ", spans" * 300, "reads 301 tables.*allowed: 200"),
        ("SELECT 1 FROM range(3)" + ", range(3)" * 300, "reads 301 tables"),
        ("SELECT (repeat('[', 5000) || repeat(']', 5000))::JSON::VARIANT", "type VARIANT is not allowed"),
        ("SELECT TRY_CAST(attributes AS STRUCT(a main.variant[])) FROM spans", "type VARIANT is not allowed"),
        ("FROM spans" + " NATURAL JOIN spans" * 30, "reads 331 tables"),
        ("SELECT '" + "x" * 60_000 + "'", "60,009 characters; allowed: 50,000"),
        ("UPDATE EXTENSIONS", "not a statement"),
        ("SELECT '\ud800'", "not a statement"),
    ],
)
def test_what_only_keeps_parser_and_planner_busy_is_refused(store: Store, sql: str, told: str) -> None:
    with pytest.raises(QueryError, match=f"(?s){told}"):
        ask(store, sql)


def test_with_clauses_that_double_each_other_are_refused(store: Store) -> None:
    parts = ["a0 AS (SELECT 1 AS x)", *(f"a{n} AS (FROM a{n - 1} x, a{n - 1} y)" for n in range(1, 30))]

    with pytest.raises(QueryError, match="reads more than 2,000 tables, its WITH clauses put in place"):
        ask(store, " ".join(("WITH", ", ".join(parts), "SELECT count(*) FROM a29")))


def test_whoever_goes_away_has_their_query_ended(store: Store) -> None:
    left = threading.Event()
    threading.Timer(0.2, left.set).start()

    with pytest.raises(QueryError, match="who asked went away"):
        ask(store, ENDLESS, gone=left.is_set)


def test_the_store_ends_all_queries_when_it_needs_what_they_take(store: Store) -> None:
    told: list[str] = []

    def asking() -> None:
        try:
            ask(store, ENDLESS)
        except QueryError as error:
            told.append(str(error))

    askers = [threading.Thread(target=asking) for _ in range(2)]
    for asker in askers:
        asker.start()
    deadline = time.monotonic() + 20
    while len(store.user_queries) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)

    assert 2 == store.user_queries.end_all("the collector needed its memory")
    for asker in askers:
        asker.join()
    assert ["the collector needed its memory"] * 2 == told
    assert 0 == store.user_queries.end_all("nobody is left")


def test_a_query_leaves_nothing_behind(filled: Store) -> None:
    for sql in ("SELECT 1", "SELECT nothing FROM spans", "SELECT repeat('x', 100000)"):
        try:
            ask(filled, sql)
        except QueryError:
            continue

    assert 0 == value(filled, "SELECT count(*) FROM duckdb_functions() WHERE database_name = 'temp'")
    assert 0 == len(filled.user_queries)


@pytest.fixture
def filled(store: Store) -> Store:
    """A store of one span."""
    store.accept(batch(span("s")))
    return store
