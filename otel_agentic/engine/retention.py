"""Export of closed hours as Parquet files, and removal of conversations that are older than `retention.keep`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.config import export_folder_of
from otel_agentic.errors import ConfigError, OtelAgenticError
from otel_agentic.store.connection import Connection, error_summary
from otel_agentic.store.maintenance import export as exports
from otel_agentic.store.maintenance import retention as aging
from otel_agentic.store.maintenance.export import (
    HOUR_NS,
    UNITS,
    clear_work,
    day_folder,
    hour_file,
    merge_day,
    write_hour,
)
from otel_agentic.store.maintenance.retention import MOST_KEYS, OldRows, Portion, ended_before, portions, remove
from otel_agentic.store.results import result_groups
from otel_agentic.windows.model import most_newest, parse_width, parse_windows, widest_ns

if TYPE_CHECKING:
    from otel_agentic.config import Settings
    from otel_agentic.engine.engine import Engine

T = TypeVar("T")
_log = logging.getLogger(__name__)
_NS_PER_S: Final = 1_000_000_000
#: Hours, or days, of a unit queried at once.
_PORTION: Final = 50
#: Ratio of the pause after an hour was written to the time that writing took.
_EXPORT_PAUSE_RATIO: Final = 0.5
#: A file that cannot be written is skipped, so that one damaged file does not block the others; after this many
#: failures a round ends, because the disk is the problem.
_MAX_FAILED: Final = 5
#: Ratio of the pause between two portions, in which spans are written, to the time that the portion took.
_REMOVAL_PAUSE_RATIO: Final = 1.0


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
        """Write the due hours and days; return their counts. The caller holds the engine's `retention_lock`.

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
            arrivals = exports.find_changed_hours(con)
            lost = exports.find_missing_files(con, self.folder)
        if not lost and not any(arrivals.hours.values()) and not arrivals.until_ns:
            return

        def write(con: Connection) -> None:
            exports.record_changes(con, arrivals)
            for unit, hours in lost.items():
                exports.mark_dirty(con, unit, hours)

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
            # Without the name of the temporary file, which differs at each try, so that a lasting problem is logged
            # once.
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
            self._store.write(partial(exports.record_merged_day, unit=unit, day_ns=day_ns, tables=tables))
            done += 1
        return done

    def _merge(self, unit: str, day_ns: int) -> list[str]:
        with self._store.connection() as con:
            return merge_day(con, self.folder, unit, day_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCounts:
    """Counts of removed items, or those that a dry run would remove, which counts no results; `before_ns` is the cutoff."""

    before_ns: int
    conversations: int = 0
    spans: int = 0
    log_records: int = 0
    results: int = 0

    def __bool__(self) -> bool:
        """Whether anything was removed."""
        return bool(self.conversations or self.spans or self.log_records or self.results)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON."""
        return asdict(self)


def keep_ns_of(settings: Settings) -> int | None:
    """Return the retention period, ns; None if everything is kept.

    Raises:
        ConfigError: `retention.keep` is not a duration such as 30d.
    """
    keep = settings.retention.keep
    try:
        return None if keep is None else parse_width(keep)
    except ConfigError as error:
        raise ConfigError(
            f"retention.keep (--keep) {keep!r}: give a whole number above 0 and s, m, h or d, such as 12h or 30d"
        ) from error


class RetentionPass:
    """One pass over everything that is older than the retention period."""

    def __init__(
        self,
        engine: Engine,
        keep_ns: int,
        *,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda *_: None,
        dry_run: bool = False,
    ) -> None:
        """Create a pass.

        Args:
            engine: the opened store. The caller holds its `retention_lock`.
            keep_ns: the retention period, ns.
            stop: once it returns True, the pass ends after the current portion.
            progress: called with the number of conversations processed and their total.
            dry_run: count only.
        """
        self._engine = engine
        self._stop = stop
        self._progress = progress
        self._dry_run = dry_run
        self._keep_ns = keep_ns
        self._now_ns = engine.clock()
        self._cut_ns = self._now_ns - keep_ns
        self._exported = engine.settings.retention.export
        self._done = RemovalCounts(before_ns=self._cut_ns)

    def run(self) -> RemovalCounts:
        """Remove old items; return their counts."""
        if self._cut_ns <= 0:
            return self._done
        if self._exported and not self._dry_run:
            HourlyExport(self._engine).look()  # records arrivals and changes that are not exported yet
        self._save_bounds()
        self._remove_conversations()
        for unit in ("spans", "log_records"):
            self._remove_old_items(unit)
        if not self._dry_run:
            self._remove_results()
            self._remove_unused()
        return self._done

    def _save_bounds(self) -> None:
        """Store the times from which the store is complete, before anything is removed.

        Windows that reach further back are left unchanged.
        """
        windows = parse_windows(self._engine.settings.windows.widths)
        self._newest = most_newest(windows)
        self._results_cut_ns = max(0, self._cut_ns - widest_ns(windows))
        if not self._dry_run:
            bounds = {"conversations_from_ns": self._cut_ns, "results_from_ns": self._results_cut_ns}
            self._engine.store.write(lambda con: aging.add_to_retention_state(con, self._now_ns, **bounds))

    def _remove_conversations(self) -> None:
        with self._engine.store.read() as con:
            keys = ended_before(con, self._cut_ns)
        for start in range(0, len(keys), MOST_KEYS):
            if self._stop():
                return
            with self._engine.store.read() as con:
                found_portions = list(portions(con, keys[start : start + MOST_KEYS], exported=self._exported))
            for portion in found_portions:
                self._remove_portion(portion)
            self._progress(min(start + MOST_KEYS, len(keys)), len(keys))

    def _remove_portion(self, portion: Portion) -> None:
        counts = {
            "conversations": len(portion.keys),
            "spans": portion.count("spans"),
            "log_records": portion.count("log_records"),
        }
        self._count(**counts)
        if self._dry_run:
            return

        def write(con: Connection) -> None:
            remove(con, portion, self._now_ns)
            aging.add_to_retention_state(con, self._now_ns, **counts)

        self._write_and_pause(write)

    def _remove_old_items(self, unit: str) -> None:
        if self._dry_run:
            with self._engine.store.read() as con:
                self._count(**{unit: aging.count_loose(con, unit, self._cut_ns, exported=self._exported)})
            return
        self._remove_batches(
            unit,
            lambda con: aging.loose_rows(con, unit, self._cut_ns, exported=self._exported),
            partial(self._remove_loose, unit),
        )

    def _remove_loose(self, unit: str, con: Connection, rows: OldRows) -> int:
        removed = aging.remove_loose(con, unit, rows, self._now_ns)
        aging.add_to_retention_state(con, self._now_ns, **{unit: removed})
        return removed

    def _remove_results(self) -> None:
        slo = self._engine.settings.slo
        self._remove_batches(
            "results",
            lambda con: aging.old_results(
                con,
                cut_ns=self._results_cut_ns,
                frozen_ns=self._cut_ns,
                newest=self._newest,
                watched=list(result_groups(con)) if slo.objectives else [],
                watched_since_ns=slo.since_ns or 0,
            ),
            partial(aging.remove_results, cut_ns=self._results_cut_ns),
        )

    def _remove_batches(self, name: str, find: Callable[[Connection], OldRows], remove: Callable[..., int]) -> None:
        while not self._stop():
            with self._engine.store.read() as con:
                rows = find(con)
            removed = self._write_and_pause(partial(remove, rows=rows)) if len(rows["place"]) else 0
            if not removed:
                return  # or a checkpoint renumbered the rows: the next pass finds them again
            self._count(**{name: removed})

    def _remove_unused(self) -> None:
        budget_ns = parse_width(self._engine.settings.judge.budget_window)
        self._engine.store.write(
            lambda con: aging.remove_unused(
                con,
                cut_ns=self._cut_ns,
                verdicts_before_ns=min(self._cut_ns, self._now_ns - budget_ns),
                tombs_before_ns=self._cut_ns,
            )
        )
        self._engine.rebuilder.refresh()

    def _write_and_pause(self, work: Callable[[Connection], Any]) -> Any:
        """Run work on the writer thread, then pause for as long, so that the thread can write spans."""
        began = time.monotonic()
        result = self._engine.store.write(work)
        self._pause(_REMOVAL_PAUSE_RATIO * (time.monotonic() - began))
        return result

    def _pause(self, seconds: float) -> None:
        if not self._stop():
            self._engine.stopping.wait(seconds)

    def _count(self, **counts: int) -> None:
        self._done = replace(self._done, **{name: getattr(self._done, name) + count for name, count in counts.items()})
