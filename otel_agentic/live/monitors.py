"""Checks agents against their objectives, conversation by conversation, as results become final."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from otel_agentic.live.loops import BackgroundLoop, LoopErrorLogger
from otel_agentic.reports.objectives import NS_PER_S, Monitors, alarm_text, change_text
from otel_agentic.store.results import watermark
from otel_agentic.store.windows import monitor_key, save_monitors, stored_alarms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.engine.engine import Engine
    from otel_agentic.store.windows import Alarms, MonitorKey
    from otel_agentic.telemetry import Telemetry
    from otel_agentic.windows.objectives import Monitor

_log = logging.getLogger(__name__)
#: Results become final as time passes, although nothing arrives: the interval between two checks, and its minimum if
#: conversations become final soon, seconds.
_REFRESH_S, _SOONEST_S = 15.0, 1.0


class MonitorLoop(BackgroundLoop):
    """Maintains the monitors of a running collector, their rows and their gauges, on its own thread."""

    def __init__(self, engine: Engine, telemetry: Telemetry) -> None:
        super().__init__("monitors")
        self._engine = engine
        self._telemetry = telemetry
        self._slo = engine.settings.slo
        self._lateness_ns = int(engine.settings.windows.lateness_s * NS_PER_S)
        self._refresh_s = min(_REFRESH_S, max(_SOONEST_S, engine.settings.windows.lateness_s))
        self._monitors = Monitors(self._slo)
        self._logged: dict[MonitorKey, Alarms] | None = None
        self._unsaved = True
        self._lock = threading.Lock()
        self._changed_ns: int | None = None
        self._errors = LoopErrorLogger(_log, "checking objectives")

    def start(self) -> None:
        """Start the thread; without objectives, only the monitors of earlier settings are deleted."""
        if self._slo.objectives:
            super().start()
        else:
            self._engine.store.write(lambda con: save_monitors(con, (), 0, 0))

    def changed(self, ended_ns: Iterable[int]) -> None:
        """Record that results changed of conversations that ended at these times, now or in an earlier revision.

        The next iteration processes it; if each change started one, a change of the truth would start thousands.
        """
        earliest_ns = min(ended_ns, default=None)
        if earliest_ns is None:
            return
        with self._lock:
            known_ns = self._changed_ns
            self._changed_ns = earliest_ns if known_ns is None else min(known_ns, earliest_ns)

    def refresh(self) -> list[Monitor]:
        """Process the results that became final since the last call; restart groups with a changed result.

        Returns:
            All monitors, sorted by group and objective.
        """
        with self._lock:
            changed_ns, self._changed_ns = self._changed_ns, None
        try:
            return self._refresh(changed_ns)
        except BaseException:
            self.changed(() if changed_ns is None else (changed_ns,))
            raise

    def _refresh(self, changed_ns: int | None) -> list[Monitor]:
        monitors, known_until_ns = self._monitors, self._monitors.watermark_ns
        with self._engine.store.read() as con:
            if self._logged is None:
                self._logged = stored_alarms(con, self._slo.since_ns)
            now_ns = self._engine.clock()
            until_ns = watermark(con, now_ns, self._lateness_ns)
            if changed_ns is not None and known_until_ns is not None and changed_ns <= known_until_ns:
                self._unsaved |= monitors.restart_changed(con)
            self._unsaved |= monitors.advance(con, until_ns)
        all_monitors = monitors.all
        if self._unsaved:
            known_until_ns = monitors.watermark_ns or until_ns
            self._engine.store.write(lambda con: save_monitors(con, all_monitors, known_until_ns, now_ns))
            self._unsaved = False
            self._log_alarms(all_monitors)
        self._telemetry.set_objectives([monitor.point for monitor in all_monitors])
        return all_monitors

    def _log_alarms(self, monitors: Sequence[Monitor]) -> None:
        """Log each alarm once: not again after a restart, nor when its time moved because a result changed."""
        logged = self._logged or {}
        for monitor in monitors:
            broken_ns, changed_ns = logged.get(monitor_key(monitor), (None, None))
            if monitor.alarmed_ns is not None and broken_ns is None:
                _log.warning("%s", alarm_text(monitor))
            if monitor.changed_ns is not None and (changed_ns is None or monitor.changed_ns > changed_ns):
                _log.warning("%s", change_text(monitor))
        self._logged = {monitor_key(monitor): (monitor.alarmed_ns, monitor.changed_ns) for monitor in monitors}

    def _run(self) -> None:
        # If an iteration fails, gauges keep their last values, and the next one starts where it did.
        while not self._stopping.is_set():
            self._errors.attempt(self.refresh)
            self._wake.wait(self._refresh_s)
            self._wake.clear()
        self._errors.attempt(self.refresh)  # results that are final by now
