"""The kit over TLS and with a client certificate, against our receivers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from collectors.conformance import CHECKS, Receiver, Target, run, select
from otel_agentic.errors import BackendError, UsageError
from tests.collectors.conformance.conftest import RECEIVE, TOKEN
from tests.live.running_collector import OPEN, live_settings, running
from tests.telemetry.receiver.certificates import Certificates, make_certificates

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
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("mutual", [pytest.param(False, marks=pytest.mark.slow), True], ids=["TLS", "mutual TLS"])
def test_our_receivers_pass_over_tls(certificates: Certificates, tmp_path: Path, *, mutual: bool) -> None:
    receive: dict[str, Any] = {**RECEIVE, "tls_cert_file": certificates.server, "tls_key_file": certificates.server_key}
    client: dict[str, Any] = {}
    if mutual:
        receive["tls_client_ca_file"] = certificates.ca
        client = {"cert_file": certificates.client, "key_file": certificates.client_key}
    with running(live_settings(tmp_path / "spans.duckdb", **OPEN, receive=receive)) as (_, server):
        where: dict[str, Any] = {"url": server.http, "grpc": server.grpc, "token": TOKEN, "timeout_s": 30}
        with Receiver(
            Target(**where, ca_file=certificates.ca, max_bytes=RECEIVE["max_request_bytes"], **client)
        ) as receiver:
            receiver.require()
            agent_run = run(receiver, select(CHECKS, only=GLOBS))
        with Receiver(Target(**where)) as without_authority, pytest.raises(BackendError, match="no connection to"):
            without_authority.require()
    assert {} == {outcome.check.id: outcome.reason for outcome in agent_run if outcome.result != "pass"}


def test_an_unreadable_certificate_is_reported(tmp_path: Path) -> None:
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate")
    with pytest.raises(UsageError, match="certificate files"):
        Receiver(Target(url="https://127.0.0.1:1", ca_file=bad))
