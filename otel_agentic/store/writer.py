"""The only thread that writes to the file, and its queue.

Natural group commit: all batches that are waiting when the writer is free share the next transaction.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.store.connection import ConnectionManager, describe, error_summary, is_disk_full, release_memory
from otel_agentic.store.spans import SpanTables, receipt_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.spans.model import Receipt, SpanBatch
    from otel_agentic.store.durability import Checkpoints, UndoFile
    from otel_agentic.store.spans import Inserted

#: The size of the group of batches that one transaction commits: efficient, but small enough to acknowledge quickly.
GROUP_SPANS: Final = 8_000
GROUP_BYTES: Final = 16 * 1024 * 1024
#: As with `commit_delay` and `commit_siblings` in PostgreSQL: if this many senders shared the last commit, a commit of
#: few spans waits a moment for other senders to join it. A commit costs as much CPU time as storing a hundred spans,
#: and CPU time taken from the receivers delays every sender more than this wait.
_SIBLINGS: Final = 4
_FEW_SPANS: Final = 64
_JOIN_S: Final = 0.01
#: Assumed size of a span or log record in a batch of unknown size.
_ITEM_BYTES: Final = 2 * 1024


def _running_future() -> Future[Any]:
    """Return a future that cannot be cancelled: queued data is written even if its sender disconnected."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(slots=True, kw_only=True)
class BatchJob:
    """A batch to store."""

    batch: SpanBatch
    done: Future[Receipt] = field(default_factory=_running_future)

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
    """Any other work, in a separate transaction; `bare` work runs outside a transaction."""

    work: Callable[[DuckDBPyConnection], Any]
    bare: bool = False
    done: Future[Any] = field(default_factory=_running_future)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much may wait before senders are refused. A batch above the limits is accepted if the queue is empty."""

    batches: int
    spans: int
    size_bytes: int


class WriteQueue:
    """One queue for batches and one for other work; the writer takes from both in turn. Thread-safe."""

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
        self._work_is_next = False
        self._full = False
        self._last_group_size = 0

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
        """Queue a batch; return a future of its receipt.

        Raises:
            OverloadedError: too much is waiting.
            StoreUnusableError: nothing can be written now.
        """
        job = BatchJob(batch=batch)
        with self._wake:
            self._require_open()
            limits = self._limits
            exceeds_limits = (
                len(self._batches) >= limits.batches
                or self._spans + job.spans > limits.spans
                or self._size_bytes + job.size_bytes > limits.size_bytes
            )
            if exceeds_limits and self._batches:
                self._full = True
                raise OverloadedError(
                    f"{self._spans} spans wait to be written to {self._path}; send this batch again later"
                )
            self._batches.append(job)
            self._count(job, 1)
            self._wake.notify_all()
        return job.done

    def put_work(self, work: Callable[[DuckDBPyConnection], Any], *, bare: bool = False) -> Future[Any]:
        """Queue work; return a future of its result. See `WorkJob`.

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
        """Return the next group of batches, or the next work; `[]` after an idle time; None once closed and empty."""
        with self._wake:
            while not (self._batches or self._work):
                if self._closing:
                    return None
                if self._nudged or not self._wake.wait(timeout_s):
                    self._nudged = False
                    return []
            if self._work and (self._work_is_next or not self._batches):
                self._work_is_next = False
                return self._work.popleft()
            self._work_is_next = True
            if self._last_group_size >= _SIBLINGS:
                self._wake.wait_for(self._has_enough, _JOIN_S)
            group = self._take_group() if self._batches else []
            self._last_group_size = len(group)
            return group

    def nudge(self) -> None:
        """Wake the writer although nothing is waiting."""
        with self._wake:
            self._nudged = True
            self._wake.notify_all()

    def refuse(self, why: str) -> list[BatchJob | WorkJob]:
        """Refuse all jobs from now on, with this message; return the waiting jobs."""
        with self._wake:
            self._refusal = why
            jobs: list[BatchJob | WorkJob] = [*self._batches, *self._work]
            self._batches.clear()
            self._work.clear()
            self._spans = self._size_bytes = 0
            self._full = False
        return jobs

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
        """Return whether a commit need not wait: all senders of the last one are back, or there is enough to write."""
        waiting = len(self._batches)
        return waiting >= self._last_group_size or not waiting or self._spans >= _FEW_SPANS or self._closing

    def _require_open(self) -> None:
        if self._closing:
            raise StoreUnusableError(f"{self._path} is closing; try again when the collector is up")
        if self._refusal is not None:
            raise StoreUnusableError(self._refusal)

    def _take_group(self) -> list[BatchJob]:
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


T = TypeVar("T")
_log = logging.getLogger(__name__)
#: Waits between retries of a transaction that ran out of memory, seconds.
_MEMORY_WAITS_S: Final = (0.05, 0.2, 0.5)


