"""TLS on both transports, with the exporters that people use."""

from __future__ import annotations

import shutil
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import pytest
from inline_snapshot import snapshot
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from otel_agentic.errors import ConfigError
from tests.collectors.raw import connect, until_closed
from tests.snapshots import raises
from tests.telemetry.receiver.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from collectors.otlp_grpc import OtlpGrpcCollector
    from collectors.otlp_http import OtlpHttpCollector
    from tests.collectors.conftest import RecordingSink

    Serve = Callable[..., OtlpHttpCollector | OtlpGrpcCollector]

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificates")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _no_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the exporters trust the given authority: in requests, these variables win."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def settings_of(certificates: Certificates, *, mutual: bool) -> dict[str, Any]:
    given: dict[str, Any] = {"tls_cert_file": certificates.server, "tls_key_file": certificates.server_key}
    return {**given, "tls_client_ca_file": certificates.ca} if mutual else given


def http_exporter(endpoint: str, certificates: Certificates, cert: tuple[Any, Any] | None) -> SpanExporter:
    return HttpExporter(
        f"{endpoint}/v1/traces",
        certificate_file=str(certificates.ca),
        client_certificate_file=str(cert[0]) if cert else None,
        client_key_file=str(cert[1]) if cert else None,
        timeout=3,
    )


def grpc_exporter(endpoint: str, certificates: Certificates, cert: tuple[Any, Any] | None) -> SpanExporter:
    credentials = grpc.ssl_channel_credentials(
        certificates.ca.read_bytes(), cert[1].read_bytes() if cert else None, cert[0].read_bytes() if cert else None
    )
    return GrpcExporter(endpoint, credentials=credentials, timeout=3)


def export(exporter: SpanExporter) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    provider.get_tracer("test").start_span("chat").end()
    provider.shutdown()


@pytest.fixture(params=["http", pytest.param("grpc", marks=pytest.mark.slow)])
def transport(
    request: pytest.FixtureRequest, serve_http: Serve, serve_grpc: Serve
) -> tuple[Serve, Callable[..., SpanExporter]]:
    return (serve_http, http_exporter) if request.param == "http" else (serve_grpc, grpc_exporter)


def test_spans_arrive_over_tls(
    transport: tuple[Serve, Callable[..., SpanExporter]], certificates: Certificates, sink: RecordingSink
) -> None:
    serve, exporter = transport
    collector = serve(**settings_of(certificates, mutual=False))
    assert collector.endpoint.startswith("https://127.0.0.1:")
    export(exporter(collector.endpoint, certificates, None))
    assert ["chat"] == sink.names


def test_where_senders_must_show_a_certificate_only_a_signed_one_is_let_in(
    transport: tuple[Serve, Callable[..., SpanExporter]], certificates: Certificates, sink: RecordingSink
) -> None:
    serve, exporter = transport
    collector = serve(**settings_of(certificates, mutual=True))
    export(exporter(collector.endpoint, certificates, None))
    export(exporter(collector.endpoint, certificates, (certificates.untrusted, certificates.untrusted_key)))
    assert [] == sink.names
    export(exporter(collector.endpoint, certificates, (certificates.client, certificates.client_key)))
    assert ["chat"] == sink.names


def test_a_public_address_is_allowed_where_senders_show_certificates(
    serve_http: Serve, serve_grpc: Serve, certificates: Certificates
) -> None:
    mutual = settings_of(certificates, mutual=True)
    assert "0.0.0.0" in serve_http(http="0.0.0.0:0", **mutual).endpoint  # noqa: S104 — that it may
    assert "0.0.0.0" in serve_grpc(grpc="0.0.0.0:0", **mutual).endpoint  # noqa: S104 — that it may


def test_old_versions_of_tls_and_clear_text_are_not_spoken(serve_http: Serve, certificates: Certificates) -> None:
    collector = serve_http(**settings_of(certificates, mutual=False))
    address = ("127.0.0.1", int(collector.endpoint.rpartition(":")[2]))
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(certificates.ca)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(address) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(plain, server_hostname="127.0.0.1")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://127.0.0.1:{address[1]}/healthz")
    assert 200 == httpx.get(f"{collector.endpoint}/healthz", verify=trusting(certificates)).status_code


def test_stalled_handshakes_block_no_sender(serve_http: Serve, certificates: Certificates) -> None:
    collector = serve_http(**settings_of(certificates, mutual=False), header_timeout_s=600.0, max_connections=20)
    with ExitStack() as open_:
        silent = [open_.enter_context(connect(collector.endpoint)) for _ in range(60)]
        assert 200 == httpx.get(f"{collector.endpoint}/healthz", verify=trusting(certificates), timeout=60).status_code
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):  # its time is not over
            silent[-1].recv(1)


def test_a_handshake_that_does_not_go_on_is_cut_off(serve_http: Serve, certificates: Certificates) -> None:
    collector = serve_http(**settings_of(certificates, mutual=False), header_timeout_s=0.5)
    with connect(collector.endpoint, timeout_s=60) as silent:
        assert b"" == until_closed(silent)


def test_a_renewed_certificate_is_shown_without_a_restart(
    transport: tuple[Serve, Callable[..., SpanExporter]],
    certificates: Certificates,
    sink: RecordingSink,
    tmp_path: Path,
) -> None:
    serve, exporter = transport
    other = make_certificates(tmp_path)
    cert, key = tmp_path / "now.pem", tmp_path / "now.key"
    shutil.copy(certificates.server, cert)
    shutil.copy(certificates.server_key, key)
    collector = serve(tls_cert_file=cert, tls_key_file=key)
    export(exporter(collector.endpoint, certificates, None))
    shutil.copy(other.server, cert)
    shutil.copy(other.server_key, key)
    time.sleep(1.1)  # files are looked at once a second
    export(exporter(collector.endpoint, certificates, None))
    assert ["chat"] == sink.names
    export(exporter(collector.endpoint, other, None))
    assert ["chat", "chat"] == sink.names


@pytest.mark.parametrize("serve", ["serve_http", "serve_grpc"])
def test_an_unusable_certificate_is_reported_before_anything_listens(
    request: pytest.FixtureRequest, serve: str, certificates: Certificates
) -> None:
    with raises(
        ConfigError,
        snapshot(
            "receive.tls_cert_file: <certificates>/server.pem with receive.tls_key_file: <certificates>/client.key: the key is not the one of the certificate; give a PEM certificate, followed by its chain, and its PEM key without a password"
        ),
        certificates=certificates.ca.parent,
    ):
        request.getfixturevalue(serve)(tls_cert_file=certificates.server, tls_key_file=certificates.client_key)


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificates.ca))
