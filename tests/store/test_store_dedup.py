"""Each (trace id, span id) is stored once, however often and however late it is sent again."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from otel_agentic.spans.model import Receipt, Span
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, log_record, span
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

COUNT = "SELECT count(*) FROM spans"
HOUR_NS = 3600 * SECOND_NS


def outcome(receipt: Receipt) -> tuple[int, int]:
    return (receipt.accepted, receipt.duplicate)


def several(count: int, start_ns: int = NOON_NS) -> list[Span]:
    return [span(f"s{number}", start_ns=start_ns + number) for number in range(count)]


def test_a_batch_sent_twice_is_stored_once(store: Store) -> None:
    spans = several(5)

    assert (5, 0) == outcome(store.accept(batch(*spans)))
    assert (0, 5) == outcome(store.accept(batch(*reversed(spans))))
    assert 5 == value(store, COUNT)


def test_a_span_twice_in_one_batch_is_stored_once(store: Store) -> None:
    first, two = several(2)

    assert (2, 2) == outcome(store.accept(batch(first, two, first, two)))


def test_the_same_span_id_in_another_trace_is_another_span(store: Store) -> None:
    first = span(trace="one", span_id="same")

    assert (2, 0) == outcome(store.accept(batch(first, span(trace="two", span_id="same"))))


def test_a_span_sent_again_after_the_file_was_reopened_is_a_duplicate(open_store: OpenStore) -> None:
    spans = several(5)
    with open_store() as first:
        first.accept(batch(*spans))

    assert (1, 5) == outcome(open_store().accept(batch(*spans, span("new"))))


def test_a_span_sent_again_with_another_start_is_a_duplicate(store: Store) -> None:
    original = span(span_id="one", start_ns=NOON_NS)
    store.accept(batch(original))

    assert (0, 1) == outcome(store.accept(batch(replace(original, start_ns=NOON_NS + 24 * HOUR_NS))))


def test_a_span_sent_again_with_another_start_is_a_duplicate_after_a_reopening_too(open_store: OpenStore) -> None:
    original = span(span_id="one", start_ns=NOON_NS)
    with open_store() as first:
        first.accept(batch(original))

    assert (0, 1) == outcome(open_store().accept(batch(replace(original, start_ns=NOON_NS + 24 * HOUR_NS))))


def test_a_span_older_than_the_memory_of_ids_is_found_by_its_start(open_store: OpenStore) -> None:
    store = open_store(recent_ids=4)
    old = several(3)
    store.accept(batch(*old))
    for number in range(5):
        store.accept(batch(*several(4, NOON_NS + number * HOUR_NS)))
    before = value(store, COUNT)

    assert (0, 3) == outcome(store.accept(batch(*old)))
    assert (1, 3) == outcome(store.accept(batch(*old, span("new", start_ns=NOON_NS - 24 * HOUR_NS))))
    assert before + 1 == value(store, COUNT)


def test_of_conflicting_duplicates_the_first_wins_and_the_other_is_counted(store: Store) -> None:
    first = span("first", span_id="one", attributes={"answer": 1})
    second = replace(first, name="second", attributes={"answer": 2})

    assert (1, 1) == outcome(store.accept(batch(first, second)))
    assert (0, 1) == outcome(store.accept(batch(second)))
    assert [("first", '{"answer":1}')] == rows(store, "SELECT name, attributes FROM spans")


def test_a_log_record_sent_again_is_a_duplicate(open_store: OpenStore) -> None:
    of = span()
    choice = log_record(of, "gen_ai.choice", {"content": "hi"})
    with open_store() as first:
        assert (2, 1) == outcome(first.accept(batch(of, choice, choice)))
        assert (0, 1) == outcome(first.accept(batch(choice)))

    assert (0, 1) == outcome(open_store().accept(batch(choice)))


@pytest.mark.parametrize(
    "change", [{"event_name": "gen_ai.user.message"}, {"body": "ho"}, {"time_ns": 7}, {"attributes": {"index": 1}}]
)
def test_a_log_record_that_says_something_else_is_another(store: Store, change: dict[str, Any]) -> None:
    choice = log_record(span(), "gen_ai.choice", "hi")

    assert (2, 0) == outcome(store.accept(batch(choice, replace(choice, **change))))


def test_what_was_rejected_and_ignored_on_the_way_in_stands_in_the_receipt(store: Store) -> None:
    both = {"bad id": 2, "no span": 1}
    arrived = replace(batch(*several(3)), rejected=both, ignored={"own telemetry": 4, "no span": 5})

    receipt = store.accept(arrived)

    assert (3, 0, 3, 9) == (receipt.accepted, receipt.duplicate, receipt.rejected, receipt.ignored)
    assert {"bad id": 2, "no span": 6, "own telemetry": 4} == receipt.reasons
    assert receipt.reasons == store.accept(replace(arrived, spans=())).reasons


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), min_size=1, max_size=6))
def test_however_spans_are_batched_the_ledger_adds_up(
    store: Store, counter: itertools.count[int], batches: list[list[int]]
) -> None:
    run = next(counter)  # one file serves all examples: each has traces of its own
    total = Receipt()
    for numbers in batches:
        total += store.accept(batch(*(span(trace=f"run {run}", span_id=str(number)) for number in numbers)))

    sent = [number for numbers in batches for number in numbers]
    assert (len(set(sent)), len(sent) - len(set(sent))) == outcome(total)


@pytest.fixture
def counter() -> itertools.count[int]:
    return itertools.count()


def test_the_ledger_adds_up_under_eight_senders_of_overlapping_batches(open_store: OpenStore) -> None:
    store = open_store(recent_ids=50)
    spans = several(400)
    receipts: list[Receipt] = []
    lock = threading.Lock()

    def send(offset: int) -> None:
        for step in range(12):
            first = (offset * 37 + step * 25) % len(spans)
            part: Sequence[Span] = spans[first : first + 60]
            receipt = store.accept(replace(batch(*part), rejected={"bad id": 1}, ignored={"own": 2}))
            assert len(part) + 3 == receipt.accepted + receipt.duplicate + receipt.rejected + receipt.ignored
            with lock:
                receipts.append(receipt)

    threads = [threading.Thread(target=send, args=(offset,)) for offset in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    total = sum(receipts, Receipt())
    assert 8 * 12 == len(receipts)
    assert value(store, COUNT) == total.accepted
    assert [] == rows(store, "SELECT trace_id, span_id FROM spans GROUP BY ALL HAVING count(*) > 1")
