"""Exporting closed hours as Parquet, an hour at a time beside everything else."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from otel_agentic.errors import OtelAgenticError
from otel_agentic.store import exports
from otel_agentic.store.database import told
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
#: Hours, or days, of a unit that are asked for at once.
_PORTION: Final = 50
#: After an hour was written, so much of the time that it took is left to others.
_SHARE: Final = 0.5
#: What cannot be written is passed over, so that one damaged file holds up nothing else; after so many of them a round ends,
#: for then it is the disk.
_MOST_FAILED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What a round wrote: hours of units, rows in them, days whose hours were put together; and what went wrong."""

    hours: int = 0
    rows: int = 0
    days: int = 0
    problem: str | None = None


class Exporting:
    """Writes what is closed and was not written, or changed since."""

    def __init__(self, engine: Engine) -> None:
        """Prepare; nothing is written yet."""
        self._engine = engine
        self._store = engine.store
        self.folder: Path = export_folder_of(engine.settings).resolve()
        self._failed: dict[str, str] = {}
        self._fresh = True
        self._merges = True

    def run(self, stop: Callable[[], bool] = lambda: False) -> Exported:
        """Write what is due; return what. Hold the engine's lock `retaining`.

        What cannot be written is passed over and left for the next time; the first of it is told. Nothing that was there
        before is harmed.
        """
        if self._fresh:
            clear_work(self.folder)
            self._fresh = False
        self.look()
        self._failed = {}
        done = Exported()
        for unit in UNITS:
            hours, rows = self._hours(unit, stop)
            days = self._days(unit, stop)
            done = Exported(hours=done.hours + hours, rows=done.rows + rows, days=done.days + days)
        return replace(done, problem=next(iter(self._failed.values()), None))

    def look(self) -> None:
        """Write down which hours are to be written: something arrived in them, changed, or their file is gone."""
        with self._store.read() as con:
            found = exports.arrived(con)
            lost = exports.lost(con, self.folder)
        if not lost and not any(found.hours.values()) and not found.until_ns:
            return

        def write(con: Connection) -> None:
            exports.note(con, found)
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
                found = exports.due_hours(con, unit, self._final_ns(), _PORTION + len(self._failed))
            due = [hour_ns for hour_ns in found if hour_file(unit, hour_ns) not in self._failed]
            if not due:
                break
            for hour_ns in due:
                if stop() or self._gives_up:
                    return hours, rows
                wrote = self._tried(hour_file(unit, hour_ns), partial(self._hour, unit, hour_ns))
                if wrote is not None:
                    hours, rows = hours + 1, rows + wrote
        return hours, rows

    @property
    def _gives_up(self) -> bool:
        return len(self._failed) >= _MOST_FAILED

    def _tried(self, at: str, work: Callable[[], T]) -> T | None:
        """Return what some work comes to; None where it failed, which is noted."""
        try:
            return work()
        except OtelAgenticError:
            raise  # the store's trouble, not the folder's
        except Exception as error:  # noqa: BLE001 — a full disk, a folder that may not be written, a file that somebody damaged
            # Without the name of a work file, which is another one at each try: a problem that lasts is logged once.
            why = error.strerror if isinstance(error, OSError) and error.strerror else told(error)
            self._failed[at] = f"{self.folder / at}: could not be exported: {why}"
            return None

    def _hour(self, unit: str, hour_ns: int) -> int:
        """Write an hour of a unit; return how many rows of its first table it holds."""
        began = time.monotonic()
        with self._store.read() as con:
            found, digest = write_hour(con, self.folder, unit, hour_ns)
        now_ns = self._engine.clock()
        self._store.write(lambda con: exports.written(con, found, digest, now_ns))
        _log.debug("exported %s: %d rows", hour_file(unit, hour_ns), found[0].rows)
        self._engine.stopping.wait(_SHARE * (time.monotonic() - began))
        return found[0].rows

    def _days(self, unit: str, stop: Callable[[], bool]) -> int:
        if not self._merges:
            return 0
        with self._store.read() as con:
            days = exports.due_days(con, unit, self._final_ns() - HOUR_NS, _PORTION)
        done = 0
        for day_ns in days:
            if stop() or self._gives_up:
                break
            tables = self._tried(day_folder(unit, day_ns), partial(self._merge, unit, day_ns))
            if tables is None:
                continue
            if not tables:
                self._merges = False  # this file system cannot: hours stay files of their own
                break
            self._store.write(partial(exports.moved, unit=unit, day_ns=day_ns, tables=tables))
            done += 1
        return done

    def _merge(self, unit: str, day_ns: int) -> list[str]:
        with self._store.connection() as con:
            return merge_day(con, self.folder, unit, day_ns)