class Transactions:
    """Transactions of the only connection that writes. Used by the writer thread only.

    A transaction is either durable or did not happen at all, even after an error.
    """

    def __init__(self, database: ConnectionManager) -> None:
        self._database = database

    def durably(self, con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run `work` in a transaction; return its result once it is committed. Without memory, `work` runs again.

        Raises:
            StoreUnusableError: the file is missing, or a COMMIT failed in a way that leaves its outcome unknown: the
                file must then be opened again.
        """
        for wait_s in _MEMORY_WAITS_S:
            try:
                return self._run_once(con, work)
            except (duckdb.OutOfMemoryException, MemoryError) as error:
                if self._database.problem is not None:
                    raise
                _log.warning("no memory for a write (%s); trying again", error_summary(error))
                time.sleep(wait_s)
        return self._run_once(con, work)

    def _run_once(self, con: duckdb.DuckDBPyConnection, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        self._database.check_in_place()
        con.execute("BEGIN TRANSACTION")
        try:
            result = work(con)
        except BaseException as error:
            self._database.has_failed(error)  # before the rollback, whose own error would hide this reason
            self._rollback(con)
            raise
        self._commit(con)
        return result

    def _commit(self, con: duckdb.DuckDBPyConnection) -> None:
        try:
            con.execute("COMMIT")
        except duckdb.Error as error:
            self._rollback(con)
            if is_disk_full(error):
                raise  # DuckDB truncates the partial write from the log
            # After any other failure, such as a lack of memory, the data may be stored nevertheless, or only in memory:
            # a retry could store it twice. So the file is opened again, and a retry looks for the data in it.
            raise StoreUnusableError(self._database.give_up(error)) from error

    def _rollback(self, con: duckdb.DuckDBPyConnection) -> None:
        try:
            con.execute("ROLLBACK")
        except duckdb.TransactionException as error:
            _log.debug("rollback: %s", error)  # a failed COMMIT has been rolled back already
        except duckdb.Error as error:
            self._database.give_up(error)  # the connection is stuck in a transaction that accepts nothing


#: An idle time of this length is used for a checkpoint, seconds.
_IDLE_CHECKPOINT_S: Final = 5.0
_LONGEST_REOPEN_WAIT_S: Final = 30.0
#: For this long after a failed write, the file counts as not writable; then a sender may try again, seconds.
_FAILING_S: Final = 10.0


class Writer:
    """The only thread that writes to the file and opens it again."""

    def __init__(
        self,
        database: ConnectionManager,
        tables: Callable[[duckdb.DuckDBPyConnection], SpanTables],
        *,
        queue: WriteQueue,
        checkpoints: Checkpoints,
        undo: UndoFile,
        memory_limit_mb: int,
        reopen_s: float,
        clock: Callable[[], int],
        on_commit: Callable[[float], None],
    ) -> None:
        """Start the thread.

        Args:
            database: the connections to the open file.
            tables: creates the span tables of a connection; called again whenever the file is opened again.
            queue: batches and work to be done.
            checkpoints: decides when the log is merged into the file.
            undo: keeps the blocks that a checkpoint overwrites.
            memory_limit_mb: memory that DuckDB may use, MB.
            reopen_s: wait before the second try to open the file again, seconds; it doubles with each try.
            clock: returns the time of a commit, ns since the epoch.
            on_commit: called with the duration of each commit of spans, s; it must return quickly.
        """
        self._database = database
        self._make_tables = tables
        self._con = database.acquire()
        self._tables = tables(self._con)
        self._queue = queue
        self._checkpoints = checkpoints
        self._undo = undo
        self._memory_limit_mb = memory_limit_mb
        self._transactions = Transactions(database)
        self._reopen_s = reopen_s
        self._clock = clock
        self._dirty = False
        #: The number of active `holding_checkpoints` blocks.
        self._holders = 0
        self._holders_lock = threading.Lock()
        #: How often a change of the file itself was started: by a checkpoint, or because it was opened again.
        self._changes = 0
        #: The number of committed transactions.
        self.commits = 0
        self._listeners: list[Callable[[Inserted], None]] = []
        #: The time (monotonic clock) and the reason of the last failed write.
        self._failed: tuple[float, str] | None = None
        #: How often the file was opened again.
        self.reopened = 0
        self._on_commit = on_commit
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
        """Whether the last batch was refused, and the next one would be, too."""
        return self._queue.is_full

    @property
    def failing(self) -> str | None:
        """Why spans could not be written recently, or None if they could."""
        failed = self._failed
        return failed[1] if failed is not None and time.monotonic() - failed[0] < _FAILING_S else None

    def listen(self, listener: Callable[[Inserted], None]) -> None:
        """Call `listener` with the new spans and log records of each commit, on the writer thread."""
        self._listeners.append(listener)

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Queue a batch; return a future of its receipt, which is set once the batch is durable.

        The future fails with a `StoreError` if the file cannot be written; then nothing was accepted.

        Raises:
            OverloadedError: too much is waiting; nothing was accepted.
            StoreUnusableError: nothing can be written now.
        """
        if not batch.spans and not batch.logs:
            receipt: Future[Receipt] = Future()
            receipt.set_result(receipt_of(batch, accepted=0))
            return receipt
        return self._queue.put_batch(batch)

    def write(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run `work` in a transaction on the writer thread; return its result once the transaction is durable."""
        result: T = self._queue.put_work(work).result()
        return result

    @contextmanager
    def holding_checkpoints(self) -> Iterator[Callable[[], bool]]:
        """Merge the log into the file and make no further checkpoint while the block runs; commits only go to the log.

        Yields:
            A function that returns whether the file is unchanged since that checkpoint; False if the file was reopened,
            or its log was removed.

        Raises:
            OverloadedError: a checkpoint is not possible now, for example because of a reader.
            StoreError: the file cannot be used, or the disk has no space for a checkpoint.
        """
        changes = self._queue.put_work(self._checkpoint_and_hold, bare=True).result()
        try:
            yield lambda: bool(changes == self._changes)
        finally:
            self._hold(-1)

    @property
    def last_commit_ns(self) -> int:
        """The time of the last commit of spans, ns, 0 before the first."""
        return self._tables.last_ns

    def forget_ids(self) -> None:
        """Look up each received span in the file from now on, because `write` may add spans whose ids are not known."""
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
                self._run_work(jobs)
            elif jobs:
                self._store(jobs)
            is_due = self._database.problem is None and (jobs == [] or self._checkpoints.is_due())
            if is_due and self._checkpoint() is None:
                release_memory(self._con, self._memory_limit_mb)

    def _store(self, group: list[BatchJob]) -> None:
        batches, started_s = [job.batch for job in group], time.monotonic()
        try:
            receipts, inserted = self._durably(lambda con: self._tables.insert(con, batches, self._clock()))
        except Exception as error:  # noqa: BLE001 — after any error, each sender must get an answer
            if len(group) == 1 or isinstance(error, StoreUnusableError) or self._has_failed(error):
                for job in group:
                    self._fail(job, error)
                return
            for job in group:  # one invalid batch must not affect the others
                self._store([job])
            return
        self._tables.committed(inserted)
        self._on_commit(time.monotonic() - started_s)
        for job, receipt in zip(group, receipts, strict=True):
            job.done.set_result(receipt)
        if inserted.traces:
            self._notify(inserted)

    def _run_work(self, job: WorkJob) -> None:
        try:
            result = job.work(self._con) if job.bare else self._durably(job.work)
        except BaseException as error:  # noqa: BLE001 — passed to the waiting caller
            self._fail(job, error)
        else:
            job.done.set_result(result)

    def _durably(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run work in a transaction; return its result once it is durable, so that it survives a restart."""
        result = self._transactions.durably(self._con, work)
        self._dirty = True
        self.commits += 1
        self._failed = None
        self._database.check_in_place()  # only data that survives a restart may be acknowledged
        if not self._checkpoints.anchor():
            self._merge_log()  # the log was removed: write its content to the file now
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
        """Return whether an error was caused by the file rather than by the work."""
        if self._database.problem is not None:
            return isinstance(error, (duckdb.Error, OSError, MemoryError))
        return self._database.has_failed(error)

    def _notify(self, inserted: Inserted) -> None:
        for listener in self._listeners:
            try:
                listener(inserted)
            except Exception:  # noqa: BLE001 — logged; a failing listener must not affect the commit
                _log.exception("a listener of the store failed")

    def _checkpoint(self) -> Exception | None:
        """Make a checkpoint if that is safe; return the error that prevented it."""
        if self._holders or not self._checkpoints.is_wise():
            return OSError("a copy is being created, or the last checkpoint failed")
        try:
            self._merge_log()
        except (duckdb.Error, OSError) as error:
            # If a reader is active, the next idle time is early enough. If the disk is full, the instance has failed.
            has_failed = self._database.has_failed(error)
            if has_failed or isinstance(error, OSError):
                self._checkpoints.failed()
            _log.log(logging.WARNING if has_failed else logging.DEBUG, "checkpoint put off: %s", error_summary(error))
            return error
        return None

    def _checkpoint_and_hold(self, _: duckdb.DuckDBPyConnection) -> int:
        if not self._checkpoints.has_room():
            raise StoreUnusableError(f"{self._database.path}: the disk has no room for a checkpoint; free some space")
        if self._checkpoints.has_log and (error := self._checkpoint()) is not None:
            raise OverloadedError(f"{self._database.path}: no checkpoint is possible now: {error_summary(error)}")
        self._hold(1)
        return self._changes

    def _hold(self, change: int) -> None:
        with self._holders_lock:
            self._holders += change

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
                self._reopen_once()
            except Exception as error:  # noqa: BLE001 — logged and retried, since the file may become usable
                wait_s = min(max(2 * wait_s, self._reopen_s), _LONGEST_REOPEN_WAIT_S)
                _log.error("%s; the next try is in %g s", error_summary(error), wait_s)
            else:
                _log.warning("%s is open again", self._database.path)
                return True
        return False

    def _reopen_once(self) -> None:
        self._changes += 1
        self._database.release(self._con)
        self._database.reopen()
        self._con = self._database.acquire(for_recovery=True)
        self._tables = self._make_tables(self._con)
        self._database.recovered()
        self.reopened += 1
        self._queue.admit()

    def _refuse(self, reason: str) -> None:
        for job in self._queue.refuse(reason):
            job.done.set_exception(StoreUnusableError(reason))
