"""The parts of one store, opened together, and the transfer of whole stores in and out as Parquet files.

Background work (rebuilding, scoring) yields to the receivers: `Pressure` measures how long senders wait for
acknowledgements and sets the share of the time that background work may take.
"""

from __future__ import annotations

import copy
import re
import threading
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from uuid import uuid4

from otel_agentic import plugins
from otel_agentic.config import export_folder_of
from otel_agentic.dialects import Reader
from otel_agentic.engine.rebuild import Rebuilder
from otel_agentic.engine.segments import SegmentReader
from otel_agentic.errors import BadInputError, OverloadedError, UsageError
from otel_agentic.evaluation.run import EvaluationListener, EvaluationRunner
from otel_agentic.stats import Estimator, headline_estimator, shown_estimators
from otel_agentic.store import Store
from otel_agentic.store.maintenance import import_files as importing
from otel_agentic.store.maintenance.export import (
    DAY,
    SINGLE_FILE,
    UNITS,
    WHOLES,
    WORK,
    day_folder,
    days_of,
    remove_work,
    work_folder,
    write_day,
    write_whole,
)
from otel_agentic.store.maintenance.import_files import rows_in
from otel_agentic.store.store import instance_id_of

if TYPE_CHECKING:
    from otel_agentic.config import EmitSettings, Settings

#: An upload expires after this time without a request.
_STALE_S: Final = 600.0
_ID: Final = re.compile(r"[0-9a-f]{32}")
#: Bytes of a file in one piece.
PIECE: Final = 4 * 1024 * 1024


class Uploads:
    """The upload of a store; only one at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._id: str | None = None
        self._touched = 0.0
        self._began_ns = 0
        self._files: dict[str, list[Path]] = {}
        self._rows: dict[str, int] = {}

    @property
    def is_active(self) -> bool:
        """Whether an upload was started and has neither ended nor expired."""
        return self._id is not None and time.monotonic() - self._touched < _STALE_S

    def begin(self) -> str:
        """Start an upload and return its id.

        Raises:
            OverloadedError: another upload is active.
        """
        if self.is_active:
            raise OverloadedError("another import is running; try again after it ended")
        self._forget()
        self._id, self._files, self._rows = uuid4().hex, {}, {}
        self._touched = time.monotonic()
        self._engine.store.forget_ids()  # the remembered ids do not include the imported ones
        self._engine.store.write(importing.drop_orphans)
        self._began_ns = self._engine.clock()
        self._home.mkdir(parents=True)
        return self._id

    def piece(self, upload: str, table: str, data: str, *, last: bool) -> dict[str, Any]:
        """Append a piece to a file of a table; the last piece of a file of spans or log records stores its rows.

        Raises:
            UsageError: the upload or table is unknown, or the data is not base64.
            BadInputError: the file is not a Parquet file of that table; the upload ends.
        """
        self._check(upload)
        if table not in importing.ORDER:
            raise UsageError(f"table {table!r} cannot be imported; allowed: {', '.join(importing.ORDER)}")
        files = self._files.setdefault(table, [])
        draft = self._home / f"{table}-{len(files)}.parquet"
        try:
            content = b64decode(data, validate=True)
        except NotBase64 as error:
            raise UsageError(f"{table}: data is not base64: {error}") from error
        with draft.open("ab") as stream:
            stream.write(content)
        if not last:
            return {"rows": 0, "new": 0}
        with self._abort_on_bad_input():
            return self._store_file(table, draft, files)

    def _store_file(self, table: str, draft: Path, files: list[Path]) -> dict[str, Any]:
        with self._engine.store.read() as con:
            rows = rows_in(con, table, draft)
        self._rows[table] = self._rows.get(table, 0) + rows
        if table not in {"spans", "log_records"}:
            files.append(draft)
            return {"rows": rows, "new": 0}
        new = self._store_ranges(table, draft, rows)
        draft.unlink()
        return {"rows": rows, "new": new}

    @contextmanager
    def _abort_on_bad_input(self) -> Iterator[None]:
        """End the upload if its content cannot be stored, so that the client can start again at once."""
        try:
            yield
        except BadInputError:
            self._forget()
            raise

    def table(self, upload: str, table: str) -> dict[str, Any]:
        """Store the rows of all files of a table; return the numbers of rows and of new rows.

        Raises:
            UsageError: the upload is unknown.
            BadInputError: a row cannot be stored; the upload ends.
        """
        self._check(upload)
        files = self._files.pop(table, [])
        if not files:
            return {"rows": 0, "new": 0}
        with self._abort_on_bad_input():
            new = self._engine.store.write(
                lambda con: importing.import_files(
                    con, table, files, began_ns=self._began_ns, now_ns=self._engine.clock()
                )
            )
        for file in files:
            file.unlink()
        return {"rows": self._rows.get(table, 0), "new": new}

    def end(self, upload: str) -> None:
        """Delete the tombstones of the imported conversations, and end the upload.

        Raises:
            UsageError: the upload is unknown.
        """
        self._check(upload)
        self._engine.store.write(importing.delete_tombstones)
        self._forget()

    @property
    def _home(self) -> Path:
        return export_folder_of(self._engine.settings).resolve() / WORK / f"import-{self._id}"

    def _check(self, upload: str) -> None:
        if self._id is None or upload != self._id or not _ID.fullmatch(upload):
            raise UsageError("this import is not running; start it again")
        self._touched = time.monotonic()

    def _forget(self) -> None:
        if self._id is not None:
            remove_work(self._home)
        self._id = None

    def _store_ranges(self, table: str, draft: Path, rows: int) -> int:
        new = 0
        for row_range in importing.row_ranges(rows):
            now_ns = self._engine.clock()
            work = partial(importing.import_rows, table=table, file=draft, row_range=row_range, now_ns=now_ns)
            new += self._engine.store.write(work)
            self._touched = time.monotonic()
        return new


def snapshot(engine: Engine, *, since_ns: int | None = None, until_ns: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the pieces of all files, one file after the other.

    A piece is `{"file", "rows", "data", "last", "done", "total"}`: the path within the folder, the number of rows in
    the file, base64 of its next bytes, whether these are the last, and the numbers of finished and of all parts. A part
    without rows has no file: its piece has `file` null.

    Args:
        engine: the opened store. Files are written to its export folder, one at a time, and deleted again.
        since_ns: only days from the day of this time on; None for all.
        until_ns: only days that begin before this time; None for all. Tables without a time column are always complete.
    """
    folder = export_folder_of(engine.settings).resolve()
    with engine.store.read() as con:
        parts = [(unit, day) for unit in UNITS for day in days_of(con, unit, since_ns, until_ns)]
    total = len(parts) + len(WHOLES)
    with work_folder(folder) as work:
        for done, (unit, day_ns) in enumerate(parts, 1):
            for table in UNITS[unit]:
                with engine.store.read() as con:
                    draft, rows = write_day(con, work, table, day_ns)
                yield from _pieces(draft, f"{day_folder(table, day_ns)}/{DAY}", rows, done, total)
        for done, table in enumerate(WHOLES, len(parts) + 1):
            with engine.store.read() as con:
                draft, rows = write_whole(con, work, table)
            yield from _pieces(draft, f"{table}/{SINGLE_FILE}", rows, done, total)


