"""Keeps the rolling windows, their rows and their gauges, true to the results."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import ConfigError
from otel_agentic.pipeline.due import DueEnds
from otel_agentic.pipeline.estimators import stored_estimators
from otel_agentic.pipeline.rounds import Rounds
from otel_agentic.store.results import results_for
from otel_agentic.store.tick import tick
from otel_agentic.store.tier_claims import claims_at
from otel_agentic.store.window_changes import forget_changes, read_changes
from otel_agentic.store.windows import save_windows
from otel_agentic.windows import parse_windows, roll, window_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.store.database import Connection
    from otel_agentic.store.tier_claims import Claims
    from otel_agentic.telemetry import Telemetry
    from otel_agentic.windows import WindowTable

_log = logging.getLogger(__name__)
_NS_PER_S: Final = 1_000_000_000
#: Gauges are computed anew at least this often: windows slide although nothing arrives.
_REFRESH_S: Final = 15.0
#: Under load rows are written so often at most, ...
_ROWS_S: Final = 1.0
#: ... and of the time that gauges take at most one part in so many is taken.
_SHARE: Final = 4
#: So many ends are counted by the database; for more, conversations are taken out of it and counted at all ends at once.
_FEW: Final = 8
#: Ends computed and written at once: the writer has spans to store in between.
_PORTION: Final = 200


class Windowing:
    """Computes windows when results change and as time goes by, on a thread of its own."""

    def __init__(self, engine: Engine, telemetry: Telemetry, shown: Callable[[int], None] = lambda _: None) -> None:
        """Prepare.

        Args:
            engine: the opened store, its settings and its clock.
            telemetry: what shows the gauges.
            shown: told, ns, up to when scores that were stored are in the gauges.

        Raises:
            ConfigError: there is no window, or one cannot be read.
            PluginError: an estimator does not load.
        """
        settings = engine.settings.windows
        self._engine = engine
        self._telemetry = telemetry
        self._shown = shown
        self._tags = settings.tags
        self._windows = parse_windows(settings.widths)
        if not self._windows:
            raise ConfigError("windows.widths is empty: give at least one window, e.g. 24h")
        self._estimators = stored_estimators(engine)
        self._due = DueEnds(self._windows, int(settings.step_s * _NS_PER_S))
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._showing, self._storing = Rounds(_log, "computing gauges"), Rounds(_log, "computing windows")
        self._thread = threading.Thread(target=self._run, name="otel-agentic-windows", daemon=True)
        #: Held from reading results to storing their windows; whoever stores windows otherwise takes it, too.
        self.lock = threading.Lock()

    def start(self) -> None:
        """Begin."""
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Compute what changed, then end."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Compute anew: results changed."""
        self._wake.set()

    def refresh(self) -> WindowTable:
        """Compute the gauges of now and all rows that are due; return the windows of now."""
        shown = self.show()
        self.store()
        return shown

    def show(self) -> WindowTable:
        """Compute the windows that end now, and show them as gauges."""
        now_ns = self._engine.clock()
        with self._engine.store.read() as con:
            table = self._ticked(con, [now_ns])
        self._telemetry.set_windows(table)
        self._shown(now_ns)
        return table

    def store(self) -> int:
        """Compute the windows whose ends are due, and store them; return how many rows are new or restated."""
        with self.lock:
            now_ns = self._engine.clock()
            with self._engine.store.read() as con:
                changes = read_changes(con)
                ends = self._due.ends(con, changes, now_ns)
            portions = [ends[start : start + _PORTION] for start in range(0, len(ends), _PORTION)]
            written = 0
            for number, portion in enumerate(portions):
                if number and self._stopping.is_set():
                    return written  # the rest is due at the next start: ends come in order, changes stay noted
                written += self._store(portion, now_ns)
            if changes:
                self._engine.store.write(lambda con: forget_changes(con, changes))
            self._due.computed(now_ns)
        return written

    def _store(self, ends: Sequence[int], now_ns: int) -> int:
        with self._engine.store.read() as con:
            table = self._ticked(con, ends) if len(ends) <= _FEW else self._rolled(con, ends)
        return self._engine.store.write(lambda con: save_windows(con, table, ends, now_ns))

    def _ticked(self, con: Connection, ends: Sequence[int]) -> WindowTable:
        stats = self._engine.settings.stats
        tallies = tick(con, self._windows, ends, self._tags)
        claims = self._claims(con, ends)
        return window_table(tallies, estimators=self._estimators, settings=stats, k=stats.k, claims=claims)

    def _rolled(self, con: Connection, ends: Sequence[int]) -> WindowTable:
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
        stored_at = -_ROWS_S
        wait_s = 0.0
        behind = False
        while not self._stopping.is_set():
            behind |= self._wake.wait(wait_s)
            self._wake.clear()
            began = time.monotonic()
            _try(self.show, self._showing)
            self._stopping.wait(_SHARE * (time.monotonic() - began))
            if began - stored_at >= _ROWS_S:
                _try(self.store, self._storing)
                stored_at, behind = time.monotonic(), False
            wait_s = _ROWS_S if behind else _REFRESH_S
        _try(self.store, self._storing)  # what changed while the last round was under way


def _try(work: Callable[[], object], rounds: Rounds) -> None:
    try:
        work()
    except Exception as error:  # noqa: BLE001 — logged, and tried again
        # Gauges keep their last values; the next round starts from the store again.
        rounds.failed(error)
    else:
        rounds.ended()
