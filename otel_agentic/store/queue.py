"""The queue of the writer: batches from senders and other work, both bounded, taken in turn."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import OverloadedError, StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from otel_agentic.spans.model import SpanBatch
    from otel_agentic.spans.ports import Receipt

#: How much of the queue one transaction takes: enough for an efficient commit, little enough to acknowledge quickly.
GROUP_SPANS: Final = 8_000
GROUP_BYTES: Final = 16 * 1024 * 1024
#: If this many senders shared the last commit, a commit of few spans waits a moment for others to join it: a commit costs as
#: much CPU as storing a hundred spans, and CPU time taken from the receivers delays every sender more (as PostgreSQL's
#: `commit_delay` does for `commit_siblings`).
_SIBLINGS: Final = 4
_FEW_SPANS: Final = 64
_JOIN_S: Final = 0.01
#: Assumed size of an item in a batch that does not state its size.
_ITEM_BYTES: Final = 2 * 1024


def _begun() -> Future[Any]:
    """Return a future that cannot be cancelled: queued data is written even if its sender disconnected."""
    begun: Future[Any] = Future()
    begun.set_running_or_notify_cancel()
    return begun


@dataclass(slots=True, kw_only=True)
class BatchJob:
    """A batch to store."""

    batch: SpanBatch
    done: Future[Receipt] = field(default_factory=_begun)

    @property
    def spans(self) -> int:
        """Spans and log records."""
        return len(self.batch.spans) + len(self.batch.logs)

    @property
    def size_bytes(self) -> int:
        """Approximate size of the request that contained it."""
        return self.batch.size_bytes or _ITEM_BYTES * self.spans


@dataclass(slots=True, kw_only=True)
class WorkJob:
    """Any other work in a transaction of its own; `bare` work runs outside a transaction."""

    work: Callable[[DuckDBPyConnection], Any]
    bare: bool = False
    done: Future[Any] = field(default_factory=_begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much may wait before senders are refused. A batch larger than the limits is accepted if the queue is empty."""

    batches: int
    spans: int
    size_bytes: int


class WriteQueue:
    """Batches and other work in two queues; the writer alternates between a group of batches and one work. Thread-safe."""

    def __init__(self, path: Path, limits: QueueLimits) -> None:
        self._path = path
        self._limits = limits
        self._batches: deque[BatchJob] = deque()
        self._work: deque[WorkJob] = deque()
        self._spans = 0
        self._size_bytes = 0
        self._wake = threading.Condition()
        self._closing = False
        self._refusal: str | None = None
        self._nudged = False
        self._works_turn = False
        self._full = False
        self._sharers = 0

    def __len__(self) -> int:
        """Return the number of waiting batches."""
        return len(self._batches)

    @property
    def spans(self) -> int:
        """The number of waiting spans and log records."""
        return self._spans

    @property
    def is_full(self) -> bool:
        """Whether the last batch was refused, and no batch that was waiting then has been taken since."""
        return self._full

    @property
    def closing(self) -> bool:
        """Whether `close` was called."""
        return self._closing

    def put_batch(self, batch: SpanBatch) -> Future[Receipt]:
        """Return the future receipt of a batch.

        Raises:
            OverloadedError: too much is waiting.
            StoreUnusableError: nothing can be written now.
        """
        job = BatchJob(batch=batch)
        with self._wake:
            self._require_open()
            limits = self._limits
            over = (
                len(self._batches) >= limits.batches
                or self._spans + job.spans > limits.spans
                or self._size_bytes + job.size_bytes > limits.size_bytes
            )
            if over and self._batches:
                self._full = True
                raise OverloadedError(
                    f"{self._spans} spans wait to be written to {self._path}; send this batch again later"
                )
            self._batches.append(job)
            self._count(job, 1)
            self._wake.notify_all()
        return job.done

    def put_work(self, work: Callable[[DuckDBPyConnection], Any], *, bare: bool = False) -> Future[Any]:
        """Return the future result of some work; see `WorkJob`.

        Raises:
            StoreUnusableError: nothing can be written now.
        """
        job = WorkJob(work=work, bare=bare)
        with self._wake:
            self._require_open()
            self._work.append(job)
            self._wake.notify_all()
        return job.done

    def next(self, timeout_s: float | None) -> list[BatchJob] | WorkJob | None:
        """Return a group of batches or one work to write next; `[]` after an idle time; None when all is finished."""
        with self._wake:
            while not (self._batches or self._work):
                if self._closing:
                    return None
                if self._nudged or not self._wake.wait(timeout_s):
                    self._nudged = False
                    return []
            if self._work and (self._works_turn or not self._batches):
                self._works_turn = False
                return self._work.popleft()
            self._works_turn = True
            if self._sharers >= _SIBLINGS:
                self._wake.wait_for(self._has_enough, _JOIN_S)
            group = self._group() if self._batches else []
            self._sharers = len(group)
            return group

    def nudge(self) -> None:
        """Wake the writer although nothing is waiting."""
        with self._wake:
            self._nudged = True
            self._wake.notify_all()

    def refuse(self, why: str) -> list[BatchJob | WorkJob]:
        """Refuse everything from now on, with this message; return the waiting jobs."""
        with self._wake:
            self._refusal = why
            waited: list[BatchJob | WorkJob] = [*self._batches, *self._work]
            self._batches.clear()
            self._work.clear()
            self._spans = self._size_bytes = 0
            self._full = False
        return waited

    def admit(self) -> None:
        """Accept jobs again."""
        with self._wake:
            self._refusal = None

    def close(self) -> None:
        """Refuse later jobs; waiting ones are still returned by `next`."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()

    def wait_closing(self, timeout_s: float) -> bool:
        """Wait until the queue is closing; return False after the timeout."""
        with self._wake:
            return self._wake.wait_for(lambda: self._closing, timeout_s)

    def _has_enough(self) -> bool:
        """Return whether a commit need not wait: all who shared the last one are back, or there is enough to write."""
        waiting = len(self._batches)
        return waiting >= self._sharers or not waiting or self._spans >= _FEW_SPANS or self._closing

    def _require_open(self) -> None:
        if self._closing:
            raise StoreUnusableError(f"{self._path} is closing; try again when the collector is up")
        if self._refusal is not None:
            raise StoreUnusableError(self._refusal)

    def _group(self) -> list[BatchJob]:
        self._full = False
        group = [self._batches.popleft()]
        spans, size_bytes = group[0].spans, group[0].size_bytes
        self._count(group[0], -1)
        while self._batches and spans < GROUP_SPANS and size_bytes + self._batches[0].size_bytes <= GROUP_BYTES:
            job = self._batches.popleft()
            group.append(job)
            self._count(job, -1)
            spans += job.spans
            size_bytes += job.size_bytes
        return group

    def _count(self, job: BatchJob, sign: int) -> None:
        self._spans += sign * job.spans
        self._size_bytes += sign * job.size_bytes
