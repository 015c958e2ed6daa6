"""The store as the rest of the program uses it: a sink for spans, transactions for writers, connections for readers.

It also has the key of its redaction marks, its id in telemetry, and its state for health checks.
"""

from __future__ import annotations

import copy
import logging
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, Self, TypeVar

import duckdb

from otel_agentic.errors import OverloadedError, StoreUnusableError
from otel_agentic.redaction.engine import KEY_BYTES, CountingRedactor
from otel_agentic.redaction.fields import MARK_START
from otel_agentic.regular_files import open_regular
from otel_agentic.store.connection import DEFAULT, ConnectionManager, describe, open_database, require_file, show
from otel_agentic.store.durability import Checkpoints, UndoFile, keep_damaged_log, restore, sync, sync_folder
from otel_agentic.store.known_ids import KnownIds
from otel_agentic.store.maintenance.backup import Snapshots, copy_of_open_file, remove_leftover_copies
from otel_agentic.store.maintenance.empty_store import place_empty_store
from otel_agentic.store.maintenance.migrations import Migration, Upgrade, bring_up_to_date
from otel_agentic.store.queries.user_queries import UserQueries
from otel_agentic.store.spans import Inserted, SpanTables
from otel_agentic.store.writer import QueueLimits, WriteQueue, Writer

if TYPE_CHECKING:
    from concurrent.futures import Future

    from duckdb import DuckDBPyConnection

    from otel_agentic.config import RedactionSettings, StoreSettings
    from otel_agentic.dialects.base import Reader
    from otel_agentic.spans.model import Receipt, SpanBatch

_log = logging.getLogger(__name__)
T = TypeVar("T")
#: Whether one of the newest spans, or a case, contains a redaction mark.
_MARKED: Final = """
SELECT EXISTS (FROM (SELECT attributes FROM spans ORDER BY received_at DESC LIMIT 10000) WHERE attributes LIKE ?)
    OR EXISTS (FROM cases WHERE definition LIKE ?)
"""


