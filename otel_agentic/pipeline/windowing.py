"""Keeps the rolling windows, their rows and their gauges, true to the scores."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from otel_agentic.stats import POOLED, PerCaseEstimator
from otel_agentic.store.scores import Selection
from otel_agentic.store.windows import save_windows, scored_conversations, stored_ends
from otel_agentic.windows import WindowPoint, current_end, parse_width, roll

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.telemetry import Telemetry

_log = logging.getLogger(__name__)
_NS_PER_S: Final = 1_000_000_000
#: Gauges are computed anew at least this often: windows slide although nothing arrives.
_REFRESH_S: Final = 15.0
#: Past window ends restated at once at most, the newest of them; beyond, `backfill` recomputes them.
_MAX_RESTATED: Final = 5_000


class Windowing:
    """Recomputes windows when scores change and as time goes by, on a thread of its own."""

    def __init__(self, engine: Engine, telemetry: Telemetry) -> None:
        settings = engine.settings
        self._engine = engine
        self._telemetry = telemetry
        self._widths = settings.windows.widths
        self._widest_ns = max(parse_width(width) for width in self._widths)
        self._step_ns = int(settings.windows.step_s * _NS_PER_S)
        wanted = [settings.stats.estimator or POOLED[settings.stats.mode], PerCaseEstimator.name]
        self._estimators = [engine.estimators(name)[0] for name in dict.fromkeys(wanted)]
        self._lock = threading.Lock()
        self._changed: set[int] = set()
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="otel-agentic-windows", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Compute what changed, then end."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def changed(self, ended_ns: Iterable[int]) -> None:
        """Note that scores changed of conversations which ended at these times, now or in an earlier revision."""
        with self._lock:
            self._changed.update(ended_ns)
        self._wake.set()

    def refresh(self) -> list[WindowPoint]:
        """Compute the current windows and restate the past ones that changed; return the current points."""
        with self._lock:
            changed, self._changed = self._changed, set()
        try:
            return self._refresh(changed)
        except BaseException:
            with self._lock:
                self._changed |= changed
            raise

    def _refresh(self, changed: set[int]) -> list[WindowPoint]:
        end_ns = current_end(self._engine.clock(), self._step_ns)
        current = self._roll([end_ns])
        self._telemetry.set_windows(current)
        if changed:
            with self._engine.store.read() as con:
                past = stored_ends(con, min(changed), max(changed) + self._widest_ns, limit=_MAX_RESTATED)
            own = {current_end(ended_ns, self._step_ns) for ended_ns in changed}
            ends = sorted({*past, *own} - {end_ns})[-_MAX_RESTATED:]
            points = [*current, *self._roll(ends)]
            now_ns = self._engine.clock()
            self._engine.store.write(lambda con: save_windows(con, points, [*ends, end_ns], now_ns))
        return current

    def _roll(self, ends: list[int]) -> list[WindowPoint]:
        if not ends:
            return []
        selection = Selection(since_ns=min(ends) - self._widest_ns, until_ns=max(ends) + 1)
        with self._engine.store.read() as con:
            scored = scored_conversations(con, selection)
        stats = self._engine.settings.stats
        return roll(scored, self._widths, sorted(ends), estimators=self._estimators, settings=stats, k=stats.k)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(_REFRESH_S)
            self._wake.clear()
            self._try_refresh()
        if self._changed:  # noted while the last round was under way
            self._try_refresh()

    def _try_refresh(self) -> None:
        try:
            self.refresh()
        except Exception:  # noqa: BLE001 — logged, and tried again
            # Gauges keep their last values; the next round starts from the store again.
            _log.exception("computing windows failed")
