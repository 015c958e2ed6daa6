"""One writer thread with natural group commit: all batches that wait when it is free share the next transaction."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb

from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.store.database import describe, error_summary
from otel_agentic.store.queue import WriteQueue
from otel_agentic.store.spans import receipt_of
from otel_agentic.store.transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.spans.model import SpanBatch
    from otel_agentic.spans.ports import Receipt
    from otel_agentic.store.checkpoints import Checkpoints
    from otel_agentic.store.living import ConnectionManager
    from otel_agentic.store.queue import BatchJob, QueueLimits, WorkJob
    from otel_agentic.store.spans import SpanTables
    from otel_agentic.store.undo import UndoFile

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: An idle time of this length is used for a checkpoint, seconds.
_IDLE_CHECKPOINT_S: Final = 5.0
_LONGEST_REOPEN_WAIT_S: Final = 30.0
#: For this long after a failed write the file counts as not writable; then a sender may try again. Seconds.
_FAILING_S: Final = 10.0


class Writer:
    """The only thread that writes to the file and opens it again."""

    def __init__(
        self,
        database: ConnectionManager,
        tables: Callable[[duckdb.DuckDBPyConnection], SpanTables],
        *,
        limits: QueueLimits,
        checkpoints: Checkpoints,
        undo: UndoFile,
        reopen_s: float,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Start the thread.

        Args:
            database: the connections to the open file.
            tables: creates the span tables of a connection; called again whenever the file was opened again.
            limits: how much may wait.
            checkpoints: decides when the log is merged into the file.
            undo: keeps the blocks that a checkpoint overwrites.
            reopen_s: wait before the second try to open the file again, seconds; it doubles.
            clock: returns the time of a commit, ns since the epoch.
        """
        self._database = database
        self._make_tables = tables
        self._con = database.acquire()
        self._tables = tables(self._con)
        self._queue = WriteQueue(database.path, limits)
        self._checkpoints = checkpoints
        self._undo = undo
        self._transactions = Transactions(database)
        self._reopen_s = reopen_s
        self._clock = clock
        self._dirty = False
        self._holders = 0
        self._holding = threading.Lock()
        #: How often a change of the file itself was started: by a checkpoint, or because it was opened again.
        self._changes = 0
        #: The number of committed transactions.
        self.commits = 0
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._failed: tuple[float, str] | None = None
        #: How often the file was opened again.
        self.reopened = 0
        #: Called with the duration of each commit of spans, s.
        self.committed: Callable[[float], None] = lambda _seconds: None
        database.on_failure = self._queue.nudge
        self._thread = threading.Thread(target=self._run, name="otel-agentic-writer", daemon=True)
        self._thread.start()

    @property
    def queued_batches(self) -> int:
        """The number of waiting batches."""
        return len(self._queue)

    @property
    def queued_spans(self) -> int:
        """The number of waiting spans and log records."""
        return self._queue.spans

    @property
    def is_full(self) -> bool:
        """Whether a batch that arrives now would be refused, as the last one was."""
        return self._queue.is_full

    @property
    def failing(self) -> str | None:
        """Why spans could not be written recently, or None if they could."""
        failed = self._failed
        return failed[1] if failed is not None and time.monotonic() - failed[0] < _FAILING_S else None

    def listen(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the trace ids of each commit, on the writer thread."""
        self._listeners.append(listener)

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Return a future of the receipt that a batch gets once it is durable.

        The future fails with a `StoreError` if the file cannot be written; nothing was accepted then.

        Raises:
            OverloadedError: too much is waiting; nothing was accepted.
            StoreUnusableError: nothing can be written now.
        """
        if not batch.spans and not batch.logs:
            known: Future[Receipt] = Future()
            known.set_result(receipt_of(batch, accepted=0))
            return known
        return self._queue.put_batch(batch)

    def write(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run `work` in a transaction on the writer thread and return its result once that is durable."""
        result: T = self._queue.put_work(work).result()
        return result

    @contextmanager
    def holding_checkpoints(self) -> Iterator[Callable[[], bool]]:
        """Merge the log into the file and make no further checkpoint while the block runs; commits continue, into the log.

        Yields:
            A function that returns whether the file is unchanged since that checkpoint. It is not if it was reopened or lost its log.

        Raises:
            OverloadedError: a checkpoint is not possible now, for example because of a reader.
            StoreError: the file cannot be used, or the disk has no space for a checkpoint.
        """
        changes = self._queue.put_work(self._checkpoint_and_hold, bare=True).result()
        try:
            yield lambda: bool(changes == self._changes)
        finally:
            self._hold(-1)

    def forget_ids(self) -> None:
        """Search the file for the id of each span from now on, because `write` may have added spans not in memory."""
        self.write(lambda _con: self._tables.forget_ids())

    def close(self) -> None:
        """Write everything queued, then stop. Later work is refused."""
        self._queue.close()
        self._thread.join()
        self._database.release(self._con)

    def _run(self) -> None:
        while True:
            if self._database.problem is not None and not self._reopen():
                return
            jobs = self._queue.next(_IDLE_CHECKPOINT_S if self._dirty else None)
            if jobs is None:
                if self._checkpoints.has_log:
                    self._checkpoint()
                return
            if not isinstance(jobs, list):
                self._work(jobs)
            elif jobs:
                self._store(jobs)
            if self._database.problem is None and (jobs == [] or self._checkpoints.is_due()):
                self._checkpoint()

    def _store(self, group: list[BatchJob]) -> None:
        batches, began = [job.batch for job in group], time.monotonic()
        try:
            receipts, inserted = self._durably(lambda con: self._tables.insert(con, batches, self._clock()))
        except Exception as error:  # noqa: BLE001 — after any error, each sender must get an answer
            if len(group) == 1 or isinstance(error, StoreUnusableError) or self._has_failed(error):
                for job in group:
                    self._fail(job, error)
                return
            for job in group:  # one bad batch must not affect the others
                self._store([job])
            return
        self._tables.committed(inserted)
        self.committed(time.monotonic() - began)
        for job, receipt in zip(group, receipts, strict=True):
            job.done.set_result(receipt)
        if inserted.traces:
            self._notify(inserted.traces)

    def _work(self, job: WorkJob) -> None:
        try:
            result = job.work(self._con) if job.bare else self._durably(job.work)
        except BaseException as error:  # noqa: BLE001 — passed to the waiting caller
            self._fail(job, error)
        else:
            job.done.set_result(result)

    def _durably(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Return the result of work that is durable: a restart would find it."""
        result = self._transactions.durably(self._con, work)
        self._dirty = True
        self.commits += 1
        self._failed = None
        self._database.check_in_place()  # only data that a restart would find may be acknowledged
        if not self._checkpoints.anchor():
            self._merge_log()  # the log was removed: write everything that it contained to the file now
        return result

    def _fail(self, job: BatchJob | WorkJob, error: BaseException) -> None:
        reason = (isinstance(error, StoreUnusableError) and error.__cause__) or error
        if isinstance(reason, (duckdb.OperationalError, OSError, MemoryError)):
            self._failed = time.monotonic(), error_summary(reason)
        if self._has_failed(error):
            job.done.set_exception(StoreUnusableError(str(self._database.problem)))
        elif isinstance(error, (duckdb.Error, OSError)):
            job.done.set_exception(describe(error, self._database.path))
        else:
            job.done.set_exception(error)

    def _has_failed(self, error: BaseException) -> bool:
        """Return whether the work failed because of the file rather than by itself."""
        if self._database.problem is not None:
            return isinstance(error, (duckdb.Error, OSError, MemoryError))
        return self._database.has_failed(error)

    def _notify(self, traces: frozenset[str]) -> None:
        for listener in self._listeners:
            try:
                listener(traces)
            except Exception:  # noqa: BLE001 — logged; a failing listener must not affect the commit
                _log.exception("a listener of the store failed")

    def _checkpoint(self) -> Exception | None:
        """Make a checkpoint if that is safe; return the error that prevented it."""
        if self._holders or not self._checkpoints.is_wise():
            return OSError("a copy is being created, or the last checkpoint failed")
        try:
            self._merge_log()
        except (duckdb.Error, OSError) as error:
            # A reader may be active: the next idle moment will do. Or the disk is full: then the instance has failed.
            dead = self._database.has_failed(error)
            if dead or isinstance(error, OSError):
                self._checkpoints.failed()
            _log.log(logging.WARNING if dead else logging.DEBUG, "checkpoint put off: %s", error_summary(error))
            return error
        return None

    def _checkpoint_and_hold(self, _: duckdb.DuckDBPyConnection) -> int:
        if not self._checkpoints.has_room():
            raise StoreUnusableError(f"{self._database.path}: the disk has no room for a checkpoint; free some space")
        if self._checkpoints.has_log and (error := self._checkpoint()) is not None:
            raise OverloadedError(f"{self._database.path}: no checkpoint is possible now: {error_summary(error)}")
        self._hold(1)
        return self._changes

    def _hold(self, more: int) -> None:
        with self._holding:
            self._holders += more

    def _merge_log(self) -> None:
        self._changes += 1
        self._undo.checkpoint(self._con)
        self._checkpoints.succeeded()
        self._dirty = False

    def _reopen(self) -> bool:
        """Open the file again, retrying until it succeeds; return False if the store is closed in the meantime."""
        problem = str(self._database.problem)
        _log.error("%s; senders must try again", problem)
        self._refuse(problem)
        wait_s = 0.0
        while not self._queue.wait_closing(wait_s):
            try:
                self._revive()
            except Exception as error:  # noqa: BLE001 — logged and retried, since the file may become usable
                wait_s = min(max(2 * wait_s, self._reopen_s), _LONGEST_REOPEN_WAIT_S)
                _log.error("%s; the next try is in %g s", error_summary(error), wait_s)
            else:
                _log.warning("%s is open again", self._database.path)
                return True
        return False

    def _revive(self) -> None:
        self._changes += 1
        self._database.release(self._con)
        self._database.reopen()
        self._con = self._database.acquire(for_recovery=True)
        self._tables = self._make_tables(self._con)
        self._database.recovered()
        self.reopened += 1
        self._queue.admit()

    def _refuse(self, why: str) -> None:
        for job in self._queue.refuse(why):
            job.done.set_exception(StoreUnusableError(why))
