"""Exports closed hours and removes old conversations on its own thread while a collector runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.engine.retention import HourlyExport, RemovalCounts, RetentionPass, keep_ns_of
from otel_agentic.live.loops import BackgroundLoop
from otel_agentic.store.connection import error_summary

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.engine.retention import ExportCounts
    from otel_agentic.spans import SpanBatch

_log = logging.getLogger(__name__)
#: Rejection reason of a span or log record that is older than the retention period.
EXPIRED: Final = "expired"


class RetentionLoop(BackgroundLoop):
    """Keeps the store within its retention period and the export folder up to date."""

    def __init__(self, engine: Engine) -> None:
        """Create the loop.

        Raises:
            ConfigError: `retention.keep` is not a duration such as 30d.
        """
        super().__init__("retention")
        self._engine = engine
        self._settings = engine.settings.retention
        self.keep_ns = keep_ns_of(engine.settings)
        self._export = HourlyExport(engine) if self._settings.export else None
        self._problem: str | None = None

    def start(self) -> None:
        """Start the thread; not if nothing is exported or removed."""
        if self.is_enabled:
            super().start()

    @property
    def is_enabled(self) -> bool:
        """Whether anything is exported or removed."""
        return self._export is not None or self.keep_ns is not None

    @property
    def problem(self) -> str | None:
        """The message of the last round's failure, or None."""
        return self._problem

    def without_expired(self, batch: SpanBatch) -> SpanBatch:
        """Return a batch without expired items; they are counted as rejected with the reason `expired`."""
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

    def round(self) -> tuple[ExportCounts | None, RemovalCounts | None]:
        """Export closed hours, then remove old conversations; returns None for a disabled step."""
        stop = self._stopping.is_set
        with self._engine.retention_lock:
            exported = self._export.run(stop) if self._export is not None else None
            removed = RetentionPass(self._engine, self.keep_ns, stop=stop).run() if self.keep_ns is not None else None
        return exported, removed

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._try_round()
            self._wake.wait(self._settings.every_s)
            self._wake.clear()

    def _try_round(self) -> None:
        try:
            exported, removed = self.round()
        except Exception as error:  # noqa: BLE001 — logged and retried: nothing was lost
            # A library's message may quote stored content: logs and `doctor` show the class, the debug log the rest.
            _log.debug("retention failed", exc_info=error)
            self._set_problem(f"retention failed: {error_summary(error)}")
            return
        self._set_problem(exported.problem if exported is not None else None)
        if exported is not None and (exported.hours or exported.days):
            _log.info("exported %d hours of tables, merged %d days", exported.hours, exported.days)
        if removed:
            counts: dict[str, Any] = removed.to_json()
            _log.info("removed %(conversations)d conversations, %(spans)d spans, %(log_records)d log records", counts)

    def _set_problem(self, problem: str | None) -> None:
        """Store the problem, and log it if it changed."""
        if problem is not None and problem != self._problem:
            _log.warning("%s; it is retried", problem)
        self._problem = problem
