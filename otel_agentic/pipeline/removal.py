"""Removal of conversations that are older than the retention period, in portions."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import ConfigError
from otel_agentic.pipeline.exports import HourlyExport
from otel_agentic.store import aging
from otel_agentic.store.kept import retention_state
from otel_agentic.store.monitors import result_groups
from otel_agentic.store.retention import MOST_KEYS, ended_before, portions, remove
from otel_agentic.windows.rolling import most_newest, parse_width, parse_windows, widest_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from otel_agentic.config import Settings
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.aging import Loose
    from otel_agentic.store.database import Connection
    from otel_agentic.store.retention import Portion

#: Ratio of the pause between two portions, in which spans are written, to the time that the portion took.
_REMOVAL_PAUSE_RATIO: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalCounts:
    """Counts of removed items, or of those that a dry run would remove; `before_ns` is the cutoff."""

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
            engine: the opened store. The caller holds its lock `retaining`.
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
            self._remove_small()
        return self._done

    def _save_bounds(self) -> None:
        """Store from when on the store is complete, before removing: windows that reach further back are left unchanged."""
        windows = parse_windows(self._engine.settings.windows.widths)
        self._newest = most_newest(windows)
        self._results_cut_ns = max(0, self._cut_ns - widest_ns(windows))
        if not self._dry_run:
            bounds = {"conversations_from_ns": self._cut_ns, "results_from_ns": self._results_cut_ns}
            self._engine.store.write(lambda con: self._add_counts(con, **bounds))

    def _add_counts(
        self, con: Connection, *, conversations_from_ns: int = 0, results_from_ns: int = 0, **more: int
    ) -> None:
        """Add to the stored retention state, in a writer transaction; times never decrease."""
        before = retention_state(con)
        now = replace(
            before,
            conversations_from_ns=max(before.conversations_from_ns, conversations_from_ns),
            results_from_ns=max(before.results_from_ns, results_from_ns),
            **{name: getattr(before, name) + count for name, count in more.items()},
        )
        aging.save_retention_state(con, now, self._now_ns)

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
            self._add_counts(con, **counts)

        self._write_and_pause(write)

    def _remove_old_items(self, unit: str) -> None:
        if self._dry_run:
            with self._engine.store.read() as con:
                self._count(**{unit: aging.count_loose(con, unit, self._cut_ns, exported=self._exported)})
            return
        for rows in self._batches(lambda con: aging.loose_rows(con, unit, self._cut_ns, exported=self._exported)):
            removed = self._write_and_pause(partial(self._remove_loose, rows=rows))
            if not removed:
                return  # a checkpoint renumbered the rows: the next pass finds them again
            self._count(**{unit: removed})

    def _remove_loose(self, con: Connection, rows: Loose) -> int:
        removed = aging.remove_loose(con, rows, self._now_ns)
        self._add_counts(con, **{rows.unit: removed})
        return removed

    def _remove_results(self) -> None:
        slo = self._engine.settings.slo
        for rows in self._batches(
            lambda con: aging.old_results(
                con,
                cut_ns=self._results_cut_ns,
                frozen_ns=self._cut_ns,
                newest=self._newest,
                watched=list(result_groups(con)) if slo.objectives else [],
                watched_since_ns=slo.since_ns or 0,
            )
        ):
            removed = self._write_and_pause(partial(aging.remove_results, old=rows))
            if not removed:
                return
            self._count(results=removed)

    def _batches(self, find: Callable[[Connection], Any]) -> Iterator[Any]:
        while not self._stop():
            with self._engine.store.read() as con:
                batch = find(con)
            if not batch.row_ids:
                return
            yield batch

    def _remove_small(self) -> None:
        budget_ns = parse_width(self._engine.settings.judge.budget_window)
        self._engine.store.write(
            lambda con: aging.remove_small(
                con,
                cut_ns=self._cut_ns,
                verdicts_before_ns=min(self._cut_ns, self._now_ns - budget_ns),
                tombs_before_ns=self._cut_ns,
            )
        )
        self._engine.rebuilder.refresh()

    def _write_and_pause(self, work: Callable[[Connection], Any]) -> Any:
        """Run work on the writer thread, then leave it to spans for as long."""
        began = time.monotonic()
        result = self._engine.store.write(work)
        self._pause(_REMOVAL_PAUSE_RATIO * (time.monotonic() - began))
        return result

    def _pause(self, seconds: float) -> None:
        if not self._stop():
            self._engine.stopping.wait(seconds)

    def _count(self, **more: int) -> None:
        self._done = replace(self._done, **{name: getattr(self._done, name) + count for name, count in more.items()})
