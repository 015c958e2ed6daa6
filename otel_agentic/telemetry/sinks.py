"""Exporters from settings: OTLP over HTTP and gRPC, bounded in time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from otel_agentic.errors import ConfigError
from otel_agentic.telemetry.answers import session
from otel_agentic.telemetry.tls import tls_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter

    from otel_agentic.config import EmitSettings
    from otel_agentic.telemetry.answers import Partly
    from otel_agentic.telemetry.tls import Tls

Signal = Literal["metrics", "logs"]

#: Points a request holds at most: receivers of gRPC refuse messages over 4 MiB by default.
MAX_POINTS_PER_REQUEST: Final = 5000

_SIGNAL_PATHS: Final = ("/v1/metrics", "/v1/logs", "/v1/traces")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporters:
    """The two exporters of one backend, and the addresses they send to."""

    metrics: MetricExporter
    metrics_endpoint: str
    logs: LogRecordExporter
    logs_endpoint: str


def signal_endpoint(endpoint: str, signal: Signal, protocol: str) -> str:
    """Return the address for a signal from the base address of a backend.

    HTTP appends the signal's path; gRPC has none. A base that already names a signal's path loses it first.

    >>> signal_endpoint("http://127.0.0.1:4318/", "metrics", "http/protobuf")
    'http://127.0.0.1:4318/v1/metrics'
    >>> signal_endpoint("http://127.0.0.1:4317", "logs", "grpc")
    'http://127.0.0.1:4317'

    Raises:
        ConfigError: the address is not http(s)://host:port.
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"emit.endpoint: {endpoint!r} is no OTLP endpoint; give http(s)://host:port")
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
        partly: told, by signal, of what the backend took only in part; HTTP alone, the gRPC exporter drops its answers.

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
    """How both signals are sent."""

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
        session=session(partly.get("metrics", _unheard)),
        max_export_batch_size=MAX_POINTS_PER_REQUEST,
        **common,
    )
    logs = OTLPLogExporter(endpoint=logs_endpoint, session=session(partly.get("logs", _unheard)), **common)
    return metrics, logs


def _grpc(metrics_endpoint: str, logs_endpoint: str, channel: _Channel) -> tuple[MetricExporter, LogRecordExporter]:
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: PLC0415 — as above
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 — as above

    from otel_agentic.telemetry.grpc_channel import GZIP, credentials  # noqa: PLC0415 — as above

    common: dict[str, Any] = {
        "headers": dict(channel.headers),
        "timeout": channel.timeout_s,
        "compression": GZIP,
        "credentials": credentials(channel.tls) if metrics_endpoint.startswith("https://") else None,
    }
    metrics = OTLPMetricExporter(endpoint=metrics_endpoint, max_export_batch_size=MAX_POINTS_PER_REQUEST, **common)
    return metrics, OTLPLogExporter(endpoint=logs_endpoint, **common)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _unheard(_rejected: int, _why: str) -> None:
    """Do nothing."""


def shown(endpoint: str) -> str:
    """Return an address fit for a log: without user, password and path.

    >>> shown("https://me:secret@collector:4318/otlp")
    'https://collector:4318'
    """
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
