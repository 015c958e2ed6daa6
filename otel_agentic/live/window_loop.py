"""Keeps the rolling windows, their rows and their gauges up to date with the results."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from otel_agentic.engine.engine import stored_estimators
from otel_agentic.errors import ConfigError
from otel_agentic.live.loops import BackgroundLoop, LoopErrorLogger
from otel_agentic.store.maintenance.retention import retention_state
from otel_agentic.store.queries.windows import claims_at, count_windows
from otel_agentic.store.results import results_for
from otel_agentic.store.windows import forget_changes, newest_end, read_changes, save_windows, stored_ends
from otel_agentic.windows import current_end, parse_windows, roll, window_table
from otel_agentic.windows.rolling import most_newest, widest_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.queries.windows import Claims
    from otel_agentic.store.windows import Changes
    from otel_agentic.telemetry import Telemetry
    from otel_agentic.windows import Window, WindowTable

_log = logging.getLogger(__name__)
_NS_PER_S: Final = 1_000_000_000
#: Maximum time between two computations of the gauges: windows move although nothing arrives.
_REFRESH_S: Final = 15.0
#: Minimum time between two writes of rows under load, ...
_ROWS_S: Final = 1.0
#: ... and the ratio of idle time to the time that computing gauges takes.
_SHARE: Final = 4
#: Up to this many ends are counted by the database; for more, conversations are loaded and counted for all ends at once.
_FEW: Final = 8
#: Ends computed and written in one transaction: the writer stores spans in between.
_PORTION: Final = 200
#: Maximum number of ends computed at once, the newest of them; `backfill` computes the others.
MOST_ENDS: Final = 5_000


class DueEnds:
    """Tracks the window ends that passed, and determines those that a change affects.

    Ends are whole multiples of the step since the epoch. Due are all ends that passed since the last computation, the end of
    the window that is filling, and the ends whose window contains or contained a changed conversation. For conversations from
    files only stored ends are due: windows of a past without a running collector are computed by `backfill`. Ends whose
    windows reach back to removed conversations are never due: their stored rows stay unchanged.
    """

    def __init__(self, windows: Sequence[Window], step_ns: int) -> None:
        self._widths = [window.name for window in windows]
        self._reach_ns = widest_ns(windows)
        self._counts = most_newest(windows) > 0
        self._step_ns = step_ns
        self._computed_ns: int | None = None

    def ends(self, con: Connection, changes: Changes, now_ns: int) -> list[int]:
        """Return the due ends, ascending.

        Args:
            con: a connection for reading.
            changes: the changed conversations.
            now_ns: the current time.
        """
        filling_ns = current_end(now_ns, self._step_ns)
        since_ns = self._computed_ns if self._computed_ns is not None else newest_end(con, self._step_ns, filling_ns)
        ends: set[int] = set()
        if since_ns != filling_ns or changes:
            ends |= self._grid(filling_ns if since_ns is None else since_ns, filling_ns)
        for first_ns, last_ns in self._affected(changes.live_ns, filling_ns):
            ends |= self._grid(first_ns, last_ns)
        for first_ns, last_ns in self._affected((*changes.live_ns, *changes.other_ns), filling_ns):
            ends |= set(stored_ends(con, self._widths, first_ns, last_ns, limit=MOST_ENDS))
        results_from_ns = retention_state(con).results_from_ns
        whole_from_ns = results_from_ns + self._reach_ns if results_from_ns else 0
        return sorted(end for end in ends if end >= whole_from_ns)[-MOST_ENDS:]

    def computed(self, now_ns: int) -> None:
        """Record that all due ends were computed and stored."""
        self._computed_ns = current_end(now_ns, self._step_ns)

    def _grid(self, first_ns: int, last_ns: int) -> set[int]:
        """Return the ends from one time to another, both inclusive; the newest if there are too many."""
        return set(range(current_end(first_ns, self._step_ns), last_ns + 1, self._step_ns)[-MOST_ENDS:])

    def _affected(self, ended_ns: Iterable[int], filling_ns: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals of ends whose windows contain one of these times, ascending."""
        interval: tuple[int, int] | None = None
        for time_ns in sorted(time_ns for time_ns in ended_ns if time_ns <= filling_ns):
            last_ns = filling_ns if self._counts else min(filling_ns, time_ns + self._reach_ns - 1)
            if interval is not None and time_ns > interval[1]:
                yield interval
                interval = None
            interval = (time_ns, last_ns) if interval is None else (interval[0], max(interval[1], last_ns))
        if interval is not None:
            yield interval


