from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import ConfigError
from otel_agentic.telemetry.events import ConversationResult
from tests.snapshots import raises
from tests.telemetry.builders import conversation, failing_score, window_point
from tests.telemetry.receiver.certificates import Certificates, make_certificates
from tests.telemetry.receiver.over_grpc import grpc_receiver
from tests.telemetry.receiver.over_http import http_receiver

if TYPE_CHECKING:
    from otel_agentic.telemetry import Telemetry
    from tests.telemetry.conftest import MakeTelemetry

PROTOCOLS: dict[str, Any] = {"http/protobuf": http_receiver, "grpc": grpc_receiver}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("the openssl program makes the certificates: install openssl")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def arrives(telemetry: Telemetry) -> bool:
    telemetry.set_windows([window_point()])
    telemetry.record_scores([ConversationResult(conversation(), failing_score())])
    return telemetry.force_flush(5.0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_metrics_and_events_arrive_over_tls(
    make_telemetry: MakeTelemetry, certificates: Certificates, protocol: str
) -> None:
    with PROTOCOLS[protocol](certificates=certificates) as server:
        telemetry = make_telemetry(server.endpoint, protocol=protocol, ca_file=certificates.ca)
        assert arrives(telemetry)
        assert server.received.values("agentic.success.ratio", "agentic.window") == {("1h",): 0.9}
        assert len(server.received.events()) == 5
        telemetry.shutdown(2.0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_backend_without_a_trusted_certificate_gets_nothing(
    make_telemetry: MakeTelemetry, certificates: Certificates, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    with PROTOCOLS[protocol](certificates=certificates) as server, caplog.at_level(logging.WARNING):
        telemetry = make_telemetry(server.endpoint, protocol=protocol, timeout_s=0.5)
        assert not arrives(telemetry)
        assert (server.received.metrics, server.received.logs) == ([], [])
        telemetry.shutdown(0.5)
    assert {record.getMessage().split(" does")[0] for record in caplog.records} == {
        f"telemetry backend {server.endpoint}"
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_mutual_tls_lets_in_who_shows_a_certificate_of_the_authority(
    make_telemetry: MakeTelemetry, certificates: Certificates, protocol: str
) -> None:
    with PROTOCOLS[protocol](certificates=certificates, mutual=True) as server:
        known = make_telemetry(
            server.endpoint,
            protocol=protocol,
            ca_file=certificates.ca,
            client_cert_file=certificates.client,
            client_key_file=certificates.client_key,
        )
        assert arrives(known)
        before = len(server.received.metrics)
        untrusted_files = {"client_cert_file": certificates.untrusted, "client_key_file": certificates.untrusted_key}
        unknown: list[dict[str, Any]] = [{}, untrusted_files]
        for files in unknown:
            untrusted = make_telemetry(
                server.endpoint, protocol=protocol, ca_file=certificates.ca, timeout_s=0.5, **files
            )
            assert not arrives(untrusted)
            untrusted.shutdown(0.5)
        assert len(server.received.metrics) == before
        known.shutdown(2.0)


def test_authorities_of_the_settings_win_over_those_of_the_environment(
    make_telemetry: MakeTelemetry, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates.untrusted))
    with http_receiver(certificates=certificates) as server:
        assert arrives(make_telemetry(server.endpoint, ca_file=certificates.ca))
        other = make_telemetry(server.endpoint, ca_file=certificates.untrusted, timeout_s=0.5)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificates.ca))
        assert not arrives(other)


def test_a_password_of_netrc_never_replaces_a_configured_header(
    make_telemetry: MakeTelemetry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with http_receiver() as server:
        assert arrives(make_telemetry(server.endpoint, headers={"Authorization": "Bearer token-1"}))
        assert server.received.headers["authorization"] == "Bearer token-1"


def test_files_that_cannot_be_used_are_named_before_anything_is_sent(
    make_telemetry: MakeTelemetry, certificates: Certificates, tmp_path: Path
) -> None:
    malformed = tmp_path / "malformed.pem"
    malformed.write_text("no certificate")
    https = "https://127.0.0.1:9"
    client: dict[str, Any] = {"client_cert_file": certificates.client, "client_key_file": certificates.client_key}
    invalid: dict[str, dict[str, Any]] = {
        r"emit\.ca_file: .*missing\.pem: No such file": {"ca_file": tmp_path / "missing.pem"},
        r"emit\.ca_file: .*malformed\.pem: .*use a PEM file of authorities": {"ca_file": malformed},
        r"set both or neither": {"client_cert_file": certificates.client},
        r"client\.pem with .*untrusted\.key": {**client, "client_key_file": certificates.untrusted_key},
        r"key without a password": {**client, "client_key_file": certificates.locked_key},
    }
    for message, files in invalid.items():
        with pytest.raises(ConfigError, match=message):
            make_telemetry(https, **files)
    with raises(ConfigError, snapshot("emit.ca_file: TLS needs an endpoint that begins with https://")):
        make_telemetry("http://127.0.0.1:9", ca_file=certificates.ca)