def _pieces(draft: Path, file: str, rows: int, done: int, total: int) -> Iterator[dict[str, Any]]:
    if not rows:
        draft.unlink(missing_ok=True)
        yield {"file": None, "rows": 0, "data": "", "last": True, "done": done, "total": total}
        return
    size, read = draft.stat().st_size, 0
    with draft.open("rb") as stream:
        while read < size:
            data = stream.read(PIECE)
            read += len(data)
            piece = {"file": file, "rows": rows, "data": b64encode(data).decode(), "last": read >= size}
            yield {**piece, "done": done, "total": total}
    draft.unlink()


#: An acknowledgement after this time is late, seconds.
_LATE_S: Final = 0.05
#: The share is updated at this interval, seconds: a change must take effect before the next one.
_UPDATE_S: Final = 0.25
#: Background work never stops completely, so that nothing waits for it forever.
_LEAST_SHARE: Final = 0.02
_STEP: Final = 0.05
#: While resting, the share is checked at this interval, seconds.
_REST_STEP_S: Final = 0.25
#: Called with the progress of a long command: the stage, the work done, and the total work (None if unknown).
Progress = Callable[[str, int, int | None], None]


class StopEvent(Protocol):
    """The part of `threading.Event` that resting needs."""

    def wait(self, timeout: float) -> bool:
        """Return True as soon as the event is set, or False after the timeout."""
        ...


