"""The two ways out to a backend: a reader that pushes metrics, and a logger that pushes events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from otel_agentic.telemetry import names
from otel_agentic.telemetry.delivery import CalmLogExporter, CalmMetricExporter, Delivery
from otel_agentic.telemetry.identity import own_version
from otel_agentic.telemetry.sinks import build_exporters, shown

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.sdk.resources import Resource

    from otel_agentic.config import EmitSettings
    from otel_agentic.telemetry.answers import Partly
    from otel_agentic.telemetry.delivery import WindowSource
    from otel_agentic.telemetry.sinks import Signal

#: Events that wait for a backend, then the oldest are dropped; a few kilobytes each.
MAX_WAITING_EVENTS: Final = 4096
_EVENTS_PER_REQUEST: Final = 512
#: Gauges repeat at least this often, whatever the setting says: beyond it a series looks stale.
_MAX_INTERVAL_S: Final = 60.0

_Step: TypeAlias = Callable[[], object]


class Backend:
    """Pushes metrics, and events where they are wanted, to one OTLP endpoint.

    Raises:
        ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
    """

    def __init__(self, emit: EmitSettings, endpoint: str, *, resource: Resource, windows: WindowSource) -> None:
        self._deliveries = (Delivery("metrics", shown(endpoint)), Delivery("events", shown(endpoint)))
        partly: dict[Signal, Partly] = {"metrics": self._deliveries[0].partly, "logs": self._deliveries[1].partly}
        exporters = build_exporters(emit, endpoint, partly=partly)
        self.reader = PeriodicExportingMetricReader(
            CalmMetricExporter(exporters.metrics, self._deliveries[0], windows),
            export_interval_millis=interval_s(emit) * 1000,
            export_timeout_millis=emit.timeout_s * 1000,
        )
        self._processor = BatchLogRecordProcessor(
            CalmLogExporter(exporters.logs, self._deliveries[1]),
            max_queue_size=MAX_WAITING_EVENTS,
            max_export_batch_size=_EVENTS_PER_REQUEST,
        )
        self._logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._logs.add_log_record_processor(self._processor)

    @property
    def logger(self) -> Logger:
        """The logger of events."""
        return self._logs.get_logger(names.SCOPE, own_version(), names.SCHEMA_URL)

    def force_flush(self, timeout_s: float) -> bool:
        """Send what waits; return whether all of it arrived in time."""
        failures = self._failures
        done = _within(timeout_s, lambda: self.reader.force_flush(timeout_s * 1000), self._processor.force_flush)
        return done and self._failures == failures

    def shutdown(self, timeout_s: float) -> None:
        """Send what waits and stop; returns after `timeout_s` seconds even when the backend hangs."""
        _within(timeout_s, lambda: self.reader.shutdown(timeout_s * 1000), self._logs.shutdown)

    @property
    def _failures(self) -> int:
        return sum(delivery.failures for delivery in self._deliveries)


def interval_s(emit: EmitSettings) -> float:
    """Return the seconds between two exports of metrics.

    >>> from otel_agentic.config import EmitSettings
    >>> interval_s(EmitSettings(interval_s=20)), interval_s(EmitSettings(interval_s=600))
    (20.0, 60.0)
    """
    return min(emit.interval_s, _MAX_INTERVAL_S)


def _within(timeout_s: float, *steps: _Step) -> bool:
    """Run the steps side by side; return whether all ended well within `timeout_s` seconds.

    The SDK's own time limits do not hold while a request hangs. A step that is late goes on in a daemon thread, which
    does not keep the process alive.
    """
    ended: list[bool] = []
    threads = [threading.Thread(target=_try, args=(step, ended), daemon=True) for step in steps]
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    return len(ended) == len(steps) and all(ended)


def _try(step: _Step, ended: list[bool]) -> None:
    try:
        step()
    except Exception:  # noqa: BLE001 — the SDK raises bare exceptions on time-outs; the caller only asks whether it worked
        ended.append(False)
    else:
        ended.append(True)