class WindowLoop(BackgroundLoop):
    """Computes windows when results change and as time passes, on its own thread."""

    def __init__(self, engine: Engine, telemetry: Telemetry, on_shown: Callable[[int], None] = lambda _: None) -> None:
        """Create the loop.

        Args:
            engine: the opened store, its settings and its clock.
            telemetry: exports the gauges.
            on_shown: called with the time, ns, up to which stored scores are included in the gauges.

        Raises:
            ConfigError: no window is configured, or one is invalid.
            PluginError: an estimator does not load.
        """
        super().__init__("windows")
        settings = engine.settings.windows
        self._engine = engine
        self._telemetry = telemetry
        self._on_shown = on_shown
        self._tags = settings.tags
        self._windows = parse_windows(settings.widths)
        if not self._windows:
            raise ConfigError("windows.widths is empty: give at least one window, such as 24h")
        self._estimators = stored_estimators(engine)
        self._due_ends = DueEnds(self._windows, int(settings.step_s * _NS_PER_S))
        self._gauge_errors = LoopErrorLogger(_log, "computing gauges")
        self._row_errors = LoopErrorLogger(_log, "computing windows")
        #: Held from reading results until their windows are stored; everything else that stores windows takes it, too.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Start the thread."""
        self._wake.set()
        super().start()

    def refresh(self) -> WindowTable:
        """Compute the current gauges and all due rows; return the current windows."""
        table = self.show()
        self.store()
        return table

    def show(self) -> WindowTable:
        """Compute the windows that end now, and export them as gauges."""
        now_ns = self._engine.clock()
        with self._engine.store.read() as con:
            table = self._count(con, [now_ns])
        self._telemetry.set_windows(table)
        self._on_shown(now_ns)
        return table

    def store(self) -> int:
        """Compute and store the windows whose ends are due; return the number of new or changed rows."""
        with self.lock:
            now_ns = self._engine.clock()
            with self._engine.store.read() as con:
                changes = read_changes(con)
                ends = self._due_ends.ends(con, changes, now_ns)
            portions = [ends[start : start + _PORTION] for start in range(0, len(ends), _PORTION)]
            written = 0
            for number, portion in enumerate(portions):
                if number and self._stopping.is_set():
                    return written  # the rest is due at the next start: ends are ordered, and the changes stay recorded
                written += self._store(portion, now_ns)
            if changes:
                self._engine.store.write(lambda con: forget_changes(con, changes))
            self._due_ends.computed(now_ns)
        return written

    def _store(self, ends: Sequence[int], now_ns: int) -> int:
        with self._engine.store.read() as con:
            table = self._count(con, ends) if len(ends) <= _FEW else self._count_in_memory(con, ends)
        return self._engine.store.write(lambda con: save_windows(con, table, ends, now_ns))

    def _count(self, con: Connection, ends: Sequence[int]) -> WindowTable:
        stats = self._engine.settings.stats
        tallies = count_windows(con, self._windows, ends, self._tags)
        claims = self._claims(con, ends)
        return window_table(tallies, estimators=self._estimators, settings=stats, k=stats.k, claims=claims)

    def _count_in_memory(self, con: Connection, ends: Sequence[int]) -> WindowTable:
        stats = self._engine.settings.stats
        results = results_for(con, self._windows, ends, self._tags)
        names = [window.name for window in self._windows]
        claims = self._claims(con, ends)
        return roll(results, names, ends, estimators=self._estimators, settings=stats, k=stats.k, claims=claims)

    def _claims(self, con: Connection, ends: Sequence[int]) -> Claims:
        settings = self._engine.settings
        return claims_at(
            con,
            ends,
            tags=self._tags,
            since_ns=settings.slo.since_ns,
            settings=settings.stats,
            estimators=self._estimators,
        )

    def _run(self) -> None:
        # If an iteration fails, gauges keep their last values, and the next one reads from the store again.
        stored_at = -_ROWS_S
        wait_s = 0.0
        behind = False
        while not self._stopping.is_set():
            behind |= self._wake.wait(wait_s)
            self._wake.clear()
            began = time.monotonic()
            self._gauge_errors.attempt(self.show)
            self._stopping.wait(_SHARE * (time.monotonic() - began))
            if began - stored_at >= _ROWS_S:
                self._row_errors.attempt(self.store)
                stored_at, behind = time.monotonic(), False
            wait_s = _ROWS_S if behind else _REFRESH_S
        self._row_errors.attempt(self.store)  # changes during the last iteration
