"""The store as the rest of the program sees it: a sink for spans, transactions for writers, connections for readers."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

import duckdb

from otel_agentic.store.database import describe, open_database
from otel_agentic.store.migrations import migrate
from otel_agentic.store.spans import SpanTables
from otel_agentic.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    from otel_agentic.config import StoreSettings
    from otel_agentic.dialects.detect import Reader
    from otel_agentic.spans.model import SpanBatch
    from otel_agentic.spans.ports import Receipt

T = TypeVar("T")


class Store:
    """One open DuckDB file. A `Sink`; thread-safe; a context manager that closes it."""

    def __init__(
        self, settings: StoreSettings, reader: Reader, *, create: bool = True, clock: Callable[[], int] = time.time_ns
    ) -> None:
        """Open the file and bring its schema up to date.

        Args:
            settings: path and limits.
            reader: tells the dialect of each span.
            create: make the file when it is missing.
            clock: the time of commits, ns since the epoch.

        Raises:
            StoreBusyError: another process holds the file.
            StoreUnusableError: the file is missing, damaged, or of a newer release.
        """
        self.path: Path = settings.db
        self.clock = clock
        self._con = open_database(settings.db, settings, create=create)
        try:
            migrate(self._con, str(settings.db))
            tables = SpanTables(self._con, reader, settings.recent_ids)
        except duckdb.Error as error:
            self._con.close()
            raise describe(error, settings.db) from error
        except BaseException:
            self._con.close()
            raise
        self._writer = Writer(
            self._con.cursor(),
            settings.db,
            tables,
            queue_batches=settings.queue_batches,
            queue_spans=settings.queue_spans,
            clock=clock,
        )
        self._closed = threading.Event()

    def accept(self, batch: SpanBatch) -> Receipt:
        """Store a batch; see `Sink.accept`."""
        return self._writer.accept(batch)

    def write(self, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
        """Run `work` in a transaction on the writer thread and return its result once that is durable.

        Raises:
            StoreError: the file cannot be written.
        """
        return self._writer.write(work)

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a connection for reading. All its queries see the same moment: everything committed before, nothing after.

        Raises:
            StoreUnusableError: the store is closed.
        """
        with self.connection() as con:
            con.execute("BEGIN TRANSACTION READ ONLY")  # it ends when the connection closes
            yield con

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend a connection of its own, outside any transaction.

        Raises:
            StoreUnusableError: the store is closed.
        """
        try:
            cursor = self._con.cursor()
        except duckdb.Error as error:
            raise describe(error, self.path) from error
        try:
            yield cursor
        finally:
            cursor.close()

    def listen(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the trace ids that each commit of spans touched; it must be quick."""
        self._writer.listen(listener)

    def close(self) -> None:
        """Write what is queued, checkpoint, and release the file. May be called twice."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._writer.close()
        self._con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
