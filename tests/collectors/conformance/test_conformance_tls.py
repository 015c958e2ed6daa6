"""The kit over TLS and with a client certificate, against our receivers."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from collectors.conformance import CHECKS, Receiver, Target, run, select
from otel_agentic.errors import BackendError, UsageError
from tests.collectors.conformance.conftest import RECEIVE, TOKEN
from tests.pipeline.running import OPEN, live_settings, running
from tests.telemetry.receiver.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificates")

#: Those whose bytes go through the kit's own TLS connections, and some of each family.
GLOBS = (
    "*.accepted",
    "http.connection.*",
    "http.head.huge",
    "http.slow.*",
    "*.auth.*",
    "http.size.beyond",
    "grpc.size.beyond",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("mutual", [False, True], ids=["TLS", "mutual TLS"])
def test_our_receivers_pass_over_tls(made: Certificates, tmp_path: Path, *, mutual: bool) -> None:
    receive: dict[str, Any] = {**RECEIVE, "tls_cert_file": made.server, "tls_key_file": made.server_key}
    client: dict[str, Any] = {}
    if mutual:
        receive["tls_client_ca_file"] = made.ca
        client = {"cert_file": made.client, "key_file": made.client_key}
    with running(live_settings(tmp_path / "spans.duckdb", **OPEN, receive=receive)) as (_, server):
        where: dict[str, Any] = {"url": server.http, "grpc": server.grpc, "token": TOKEN, "timeout_s": 30}
        with Receiver(Target(**where, ca_file=made.ca, max_bytes=RECEIVE["max_request_bytes"], **client)) as receiver:
            receiver.require()
            found = run(receiver, select(CHECKS, only=GLOBS))
        with Receiver(Target(**where)) as trusting_nobody, pytest.raises(BackendError, match="no connection to"):
            trusting_nobody.require()
    assert {} == {outcome.check.id: outcome.reason for outcome in found if outcome.result != "pass"}


def test_a_certificate_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate")
    with pytest.raises(UsageError, match="certificate files"):
        Receiver(Target(url="https://127.0.0.1:1", ca_file=bad))
