"""One writer: commits are shared, failures are not; acknowledged spans are stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.store.maintenance.migrations import all_migrations
from otel_agentic.testing import batch, span
from tests.snapshots import passage, raises
from tests.store.store_queries import rows, run_python, value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

COUNT = "SELECT count(*) FROM spans"
#: A kind that no column holds. The decoders never let one through; only a test can build it.
UNSTORABLE = replace(span("bad"), kind=300)


class Hold:
    """Keeps the writer busy until it is released, so that batches sent meanwhile wait in the queue."""

    def __init__(self, store: Store) -> None:
        self._released = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=store.write, args=(self._wait,))
        self._thread.start()
        assert self._begun.wait(10)

    def _wait(self, _: Any) -> None:
        self._begun.set()
        self._released.wait(10)

    def release(self) -> None:
        self._released.set()
        self._thread.join()


@pytest.fixture
def senders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as pool:
        yield pool


def wait_for_queue(store: Store, batches: int) -> None:
    deadline = time.monotonic() + 10
    while store._writer.queued_batches < batches:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def send(senders: ThreadPoolExecutor, store: Store, spans: list[Any]) -> list[Any]:
    futures = []
    for number, item in enumerate(spans):
        futures.append(senders.submit(store.accept, batch(item)))
        wait_for_queue(store, number + 1)
    return futures


def test_batches_that_wait_together_share_one_commit(store: Store, senders: ThreadPoolExecutor) -> None:
    hold = Hold(store)
    futures = send(senders, store, [span(f"s{number}") for number in range(20)])
    hold.release()

    assert [1] * 20 == [future.result().accepted for future in futures]
    assert [(20, 1)] == rows(store, "SELECT count(*), count(DISTINCT received_at) FROM spans")


def test_each_of_two_batches_in_one_commit_learns_what_became_of_its_own(
    store: Store, senders: ThreadPoolExecutor
) -> None:
    hold = Hold(store)
    futures = send(senders, store, [span("same"), span("same"), span("other")])
    hold.release()

    receipts = [future.result() for future in futures]
    assert [(1, 0), (0, 1), (1, 0)] == [(receipt.accepted, receipt.duplicate) for receipt in receipts]


def test_a_batch_that_cannot_be_stored_does_not_refuse_its_neighbours(
    store: Store, senders: ThreadPoolExecutor
) -> None:
    hold = Hold(store)
    futures = send(senders, store, [span("a"), UNSTORABLE, span("b")])
    hold.release()

    assert 1 == futures[0].result().accepted
    assert isinstance(futures[1].exception(), OverflowError)
    assert 1 == futures[2].result().accepted
    assert [("a",), ("b",)] == rows(store, "SELECT name FROM spans ORDER BY name")


def test_of_a_batch_that_fails_nothing_is_taken_and_it_may_be_sent_again(store: Store) -> None:
    with pytest.raises(OverflowError):
        store.accept(batch(span("good"), UNSTORABLE))

    assert 0 == value(store, COUNT)
    assert 1 == store.accept(batch(span("good"))).accepted


def test_a_full_queue_takes_nothing_and_says_so(open_store: OpenStore, senders: ThreadPoolExecutor) -> None:
    store = open_store(queue_batches=3)
    hold = Hold(store)
    futures = send(senders, store, [span(f"s{number}") for number in range(3)])

    with raises(
        OverloadedError,
        snapshot("3 spans wait to be written to <db>; send this batch again later"),
        db=store.path,
    ):
        store.accept(batch(span("surplus")))
    hold.release()

    assert [1, 1, 1] == [future.result().accepted for future in futures]
    assert 3 == value(store, COUNT)
    assert 1 == store.accept(batch(span("surplus"))).accepted


def test_too_many_waiting_spans_are_an_overload_too(open_store: OpenStore, senders: ThreadPoolExecutor) -> None:
    store = open_store(queue_spans=10)
    hold = Hold(store)
    futures = send(senders, store, [span("first")])

    with pytest.raises(OverloadedError):
        store.accept(batch(*(span(f"s{number}") for number in range(10))))
    hold.release()

    assert 1 == futures[0].result().accepted


def test_a_batch_larger_than_the_queue_is_taken_when_nothing_waits(open_store: OpenStore) -> None:
    assert 30 == open_store(queue_spans=10).accept(batch(*(span(f"s{number}") for number in range(30)))).accepted


def test_closing_writes_what_is_queued(open_store: OpenStore, senders: ThreadPoolExecutor) -> None:
    store = open_store()
    hold = Hold(store)
    futures = send(senders, store, [span(f"s{number}") for number in range(10)])
    closing = threading.Thread(target=store.close)
    closing.start()
    hold.release()
    closing.join()

    assert [1] * 10 == [future.result().accepted for future in futures]
    assert 10 == value(open_store(), COUNT)


def test_a_closed_store_refuses_and_says_why(store: Store) -> None:
    store.close()

    with pytest.raises(StoreUnusableError, match="closing; try again"):
        store.accept(batch(span()))
    with pytest.raises(StoreUnusableError), store.read():
        pass
    store.close()


def test_work_that_fails_is_rolled_back_and_tells_its_caller(store: Store) -> None:
    def work(con: Any) -> None:
        con.execute("DELETE FROM schema_migrations")
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        store.write(work)

    assert len(all_migrations()) == value(store, "SELECT count(*) FROM schema_migrations")


def test_listeners_hear_of_the_traces_of_each_commit_and_of_no_duplicate(store: Store) -> None:
    notified: list[frozenset[str]] = []
    store.listen(notified.append)
    first, two = span("a", trace="one"), span("b", trace="two")

    store.accept(batch(first, two))
    store.accept(batch(first))
    store.accept(batch(span("c", trace="two")))

    assert [{first.trace_id, two.trace_id}, {two.trace_id}] == notified


def test_a_listener_that_fails_takes_nothing_back(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: frozenset[str]) -> None:
        raise LookupError("listener")

    store.listen(fail)

    assert 1 == store.accept(batch(span())).accepted
    store.write(lambda _: None)  # the listener was heard by now
    assert passage(caplog.text) == snapshot("a listener of the store failed")


def test_commit_times_go_up_although_the_clock_goes_back(open_store: OpenStore) -> None:
    # They show which traces were read before their newest span arrived.
    times = iter([1000, 500, 500])
    with open_store(clock=lambda: next(times)) as first:
        first.accept(batch(span("a")))
        first.accept(batch(span("b")))
    with open_store(clock=lambda: 7) as second:
        second.accept(batch(span("c")))

        assert [("a", 1000), ("b", 1001), ("c", 1002)] == rows(
            second, "SELECT name, epoch_ns(received_at) FROM spans ORDER BY name"
        )


def test_a_reader_sees_one_moment_while_others_write(store: Store) -> None:
    store.accept(batch(span("a")))
    with store.read() as con:
        before = con.execute(COUNT).fetchall()
        store.accept(batch(span("b")))
        after = con.execute(COUNT).fetchall()

    assert before == after
    assert 2 == value(store, COUNT)


KILLED = """
import sys, itertools
from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store
from otel_agentic.testing import batch, span
from pathlib import Path

store = Store(StoreSettings(db=Path(sys.argv[1])), Reader.from_settings(ConversationSettings()))
for number in itertools.count():
    name = f"{sys.argv[2]}-{number}"
    store.accept(batch(*(span(name, span_id=f"{name}-{part}") for part in range(20))))
    print(name)
"""


@pytest.mark.slow  # the crash suite kills ten times
def test_nothing_that_was_acknowledged_is_lost_by_a_kill(open_store: OpenStore, db: Path) -> None:
    acknowledged = []
    for run in range(3):
        with run_python(KILLED, db, str(run)) as process:
            assert process.stdout is not None
            acknowledged += [process.stdout.readline().strip() for _ in range(5 + 3 * run)]
            process.kill()
            acknowledged += process.stdout.read().split()

    stored = dict(rows(open_store(), "SELECT name, count(*) FROM spans GROUP BY name"))
    assert [] == [name for name in acknowledged if stored.get(name) != 20]
    assert {20} == set(stored.values())
