"""Exporters from settings: OTLP over HTTP and gRPC, bounded in time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

import requests

from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter

    from otel_agentic.config import EmitSettings

Signal = Literal["metrics", "logs"]

#: Bytes read of a backend's answer: OTLP answers are tiny, and a hostile one must not fill the memory.
MAX_ANSWER_BYTES: Final = 64 * 1024
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


def build_exporters(emit: EmitSettings, endpoint: str) -> Exporters:
    """Return the exporters of the backend at `endpoint`.

    Raises:
        ConfigError: the address is not http(s)://host:port.
    """
    metrics_endpoint = signal_endpoint(endpoint, "metrics", emit.protocol)
    logs_endpoint = signal_endpoint(endpoint, "logs", emit.protocol)
    headers = {name.lower(): value.get_secret_value() for name, value in emit.headers.items()}
    build = _grpc if emit.protocol == "grpc" else _http
    metrics, logs = build(metrics_endpoint, logs_endpoint, headers, emit.timeout_s)
    return Exporters(metrics=metrics, metrics_endpoint=metrics_endpoint, logs=logs, logs_endpoint=logs_endpoint)


def _http(
    metrics_endpoint: str, logs_endpoint: str, headers: Mapping[str, str], timeout_s: float
) -> tuple[MetricExporter, LogRecordExporter]:
    # Each transport is imported only where it is used: gRPC alone costs tens of milliseconds and threads.
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    metrics = OTLPMetricExporter(
        endpoint=metrics_endpoint,
        headers=headers,
        timeout=timeout_s,
        compression=Compression.Gzip,
        session=_session(),
        max_export_batch_size=MAX_POINTS_PER_REQUEST,
    )
    logs = OTLPLogExporter(
        endpoint=logs_endpoint,
        headers=headers,
        timeout=timeout_s,
        compression=Compression.Gzip,
        session=_session(),
    )
    return metrics, logs


def _grpc(
    metrics_endpoint: str, logs_endpoint: str, headers: Mapping[str, str], timeout_s: float
) -> tuple[MetricExporter, LogRecordExporter]:
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter  # noqa: PLC0415 — as above
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415 — as above

    metrics = OTLPMetricExporter(
        endpoint=metrics_endpoint,
        headers=dict(headers),
        timeout=timeout_s,
        max_export_batch_size=MAX_POINTS_PER_REQUEST,
    )
    return metrics, OTLPLogExporter(endpoint=logs_endpoint, headers=dict(headers), timeout=timeout_s)


def _session() -> requests.Session:
    """Return a session that reads only the beginning of an answer: the default reads all of it into memory."""
    session = requests.Session()
    session.stream = True
    session.hooks["response"].append(_read_little)
    return session


def _read_little(response: requests.Response, *_args: object, **_kwargs: object) -> None:
    """Read a short answer, so that its connection serves again; hang up on any other."""
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) <= MAX_ANSWER_BYTES:
        response.raw.read(MAX_ANSWER_BYTES, decode_content=False)
        response.raw.release_conn()
    else:
        response.close()


def shown(endpoint: str) -> str:
    """Return an address fit for a log: without user, password and path.

    >>> shown("https://me:secret@collector:4318/otlp")
    'https://collector:4318'
    """
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
