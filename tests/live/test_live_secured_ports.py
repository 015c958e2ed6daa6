"""A collector with TLS, certificates of callers and tokens of roles on all three ports, asked as people ask."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import httpx
import orjson
import pytest
from inline_snapshot import snapshot
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_agentic.commands.registry import registered
from otel_agentic.errors import BackendError, ConfigError, UsageError
from otel_agentic.net.server_file import server_file
from otel_agentic.testing import speak_genai
from tests.builders import ask_hotel
from tests.live.otlp_export import readable
from tests.live.running_collector import ask, live_settings, running
from tests.snapshots import raises
from tests.telemetry.receiver.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from otel_agentic.config import Settings

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificates")
TOKENS = {"ingest": "in-3f1c", "query": "ask-77aa", "admin": "all-9d0e"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _no_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove variables that `requests` prefers over the certificates of the exporter."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)


def secured(db: Path, built: Certificates, **admin: Any) -> Settings:
    """Return settings with everything on; `admin` is what a command of another process would have set."""
    for role, token in TOKENS.items():
        file = db.parent / f"{role}.token"
        file.write_text(token + "\n")
        file.chmod(0o600)
    tls = {"tls_cert_file": built.server, "tls_key_file": built.server_key, "tls_client_ca_file": built.ca}
    own = {"ca_file": built.ca, "client_cert_file": built.client, "client_key_file": built.client_key}
    folder = db.parent
    return live_settings(
        db,
        receive={"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "token_file": folder / "ingest.token", **tls},
        admin={
            "address": "127.0.0.1:0",
            "token_file": folder / "admin.token",
            "query_token_file": folder / "query.token",
            **tls,
            **own,
            **admin,
        },
    )


def test_exporters_and_commands_work_on_all_three_ports(tmp_path: Path, certificates: Certificates) -> None:
    db = tmp_path / "t.duckdb"
    settings = secured(db, certificates)
    spans = [readable(item) for item in speak_genai(ask_hotel()).spans]
    header = {"authorization": f"Bearer {TOKENS['ingest']}"}
    with running(settings) as (_, addresses):
        assert addresses.grpc is not None
        over_http = HttpExporter(
            f"{addresses.http}/v1/traces",
            headers=header,
            certificate_file=str(certificates.ca),
            client_certificate_file=str(certificates.client),
            client_key_file=str(certificates.client_key),
        )
        credentials = grpc.ssl_channel_credentials(
            certificates.ca.read_bytes(), certificates.client_key.read_bytes(), certificates.client.read_bytes()
        )
        over_grpc = GrpcExporter(addresses.grpc, headers=header, credentials=credentials)
        for exporter in (over_http, over_grpc):
            assert SpanExportResult.SUCCESS == exporter.export(spans)
            exporter.shutdown()
        assert len(spans) == ask(settings, "query", sql="SELECT count(*) FROM spans")["rows"][0][0]
        named = orjson.loads(server_file(db).read_bytes())
    assert all(named[way].startswith("https://") for way in ("admin", "http", "grpc"))
    assert not any(token in str(named) for token in TOKENS.values())


def test_a_holder_of_the_query_token_may_read_and_no_more(tmp_path: Path, certificates: Certificates) -> None:
    db = tmp_path / "t.duckdb"
    with running(secured(db, certificates)):
        reader = secured(db, certificates, token_file=None)
        assert [] == ask(reader, "conversations_list")
        with raises(UsageError, snapshot("this token only allows its holder to read; send the token of admin.token")):
            ask(reader, "evaluate")


def test_a_client_without_trust_or_certificate_is_refused_with_the_reason(
    tmp_path: Path, certificates: Certificates
) -> None:
    db = tmp_path / "t.duckdb"
    with running(secured(db, certificates)):
        with pytest.raises(BackendError, match="certificate"):
            ask(secured(db, certificates, ca_file=None), "conversations_list")
        with pytest.raises(BackendError):
            ask(secured(db, certificates, client_cert_file=None, client_key_file=None), "conversations_list")


def test_a_token_of_another_role_may_not_send_and_is_distinguished_from_an_unknown_one(
    tmp_path: Path, certificates: Certificates
) -> None:
    settings = live_settings(
        tmp_path / "t.duckdb",
        receive={"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "token": TOKENS["ingest"]},
        admin={"address": "127.0.0.1:0", "token": TOKENS["admin"], "query_token": TOKENS["query"]},
    )
    with running(settings) as (_, addresses):
        assert addresses.grpc is not None
        kind = {"content-type": "application/x-protobuf"}
        statuses, codes = {}, {}
        with grpc.insecure_channel(addresses.grpc.removeprefix("http://")) as channel:
            export = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
            for role, token in {**TOKENS, "nobody": "guessed"}.items():
                displayed = ("authorization", f"Bearer {token}")
                statuses[role] = httpx.post(
                    f"{addresses.http}/v1/traces", headers={**kind, displayed[0]: displayed[1]}
                ).status_code
                codes[role] = export.future(b"", metadata=[displayed], timeout=10).code().name
    assert {"ingest": 200, "query": 403, "admin": 200, "nobody": 401} == statuses
    assert {
        "ingest": "OK",
        "query": "PERMISSION_DENIED",
        "admin": "OK",
        "nobody": "UNAUTHENTICATED",
    } == codes


def test_an_invalid_tls_file_is_reported_before_anything_listens(tmp_path: Path, certificates: Certificates) -> None:
    for section in ("receive", "admin"):
        files = {"tls_cert_file": certificates.server, "tls_key_file": certificates.client_key}
        with (
            pytest.raises(ConfigError, match=rf"{section}\.tls_key_file: .*client\.key: the key is not the one"),
            running(live_settings(tmp_path / "t.duckdb", **{section: files})),
        ):
            pass


def test_commands_that_change_the_store_need_the_role_admin() -> None:
    commands = registered()
    changing = {"evaluate", "backfill", "judge_calibrate", "judge_clear", "truth_import", "truth_promote"}
    assert {"admin"} == {commands[name].role for name in changing}
    assert {"query"} == {commands[name].role for name in ("report", "gate", "query", "truth_list", "store_stats")}
