"""Removing what is older than it is to be kept: whole conversations, a portion at a time."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.errors import ConfigError
from otel_agentic.pipeline.exports import Exporting
from otel_agentic.store import aging
from otel_agentic.store.kept import kept
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

#: Of the time that removing takes the writer, at least as much is left to spans between two portions.
_SHARE: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What was removed, or would be: `before_ns` is the time that it is older than."""

    before_ns: int
    conversations: int = 0
    spans: int = 0
    log_records: int = 0
    results: int = 0

    def __bool__(self) -> bool:
        """Whether there was anything."""
        return bool(self.conversations or self.spans or self.log_records or self.results)

    def json(self) -> dict[str, Any]:
        """Return the same as JSON can say it."""
        return asdict(self)


def keep_ns_of(settings: Settings) -> int | None:
    """Return how long things are kept, ns; None when for ever.

    Raises:
        ConfigError: `retention.keep` is no time such as 30d.
    """
    keep = settings.retention.keep
    try:
        return None if keep is None else parse_width(keep)
    except ConfigError as error:
        raise ConfigError(
            f"retention.keep (--keep) {keep!r}: give a whole number above 0 and s, m, h or d, e.g. 12h or 30d"
        ) from error


class Removing:
    """One pass over everything that is older than it is to be kept."""

    def __init__(
        self,
        engine: Engine,
        keep_ns: int,
        *,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda *_: None,
        dry_run: bool = False,
    ) -> None:
        """Prepare.

        Args:
            engine: the opened store. Hold its lock `retaining`.
            keep_ns: how long things are kept, ns.
            stop: when true, the pass ends after the portion that is under way.
            progress: told how many conversations were looked at, of how many.
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
        self._done = Removed(before_ns=self._cut_ns)

    def run(self) -> Removed:
        """Remove; return what."""
        if self._cut_ns <= 0:
            return self._done
        if self._exported and not self._dry_run:
            Exporting(self._engine).look()  # what arrived, or changed, since the last round is not written yet
        self._announce()
        self._conversations()
        for unit in ("spans", "log_records"):
            self._loose(unit)
        if not self._dry_run:
            self._results()
            self._small()
        return self._done

    def _announce(self) -> None:
        """Say from when on the store is complete, before it is not: windows that would reach further are left alone."""
        windows = parse_windows(self._engine.settings.windows.widths)
        self._newest = most_newest(windows)
        self._results_cut_ns = max(0, self._cut_ns - widest_ns(windows))
        if not self._dry_run:
            bounds = {"conversations_from_ns": self._cut_ns, "results_from_ns": self._results_cut_ns}
            self._engine.store.write(lambda con: self._add(con, **bounds))

    def _add(self, con: Connection, *, conversations_from_ns: int = 0, results_from_ns: int = 0, **more: int) -> None:
        """Add to what is kept, in a transaction of the writer's; times never go back."""
        before = kept(con)
        now = replace(
            before,
            conversations_from_ns=max(before.conversations_from_ns, conversations_from_ns),
            results_from_ns=max(before.results_from_ns, results_from_ns),
            **{name: getattr(before, name) + count for name, count in more.items()},
        )
        aging.save_kept(con, now, self._now_ns)

    def _conversations(self) -> None:
        with self._engine.store.read() as con:
            keys = ended_before(con, self._cut_ns)
        for start in range(0, len(keys), MOST_KEYS):
            if self._stop():
                return
            with self._engine.store.read() as con:
                found = list(portions(con, keys[start : start + MOST_KEYS], exported=self._exported))
            for portion in found:
                self._take(portion)
            self._progress(min(start + MOST_KEYS, len(keys)), len(keys))

    def _take(self, portion: Portion) -> None:
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
            self._add(con, **counts)

        self._written(write)

    def _loose(self, unit: str) -> None:
        if self._dry_run:
            with self._engine.store.read() as con:
                self._count(**{unit: aging.count_loose(con, unit, self._cut_ns, exported=self._exported)})
            return
        for rows in self._until_none(lambda con: aging.loose_rows(con, unit, self._cut_ns, exported=self._exported)):
            gone = self._written(partial(self._remove_loose, rows=rows))
            if not gone:
                return  # a checkpoint renumbered them: the next pass finds them anew
            self._count(**{unit: gone})

    def _remove_loose(self, con: Connection, rows: Loose) -> int:
        gone = aging.remove_loose(con, rows, self._now_ns)
        self._add(con, **{rows.unit: gone})
        return gone

    def _results(self) -> None:
        slo = self._engine.settings.slo
        for rows in self._until_none(
            lambda con: aging.old_results(
                con,
                cut_ns=self._results_cut_ns,
                frozen_ns=self._cut_ns,
                newest=self._newest,
                watched=list(result_groups(con)) if slo.objectives else [],
                watched_since_ns=slo.since_ns or 0,
            )
        ):
            gone = self._written(partial(aging.remove_results, old=rows))
            if not gone:
                return
            self._count(results=gone)

    def _until_none(self, find: Callable[[Connection], Any]) -> Iterator[Any]:
        while not self._stop():
            with self._engine.store.read() as con:
                found = find(con)
            if not found.places:
                return
            yield found

    def _small(self) -> None:
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

    def _written(self, work: Callable[[Connection], Any]) -> Any:
        """Do work on the writer thread, then leave it to spans for as long."""
        began = time.monotonic()
        found = self._engine.store.write(work)
        self._pause(_SHARE * (time.monotonic() - began))
        return found

    def _pause(self, seconds: float) -> None:
        if not self._stop():
            self._engine.stopping.wait(seconds)

    def _count(self, **more: int) -> None:
        self._done = replace(self._done, **{name: getattr(self._done, name) + count for name, count in more.items()})
