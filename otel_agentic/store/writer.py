"""One writer thread with natural group commit: whatever is queued when it is free shares the next transaction."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import duckdb

from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.store.database import describe, told
from otel_agentic.store.queue import WriteQueue
from otel_agentic.store.spans import receipt_of
from otel_agentic.store.transaction import Transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.spans.model import SpanBatch
    from otel_agentic.spans.ports import Receipt
    from otel_agentic.store.checkpoints import Checkpoints
    from otel_agentic.store.living import LivingDatabase
    from otel_agentic.store.queue import BatchJob, QueueLimits, WorkJob
    from otel_agentic.store.spans import SpanTables
    from otel_agentic.store.undo import UndoFile

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: A quiet moment this long is used for a checkpoint.
_IDLE_CHECKPOINT_S: Final = 5.0
_LONGEST_REOPEN_WAIT_S: Final = 30.0
#: After a write failed the file counts as one that cannot be written for so long: then a sender may try it again.
_FAILING_S: Final = 10.0


class Writer:
    """The only thread that writes to the file, and the one that has it opened again."""

    def __init__(
        self,
        database: LivingDatabase,
        tables: Callable[[duckdb.DuckDBPyConnection], SpanTables],
        *,
        limits: QueueLimits,
        checkpoints: Checkpoints,
        undo: UndoFile,
        reopen_s: float,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Begin to write.

        Args:
            database: the open file.
            tables: makes the span tables of a connection; called anew whenever the file was opened again.
            limits: what may wait.
            checkpoints: decides when the log is taken into the file.
            undo: keeps what a checkpoint overwrites.
            reopen_s: wait before the second try to open the file again, seconds; it doubles.
            clock: the time of commits, ns since the epoch.
        """
        self._database = database
        self._make_tables = tables
        self._con = database.lend()
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
        #: How often the file itself was begun to be changed: by a checkpoint, or because it was opened again.
        self._changes = 0
        #: How many transactions were committed.
        self.commits = 0
        self._listeners: list[Callable[[frozenset[str]], None]] = []
        self._failed: tuple[float, str] | None = None
        #: How often the file was opened again.
        self.reopened = 0
        #: Called with how long each commit of spans took, s.
        self.committed: Callable[[float], None] = lambda _seconds: None
        database.on_death = self._queue.nudge
        self._thread = threading.Thread(target=self._run, name="otel-agentic-writer", daemon=True)
        self._thread.start()

    @property
    def queued_batches(self) -> int:
        """How many batches wait."""
        return len(self._queue)

    @property
    def queued_spans(self) -> int:
        """How many spans and log records wait."""
        return self._queue.spans

    @property
    def is_full(self) -> bool:
        """Whether a batch that came now would be refused, as the last one was."""
        return self._queue.is_full

    @property
    def failing(self) -> str | None:
        """Why spans could not be written a moment ago; None where they could, or where that is a while ago."""
        failed = self._failed
        return failed[1] if failed is not None and time.monotonic() - failed[0] < _FAILING_S else None

    def listen(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the trace ids that each commit touched, on the writer thread."""
        self._listeners.append(listener)

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Return the receipt that a batch has once it is durable.

        The future fails with a `StoreError` where the file cannot be written; nothing was taken then.

        Raises:
            OverloadedError: too much is waiting; nothing was taken.
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
        """Take the log into the file and make no further checkpoint while the block runs; commits go on, into the log.

        Yields:
            Whether the file is still as that checkpoint left it. What was opened again, or lost its log, is not.

        Raises:
            OverloadedError: there cannot be a checkpoint now, because of a reader, say.
            StoreError: the file cannot be used, or the disk has no room for a checkpoint.
        """
        changes = self._queue.put_work(self._checkpoint_and_hold, bare=True).result()
        try:
            yield lambda: bool(changes == self._changes)
        finally:
            self._hold(-1)

    def forget_ids(self) -> None:
        """Ask the file about each span from now on; durable work may have added some that nobody remembers."""
        self.write(lambda _con: self._tables.forget_ids())

    def close(self) -> None:
        """Write what is queued, then stop. Later work is refused."""
        self._queue.close()
        self._thread.join()
        self._database.take_back(self._con)

    def _run(self) -> None:
        while True:
            if self._database.trouble is not None and not self._reopen():
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
            if self._database.trouble is None and (jobs == [] or self._checkpoints.is_due()):
                self._checkpoint()

    def _store(self, group: list[BatchJob]) -> None:
        batches, began = [job.batch for job in group], time.monotonic()
        try:
            receipts, inserted = self._durably(lambda con: self._tables.insert(con, batches, self._clock()))
        except Exception as error:  # noqa: BLE001 — whatever it was, each sender must be answered
            if len(group) == 1 or isinstance(error, StoreUnusableError) or self._is_dead(error):
                for job in group:
                    self._fail(job, error)
                return
            for job in group:  # one bad batch must not refuse its neighbours
                self._store([job])
            return
        self._tables.committed(inserted)
        self.committed(time.monotonic() - began)
        for job, receipt in zip(group, receipts, strict=True):
            job.done.set_result(receipt)
        if inserted.traces:
            self._tell(inserted.traces)

    def _work(self, job: WorkJob) -> None:
        try:
            result = job.work(self._con) if job.bare else self._durably(job.work)
        except BaseException as error:  # noqa: BLE001 — handed to the waiting caller
            self._fail(job, error)
        else:
            job.done.set_result(result)

    def _durably(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Return the result of some work that a restart would find."""
        result = self._transactions.durably(self._con, work)
        self._dirty = True
        self.commits += 1
        self._failed = None
        self._database.check_in_place()  # acknowledged is only what a restart finds
        if not self._checkpoints.anchor():
            self._take_in_log()  # somebody removed it: all that it held goes into the file now
        return result

    def _fail(self, job: BatchJob | WorkJob, error: BaseException) -> None:
        reason = (isinstance(error, StoreUnusableError) and error.__cause__) or error
        if isinstance(reason, (duckdb.OperationalError, OSError, MemoryError)):
            self._failed = time.monotonic(), told(reason)
        if self._is_dead(error):
            job.done.set_exception(StoreUnusableError(str(self._database.trouble)))
        elif isinstance(error, (duckdb.Error, OSError)):
            job.done.set_exception(describe(error, self._database.path))
        else:
            job.done.set_exception(error)

    def _is_dead(self, error: BaseException) -> bool:
        """Return whether the work failed with the file rather than by itself."""
        if self._database.trouble is not None:
            return isinstance(error, (duckdb.Error, OSError, MemoryError))
        return self._database.found_dead(error)

    def _tell(self, traces: frozenset[str]) -> None:
        for listener in self._listeners:
            try:
                listener(traces)
            except Exception:  # noqa: BLE001 — logged; the commit stands whatever a listener does
                _log.exception("a listener of the store failed")

    def _checkpoint(self) -> Exception | None:
        """Make a checkpoint where that is wise; return what kept it from being made."""
        if self._holders or not self._checkpoints.is_wise():
            return OSError("a copy is being made, or the last checkpoint failed")
        try:
            self._take_in_log()
        except (duckdb.Error, OSError) as error:
            # A reader may be at work: then the next quiet moment will do. Or the disk is full: then the file is dead.
            dead = self._database.found_dead(error)
            if dead or isinstance(error, OSError):
                self._checkpoints.failed()
            _log.log(logging.WARNING if dead else logging.DEBUG, "checkpoint put off: %s", told(error))
            return error
        return None

    def _checkpoint_and_hold(self, _: duckdb.DuckDBPyConnection) -> int:
        if not self._checkpoints.has_room():
            raise StoreUnusableError(f"{self._database.path}: the disk has no room for a checkpoint; free some space")
        if self._checkpoints.has_log and (error := self._checkpoint()) is not None:
            raise OverloadedError(f"{self._database.path}: no checkpoint now: {told(error)}")
        self._hold(1)
        return self._changes

    def _hold(self, more: int) -> None:
        with self._holding:
            self._holders += more

    def _take_in_log(self) -> None:
        self._changes += 1
        self._undo.checkpoint(self._con)
        self._checkpoints.succeeded()
        self._dirty = False

    def _reopen(self) -> bool:
        """Open the file again, however often it takes; return False when the store closes meanwhile."""
        trouble = str(self._database.trouble)
        _log.error("%s; senders are asked to try again", trouble)
        self._refuse(trouble)
        wait_s = 0.0
        while not self._queue.wait_closing(wait_s):
            try:
                self._revive()
            except Exception as error:  # noqa: BLE001 — logged, and tried again: the file may be usable later
                wait_s = min(max(2 * wait_s, self._reopen_s), _LONGEST_REOPEN_WAIT_S)
                _log.error("%s; the next try is in %g s", told(error), wait_s)
            else:
                _log.warning("%s is open again", self._database.path)
                return True
        return False

    def _revive(self) -> None:
        self._changes += 1
        self._database.take_back(self._con)
        self._database.reopen()
        self._con = self._database.lend(to_owner=True)
        self._tables = self._make_tables(self._con)
        self._database.recovered()
        self.reopened += 1
        self._queue.admit()

    def _refuse(self, why: str) -> None:
        for job in self._queue.refuse(why):
            job.done.set_exception(StoreUnusableError(why))
