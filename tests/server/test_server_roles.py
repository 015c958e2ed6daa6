"""Tokens of the admin address: the permissions of each role, and no information without a token."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from inline_snapshot import snapshot
from pydantic import SecretStr

from otel_agentic.commands import RemoteClient
from otel_agentic.errors import BackendError, ConfigError, UsageError
from otel_agentic.net import Credentials, Hosts, Role, ServerTls, TlsFiles, Tokens, client_context, parse_address
from otel_agentic.server import AdminServer, CommandPool, build_app
from tests.collectors.raw import answers, connect, exchange, until_closed
from tests.snapshots import raises
from tests.telemetry.receiver.certificates import Certificates, make_certificates

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl program makes the certificates")
GIVEN: dict[Role, str] = {"ingest": "in-3f1c", "query": "ask-77aa", "admin": "all-9d0e"}


class Backend:
    """Returns the name of the command."""

    def run(self, name: str, arguments: Mapping[str, Any], cancelled: Callable[[], bool]) -> Any:  # noqa: ARG002 — the signature of the real backend
        return {"ran": name}

    def metrics(self, accept: str) -> tuple[str, bytes]:  # noqa: ARG002 — same
        return ("text/plain", b"up 1\n")

    ready = True


@contextmanager
def serving(
    *roles: Role, tls: ServerTls | None = None, address: str = "127.0.0.1:0", allowed: tuple[str, ...] = ()
) -> Iterator[str]:
    """Serve with a token for each role; yield the URL."""
    credentials = Credentials({role: Tokens(f"{role}.token", SecretStr(GIVEN[role])) for role in roles})
    hosts = Hosts(parse_address(address), allowed)
    app = build_app(Backend(), credentials=credentials, hosts=hosts, pool=CommandPool(4), roles={"report": "query"})
    guarded = credentials.guards("query", "admin")
    server = AdminServer(app, address, guarded=guarded, insecure=False, tls=tls)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def ask(url: str, what: str, token: str | None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if what == "metrics":
        return httpx.get(f"{url}/metrics", headers=headers)
    return httpx.post(f"{url}/v1/commands/{what}", json={}, headers=headers)


@pytest.mark.parametrize(
    ("role", "expected"),
    [(None, [401, 401, 401]), ("ingest", [403, 403, 403]), ("query", [200, 200, 403]), ("admin", [200, 200, 200])],
)
def test_each_role_may_do_what_it_is_for(role: Role | None, expected: list[int]) -> None:
    with serving("ingest", "query", "admin") as url:
        result = [ask(url, what, GIVEN[role] if role else None) for what in ("report", "metrics", "evaluate")]
    assert expected == [answer.status_code for answer in result]
    assert not any(token in answer.text for token in GIVEN.values() for answer in result)


def test_a_token_for_queries_alone_shuts_the_commands_that_change_things() -> None:
    with serving("query") as url:
        assert [401, 200, 403] == [
            ask(url, what, token).status_code
            for what, token in (("report", None), ("report", GIVEN["query"]), ("evaluate", GIVEN["query"]))
        ]
        refused = ask(url, "evaluate", GIVEN["query"]).json()
    assert refused["message"] == snapshot("this token only allows its holder to read; send the token of admin.token")


def test_two_authorization_headers_are_none() -> None:
    with serving("admin") as url:
        headers = [("authorization", f"Bearer {GIVEN['admin']}")] * 2
        answer = httpx.get(f"{url}/metrics", headers=headers)
    assert (401, "Bearer") == (answer.status_code, answer.headers["www-authenticate"])


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token_and_reveals_nothing(path: str) -> None:
    with serving("admin") as url:
        answer = httpx.get(url + path)
    assert (200, {"ready": True}) == (answer.status_code, answer.json())


def test_the_client_says_which_setting_is_missing() -> None:
    with serving("query", "admin") as url:
        for token, message in ((None, r"set admin\.token"), (GIVEN["query"], r"send the token of admin\.token")):
            client = RemoteClient(url, token)
            with pytest.raises(UsageError, match=message):
                client.call("evaluate")
            client.close()


def test_connections_that_do_nothing_do_not_shut_the_admin_address() -> None:
    with serving() as url, ExitStack() as open_:
        silent = [open_.enter_context(connect(url)) for _ in range(300)]
        assert 200 == httpx.get(f"{url}/healthz").status_code
        assert b"" == until_closed(silent[0])


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\n\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\n c\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0, 0\r\n\r\n",
    ],
    ids=["not HTTP", "bare line feeds", "a continued header", "a list of lengths"],
)
def test_what_is_not_http_or_has_two_readings_is_refused_in_json(sent: bytes) -> None:
    with serving() as url:
        received = exchange(url, sent)
    assert [400] == answers(received)
    assert b'"message":"this is not a valid HTTP' in received


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def tls_of(certificates: Certificates, *, mutual: bool) -> ServerTls:
    client_ca = certificates.ca if mutual else None
    return ServerTls(
        TlsFiles(section="admin", cert=certificates.server, key=certificates.server_key, client_ca=client_ca)
    )


@needs_openssl
def test_commands_run_over_tls(certificates: Certificates) -> None:
    with serving("admin", tls=tls_of(certificates, mutual=False)) as url:
        assert url.startswith("https://")
        client = RemoteClient(url, GIVEN["admin"], client_context("admin", certificates.ca, None, None))
        assert {"ran": "evaluate"} == client.call("evaluate")
        client.close()
        foreign = RemoteClient(url, GIVEN["admin"])
        with pytest.raises(BackendError, match="certificate"):
            foreign.call("evaluate")
        foreign.close()


@needs_openssl
def test_a_certificate_stands_for_a_token_on_a_public_address(certificates: Certificates) -> None:
    with serving(tls=tls_of(certificates, mutual=True), address="0.0.0.0:0") as public:
        url = public.replace("0.0.0.0", "127.0.0.1")  # noqa: S104 — same
        known = RemoteClient(
            url, None, client_context("admin", certificates.ca, certificates.client, certificates.client_key)
        )
        assert {"ran": "evaluate"} == known.call("evaluate")
        known.close()
        for context in (
            client_context("admin", certificates.ca, None, None),
            client_context("admin", certificates.ca, certificates.untrusted, certificates.untrusted_key),
        ):
            unknown = RemoteClient(url, None, context)
            with pytest.raises(BackendError):
                unknown.call("evaluate")
            unknown.close()


@needs_openssl
def test_tls_without_certificates_of_callers_is_no_credential(certificates: Certificates) -> None:
    with (
        raises(
            UsageError,
            snapshot(
                "address 0.0.0.0:0 can be reached from other machines: set a token (admin.token, admin.token_file, OTEL_AGENTIC_ADMIN__TOKEN), or ask for certificates (admin.tls_client_ca_file), or allow it openly (receive.insecure, --insecure), or listen on 127.0.0.1"
            ),
        ),
        serving(
            tls=tls_of(certificates, mutual=False),
            address="0.0.0.0:0",
        ),
    ):
        pass


@needs_openssl
def test_a_bad_certificate_is_reported_with_its_setting(certificates: Certificates) -> None:
    with raises(
        ConfigError,
        snapshot(
            "admin.tls_cert_file: <certificates>/server.pem with admin.tls_key_file: <certificates>/untrusted.key: the key is not the one of the certificate; give a PEM certificate, followed by its chain, and its PEM key without a password"
        ),
        certificates=certificates.ca.parent,
    ):
        ServerTls(TlsFiles(section="admin", cert=certificates.server, key=certificates.untrusted_key))
