"""Export to a backend: OTLP exporters over HTTP and gRPC, bounded in time and memory.

The exporters add the window gauges, count failed and rejected exports, and limit the rate of log messages.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk import metrics
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    PeriodicExportingMetricReader,
)

from otel_agentic.errors import ConfigError
from otel_agentic.regular_files import read_regular
from otel_agentic.telemetry import names
from otel_agentic.telemetry.events import own_version

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.sdk.resources import Resource
    from requests import Response

    from otel_agentic.config import EmitSettings

#: Called with the number of points or events of a request that a backend rejected, and its reason.
Partly: TypeAlias = Callable[[int, str], None]

#: The largest response that is read, bytes: OTLP responses are tiny, and a malicious one must not exhaust memory.
MAX_ANSWER_BYTES: Final = 64 * 1024
_REDIRECTS: Final = range(300, 400)
_OK: Final = 200


def session(partly: Partly) -> requests.Session:
    """Return a session that never reads a long response into memory.

    Args:
        partly: called if a backend accepts a request only in part.
    """

    def check_response(response: Response, *_args: object, **_kwargs: object) -> None:
        if response.status_code in _REDIRECTS:
            response.close()  # the SDK treats a redirect, which it does not follow, as a success
            raise requests.HTTPError(f"redirected ({response.status_code} {response.reason}): use the target address")
        body = _read_short_body(response)
        if response.status_code == _OK and body:
            _report_rejected(body, partly)

    bounded_session = _Session()
    bounded_session.stream = True
    bounded_session.auth = _unchanged
    bounded_session.hooks["response"].append(check_response)
    return bounded_session


class _Session(requests.Session):
    """A session in which a configured CA file takes precedence over REQUESTS_CA_BUNDLE, unlike in its parent class."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> dict[str, Any]:
        """Return proxies and other settings of the environment, and our own CA file."""
        settings: dict[str, Any] = dict(super().merge_environment_settings(url, proxies, stream, verify, cert))
        return settings | ({} if self.verify is True else {"verify": self.verify})


def _unchanged(request: Any) -> Any:
    """Return a request unchanged; without this, a password of ~/.netrc would replace the configured header."""
    return request


def _read_short_body(response: Response) -> bytes:
    """Return the body of a short response, whose connection can then be reused; close the connection of any other."""
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) <= MAX_ANSWER_BYTES:
        body: bytes = response.raw.read(MAX_ANSWER_BYTES, decode_content=False)
        response.raw.release_conn()
        return body
    response.close()
    return b""


