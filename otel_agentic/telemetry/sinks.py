"""Exporters from settings: OTLP over HTTP and gRPC, with TLS, bounded in time and memory; and a backend's responses."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import requests
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from otel_agentic.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter
    from requests import Response

    from otel_agentic.config import EmitSettings

#: Called with the number of points or events of a request that a backend rejected, and its reason.
Partly: TypeAlias = Callable[[int, str], None]

#: The bytes that are read of a backend's response: OTLP responses are tiny, and a malicious one must not fill the memory.
MAX_ANSWER_BYTES: Final = 64 * 1024
_REDIRECTS: Final = range(300, 400)
_OK: Final = 200


def session(partly: Partly) -> requests.Session:
    """Return a session that reads only the beginning of a response, instead of all of it into memory.

    Args:
        partly: called if a backend accepts a request only in part.
    """

    def read(response: Response, *_args: object, **_kwargs: object) -> None:
        if response.status_code in _REDIRECTS:
            response.close()  # the SDK treats a redirect, which it does not follow, as a success
            raise requests.HTTPError(f"redirected ({response.status_code} {response.reason}): use the target address")
        body = _beginning(response)
        if response.status_code == _OK and body:
            _report_rejected(body, partly)

    bounded = _Session()
    bounded.stream = True
    bounded.auth = _as_it_is
    bounded.hooks["response"].append(read)
    return bounded


class _Session(requests.Session):
    """A session in which a configured CA file takes precedence over REQUESTS_CA_BUNDLE, unlike in its parent class."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> dict[str, Any]:
        """Return proxies and other settings of the environment, and our own CA file."""
        merged: dict[str, Any] = dict(super().merge_environment_settings(url, proxies, stream, verify, cert))
        return merged | ({} if self.verify is True else {"verify": self.verify})


def _as_it_is(request: Any) -> Any:
    """Return a request unchanged; without this, a password of ~/.netrc would replace the configured header."""
    return request


def _beginning(response: Response) -> bytes:
    """Read a short response, so that its connection can be reused; close the connection of any other."""
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
    """Readable PEM files, None for the default authorities or no client certificate."""

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
        session=session(partly.get("metrics", _ignored)),
        max_export_batch_size=MAX_POINTS_PER_REQUEST,
        **common,
    )
    logs = OTLPLogExporter(endpoint=logs_endpoint, session=session(partly.get("logs", _ignored)), **common)
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


def _ignored(_rejected: int, _why: str) -> None:
    """Do nothing."""


def loggable(endpoint: str) -> str:
    """Return an address that may be logged: without user, password and path.

    >>> loggable("https://me:secret@collector:4318/otlp")
    'https://collector:4318'
    """
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