class Pressure:
    """Measures how long senders wait. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._share = 1.0
        self._updated_at = clock()
        self._longest_s = 0.0
        self._waiting = 0
        self._progress_at = clock()

    def arrived(self) -> None:
        """Record that a sender starts to wait for its acknowledgement."""
        with self._lock:
            if not self._waiting:
                self._progress_at = self._clock()
            self._waiting += 1

    def answered(self, delay_s: float) -> None:
        """Record how long a sender waited, seconds."""
        with self._lock:
            self._waiting -= 1
            self._progress_at = self._clock()
            self._longest_s = max(self._longest_s, delay_s)
            self._update()

    @property
    def share(self) -> float:
        """The share of the time that background work may take: 1 if no sender waits."""
        with self._lock:
            self._update()
            return self._share

    def rest(self, worked_s: float, stopping: StopEvent) -> None:
        """Wait after `worked_s` s of work to keep to the share, less if the pressure ends or `stopping` is set."""
        began = self._clock()
        while (left_s := worked_s / self.share - worked_s - (self._clock() - began)) > 0:
            if stopping.wait(min(left_s, _REST_STEP_S)):
                return

    def _update(self) -> None:
        now = self._clock()
        if now - self._updated_at < _UPDATE_S:
            return
        # If all senders wait, none is answered; that is pressure, not idleness.
        longest_s = max(self._longest_s, now - self._progress_at if self._waiting else 0.0)
        if longest_s > _LATE_S:
            self._share = max(_LEAST_SHARE, self._share / 2)
        elif longest_s:
            self._share = min(1.0, self._share + _STEP)
        else:
            self._share = 1.0
        self._updated_at, self._longest_s = now, 0.0


class EngineListener(EvaluationListener):
    """Receives the events of an engine; this one ignores them."""

    def late_spans(self, count: int) -> None:
        """Handle spans that arrived after their conversation was removed; they are counted but not rebuilt."""

    def committed(self, duration_s: float) -> None:
        """Handle a commit of spans, on the writer thread: return quickly."""


class Engine:
    """An open store with everything that reads, rebuilds and scores it. A context manager that closes the store."""

    def __init__(
        self,
        settings: Settings,
        *,
        create: bool = False,
        upgrade: bool = False,
        collecting: bool = False,
        clock: Callable[[], int] = time.time_ns,
        listener: EngineListener | None = None,
    ) -> None:
        """Open the store that the settings name.

        Args:
            settings: all settings.
            create: create the DuckDB file if it is missing.
            upgrade: upgrade a store of an earlier release, after copying it; without this, it is rejected.
            collecting: whether a collector runs on the engine: it rebuilds what arrives, and windows end at its clock.
            clock: returns the current time, ns since the epoch.
            listener: receives the events of the engine; None ignores them.

        Raises:
            StoreError: the file cannot be used.
            PluginError: a dialect, judge or estimator does not load.
        """
        listener = listener or EngineListener()
        self.settings = settings
        self.clock = clock
        self.collecting = collecting
        #: Set to end long operations early, at a safe point.
        self.stopping = threading.Event()
        #: Held by a backfill.
        self.backfill_lock = threading.Lock()
        #: How long senders wait; background work yields accordingly.
        self.pressure = Pressure()
        #: Held while old data is exported or removed.
        self.retention_lock = threading.Lock()
        self.reader = Reader.from_settings(settings.conversations, settings.dialects)
        self.store = Store(
            settings.store,
            self.reader,
            create=create,
            upgrade=upgrade,
            clock=clock,
            export_folder=export_folder_of(settings),
            redaction=settings.redaction,
            on_commit=listener.committed,
        )
        self.segments = SegmentReader(self.store, self.reader, keeps_spans=collecting)
        self.rebuilder = Rebuilder(self.store, self.segments, settings.conversations, on_late=listener.late_spans)
        self.uploads = Uploads(self)
        self.runner = EvaluationRunner(
            self.store,
            settings.scoring,
            settings.judge,
            settings.sampling,
            settings.evaluators,
            matching=settings.matching,
            further=settings.windows.criteria,
            listener=listener,
        )

    @property
    def emit(self) -> EmitSettings:
        """The telemetry settings, with the store's instance id unless they set another."""
        emit = self.settings.emit
        return emit if emit.instance_id else emit.model_copy(update={"instance_id": instance_id_of(self.store)})

    def showing(self, evaluation: str) -> Engine:
        """Return a copy of this engine whose store queries return the scores of the named evaluation."""
        view = copy.copy(self)
        view.store = self.store.showing(evaluation)
        return view

    def estimators(self, name: str | None = None) -> list[Estimator]:
        """Return every installed estimator, or only the named one.

        Raises:
            PluginError: the named estimator or the one in the settings is not installed, or one does not load.
        """
        if self.settings.stats.estimator:
            plugins.get("estimators", self.settings.stats.estimator)
        chosen = [plugins.get("estimators", name)] if name else list(plugins.find("estimators").values())
        return [plugin.load().from_settings(self.settings.stats) for plugin in chosen]

    def close(self) -> bool:
        """Close the judge and the store. Returns the result of `Store.close`."""
        self.runner.close()
        return self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stored_estimator_names(settings: Settings) -> tuple[str, ...]:
    """Return the distinct names of the window estimators: first the headline, then pooled, per case, and emitted ones.

    >>> from otel_agentic.config import Settings
    >>> stored_estimator_names(Settings())
    ('bayesian', 'per_case')
    """
    stats = settings.stats
    return tuple(dict.fromkeys((headline_estimator(stats), *shown_estimators(stats), *settings.emit.estimators)))


def stored_estimators(engine: Engine) -> list[Estimator]:
    """Return the window estimators.

    Raises:
        PluginError: an estimator in the settings is not installed, or one does not load.
    """
    return [engine.estimators(name)[0] for name in stored_estimator_names(engine.settings)]