class Store:
    """One open DuckDB file: a thread-safe `Sink`, and a context manager that closes the file."""

    #: The evaluation whose scores readers see.
    evaluation: str = DEFAULT

    def __init__(
        self,
        settings: StoreSettings,
        reader: Reader,
        *,
        create: bool = True,
        upgrade: bool = False,
        schema: Sequence[Migration] | None = None,
        clock: Callable[[], int] = time.time_ns,
        export_folder: Path | None = None,
        redaction: RedactionSettings | None = None,
        on_commit: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Open the file, and create the schema in a new one.

        Args:
            settings: path and limits.
            reader: detects the dialect of each span.
            create: create the file if it is missing.
            upgrade: upgrade a store of an earlier release, after copying it; otherwise such a store is refused.
            schema: the migrations of this release; None means `all_migrations`.
            clock: returns the time of a commit, ns since the epoch.
            export_folder: the only directory in which SQL may read and write Parquet files; None for no directory.
            redaction: which values are removed before anything is written; None means the defaults.
            on_commit: called with the duration of each commit of spans, s; it must return quickly.

        Raises:
            StoreBusyError: another process holds the file.
            StoreUnusableError: the file is missing, damaged, or written by another release.
        """
        require_file(settings.db, create=create)  # not resolved: the message shows the name that the user passed
        self.path: Path = settings.db.resolve()  # DuckDB puts the log next to the file itself, not next to a link to it
        self._clock = clock
        #: The ids of all traces and conversations.
        self.known_ids = KnownIds(self.read)
        #: Runs user queries.
        self.user_queries = UserQueries()
        #: Removes secrets from everything received.
        self.redacting = CountingRedactor(redaction, StoreKey(self.path, self._holds_marks))
        self._undo = UndoFile(self.path)
        #: The result of upgrading an older store, or None if there was no upgrade.
        self.upgraded: Upgrade | None = None
        queue = WriteQueue(self.path, _limits(settings))
        may_create = iter((create,))  # a file that disappears later is not created again: that would hide the loss

        def connect() -> duckdb.DuckDBPyConnection:
            return self._connect(
                lambda: _open_repaired(
                    self.path,
                    settings,
                    create=next(may_create, False),
                    export_folder=export_folder,
                    schema=schema,
                ),
                lambda con: bring_up_to_date(con, self.path, self._undo, upgrade=upgrade, known=schema),
            )

        self._database = ConnectionManager(self.path, connect, queue.nudge)
        try:
            self._writer = Writer(
                self._database,
                lambda con: SpanTables(con, reader, settings.recent_ids),
                queue=queue,
                checkpoints=Checkpoints(self.path, settings.checkpoint_threshold_mb),
                undo=self._undo,
                memory_limit_mb=settings.memory_limit_mb,
                reopen_s=settings.reopen_s,
                clock=clock,
                on_commit=on_commit,
            )
        except BaseException as error:
            self._database.close()
            self._undo.close()
            if isinstance(error, duckdb.Error):
                raise describe(error, self.path) from error
            raise
        self._closed = threading.Event()
        self._backing_up = threading.Lock()
        remove_leftover_copies(self.path)
        #: Copies of the file for user queries.
        self.snapshots = Snapshots(self.path, settings, self._writer, self._undo, clock)

    def _connect(
        self,
        open_file: Callable[[], duckdb.DuckDBPyConnection],
        migrate: Callable[[duckdb.DuckDBPyConnection], Upgrade | None],
    ) -> duckdb.DuckDBPyConnection:
        """Open the file and its undo file, and migrate its schema; return the connection."""
        self._undo.close()
        is_new = not self.path.exists()
        con = open_file()
        try:
            self._undo.open()
            upgrade = migrate(con)
            self.upgraded = self.upgraded or upgrade
            if is_new:
                sync_folder(self.path.parent)
        except BaseException as error:
            con.close()
            self._undo.close()
            if isinstance(error, (duckdb.Error, OSError)):
                raise describe(error, self.path) from error
            raise
        return con

    def clock(self) -> int:
        """Return the time, ns since the epoch: that of the last commit of spans if the clock was set back meanwhile."""
        return max(self._clock(), self._writer.last_commit_ns)

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch; see `Sink.accept`."""
        return self.submit(batch).result()

    def submit(self, batch: SpanBatch) -> Future[Receipt]:
        """Start to store a batch; see `Submits.submit`."""
        return self._writer.submit(self.redacting.batch(batch))

    def _holds_marks(self) -> bool:
        with self.read() as con:
            return bool(con.execute(_MARKED, [f"%{MARK_START}%"] * 2).fetchall()[0][0])

    def write(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run `work` in a transaction on the writer thread; return its result once the transaction is durable.

        Raises:
            StoreError: the file cannot be written.
        """
        return self._writer.write(work)

    @property
    def commits(self) -> int:
        """The number of transactions that were committed since the store was opened."""
        return self._writer.commits

    def showing(self, evaluation: str) -> Store:
        """Return a view of this store whose readers see the scores of another evaluation."""
        store = copy.copy(self)
        store.evaluation = evaluation
        return store

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a connection for reading. All its queries see one state: everything committed before, nothing later.

        Raises:
            StoreUnusableError: the store is closed, or is being reopened after a failure.
        """
        with self.connection() as con:
            con.execute("BEGIN TRANSACTION READ ONLY")  # ends when the connection is closed
            if self.evaluation != DEFAULT:
                show(con, self.evaluation)
            yield con

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a separate connection, outside any transaction.

        Raises:
            StoreUnusableError: the store is closed, or is being reopened after a failure.
        """
        with self._database.connection() as con:
            yield con

    @property
    def problem(self) -> str | None:
        """Why the file cannot be used now, or None if it can; it is reopened in the background."""
        return self._database.problem

    @property
    def state(self) -> StoreState:
        """The current state of the store. Does not query DuckDB, so it is available while the file cannot be used."""
        writer = self._writer
        return StoreState(
            problem=self._database.problem or self._database.displaced or writer.failing,
            reopened=writer.reopened,
            full=writer.is_full,
            queued_requests=writer.queued_batches,
            queued_spans=writer.queued_spans,
            data_bytes=file_bytes(self.path),
            log_bytes=file_bytes(self.path.with_name(f"{self.path.name}.wal")) or 0,
        )

    @contextmanager
    def backup(self) -> Iterator[IO[bytes]]:
        """Provide a copy of the file for reading; see `copy_of_open_file`. Only one backup runs at a time.

        Raises:
            OverloadedError: another backup is running, or the store is too busy for one.
            StoreUnusableError: there is not enough disk space for a copy.
        """
        if not self._backing_up.acquire(blocking=False):
            raise OverloadedError("another backup is running; try again when it is finished")
        try:
            with copy_of_open_file(self.path, self._writer, self._undo, self._closed) as file:
                yield file
        finally:
            self._backing_up.release()

    def reclaim(self) -> bool:
        """Merge the log into the file, so that the space of removed rows is used again; return whether it was possible.

        DuckDB frees removed rows only in a checkpoint during which nothing else reads; one that follows a commit rarely is.
        """
        try:
            with self._writer.holding_checkpoints():
                return True
        except (OverloadedError, StoreUnusableError):
            return False  # a reader is active, or the disk is full: the next removal tries again

    def forget_ids(self) -> None:
        """Look up all ids in the whole file from now on; call this before `write` adds spans or conversations of a file."""
        self._writer.forget_ids()
        self.known_ids.forget()

    def listen(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the trace ids of each commit of spans; it must return quickly."""
        self._writer.listen(lambda inserted: listener(inserted.traces))

    def listen_to_spans(self, listener: Callable[[Inserted], None]) -> None:
        """Call `listener` with the new spans and log records of each commit; it must return quickly."""
        self._writer.listen(listener)

    def close(self) -> bool:
        """Write everything queued, checkpoint, and release the file. May be called twice.

        Returns:
            False if a reader does not end although it was interrupted. The file then stays open until this process
            ends, which must be by `os._exit`: Python would abort the process because of a thread that is inside DuckDB.
        """
        if self._closed.is_set():
            return not self._database.has_readers
        self._closed.set()
        self.user_queries.close()
        self.snapshots.close()
        self._writer.close()
        released = self._database.close()
        if released:
            self._undo.close()
        return released

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open_repaired(
    path: Path, settings: StoreSettings, *, create: bool, export_folder: Path | None, schema: Sequence[Migration] | None
) -> duckdb.DuckDBPyConnection:
    """Return a connection to the file, after repairing what a killed process left behind."""
    try:
        restore(path)
        keep_damaged_log(path)
    except OSError as error:
        raise describe(error, path) from error
    if create and not path.exists():
        place_empty_store(path, settings, schema)
    return open_database(path, settings, create=create, export_folder=export_folder)


def _limits(settings: StoreSettings) -> QueueLimits:
    return QueueLimits(
        batches=settings.queue_batches, spans=settings.queue_spans, size_bytes=settings.queue_mb * 1024 * 1024
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """The state of a store at one moment.

    Attributes:
        problem: why spans cannot be written now, or None if they can.
        reopened: how often the file was opened again since the start, because DuckDB had invalidated the database.
        full: whether the last batch was refused because too much is waiting.
        queued_requests: batches waiting to be written.
        queued_spans: spans and log records in these batches.
        data_bytes: size of the DuckDB file, or None if it is missing.
        log_bytes: size of its write-ahead log, 0 without a log.
    """

    problem: str | None
    reopened: int
    full: bool
    queued_requests: int
    queued_spans: int
    data_bytes: int | None
    log_bytes: int


def file_bytes(path: Path) -> int | None:
    """Return the size of a file, or None if it is missing."""
    try:
        return path.stat().st_size
    except OSError:
        return None


_READ: Final = "SELECT instance_id FROM instance"
_WRITE: Final = "INSERT INTO instance VALUES ($id, make_timestamp_ns($now))"


def instance_id_of(store: Store) -> str:
    """Return the id of a store in telemetry; the first call creates and stores it.

    It is the same after every restart, and for live telemetry and backfilled history.
    """
    with store.read() as con:
        rows = con.execute(_READ).fetchall()
    return str(rows[0][0]) if rows else store.write(lambda con: _create_instance_id(con, store.clock()))


def _create_instance_id(con: DuckDBPyConnection, now_ns: int) -> str:
    rows = con.execute(_READ).fetchall()  # another thread may have created it in the meantime
    if rows:
        return str(rows[0][0])
    instance_id = str(uuid.uuid4())
    con.execute(_WRITE, {"id": instance_id, "now": now_ns})
    return instance_id


#: The permissions of other users.
_OTHERS_MODE: Final = 0o077


def key_path(db: Path) -> Path:
    """Return the path of a store's key.

    >>> from pathlib import Path
    >>> key_path(Path("agents.duckdb")).name
    'agents.duckdb.key'
    """
    return db.with_name(f"{db.name}.key")


class StoreKey:
    """Provides the key of one store, which is created when it is first needed. Thread-safe.

    The key is in a file next to the database, never in it: the database alone is not enough to test card numbers or
    passwords against its marks.
    """

    def __init__(self, db: Path, holds_marks: Callable[[], bool]) -> None:
        """Read the key, if there is one.

        Args:
            db: the database.
            holds_marks: returns whether the store contains marks already; called only before a key is created.

        Raises:
            StoreUnusableError: the file exists but does not contain a key, or cannot be read.
        """
        self._path = key_path(db)
        self._holds_marks = holds_marks
        self._creating = threading.Lock()
        self._key = _read_key(self._path)

    def __call__(self) -> bytes:
        """Return the key, 32 bytes.

        Raises:
            StoreUnusableError: the file cannot be written.
        """
        if self._key is None:
            with self._creating:
                if (key := self._current_key()) is None:
                    self._key = key = self._create_key()
                return key
        return self._key

    def _current_key(self) -> bytes | None:
        return self._key  # another thread may have created it in the meantime

    def _create_key(self) -> bytes:
        key = secrets.token_bytes(KEY_BYTES)
        if self._holds_marks():
            _log.warning(
                "%s is missing, but the store contains redaction marks: a new key was created, and old marks never "
                "equal new ones; if you have the old file, stop this process and restore it",
                self._path,
            )
        _write_key(self._path, key)
        return key


def _read_key(path: Path) -> bytes | None:
    """Return the key in a file, or None without a file."""
    if not path.exists():
        return None
    try:
        with open_regular(path) as file:
            key = bytes.fromhex(file.read(4 * KEY_BYTES).decode())
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _unusable(path, f"it cannot be read ({type(error).__name__})") from None  # the cause would show the key
    if len(key) != KEY_BYTES:
        raise _unusable(path, f"it holds {len(key)} bytes in hexadecimal digits, not {KEY_BYTES}")
    if mode & _OTHERS_MODE:
        _log.warning("%s can be read by other users of this machine; `chmod 600` it", path)
    return key


def _write_key(path: Path, key: bytes) -> None:
    """Write the file of a key atomically and durably, so that no mark is written before its key."""
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"{key.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync(path.parent)
    except OSError as error:
        raise StoreUnusableError(
            f"{path}: the redaction key cannot be written: {error.strerror}; make the folder writable, or free space"
        ) from error


def _unusable(path: Path, reason: str) -> StoreUnusableError:
    return StoreUnusableError(
        f"{path} is not the key of a store: {reason}; restore the right file, or remove it: a new key is then created, and old marks never "
        "equal new ones"
    )
