from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pytest

from otel_agentic.store import known_ids
from otel_agentic.store.known_ids import KnownIds
from otel_agentic.store.table import LAST_NS

MINUTE_NS = 60_000_000_000


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE trace_links (trace_id VARCHAR, conversation_id VARCHAR, explicit_id VARCHAR, received_until TIMESTAMP_NS)"
        )
        con.execute("CREATE TABLE conversations (conversation_id VARCHAR, built_at TIMESTAMP_NS)")
        yield con


@pytest.fixture
def known(con: duckdb.DuckDBPyConnection) -> KnownIds:
    @contextmanager
    def read() -> Iterator[duckdb.DuckDBPyConnection]:
        yield con.cursor()

    return KnownIds(read)


def store(con: duckdb.DuckDBPyConnection, count: int, *, prefix: str = "") -> None:
    """Store a trace and its conversation for each minute."""
    con.execute(
        "INSERT INTO trace_links SELECT $prefix || 't' || n, $prefix || 'c' || n, NULLIF($prefix || 'c' || n, $prefix || 'c0'), "
        "make_timestamp_ns((n + 1) * 60000000000) FROM range($count) r(n)",
        {"prefix": prefix, "count": count},
    )
    con.execute(
        "INSERT INTO conversations SELECT conversation_id, received_until + INTERVAL 5 SECONDS FROM trace_links",
    )


def small_partitions(monkeypatch: pytest.MonkeyPatch, size: int = 100) -> None:
    monkeypatch.setattr(known_ids, "_PARTITION", size)
    monkeypatch.setattr(known_ids, "_CHUNK", 3 * size)


def test_an_id_that_no_row_has_was_never_written(known: KnownIds, con: duckdb.DuckDBPyConnection) -> None:
    store(con, 10)
    assert LAST_NS == known.since(["other", "more"]) == known.since([])


def test_stored_ids_are_known_since_their_rows_were_written_or_earlier(
    known: KnownIds, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_partitions(monkeypatch)
    store(con, 1000)
    since = [known.since([f"{kind}{n}"]) for kind in "tc" for n in range(1000)]
    written = [(n + 1) * MINUTE_NS for _ in "tc" for n in range(1000)]
    assert all(earliest <= at for earliest, at in zip(since, written, strict=True))
    # … by at most a partition of ids, of which each minute has two.
    assert all(at - earliest <= 110 * MINUTE_NS for earliest, at in zip(since, written, strict=True))


def test_most_rows_were_written_in_the_first_period_of_their_id_and_all_in_the_last(
    known: KnownIds, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_partitions(monkeypatch)
    assert [known_ids.ALWAYS] == list(known.periods("c1"))  # not loaded yet
    store(con, 1000)
    known.since([])
    known.add(["new"], [2000 * MINUTE_NS])
    assert [] == list(known.periods("other"))
    for name, at in {"t1": 2, "c500": 501, "c999": 1000, "new": 2000}.items():
        (first, until), last = known.periods(name)
        assert first <= at * MINUTE_NS <= until <= first + 320 * MINUTE_NS
        assert last == (first, LAST_NS)


def test_several_ids_are_known_since_the_first_of_them(
    known: KnownIds, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_partitions(monkeypatch)
    store(con, 1000)
    assert known.since(["t900", "c50", "other"]) == known.since(["c50"]) < known.since(["t900"])


def test_an_id_that_differs_from_its_conversation_is_known_too(known: KnownIds, con: duckdb.DuckDBPyConnection) -> None:
    con.execute("INSERT INTO trace_links VALUES ('t', 'chat#2', 'chat', make_timestamp_ns(7000000000))")
    assert known.since(["chat"]) <= 7_000_000_000
    assert known.since(["chat#1"]) == LAST_NS


def test_added_ids_are_known_before_and_after_their_partition_is_full(
    known: KnownIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_partitions(monkeypatch)
    times = {f"id {n}": n * MINUTE_NS for n in range(1, 1001)}
    known.add([], [])
    for start in range(0, 1000, 30):
        part = list(times)[start : start + 30]
        known.add(part, [times[text] for text in part])
    known.add([], [])
    assert LAST_NS == known.since([])
    since = {text: known.since([text]) for text in times}
    assert all(since[text] <= times[text] <= since[text] + 150 * MINUTE_NS for text in times)


def test_an_id_of_an_earlier_time_does_not_lower_the_time_of_others(
    known: KnownIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_partitions(monkeypatch)
    for n in range(1, 1001):
        known.add([f"id {n}"], [n * MINUTE_NS])
    before = known.since(["id 990"])
    known.add(["late", "id 990", "oldest"], [200 * MINUTE_NS, 990 * MINUTE_NS, 1])
    assert before == known.since(["id 990"])
    assert known.since(["late"]) <= 200 * MINUTE_NS
    assert known.since(["oldest"]) <= 1


def test_an_id_that_was_written_earlier_than_known_gets_the_earlier_time(
    known: KnownIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_partitions(monkeypatch)
    for n in range(1, 1001):
        known.add([f"id {n}"], [n * MINUTE_NS])
    known.add(["id 900"], [100 * MINUTE_NS])
    assert known.since(["id 900"]) <= 100 * MINUTE_NS


def test_after_forgetting_all_rows_are_searched(known: KnownIds, con: duckdb.DuckDBPyConnection) -> None:
    store(con, 10)
    known.since(["t1"])
    known.forget()
    known.add(["new"], [5 * MINUTE_NS])
    assert 0 == known.since(["t1"]) == known.since(["other"])


def test_without_loading_all_rows_are_searched_until_something_has_loaded_the_ids(
    known: KnownIds, con: duckdb.DuckDBPyConnection
) -> None:
    store(con, 10)
    assert 0 == known.since(["other"], load=False)
    known.since([])
    assert LAST_NS == known.since(["other"], load=False)


def test_ids_that_no_utf_8_encodes_and_threads_are_accepted(known: KnownIds) -> None:
    names = [f"\ud800{n}" for n in range(200)]
    threads = [threading.Thread(target=known.add, args=([name], [n])) for n, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(known.since([name]) <= n for n, name in enumerate(names))
