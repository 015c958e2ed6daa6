"""One writer thread with natural group commit: whatever is queued when it is free shares the next transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from otel_agentic.errors import OtelAgenticError, OverloadedError, StoreUnusableError
from otel_agentic.store.database import describe
from otel_agentic.store.spans import receipt_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_agentic.spans.model import SpanBatch
    from otel_agentic.spans.ports import Receipt
    from otel_agentic.store.spans import SpanTables

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Spans in one transaction: enough to make the commit cheap, few enough to keep the acknowledgement quick.
_GROUP_SPANS: Final = 20_000
#: A quiet moment this long is used for a checkpoint.
_IDLE_CHECKPOINT_S: Final = 5.0


@dataclass(slots=True, kw_only=True)
class _Job:
    """A batch to store, or any other work in a transaction of its own."""

    batch: SpanBatch | None = None
    work: Callable[[duckdb.DuckDBPyConnection], Any] | None = None
    done: Future[Any] = field(default_factory=Future)

    @property
    def weight(self) -> int:
        return len(self.batch.spans) + len(self.batch.logs) if self.batch is not None else 0


class Writer:
    """The only thread that writes to the file."""

    def __init__(
        self,
        con: duckdb.DuckDBPyConnection,
        path: Path,
        tables: SpanTables,
        *,
        queue_batches: int,
        queue_spans: int,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._con = con
        self._path = path
        self._tables = tables
        self._queue_batches = queue_batches
        self._queue_spans = queue_spans
        self._clock = clock
        self._jobs: deque[_Job] = deque()
        self._queued_spans = 0
        self._queued_batches = 0
        self._wake = threading.Condition()
        self._closing = False
        self._dirty = False
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._thread = threading.Thread(target=self._run, name="otel-agentic-writer", daemon=True)
        self._thread.start()

    def listen(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the trace ids that each commit touched, on the writer thread."""
        self._listeners.append(listener)

    def accept(self, batch: SpanBatch) -> Receipt:
        """Return the receipt of a batch once it is durable.

        Raises:
            OverloadedError: too much is waiting; nothing was taken.
            StoreError: the file cannot be written; nothing was taken.
        """
        if not batch.spans and not batch.logs:
            return receipt_of(batch, accepted=0)
        receipt: Receipt = self._submit(_Job(batch=batch)).result()
        return receipt

    def write(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run `work` in a transaction on the writer thread and return its result once that is durable."""
        result: T = self._submit(_Job(work=work)).result()
        return result

    def close(self) -> None:
        """Write what is queued, then stop. Later work is refused."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        self._con.close()  # the file is another process's to open once its last connection is closed

    def _submit(self, job: _Job) -> Future[Any]:
        with self._wake:
            if self._closing:
                raise StoreUnusableError(f"{self._path} is closing; try again when the collector is up")
            over = self._queued_batches >= self._queue_batches or self._queued_spans + job.weight > self._queue_spans
            if job.batch is not None and over and self._queued_batches:
                raise OverloadedError(
                    f"{self._queued_spans} spans wait to be written to {self._path}; send this batch again later"
                )
            self._jobs.append(job)
            self._queued_spans += job.weight
            self._queued_batches += job.batch is not None
            self._wake.notify_all()
        return job.done

    def _run(self) -> None:
        while True:
            group = self._next_group()
            if group is None:
                return
            if not group:
                self._checkpoint()
            elif group[0].batch is not None:
                self._store(group)
            else:
                self._work(group[0])

    def _next_group(self) -> list[_Job] | None:
        """Return the next jobs for one transaction, `[]` after a quiet moment, None when all is done."""
        with self._wake:
            while not self._jobs:
                if self._closing:
                    return None
                if not self._wake.wait(_IDLE_CHECKPOINT_S if self._dirty else None) and not self._jobs:
                    return []
            group = [self._jobs.popleft()]
            weight = group[0].weight
            while (
                group[0].batch is not None and self._jobs and self._jobs[0].batch is not None and weight < _GROUP_SPANS
            ):
                group.append(self._jobs.popleft())
                weight += group[-1].weight
            self._queued_spans -= weight
            self._queued_batches -= len(group) if group[0].batch is not None else 0
            return group

    def _store(self, group: list[_Job]) -> None:
        batches = [job.batch for job in group if job.batch is not None]
        try:
            receipts, inserted = self._in_transaction(lambda con: self._tables.insert(con, batches, self._clock()))
        except Exception as error:  # noqa: BLE001 — whatever it was, each sender must be answered
            if len(group) == 1:
                self._fail(group[0], error)
                return
            for job in group:  # one bad batch must not refuse its neighbours
                self._store([job])
            return
        self._tables.committed(inserted)
        for job, receipt in zip(group, receipts, strict=True):
            job.done.set_result(receipt)
        if inserted.traces:
            self._tell(inserted.traces)

    def _work(self, job: _Job) -> None:
        assert job.work is not None  # noqa: S101 — a job has a batch or work
        try:
            result = self._in_transaction(job.work)
        except BaseException as error:  # noqa: BLE001 — handed to the waiting caller
            self._fail(job, error)
        else:
            job.done.set_result(result)

    def _in_transaction(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        self._con.execute("BEGIN TRANSACTION")
        try:
            result = work(self._con)
            self._con.execute("COMMIT")
        except BaseException:
            self._rollback()
            raise
        self._dirty = True
        return result

    def _rollback(self) -> None:
        try:
            self._con.execute("ROLLBACK")
        except duckdb.Error as error:
            # A failed COMMIT has rolled back already; anything worse shows at the next BEGIN.
            _log.debug("rollback: %s", error)

    def _fail(self, job: _Job, error: BaseException) -> None:
        foreign = isinstance(error, duckdb.Error) and not isinstance(error, OtelAgenticError)
        job.done.set_exception(describe(error, self._path) if foreign else error)  # type: ignore[arg-type]

    def _tell(self, traces: frozenset[str]) -> None:
        for listener in self._listeners:
            try:
                listener(traces)
            except Exception:  # noqa: BLE001 — logged; the commit stands whatever a listener does
                _log.exception("a listener of the store failed")

    def _checkpoint(self) -> None:
        try:
            self._con.execute("CHECKPOINT")
            self._dirty = False
        except duckdb.Error as error:
            _log.debug("idle checkpoint put off: %s", error)  # a reader is at work; the next quiet moment will do
