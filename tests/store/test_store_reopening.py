"""When DuckDB gives up on the file it is opened again by itself, and nothing acknowledged is lost or doubled."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import StoreUnusableError
from otel_agentic.testing import batch, span
from tests.snapshots import raises
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

T = TypeVar("T")
COUNT = "SELECT count(*) FROM spans"


@contextmanager
def full_disk(db: Path) -> Iterator[None]:
    """Have the system refuse what makes a file longer than half of the store's log is, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    wal = db.with_name(f"{db.name}.wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (wal.stat().st_size // 2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def large(name: str, **changes: Any) -> SpanBatch:
    """Return ten spans that nothing can make small."""
    parts = (span(name, span_id=f"{name}-{part}", attributes={"x": os.urandom(2000).hex()}) for part in range(10))
    return batch(*(replace(part, **changes) for part in parts))


def fill(store: Store, batches: int = 20) -> None:
    """Store some spans, so that the log is longer than anything else that is written meanwhile."""
    for number in range(batches):
        store.accept(large(f"filled-{number}"))


def kill(store: Store) -> None:
    """Have DuckDB give up on the file: a checkpoint without room for it.

    It runs on the writer thread, as every checkpoint of a store does: DuckDB 2.0 writes a log that it cannot replay when a
    commit of another thread follows a checkpoint that failed.
    """
    with full_disk(store.path), pytest.raises(StoreUnusableError, match="opened again"):
        store.write(lambda con: con.execute("CHECKPOINT"))


def read_until_refused(store: Store) -> None:
    """Read on one connection before and after DuckDB gave up."""
    with store.read() as con:
        con.execute(COUNT).fetchall()
        kill(store)
        for _ in range(3000):
            con.execute(COUNT).fetchall()
            time.sleep(0.01)


def eventually(work: Callable[[], T]) -> T:
    """Return the result of some work once the store can be used again."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return work()
        except StoreUnusableError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_commit_without_room_is_refused_at_once_and_reads_go_on(store: Store) -> None:
    fill(store)
    with full_disk(store.path):
        with raises(
            StoreUnusableError,
            snapshot(
                '<db>: TransactionContext Error: Failed to commit: Could not write file "<db>.wal": File too large. Nothing was stored; free some disk space'
            ),
            db=store.path,
        ):
            store.accept(large("surplus"))
        assert 200 == value(store, COUNT)

    assert 10 == store.accept(large("surplus")).accepted
    assert 210 == value(store, COUNT)


def test_a_file_that_duckdb_gave_up_is_opened_again_by_itself(store: Store) -> None:
    fill(store)
    kill(store)

    assert 200 == eventually(lambda: value(store, COUNT))
    assert 10 == eventually(lambda: store.accept(large("later"))).accepted
    assert store.problem is None


def test_spans_are_refused_with_the_reason_while_the_file_is_opened_again(store: Store) -> None:
    fill(store)
    with store.connection() as con:  # a reader that does not let go holds up the opening
        kill(store)
        with raises(
            StoreUnusableError,
            snapshot(
                '<db> failed and is being opened again: FATAL Error: Failed to create checkpoint because of error: Could not write file "<db>.wal": File too large'
            ),
            db=store.path,
        ):
            store.accept(large("refused"))
        with raises(StoreUnusableError, snapshot("failed and is being opened again")), store.read():
            pass
        del con

    assert 10 == eventually(lambda: store.accept(large("refused"))).accepted


def test_a_reader_of_the_failed_file_must_ask_again_and_the_next_read_works(store: Store) -> None:
    fill(store)
    with raises(StoreUnusableError, snapshot("ask again in a moment")):
        read_until_refused(store)

    assert 200 == eventually(lambda: value(store, COUNT))


def test_an_idle_reader_does_not_keep_the_file_from_being_opened_again(store: Store) -> None:
    fill(store)
    done = threading.Event()

    def hold() -> None:
        with store.connection():
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    kill(store)

    assert 10 == eventually(lambda: store.accept(large("later"))).accepted
    done.set()
    holder.join()


def test_after_the_file_was_opened_again_resent_spans_are_known_even_with_another_start_time(store: Store) -> None:
    fill(store)
    sent = large("sent")
    store.accept(sent)
    kill(store)

    again = batch(*(replace(item, start_ns=item.start_ns + 10**15, end_ns=item.end_ns + 10**15) for item in sent.spans))
    assert (0, 10) == (
        (receipt := eventually(lambda: store.accept(again))).accepted,
        receipt.duplicate,
    )
    assert 210 == value(store, COUNT)


def test_a_checkpoint_without_disk_space_loses_no_acknowledged_span(open_store: OpenStore) -> None:
    store = open_store(checkpoint_threshold_mb=1, reopen_s=0.05)
    acknowledged = []

    def send(number: int) -> None:
        try:
            store.accept(large(f"s{number}"))
        except StoreUnusableError:
            return
        acknowledged.append(f"s{number}")

    send(0)
    with full_disk(store.path):
        for number in range(1, 60):
            send(number)
    for number in range(60, 120):
        send(number)
    eventually(lambda: store.accept(large("last")))
    store.close()

    stored = dict(rows(open_store(), "SELECT name, count(*) FROM spans GROUP BY name"))
    assert [] == [name for name in acknowledged if stored.get(name) != 10]
    assert {10} == set(stored.values())
    assert 60 <= len(acknowledged)


def test_nothing_is_acknowledged_into_a_file_that_was_removed(store: Store) -> None:
    store.accept(batch(span("a")))
    away = store.path.with_name("away.duckdb")
    store.path.rename(away)

    with raises(
        StoreUnusableError,
        snapshot(
            "<db> was removed or replaced while it was open: nothing is stored. Put the file back, or restart the collector to continue with the current file"
        ),
        db=store.path,
    ):
        store.accept(batch(span("b")))
    assert 1 == value(store, COUNT)

    away.rename(store.path)
    assert 1 == store.accept(batch(span("b"))).accepted


def test_a_removed_log_loses_nothing_acknowledged(open_store: OpenStore, db: Path) -> None:
    store = open_store()
    store.accept(batch(span("a")))
    db.with_name(f"{db.name}.wal").unlink()
    store.accept(batch(span("b")))
    copy = db.with_name("copy.duckdb")  # what a restart after a power loss would find
    copy.write_bytes(db.read_bytes())

    assert [("a",), ("b",)] == rows(open_store(db=copy), "SELECT name FROM spans ORDER BY name")


@pytest.mark.parametrize("torn", [1, 100, 5000])
def test_a_log_with_a_torn_end_gives_back_every_commit_before_it(
    store: Store, open_store: OpenStore, torn: int
) -> None:
    store.accept(large("a"))
    log_bytes = store.path.with_name(f"{store.path.name}.wal").stat().st_size
    store.accept(large("b"))
    copy = store.path.with_name("copy.duckdb")
    copy.write_bytes(store.path.read_bytes())
    log = store.path.with_name(f"{store.path.name}.wal").read_bytes()
    assert len(log) - torn > log_bytes
    copy.with_name(f"{copy.name}.wal").write_bytes(log[:-torn])

    again = open_store(db=copy)
    assert [("a",)] == rows(again, "SELECT DISTINCT name FROM spans")
    assert 10 == again.accept(large("b")).accepted


def test_a_closed_store_that_was_dead_closes_all_the_same(store: Store) -> None:
    fill(store)
    with store.connection():
        kill(store)
        store.close()

    with pytest.raises(StoreUnusableError):
        store.accept(batch(span()))
