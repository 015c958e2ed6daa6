"""Export to a backend: exporters that add the window gauges, count deliveries and limit log messages; the reader and logger."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk import metrics
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)

from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import own_version
from otel_agentic.telemetry.sinks import build_exporters, loggable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry._logs import Logger
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource

    from otel_agentic.config import EmitSettings
    from otel_agentic.telemetry.sinks import Partly, Signal

WindowSource: TypeAlias = Callable[[], MetricsData | None]

#: Seconds between two log messages about a backend that does not respond.
COMPLAIN_EVERY_S: Final = 60.0

_CUMULATIVE: Final[dict[type, AggregationTemporality]] = dict.fromkeys(
    (
        metrics.Counter,
        metrics.Histogram,
        metrics.UpDownCounter,
        metrics.ObservableCounter,
        metrics.ObservableGauge,
        metrics.ObservableUpDownCounter,
    ),
    AggregationTemporality.CUMULATIVE,
)

#: The loggers of the SDK's exporters.
_SDK_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http._log_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
)

_logger = logging.getLogger(__name__)


class Delivery:
    """The outcome of the exports of one signal to one backend. Thread-safe."""

    def __init__(self, signal: str, endpoint: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._signal = signal
        self._endpoint = endpoint
        self._clock = clock
        self._lock = threading.Lock()
        self._complained_at: float | None = None
        self._warned_at: float | None = None
        self._failed_in_a_row = 0
        self.failures = 0
        self.rejected = 0

    def succeeded(self) -> None:
        """Record a successful export."""
        with self._lock:
            failed, self._failed_in_a_row, self._complained_at = self._failed_in_a_row, 0, None
        if failed:
            _logger.warning("telemetry backend %s accepts %s again, after %d failed exports", *self._who, failed)

    def failed(self, reason: str) -> None:
        """Record a failed export."""
        with self._lock:
            self.failures += 1
            self._failed_in_a_row += 1
            failed, log = self._failed_in_a_row, self._may_log(self._complained_at)
            if log:
                self._complained_at = self._clock()
        if log:
            _logger.warning(
                "telemetry backend %s does not accept %s (export %d in a row): %s", *self._who, failed, reason
            )

    def partly(self, rejected: int, why: str) -> None:
        """Record that a backend rejected part of an export, or accepted all of it with a warning."""
        with self._lock:
            self.rejected += rejected
            total, log = self.rejected, self._may_log(self._warned_at)
            if log:
                self._warned_at = self._clock()
        if log:
            _logger.warning(
                "telemetry backend %s rejected %d %s (%d so far): %s",
                self._endpoint,
                rejected,
                self._signal,
                total,
                why or "no reason given",
            )

    def _may_log(self, last: float | None) -> bool:
        return last is None or self._clock() - last >= COMPLAIN_EVERY_S

    @property
    def _who(self) -> tuple[str, str]:
        return (self._endpoint, self._signal)


class CalmMetricExporter(MetricExporter):
    """Sends the collected metrics together with the window gauges."""

    def __init__(self, exporter: MetricExporter, delivery: Delivery, windows: WindowSource) -> None:
        super().__init__(preferred_temporality=_CUMULATIVE)
        self._exporter = exporter
        self._delivery = delivery
        self._windows = windows

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,
        **kwargs: object,  # noqa: ARG002 — the SDK's signature
    ) -> MetricExportResult:
        """Export; never raises."""
        with calm() as messages:
            try:
                data = joined(metrics_data, self._windows())
                result = self._exporter.export(data, timeout_millis=timeout_millis)
            except Exception as error:  # noqa: BLE001 — no fault of a backend may end the export thread
                messages.append(f"{type(error).__name__}: {error}")
                result = MetricExportResult.FAILURE
        _note(self._delivery, messages, ok=result is MetricExportResult.SUCCESS)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Flush the exporter; there is no buffer here."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:  # noqa: ARG002 — the SDK's signature
        """Close the connection."""
        with calm():
            self._exporter.shutdown(timeout_millis=timeout_millis)


class CalmLogExporter(LogRecordExporter):
    """Sends events."""

    def __init__(self, exporter: LogRecordExporter, delivery: Delivery) -> None:
        self._exporter = exporter
        self._delivery = delivery

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Export; never raises."""
        with calm() as messages:
            try:
                result = self._exporter.export(batch)
            except Exception as error:  # noqa: BLE001 — no fault of a backend may end the export thread
                messages.append(f"{type(error).__name__}: {error}")
                result = LogRecordExportResult.FAILURE
        _note(self._delivery, messages, ok=result is LogRecordExportResult.SUCCESS)
        return result

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Flush the exporter; there is no buffer here."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Close the connection."""
        with calm():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types


