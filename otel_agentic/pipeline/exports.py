"""Exports closed hours as Parquet files, one hour at a time, while the store is in use."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from otel_agentic.errors import OtelAgenticError
from otel_agentic.store import exports
from otel_agentic.store.database import error_summary
from otel_agentic.store.export_files import clear_work
from otel_agentic.store.export_layout import HOUR_NS, UNITS, day_folder, export_folder_of, hour_file
from otel_agentic.store.exporting import merge_day, write_hour

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.database import Connection

T = TypeVar("T")
_log = logging.getLogger(__name__)
_NS_PER_S: Final = 1_000_000_000
#: Hours, or days, of a unit queried at once.
_PORTION: Final = 50
#: Ratio of the pause after an hour was written to the time that writing took.
_EXPORT_PAUSE_RATIO: Final = 0.5
#: A file that cannot be written is skipped, so that one damaged file does not block the others; after this many failures a
#: round ends, because the disk is the problem.
_MAX_FAILED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportCounts:
    """Counts of a round: hours of units written, rows in them, days merged; and the first problem."""

    hours: int = 0
    rows: int = 0
    days: int = 0
    problem: str | None = None


class HourlyExport:
    """Writes closed hours that were not written yet, or that changed since."""

    def __init__(self, engine: Engine) -> None:
        """Create an export; nothing is written yet."""
        self._engine = engine
        self._store = engine.store
        self.folder: Path = export_folder_of(engine.settings).resolve()
        self._failed: dict[str, str] = {}
        self._is_first_run = True
        self._can_merge = True

    def run(self, stop: Callable[[], bool] = lambda: False) -> ExportCounts:
        """Write the due hours and days; return their counts. The caller holds the engine's lock `retaining`.

        A file that cannot be written is skipped and retried in the next round; the result contains the first problem.
        Existing files stay intact.
        """
        if self._is_first_run:
            clear_work(self.folder)
            self._is_first_run = False
        self.look()
        self._failed = {}
        done = ExportCounts()
        for unit in UNITS:
            hours, rows = self._hours(unit, stop)
            days = self._days(unit, stop)
            done = ExportCounts(hours=done.hours + hours, rows=done.rows + rows, days=done.days + days)
        return replace(done, problem=next(iter(self._failed.values()), None))

    def look(self) -> None:
        """Record which hours must be written: those with arrivals or changes, or whose file is missing."""
        with self._store.read() as con:
            arrivals = exports.arrived(con)
            lost = exports.lost(con, self.folder)
        if not lost and not any(arrivals.hours.values()) and not arrivals.until_ns:
            return

        def write(con: Connection) -> None:
            exports.note(con, arrivals)
            for unit, hours in lost.items():
                exports.soil(con, unit, hours)

        self._store.write(write)

    def _final_ns(self) -> int:
        lateness_ns = int(self._engine.settings.windows.lateness_s * _NS_PER_S)
        return self._engine.clock() - lateness_ns

    def _hours(self, unit: str, stop: Callable[[], bool]) -> tuple[int, int]:
        hours = rows = 0
        while not stop():
            with self._store.read() as con:
                hours_due = exports.due_hours(con, unit, self._final_ns(), _PORTION + len(self._failed))
            pending_hours = [hour_ns for hour_ns in hours_due if hour_file(unit, hour_ns) not in self._failed]
            if not pending_hours:
                break
            for hour_ns in pending_hours:
                if stop() or self._has_too_many_failures:
                    return hours, rows
                written_rows = self._try_export(hour_file(unit, hour_ns), partial(self._hour, unit, hour_ns))
                if written_rows is not None:
                    hours, rows = hours + 1, rows + written_rows
        return hours, rows

    @property
    def _has_too_many_failures(self) -> bool:
        return len(self._failed) >= _MAX_FAILED

    def _try_export(self, name: str, work: Callable[[], T]) -> T | None:
        """Return the result of `work`; None if it failed, which is recorded."""
        try:
            return work()
        except OtelAgenticError:
            raise  # a problem of the store, not of the folder
        except Exception as error:  # noqa: BLE001 — a full disk, a read-only folder, a damaged file
            # Without the name of the temporary file, which differs at each try, so that a lasting problem is logged once.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error_summary(error)
            self._failed[name] = f"{self.folder / name}: could not be exported: {reason}"
            return None

    def _hour(self, unit: str, hour_ns: int) -> int:
        """Write an hour of a unit; return the number of rows in its first table."""
        began = time.monotonic()
        with self._store.read() as con:
            files, digest = write_hour(con, self.folder, unit, hour_ns)
        now_ns = self._engine.clock()
        self._store.write(lambda con: exports.record_written(con, files, digest, now_ns))
        _log.debug("exported %s: %d rows", hour_file(unit, hour_ns), files[0].rows)
        self._engine.stopping.wait(_EXPORT_PAUSE_RATIO * (time.monotonic() - began))
        return files[0].rows

    def _days(self, unit: str, stop: Callable[[], bool]) -> int:
        if not self._can_merge:
            return 0
        with self._store.read() as con:
            days = exports.due_days(con, unit, self._final_ns() - HOUR_NS, _PORTION)
        done = 0
        for day_ns in days:
            if stop() or self._has_too_many_failures:
                break
            tables = self._try_export(day_folder(unit, day_ns), partial(self._merge, unit, day_ns))
            if tables is None:
                continue
            if not tables:
                self._can_merge = False  # this file system does not support it: hours stay separate files
                break
            self._store.write(partial(exports.moved, unit=unit, day_ns=day_ns, tables=tables))
            done += 1
        return done

    def _merge(self, unit: str, day_ns: int) -> list[str]:
        with self._store.connection() as con:
            return merge_day(con, self.folder, unit, day_ns)
