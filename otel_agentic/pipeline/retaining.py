"""Exports what is closed and removes what is old, on a thread of its own, while a collector runs."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.pipeline.exports import Exporting
from otel_agentic.pipeline.removal import Removed, Removing, keep_ns_of
from otel_agentic.store.database import told

if TYPE_CHECKING:
    from otel_agentic.pipeline.engine import Engine
    from otel_agentic.pipeline.exports import Exported
    from otel_agentic.spans import SpanBatch

_log = logging.getLogger(__name__)
#: Why a span or log record is rejected that is older than anything that is kept.
EXPIRED: Final = "expired"


class Retaining:
    """Keeps the store as small as it is to be, and the export folder up to date."""

    def __init__(self, engine: Engine) -> None:
        """Prepare.

        Raises:
            ConfigError: `retention.keep` is no time such as 30d.
        """
        self._engine = engine
        self._settings = engine.settings.retention
        self.keep_ns = keep_ns_of(engine.settings)
        self._exporting = Exporting(engine) if self._settings.export else None
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._run, name="otel-agentic-retention", daemon=True)

    def start(self) -> None:
        """Begin; where nothing is exported and all is kept, there is nothing to do."""
        if self.is_asked_for:
            self._thread.start()

    def stop(self) -> None:
        """End after what is under way; the rest waits for the next start."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_asked_for(self) -> bool:
        """Whether anything is exported or removed at all."""
        return self._exporting is not None or self.keep_ns is not None

    @property
    def problem(self) -> str | None:
        """What kept the last round from its end, None where it came to it."""
        return self._problem

    def admitted(self, batch: SpanBatch) -> SpanBatch:
        """Return a batch without what would be removed at once: it is counted as rejected, with the reason `expired`."""
        if self.keep_ns is None:
            return batch
        cut_ns = self._engine.clock() - self.keep_ns
        spans = tuple(span for span in batch.spans if max(span.start_ns, span.end_ns) >= cut_ns)
        logs = tuple(log for log in batch.logs if log.time_ns >= cut_ns)
        expired = len(batch.spans) + len(batch.logs) - len(spans) - len(logs)
        if not expired:
            return batch
        rejected = {**batch.rejected, EXPIRED: batch.rejected.get(EXPIRED, 0) + expired}
        return replace(batch, spans=spans, logs=logs, rejected=rejected)

    def round(self) -> tuple[Exported | None, Removed | None]:
        """Export what is closed, then remove what is old; return both, None for what is not asked for."""
        stop = self._stopping.is_set
        with self._engine.retaining:
            wrote = self._exporting.run(stop) if self._exporting is not None else None
            gone = Removing(self._engine, self.keep_ns, stop=stop).run() if self.keep_ns is not None else None
        return wrote, gone

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._try_round()
            self._wake.wait(self._settings.every_s)
            self._wake.clear()

    def _try_round(self) -> None:
        try:
            wrote, gone = self.round()
        except Exception as error:  # noqa: BLE001 — logged, and tried again: nothing was lost
            # What a library says may quote what is stored: logs and `doctor` tell its class, debugging the rest.
            _log.debug("retention failed", exc_info=error)
            self._tell(f"retention failed: {told(error)}")
            return
        self._tell(wrote.problem if wrote is not None else None)
        if wrote is not None and (wrote.hours or wrote.days):
            _log.info("exported %d hours of tables, put %d days together", wrote.hours, wrote.days)
        if gone:
            counts: dict[str, Any] = gone.json()
            _log.info("removed %(conversations)d conversations, %(spans)d spans, %(log_records)d log records", counts)

    def _tell(self, problem: str | None) -> None:
        """Log a problem once, however often it comes back."""
        if problem is not None and problem != self._problem:
            _log.warning("%s; it is tried again", problem)
        self._problem = problem
