"""What a user query may take: seconds, memory, rows, bytes. Its process is killed even while DuckDB computes a value."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import QueryError
from otel_agentic.store.queries import user_queries
from otel_agentic.testing import batch, span
from tests.live.running_collector import eventually
from tests.snapshots import raises
from tests.store.store_queries import ask_sql, run_python

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

ENDLESS = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
MEGABYTE = 1_000_000
_DOUBLING = ", ".join(f"a{n} AS (FROM a{n - 1} x, a{n - 1} y)" for n in range(1, 30))
_JOINED = " NATURAL JOIN ".join(f"(VALUES ({n}, 1)) t{n}(a{n}, b)" for n in range(300))
#: Each takes gigabytes or minutes, and DuckDB neither counts that memory nor looks for interrupts on the way.
BOMBS = {
    "replace": "SELECT replace(replace(repeat('a',10000),'a',repeat('b',10000)),'b',repeat('c',10000))",
    "regexp_replace": "SELECT length(regexp_replace(repeat('a',100000),'a',repeat('b',100000),'g'))",
    "flatten": "SELECT len(flatten(list_transform(range(10000), lambda x: range(10000))))",
    "chain of ||": "SELECT length(s) FROM (SELECT x||x||x||x||x||x||x||x||x||x AS s FROM (SELECT repeat('y', 100000000) AS x))",
    "array_to_string": "SELECT length(array_to_string(list_transform(range(100000), lambda x: repeat('a', 100000)), 'b'))",
    "cross join": "SELECT max(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b",
    "range as a list": "SELECT len(range(1000000000))",
    "repeat": "SELECT repeat('x', 10000000000)",
    "lpad": "SELECT length(lpad('x', 2000000000, 'y'))",
    "list_resize": "SELECT list_resize([1], 1000000000)",
    "levenshtein": "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))",
    "series of moments": "SELECT len(generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2100-01-01', INTERVAL 1 microsecond))",
    "recursion": "WITH RECURSIVE t AS (SELECT 'x' AS s UNION ALL SELECT s || s FROM t) SELECT max(length(s)) FROM t",
    "deep VARIANT": "SELECT (repeat('[', 5000) || repeat(']', 5000))::JSON::VARIANT",
    "planning": f"FROM {_JOINED}",
    "WITH clauses": f"WITH a0 AS (SELECT 1 AS x), {_DOUBLING} SELECT count(*) FROM a29",  # noqa: S608 — of a test
    "sort": "SELECT * FROM range(500000000) ORDER BY hash(range)",
    "list of texts": "SELECT len(list(md5(range::VARCHAR))) FROM range(100000000)",
}
#: One of each kind: a long text, a long list, rows, recursion, planning.
FAST = {"replace", "range as a list", "cross join", "recursion", "planning"}


@pytest.fixture
def filled(store: Store) -> Store:
    """A store of one span."""
    store.accept(batch(span("s")))
    return store


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in BOMBS]
)
def test_a_bomb_is_ended_within_its_limits_and_costs_the_collector_nothing(filled: Store, name: str) -> None:
    before = resident_bytes()

    with pytest.raises(QueryError, match=r"store\.query_timeout_s|store\.query_memory_mb|the query failed|nested"):
        ask_sql(filled, BOMBS[name], timeout_s=0.3, memory_mb=200)

    assert resident_bytes() - before < 64 * MEGABYTE
    assert 0 == len(filled.user_queries.running)
    assert [[1]] == ask_sql(filled, "SELECT count(*) FROM spans")["rows"]


@pytest.mark.parametrize(
    "sql",
    [
        ENDLESS,
        pytest.param(f"EXPLAIN ANALYZE {ENDLESS}", marks=pytest.mark.slow),
        pytest.param(
            "SELECT a.range FROM range(1000000000000) a WHERE a.range % 100000000 = 0", marks=pytest.mark.slow
        ),
    ],
)
def test_the_limit_of_time_is_named(store: Store, sql: str) -> None:
    with raises(QueryError, snapshot("longer than 0.2 s; narrow it (store.query_timeout_s)")):
        ask_sql(store, sql, timeout_s=0.2)


@pytest.mark.parametrize(
    "name",
    ["range as a list", *(pytest.param(name, marks=pytest.mark.slow) for name in ("replace", "lpad", "flatten"))],
)
def test_the_limit_of_memory_is_named(store: Store, name: str) -> None:
    with raises(QueryError, snapshot("more memory than it may have (store.query_memory_mb")):
        ask_sql(store, BOMBS[name], timeout_s=60.0, memory_mb=200)


def test_what_sorts_and_groups_spill_is_bounded_and_removed(open_store: OpenStore) -> None:
    store = open_store()

    with raises(QueryError, snapshot("store.memory_limit_mb and store.temp_limit_mb")):
        ask_sql(store, BOMBS["sort"], timeout_s=60.0, memory_limit_mb=64, temp_limit_mb=8)

    assert [] == list(store.path.parent.glob("*.query-*"))


def test_rows_of_a_billion_are_cut(store: Store) -> None:
    answer = ask_sql(store, "SELECT * FROM range(1000000000)", max_rows=1000)

    assert (1000, True, "store.query_max_rows") == (len(answer["rows"]), answer["truncated"], answer["cut_by"])
    assert not ask_sql(store, "SELECT * FROM range(10)", max_rows=10)["truncated"]


def test_large_cells_are_cut_by_their_bytes(store: Store) -> None:
    answer = ask_sql(store, "SELECT repeat('x', 10000) FROM range(1000000)", max_rows=10**6)

    assert (100, "store.query_max_bytes") == (len(answer["rows"]), answer["cut_by"])
    assert [] == ask_sql(store, "SELECT repeat('x', 10000)", max_bytes=1000)["rows"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "not SQL: .*depth"),
        ("SELECT * FROM " + "(SELECT * FROM " * 500 + "spans" + ")" * 500, "nested too deeply"),
        ("SELECT '" + "x" * 60_000 + "'", "60,009 characters; allowed: 50,000"),
        ("UPDATE EXTENSIONS", "not a statement"),
        ("SELECT '\ud800' FROM nowhere", "nowhere"),
    ],
)
def test_what_the_parser_cannot_take_is_refused(store: Store, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=f"(?s){message}"):
        ask_sql(store, sql)


def test_the_query_of_a_disconnected_client_ends(store: Store) -> None:
    left = threading.Event()
    threading.Timer(0.2, left.set).start()

    with raises(QueryError, snapshot("the client disconnected")):
        ask_sql(store, ENDLESS, is_disconnected=left.is_set)


def test_all_queries_can_be_ended_with_a_reason(store: Store) -> None:
    messages: list[str] = []

    def ask_endlessly() -> None:
        with pytest.raises(QueryError) as refused:
            ask_sql(store, ENDLESS)
        messages.append(str(refused.value))

    askers = [threading.Thread(target=ask_endlessly) for _ in range(2)]
    for asker in askers:
        asker.start()
    eventually(lambda: len(store.user_queries.running), 2)

    assert 2 == store.user_queries.end_all("the collector is stopping")
    for asker in askers:
        asker.join()
    assert ["the collector is stopping"] * 2 == messages
    assert 0 == store.user_queries.end_all("no query runs")


def test_a_query_whose_process_is_killed_by_the_system_says_so(store: Store) -> None:
    others = set(children())  # of tests before this one

    def kill() -> None:
        eventually(lambda: len(set(children()) - others), 1)
        (query,) = set(children()) - others
        os.kill(query, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with raises(
        QueryError,
        snapshot(
            "the process of the query ended with SIGKILL; the query needs more memory than it may have (store.query_memory_mb; store.memory_limit_mb and store.temp_limit_mb for sorts, groups and joins); narrow it"
        ),
    ):
        ask_sql(store, ENDLESS)
    killer.join()


def test_a_process_waits_for_the_next_query_while_queries_follow_one_another(open_store: OpenStore) -> None:
    others = set(children())
    store = open_store()
    store.accept(batch(span("s")))
    answers = []

    def ask() -> set[int]:
        answers.append(ask_sql(store, "SELECT count(*) FROM spans")["rows"])
        return set(children()) - others

    assert set() == ask()
    (first,) = ask()
    (second,) = ask()
    assert first != second  # it answered one query, and ended
    os.kill(second, signal.SIGKILL)
    eventually(lambda: has_ended(second), True)
    (third,) = ask()
    assert [[[1]]] * 4 == answers

    store.close()
    assert third not in children()


def test_a_process_that_no_query_needs_is_ended(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    others = set(children())
    ask_sql(store, "SELECT 1")
    monkeypatch.setattr(user_queries, "_AHEAD_S", 2.0)
    ask_sql(store, "SELECT 1")
    assert 1 == len(set(children()) - others)

    eventually(lambda: set(children()) - others, set())


def test_a_query_ends_with_the_process_that_asked(db: Path, store: Store) -> None:
    store.close()
    asker = run_python(
        """
        import sys
        from pathlib import Path
        from otel_agentic.store.queries.user_queries import QueryLimits, UserQueries

        limits = QueryLimits(timeout_s=600, max_rows=1)
        UserQueries().run(Path(sys.argv[1]), sys.argv[2], limits, as_of_ns=0)
        """,
        db,
        ENDLESS,
    )
    eventually(lambda: len(children(asker.pid)), 1)
    (query,) = children(asker.pid)
    asker.kill()
    asker.communicate()

    eventually(Path(f"/proc/{query}").exists, expected=False)


def children(pid: int | None = None) -> list[int]:
    """Return the processes that a process started and that run."""
    text = " ".join(path.read_text() for path in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"))
    return [int(child) for child in text.split()]


def has_ended(pid: int) -> bool:
    """Return whether a child of this process has ended; its parent has not asked for its exit code yet."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def resident_bytes() -> int:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_long_query_prints_no_progress_bar_into_its_answer(db: Path) -> None:
    code = """
import sys
from pathlib import Path
from otel_agentic.config import StoreSettings
from otel_agentic.store.connection import open_database
con = open_database(Path(sys.argv[1]), StoreSettings(), create=True)
for each in (con, con.cursor()):
    print(each.execute("SELECT current_setting('enable_progress_bar')").fetchall())
"""  # DuckDB enables it in a process that was started with `-c`, as those of queries are
    process = subprocess.run([sys.executable, "-c", code, str(db)], capture_output=True, text=True, check=True)

    assert "[(False,)]\n[(False,)]\n" == process.stdout
