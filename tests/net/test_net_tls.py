from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import ConfigError
from otel_agentic.net import ServerTls, TlsFiles, client_context
from tests.snapshots import raises
from tests.telemetry.receiver.certificates import Certificates, make_certificates

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificates")
pytestmark = needs_openssl


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def files(cert: Path, key: Path, client_ca: Path | None = None) -> ServerTls:
    return ServerTls(TlsFiles(section="receive", cert=cert, key=key, client_ca=client_ca))


def test_nothing_given_is_no_tls() -> None:
    assert TlsFiles.of("receive", None, None, None) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cert", r"receive\.tls_cert_file and receive\.tls_key_file: give both"),
        ("key", r"receive\.tls_cert_file and receive\.tls_key_file: give both"),
        ("client_ca", r"receive\.tls_client_ca_file: needs receive\.tls_cert_file"),
    ],
)
def test_what_belongs_together_is_given_together(certificates: Certificates, given: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TlsFiles.of("receive", *(certificates.ca if name == given else None for name in ("cert", "key", "client_ca")))


def test_at_least_tls_1_2_and_certificates_of_callers_only_where_asked_for(certificates: Certificates) -> None:
    plain, mutual = (
        files(certificates.server, certificates.server_key),
        files(certificates.server, certificates.server_key, certificates.ca),
    )
    assert ssl.TLSVersion.TLSv1_2 == plain.context.minimum_version
    assert (False, ssl.CERT_NONE) == (plain.is_mutual, plain.context.verify_mode)
    assert (True, ssl.CERT_REQUIRED) == (mutual.is_mutual, mutual.context.verify_mode)


@pytest.mark.parametrize(
    ("cert", "key", "client_ca", "message"),
    [
        ("missing.pem", "server.key", None, r"receive\.tls_cert_file: .*missing\.pem: No such file"),
        ("server.pem", "missing.key", None, r"receive\.tls_key_file: .*missing\.key: No such file"),
        (
            "server.pem",
            "client.key",
            None,
            r"tls_cert_file: .*server\.pem with .*client\.key: the key is not the one of",
        ),
        ("server.pem", "locked.key", None, r"receive\.tls_key_file: .*locked\.key: .*without a password"),
        ("junk.pem", "server.key", None, r"receive\.tls_cert_file: .*junk\.pem.*not PEM"),
        ("server.pem", "server.key", "junk.pem", r"receive\.tls_client_ca_file: .*junk\.pem: .*authorities"),
        ("server.pem", "server.key", "missing.pem", r"receive\.tls_client_ca_file: .*missing\.pem: No such file"),
        (".", "server.key", None, r"receive\.tls_cert_file: .*directory"),
    ],
)
def test_files_that_cannot_be_used_are_named_with_their_setting(
    certificates: Certificates, cert: str, key: str, client_ca: str | None, message: str
) -> None:
    folder = certificates.ca.parent
    (folder / "junk.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=message):
        files(folder / cert, folder / key, folder / client_ca if client_ca else None)


def test_a_caller_needs_no_context_of_its_own_unless_files_are_given(certificates: Certificates) -> None:
    assert client_context("admin", None, None, None) is None
    assert client_context("admin", certificates.ca, certificates.client, certificates.client_key) is not None
    with raises(ConfigError, snapshot("admin.client_cert_file and admin.client_key_file: give both")):
        client_context("admin", certificates.ca, certificates.client, None)
    with raises(
        ConfigError,
        snapshot("admin.ca_file: <certificates>/not-there: No such file or directory; give a PEM file of authorities"),
        certificates=certificates.ca.parent,
    ):
        client_context("admin", certificates.ca.parent / "not-there", None, None)