def _report_rejected(body: bytes, partly: Partly) -> None:
    """Report a partial success; a body that is not OTLP is ignored. Responses for metrics and logs have the same fields."""
    try:
        partial = ExportMetricsServiceResponse.FromString(body).partial_success
    except DecodeError:
        return
    if partial.rejected_data_points or partial.error_message:
        partly(partial.rejected_data_points, partial.error_message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files, checked before anything is sent; None means the default authorities, or no client certificate."""

    ca_file: Path | None
    cert_file: Path | None
    key_file: Path | None


def tls_of(emit: EmitSettings, endpoint: str) -> Tls:
    """Return the TLS files for an endpoint.

    Raises:
        ConfigError: a file cannot be used, a certificate has no key or vice versa, or the endpoint is not https.
    """
    files = {
        name: path
        for name, path in (
            ("emit.ca_file", emit.ca_file),
            ("emit.client_cert_file", emit.client_cert_file),
            ("emit.client_key_file", emit.client_key_file),
        )
        if path is not None
    }
    if files and not endpoint.startswith("https://"):
        raise ConfigError(f"{', '.join(files)}: TLS needs an endpoint that begins with https://")
    if (emit.client_cert_file is None) != (emit.client_key_file is None):
        raise ConfigError("emit.client_cert_file and emit.client_key_file: set both or neither")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if emit.ca_file is not None:
        try:
            context.load_verify_locations(cafile=emit.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"emit.ca_file: {emit.ca_file}: {_reason(error)}; use a PEM file of authorities"
            ) from error
    if emit.client_cert_file is not None and emit.client_key_file is not None:
        try:
            context.load_cert_chain(emit.client_cert_file, emit.client_key_file, password=_no_password)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"emit.client_cert_file: {emit.client_cert_file} with emit.client_key_file {emit.client_key_file}: "
                f"{_reason(error)}; use a PEM certificate and its PEM key without a password"
            ) from error
    return Tls(ca_file=emit.ca_file, cert_file=emit.client_cert_file, key_file=emit.client_key_file)


def _no_password() -> str:
    """Return the empty password; without this, OpenSSL would ask for one at the terminal."""
    return ""


def _reason(error: OSError) -> str:
    return (
        error.strerror or error.__class__.__name__ if not isinstance(error, ssl.SSLError) else error.reason or "not PEM"
    )


Signal = Literal["metrics", "logs"]

#: The largest number of points in a request: gRPC receivers refuse messages over 4 MiB by default.
MAX_POINTS_PER_REQUEST: Final = 5000

_SIGNAL_PATHS: Final = ("/v1/metrics", "/v1/logs", "/v1/traces")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporters:
    """The two exporters of one backend, and their addresses."""

    metrics: MetricExporter
    metrics_endpoint: str
    logs: LogRecordExporter
    logs_endpoint: str


def signal_endpoint(endpoint: str, signal: Signal, protocol: str) -> str:
    """Return the address for a signal from the base address of a backend.

    For HTTP, the signal's path replaces the path of a signal at the end of the base, or is appended; gRPC uses no path.

    >>> signal_endpoint("http://127.0.0.1:4318/", "metrics", "http/protobuf")
    'http://127.0.0.1:4318/v1/metrics'
    >>> signal_endpoint("http://127.0.0.1:4317", "logs", "grpc")
    'http://127.0.0.1:4317'

    Raises:
        ConfigError: the address is not http(s)://host:port.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"emit.endpoint: {endpoint!r} is not an OTLP endpoint; use http(s)://host:port")
    if protocol == "grpc":
        return f"{parts.scheme}://{parts.netloc}"
    base = endpoint.rstrip("/")
    for path in _SIGNAL_PATHS:
        base = base.removesuffix(path)
    return f"{base}/v1/{signal}"


def build_exporters(emit: EmitSettings, endpoint: str, *, partly: Mapping[Signal, Partly] | None = None) -> Exporters:
    """Return the exporters of the backend at `endpoint`.

    Args:
        emit: transport, headers, TLS, time limit.
        endpoint: the base address.
        partly: called, by signal, if the backend accepts a request only in part; HTTP only, since the gRPC exporter drops responses.

    Raises:
        ConfigError: the address is not http(s)://host:port, or a TLS file cannot be used.
    """
    metrics_endpoint = signal_endpoint(endpoint, "metrics", emit.protocol)
    logs_endpoint = signal_endpoint(endpoint, "logs", emit.protocol)
    channel = _Channel(
        headers={name.lower(): value.get_secret_value() for name, value in emit.headers.items()},
        timeout_s=emit.timeout_s,
        tls=tls_of(emit, endpoint),
    )
    if emit.protocol == "grpc":
        metrics, logs = _grpc(metrics_endpoint, logs_endpoint, channel)
    else:
        metrics, logs = _http(metrics_endpoint, logs_endpoint, channel, partly or {})
    return Exporters(metrics=metrics, metrics_endpoint=metrics_endpoint, logs=logs, logs_endpoint=logs_endpoint)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Channel:
    """The connection options of both signals."""

    headers: Mapping[str, str]
    timeout_s: float
    tls: Tls


def _http(
    metrics_endpoint: str, logs_endpoint: str, channel: _Channel, partly: Mapping[Signal, Partly]
) -> tuple[MetricExporter, LogRecordExporter]:
    # Each transport is imported only where it is used: gRPC alone costs tens of milliseconds and threads.
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    common: dict[str, Any] = {
        "headers": channel.headers,
        "timeout": channel.timeout_s,
        "compression": Compression.Gzip,
        "certificate_file": _text(channel.tls.ca_file),
        "client_certificate_file": _text(channel.tls.cert_file),
        "client_key_file": _text(channel.tls.key_file),
    }
    metrics = OTLPMetricExporter(
        endpoint=metrics_endpoint,
        session=session(partly.get("metrics", _ignore)),
        max_export_batch_size=MAX_POINTS_PER_REQUEST,
        **common,
    )
    logs = OTLPLogExporter(endpoint=logs_endpoint, session=session(partly.get("logs", _ignore)), **common)
    return metrics, logs


def _grpc(metrics_endpoint: str, logs_endpoint: str, channel: _Channel) -> tuple[MetricExporter, LogRecordExporter]:
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 — as above; grpcio ships no types
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: PLC0415 — as above
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 — as above

    common: dict[str, Any] = {
        "headers": dict(channel.headers),
        "timeout": channel.timeout_s,
        "compression": grpc.Compression.Gzip,  # as over HTTP
        "credentials": _grpc_credentials(channel.tls) if metrics_endpoint.startswith("https://") else None,
    }
    metrics = OTLPMetricExporter(endpoint=metrics_endpoint, max_export_batch_size=MAX_POINTS_PER_REQUEST, **common)
    return metrics, OTLPLogExporter(endpoint=logs_endpoint, **common)


def _grpc_credentials(tls: Tls) -> Any:
    import grpc  # noqa: PLC0415 — as above

    return grpc.ssl_channel_credentials(
        root_certificates=_content(tls.ca_file),
        private_key=_content(tls.key_file),
        certificate_chain=_content(tls.cert_file),
    )


def _content(path: Path | None) -> bytes | None:
    return None if path is None else read_regular(path)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _ignore(_rejected: int, _why: str) -> None:
    """Do nothing."""


def loggable(endpoint: str) -> str:
    """Return an address that may be logged: without user, password and path.

    >>> loggable("https://me:secret@collector:4318/otlp")
    'https://collector:4318'
    """
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


#: Returns metrics of the same resource and scope, to be added to those of a provider.
MetricsSource: TypeAlias = Callable[[], MetricsData | None]

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
    """Counts and logs the outcomes of the exports of one signal to one backend. Thread-safe."""

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
            _logger.warning(
                "telemetry backend %s accepts %s again, after %d failed exports", *self._log_arguments, failed
            )

    def failed(self, reason: str) -> None:
        """Record a failed export."""
        with self._lock:
            self.failures += 1
            self._failed_in_a_row += 1
            failed, log = self._failed_in_a_row, self._may_log_again(self._complained_at)
            if log:
                self._complained_at = self._clock()
        if log:
            _logger.warning(
                "telemetry backend %s does not accept %s (export %d in a row): %s", *self._log_arguments, failed, reason
            )

    def partly(self, rejected: int, why: str) -> None:
        """Record that a backend rejected part of an export, or accepted all of it with a warning."""
        with self._lock:
            self.rejected += rejected
            total, log = self.rejected, self._may_log_again(self._warned_at)
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

    def _may_log_again(self, last: float | None) -> bool:
        return last is None or self._clock() - last >= COMPLAIN_EVERY_S

    @property
    def _log_arguments(self) -> tuple[str, str]:
        return (self._endpoint, self._signal)


class CalmMetricExporter(MetricExporter):
    """Sends the collected metrics together with those of further sources.

    Errors are recorded in a `Delivery`, never raised.
    """

    def __init__(self, exporter: MetricExporter, delivery: Delivery, sources: Sequence[MetricsSource]) -> None:
        super().__init__(preferred_temporality=_CUMULATIVE)
        self._exporter = exporter
        self._delivery = delivery
        self._sources = sources

    def export(
        self,
        metrics_data: MetricsData,
        timeout_millis: float = 10_000,
        **kwargs: object,  # noqa: ARG002 — the SDK's signature
    ) -> MetricExportResult:
        """Export; never raises."""
        with calm() as messages:
            try:
                data = joined(metrics_data, *(source() for source in self._sources))
                result = self._exporter.export(data, timeout_millis=timeout_millis)
            except Exception as error:  # noqa: BLE001 — no fault of a backend may end the export thread
                messages.append(f"{type(error).__name__}: {error}")
                result = MetricExportResult.FAILURE
        _record_result(self._delivery, messages, ok=result is MetricExportResult.SUCCESS)
        return result

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Flush the exporter; there is no buffer here."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:  # noqa: ARG002 — the SDK's signature
        """Close the connection."""
        with calm():
            self._exporter.shutdown(timeout_millis=timeout_millis)


class CalmLogExporter(LogRecordExporter):
    """Sends events; errors are recorded in a `Delivery`, never raised."""

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
        _record_result(self._delivery, messages, ok=result is LogRecordExportResult.SUCCESS)
        return result

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        """Flush the exporter; there is no buffer here."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Close the connection."""
        with calm():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types


def joined(collected: MetricsData, *others: MetricsData | None) -> MetricsData:
    """Return all as one resource and scope, which are the same in all of them."""
    parts = [part for part in (collected, *others) if part is not None and part.resource_metrics]
    if not parts:
        return collected
    first, *other_resources = parts[0].resource_metrics
    scope, *other_scopes = first.scope_metrics
    added = [
        metric
        for part in parts[1:]
        for resource in part.resource_metrics
        for other_scope in resource.scope_metrics
        for metric in other_scope.metrics
    ]
    scope = replace(scope, metrics=[*scope.metrics, *added])
    return MetricsData(resource_metrics=[replace(first, scope_metrics=[scope, *other_scopes]), *other_resources])


def _record_result(delivery: Delivery, messages: list[str], *, ok: bool) -> None:
    if ok:
        delivery.succeeded()
    else:
        # The first message contains the cause; the last one only reports the end of the retries.
        delivery.failed(messages[0] if messages else "no reason given")


class _MessageFilter(logging.Filter):
    """Collects the log messages of the SDK's exporters during exports of this module; passes all other messages."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()

    def filter(self, record: logging.LogRecord) -> bool:
        messages: list[str] | None = getattr(self.local, "messages", None)
        if messages is None:
            return True
        messages.append(record.getMessage())
        return False


_message_filter = _MessageFilter()
for _name in _SDK_LOGGERS:
    logging.getLogger(_name).addFilter(_message_filter)


@contextmanager
def calm() -> Iterator[list[str]]:
    """Collect the messages of the SDK's exporters on this thread in a list instead of logging them; yield the list."""
    messages: list[str] = []
    _message_filter.local.messages = messages
    try:
        yield messages
    finally:
        del _message_filter.local.messages


#: The largest number of events that wait for a backend before the oldest are dropped; a few kilobytes each.
MAX_WAITING_EVENTS: Final = 4096
_EVENTS_PER_REQUEST: Final = 512
#: The longest interval between exports, regardless of the setting: after a longer one, series would look stale.
_MAX_INTERVAL_S: Final = 60.0

_Step: TypeAlias = Callable[[], object]


class Backend:
    """Pushes metrics, and events if enabled, to one OTLP endpoint.

    Raises:
        ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
    """

    def __init__(
        self, emit: EmitSettings, endpoint: str, *, resource: Resource, sources: Sequence[MetricsSource]
    ) -> None:
        self._deliveries = (Delivery("metrics", loggable(endpoint)), Delivery("events", loggable(endpoint)))
        partly: dict[Signal, Partly] = {"metrics": self._deliveries[0].partly, "logs": self._deliveries[1].partly}
        exporters = build_exporters(emit, endpoint, partly=partly)
        self.reader = PeriodicExportingMetricReader(
            CalmMetricExporter(exporters.metrics, self._deliveries[0], sources),
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
    results: list[bool] = []
    threads = [threading.Thread(target=_run_step, args=(step, results), daemon=True) for step in steps]
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    return len(results) == len(steps) and all(results)


def _run_step(step: _Step, results: list[bool]) -> None:
    try:
        step()
    except Exception:  # noqa: BLE001 — the SDK raises bare exceptions on timeouts; only success matters here
        results.append(False)
    else:
        results.append(True)
