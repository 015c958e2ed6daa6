from __future__ import annotations

import shutil
import ssl
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import ConfigError
from otel_agentic.net import ServerTls, TlsFiles, client_context
from tests.snapshots import raises
from tests.telemetry.receiver.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from pathlib import Path

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificates")
pytestmark = needs_openssl


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def files(cert: Path, key: Path, client_ca: Path | None = None) -> ServerTls:
    return ServerTls(TlsFiles(section="receive", cert=cert, key=key, client_ca=client_ca))


def test_nothing_given_is_no_tls() -> None:
    assert TlsFiles.of("receive", None, None, None) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("cert", r"receive\.tls_cert_file and receive\.tls_key_file: give both"),
        ("key", r"receive\.tls_cert_file and receive\.tls_key_file: give both"),
        ("client_ca", r"receive\.tls_client_ca_file: needs receive\.tls_cert_file"),
    ],
)
def test_what_belongs_together_is_given_together(made: Certificates, given: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        TlsFiles.of("receive", *(made.ca if name == given else None for name in ("cert", "key", "client_ca")))


def test_at_least_tls_1_2_and_certificates_of_callers_only_where_asked_for(made: Certificates) -> None:
    plain, mutual = files(made.server, made.server_key), files(made.server, made.server_key, made.ca)
    assert ssl.TLSVersion.TLSv1_2 == plain.context.minimum_version
    assert (False, ssl.CERT_NONE) == (plain.is_mutual, plain.context.verify_mode)
    assert (True, ssl.CERT_REQUIRED) == (mutual.is_mutual, mutual.context.verify_mode)


@pytest.mark.parametrize(
    ("cert", "key", "client_ca", "told"),
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
    made: Certificates, cert: str, key: str, client_ca: str | None, told: str
) -> None:
    folder = made.ca.parent
    (folder / "junk.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=told):
        files(folder / cert, folder / key, folder / client_ca if client_ca else None)


def test_a_caller_needs_no_context_of_its_own_unless_files_are_given(made: Certificates) -> None:
    assert client_context("admin", None, None, None) is None
    assert client_context("admin", made.ca, made.client, made.client_key) is not None
    with raises(ConfigError, snapshot("admin.client_cert_file and admin.client_key_file: give both")):
        client_context("admin", made.ca, made.client, None)
    with raises(
        ConfigError,
        snapshot("admin.ca_file: <certificates>/not-there: No such file or directory; give a PEM file of authorities"),
        certificates=made.ca.parent,
    ):
        client_context("admin", made.ca.parent / "not-there", None, None)