def joined(collected: MetricsData, windows: MetricsData | None) -> MetricsData:
    """Return both in one resource and scope: they come from two providers with the same resource and scope."""
    if windows is None or not windows.resource_metrics:
        return collected
    if not collected.resource_metrics:
        return windows
    first, *rest = collected.resource_metrics
    scope, *scopes = first.scope_metrics
    more = [
        metric for resource in windows.resource_metrics for part in resource.scope_metrics for metric in part.metrics
    ]
    scope = replace(scope, metrics=[*scope.metrics, *more])
    return MetricsData(resource_metrics=[replace(first, scope_metrics=[scope, *scopes]), *rest])


def _note(delivery: Delivery, messages: list[str], *, ok: bool) -> None:
    if ok:
        delivery.succeeded()
    else:
        # The first message contains the cause; the last one is only about the end of the retries.
        delivery.failed(messages[0] if messages else "no reason given")


class _Quiet(logging.Filter):
    """Collects the log messages of the SDK's exporters during our exports, and lets all other messages pass."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        messages: list[str] | None = getattr(self.local, "messages", None)
        if messages is None:
            return True
        messages.append(record.getMessage())
        return False


_quiet = _Quiet()
for _name in _SDK_LOGGERS:
    logging.getLogger(_name).addFilter(_quiet)


@contextmanager
def calm() -> Iterator[list[str]]:
    """Collect the messages of the SDK's exporters on this thread in a list instead of the log; yield the list."""
    messages: list[str] = []
    _quiet.local.messages = messages
    try:
        yield messages
    finally:
        del _quiet.local.messages


#: The largest number of events that wait for a backend before the oldest are dropped; a few kilobytes each.
MAX_WAITING_EVENTS: Final = 4096
_EVENTS_PER_REQUEST: Final = 512
#: Gauges repeat at least this often, regardless of the setting, because a series would look stale otherwise.
_MAX_INTERVAL_S: Final = 60.0

_Step: TypeAlias = Callable[[], object]


class Backend:
    """Pushes metrics, and events if enabled, to one OTLP endpoint.

    Raises:
        ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
    """

    def __init__(self, emit: EmitSettings, endpoint: str, *, resource: Resource, windows: WindowSource) -> None:
        self._deliveries = (Delivery("metrics", loggable(endpoint)), Delivery("events", loggable(endpoint)))
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
        """Send all pending data; return whether all of it arrived in time."""
        failures = self._failures
        done = _within(timeout_s, lambda: self.reader.force_flush(timeout_s * 1000), self._processor.force_flush)
        return done and self._failures == failures

    def shutdown(self, timeout_s: float) -> None:
        """Send all pending data and stop; returns after `timeout_s` seconds even if the backend hangs."""
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
    """Run the steps in parallel; return whether all succeeded within `timeout_s` seconds.

    The SDK's own time limits do not apply while a request hangs. A late step continues in a daemon thread, which does not keep
    the process alive.
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
    except Exception:  # noqa: BLE001 — the SDK raises bare exceptions on timeouts; only success matters here
        ended.append(False)
    else:
        ended.append(True)
