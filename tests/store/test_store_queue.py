"""What waits for the writer is bounded in number and in bytes, and neither senders nor other work starve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.store.durability import Checkpoints
from otel_agentic.store.writer import GROUP_BYTES, GROUP_SPANS, QueueLimits, WorkJob, WriteQueue
from otel_agentic.testing import batch, span
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch

MB = 1024 * 1024
LIMITS = QueueLimits(batches=1000, spans=100_000, size_bytes=128 * MB)
SPAN = span()


def queue_of(**changes: int) -> WriteQueue:
    return WriteQueue(Path("t.duckdb"), replace(LIMITS, **changes))


def sized(size_bytes: int, spans: int = 1) -> SpanBatch:
    return replace(batch(SPAN), spans=(SPAN,) * spans, size_bytes=size_bytes)


def test_large_requests_are_refused_by_their_bytes_long_before_their_number() -> None:
    queue = queue_of(size_bytes=10 * MB)
    queue.put_batch(sized(4 * MB))
    queue.put_batch(sized(4 * MB))

    with raises(OverloadedError, snapshot("send this batch again later")):
        queue.put_batch(sized(4 * MB))
    queue.next(None)
    queue.put_batch(sized(4 * MB))


def test_a_request_larger_than_the_queue_is_taken_where_nothing_waits() -> None:
    queue = queue_of(size_bytes=1)
    queue.put_batch(sized(64 * MB))

    assert 1 == len(queue)


def test_what_was_queued_is_written_though_who_sent_it_goes_away() -> None:
    queue = queue_of()
    receipt = queue.put_batch(sized(1))

    assert not receipt.cancel()
    assert 1 == len(queue)


@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 20 * MB)), min_size=1, max_size=30))
def test_every_group_is_small_enough_and_batches_keep_their_order(items: list[tuple[int, int]]) -> None:
    queue = queue_of(spans=10**9, size_bytes=10**12)
    sent = [sized(size_bytes, spans) for spans, size_bytes in items]
    for item in sent:
        queue.put_batch(item)
    groups = []
    while len(queue):
        group = queue.next(None)
        assert isinstance(group, list)
        groups.append(group)

    assert [id(item) for item in sent] == [id(job.batch) for group in groups for job in group]
    for group in groups:
        assert len(group) == 1 or sum(job.size_bytes for job in group) <= GROUP_BYTES
        assert sum(job.spans for job in group[:-1]) < GROUP_SPANS
    queue.put_batch(sized(1))  # a batch taken out is no longer counted


def test_batches_and_other_work_take_turns() -> None:
    queue = queue_of()
    for _ in range(2):
        queue.put_work(lambda _: None)
        queue.put_batch(sized(GROUP_BYTES))

    turns = ["work" if isinstance(queue.next(None), WorkJob) else "batches" for _ in range(4)]
    assert ["batches", "work", "batches", "work"] == turns


def test_what_waits_when_the_file_fails_is_handed_back_and_later_jobs_are_refused_until_it_is_open_again() -> None:
    queue = queue_of()
    queue.put_batch(sized(1))
    queue.put_work(lambda _: None)

    assert 2 == len(queue.refuse("it failed"))
    with pytest.raises(StoreUnusableError, match="it failed"):
        queue.put_batch(sized(1))
    with pytest.raises(StoreUnusableError, match="it failed"):
        queue.put_work(lambda _: None)
    queue.admit()
    queue.put_batch(sized(1))


@dataclass
class Disk:
    folder: Path

    def checkpoints(self, threshold_mb: int) -> Checkpoints:
        return Checkpoints(self.folder / "t.duckdb", threshold_mb)

    def write_log(self, size_bytes: int) -> None:
        (self.folder / "t.duckdb.wal").write_bytes(bytes(size_bytes))


def test_a_checkpoint_is_due_once_the_log_is_long(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    checkpoints = disk.checkpoints(1)

    assert not checkpoints.is_due()
    disk.write_log(999_999)
    assert not checkpoints.is_due()
    disk.write_log(1_000_000)
    assert checkpoints.anchor()
    assert checkpoints.is_due()
    assert checkpoints.is_wise()


def test_a_log_that_is_not_the_own_one_is_left_alone(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    checkpoints = disk.checkpoints(1)
    disk.write_log(10)
    assert checkpoints.anchor()
    assert checkpoints.is_wise()

    (tmp_path / "t.duckdb.wal").rename(tmp_path / "moved.wal")
    assert checkpoints.is_wise()
    disk.write_log(1_000_000)
    assert not checkpoints.is_wise()


def test_after_a_checkpoint_failed_none_is_tried_for_a_while(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.write_log(1_000_000)
    checkpoints = disk.checkpoints(1)
    checkpoints.failed()

    assert not checkpoints.is_wise()
    checkpoints.succeeded()
    assert checkpoints.is_wise()


def test_a_log_that_vanished_without_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    checkpoints = disk.checkpoints(1)
    assert checkpoints.anchor()  # no log exists yet
    disk.write_log(10)
    assert checkpoints.anchor()
    (tmp_path / "t.duckdb.wal").unlink()

    assert not checkpoints.anchor()
    checkpoints.succeeded()
    assert checkpoints.anchor()
