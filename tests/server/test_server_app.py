"""The admin address: every failure is answered in one readable shape, and never with 500."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from inline_snapshot import snapshot
from pydantic import SecretStr

from otel_agentic.commands import RemoteClient
from otel_agentic.errors import QueryError, StoreBusyError, TooLargeError, UsageError
from otel_agentic.net import Credentials, Hosts, Tokens, parse_address
from otel_agentic.server import AdminServer, CommandPool, build_app
from tests.collectors.raw import answers, connect, until, until_closed
from tests.live.running_collector import eventually
from tests.snapshots import passage

if TYPE_CHECKING:
    from starlette.applications import Starlette

JSON = {"content-type": "application/json"}
NO_CREDENTIALS = Credentials({})
MEGABYTE = b" " * (1 << 20)


class Backend:
    """Answers with what the test gives it."""

    def __init__(self) -> None:
        self.answer: Callable[[Mapping[str, Any]], Any] = dict
        self.requested: list[str] = []
        self.is_ready: bool | None = True

    def run(self, name: str, arguments: Mapping[str, Any], cancelled: Callable[[], bool]) -> Any:  # noqa: ARG002 — same
        self.requested.append(name)
        return self.answer(arguments)

    def metrics(self, accept: str) -> tuple[str, bytes]:  # noqa: ARG002 — the signature of the real backend
        return ("text/plain; version=0.0.4; charset=utf-8", b"agentic_up 1\n")

    @property
    def ready(self) -> bool:
        if self.is_ready is None:
            raise ArithmeticError("unforeseen")
        return self.is_ready


@pytest.fixture
def backend() -> Backend:
    return Backend()


def app_of(backend: Backend, credentials: Credentials = NO_CREDENTIALS, *, slots: int = 16) -> Starlette:
    """Return the app on a loopback address."""
    return build_app(
        backend, credentials=credentials, hosts=Hosts(parse_address("127.0.0.1:0")), pool=CommandPool(slots)
    )


@contextmanager
def serving(backend: Backend, token: str | None = None, *, slots: int = 16) -> Iterator[AdminServer]:
    credentials = Credentials({"admin": Tokens("admin.token", SecretStr(token) if token else None)})
    app = app_of(backend, credentials, slots=slots)
    server = AdminServer(app, "127.0.0.1:0", guarded=token is not None, insecure=False)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def http(backend: Backend) -> Iterator[httpx.Client]:
    with serving(backend) as server, httpx.Client(base_url=server.url, headers=JSON) as client:
        yield client


@pytest.fixture
def client(http: httpx.Client) -> Iterator[RemoteClient]:
    actual = RemoteClient(str(http.base_url), None)
    yield actual
    actual.close()


def raising(error: Exception) -> Callable[[Any], Any]:
    def answer(_: Any) -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "status", "exit_code"),
    [
        (QueryError("no"), 400, 3),
        (UsageError("no"), 400, 2),
        (TooLargeError("no"), 413, 3),
        (StoreBusyError("no"), 503, 4),
        (ArithmeticError("no"), 503, 70),
    ],
)
def test_a_failure_is_reported_with_its_class_and_exit_code(
    http: httpx.Client, backend: Backend, error: Exception, status: int, exit_code: int
) -> None:
    backend.answer = raising(error)

    answer = http.post("/v1/commands/report")

    assert status == answer.status_code
    assert {"error": type(error).__name__, "message": "no", "exit_code": exit_code} == answer.json()


def test_an_unforeseen_failure_is_logged_and_asks_for_another_try(
    http: httpx.Client, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.is_ready = None  # it raises

    with caplog.at_level(logging.ERROR):
        answer = http.get("/healthz")

    assert (503, "ArithmeticError") == (answer.status_code, answer.json()["error"])
    assert "unforeseen" in caplog.text


def test_a_result_that_json_cannot_say_is_a_failure_like_any_other(http: httpx.Client, backend: Backend) -> None:
    backend.answer = lambda _: {"n": 2**100}

    assert 503 == http.post("/v1/commands/query").status_code


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"{", "not JSON"), (b"[1]", "must be a JSON object"), (b"\xff", "not JSON"), (b"[" * 100_000, "not JSON")],
    ids=["cut", "list", "bytes", "deep"],
)
def test_a_body_that_is_no_object_is_refused(http: httpx.Client, backend: Backend, body: bytes, message: str) -> None:
    answer = http.post("/v1/commands/query", content=body)

    assert (400, "UsageError") == (answer.status_code, answer.json()["error"])
    assert message in answer.json()["message"]
    assert [] == backend.requested


def test_a_body_beyond_the_limit_is_refused_before_it_is_kept(http: httpx.Client, backend: Backend) -> None:
    answer = http.post("/v1/commands/query", content=(MEGABYTE for _ in range(65)))

    assert (413, "TooLargeError") == (answer.status_code, answer.json()["error"])
    assert [] == backend.requested


def test_a_stream_comes_line_by_line(client: RemoteClient, backend: Backend) -> None:
    backend.answer = lambda _: iter([{"n": 1}, {"n": 2}])

    assert [{"n": 1}, {"n": 2}] == list(client.stream("conversations_export"))


def test_a_failure_in_the_middle_of_a_stream_is_raised_after_what_came_before(
    client: RemoteClient, backend: Backend
) -> None:
    def answer(_: Any) -> Iterator[Any]:
        yield {"n": 1}
        raise StoreBusyError("held")

    backend.answer = answer
    result = client.stream("conversations_export")

    assert {"n": 1} == next(result)
    with pytest.raises(StoreBusyError, match="held"):
        next(result)


def test_arguments_reach_the_command(http: httpx.Client, backend: Backend) -> None:
    backend.answer = dict

    assert {"k": [1, 2]} == http.post("/v1/commands/report", json={"k": [1, 2]}).json()
    assert {} == http.post("/v1/commands/report").json()
    assert ["report", "report"] == backend.requested


def test_readiness_follows_the_backend(http: httpx.Client, backend: Backend) -> None:
    ready = http.get("/readyz").status_code
    backend.is_ready = False

    assert (200, 503, 200) == (ready, http.get("/readyz").status_code, http.get("/healthz").status_code)


def test_metrics_come_as_they_are(http: httpx.Client) -> None:
    answer = http.get("/metrics")

    assert (answer.headers["content-type"], answer.text) == snapshot(
        ("text/plain; version=0.0.4; charset=utf-8", "agentic_up 1\n")
    )


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/v1/commands/a/b", 404), ("/v1/commands/report", 405)])
def test_other_paths_and_methods_are_not_served(http: httpx.Client, path: str, status: int) -> None:
    answer = http.get(path)

    assert (status, 2) == (answer.status_code, answer.json()["exit_code"])
    assert f"GET {path}: " in answer.json()["message"]
    assert ("POST" if status == 405 else None) == answer.headers.get("allow")


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic open-sesame", "open-sesame"])
def test_without_the_token_nothing_is_returned(backend: Backend, header: str | None) -> None:
    with serving(backend, "open-sesame") as server:
        headers = {"authorization": header} if header else {}
        answers = [
            httpx.post(f"{server.url}/v1/commands/report", headers=headers),
            httpx.get(f"{server.url}/metrics", headers=headers),
        ]

        assert [401, 401] == [answer.status_code for answer in answers]
        assert all("open-sesame" not in answer.text for answer in answers)
        assert 200 == httpx.get(f"{server.url}/healthz", headers=headers).status_code
    assert [] == backend.requested


def test_with_the_token_commands_run(backend: Backend) -> None:
    with serving(backend, "open-sesame") as server:
        client = RemoteClient(server.url, "open-sesame")
        assert {} == client.call("report")
        client.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_a_public_address_without_a_token_is_refused(backend: Backend, address: str) -> None:
    with pytest.raises(UsageError, match="token"):
        AdminServer(app_of(backend), address, guarded=False, insecure=False)


def test_the_address_is_free_again_after_a_stop(backend: Backend) -> None:
    with serving(backend) as server:
        address = server.url.removeprefix("http://")

    again = AdminServer(app_of(backend), address, guarded=False, insecure=False)
    again.stop()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_web_page_cannot_send_commands_by_the_content_types_it_may_set(backend: Backend, kind: str) -> None:
    with serving(backend) as server:
        answer = httpx.post(f"{server.url}/v1/commands/report", content=b"{}", headers={"content-type": kind})
    assert (415, []) == (answer.status_code, backend.requested)


@pytest.mark.parametrize("token", [None, "open-sesame"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:{port}"}, 200),
        ({"host": "127.0.0.1:{port}", "origin": "http://127.0.0.1:{port}"}, 200),
        ({"host": "evil.example:{port}"}, 403),
        ({"host": "evil.example:{port}", "origin": "http://evil.example:{port}"}, 403),
        ({"host": "10.0.0.1:{port}"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "localhost:{port}", "origin": "http://evil.example"}, 403),
        ({"host": "localhost:{port}", "origin": "http://localhost:3000"}, 403),
        ({"host": "localhost:{port}", "origin": "null"}, 403),
    ],
)
def test_web_pages_of_other_sites_reach_neither_commands_nor_metrics(
    backend: Backend, headers: dict[str, str], status: int, token: str | None
) -> None:
    with serving(backend, token) as server:
        port = server.url.rsplit(":", 1)[1]
        sent = {name: value.replace("{port}", port) for name, value in headers.items()}
        sent |= {"authorization": f"Bearer {token}"} if token else {}
        result = [
            httpx.post(f"{server.url}/v1/commands/report", content=b"{}", headers={**JSON, **sent}),
            httpx.get(f"{server.url}/metrics", headers=sent),
        ]
    assert [status] * 2 == [answer.status_code for answer in result]
    assert (["report"] if status == 200 else []) == backend.requested


def test_a_host_with_a_port_of_five_thousand_digits_is_refused_and_fills_no_log(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(backend) as server, caplog.at_level(logging.WARNING):
        answer = httpx.get(f"{server.url}/metrics", headers={"host": "localhost:" + "9" * 5000})
    assert (403, "") == (answer.status_code, caplog.text)


def test_a_large_body_refused_at_its_head_gets_one_answer_and_the_next_request_its_own(backend: Backend) -> None:
    with serving(backend, "open-sesame") as server, connect(server.url) as connection:
        length = 3 * len(MEGABYTE)
        connection.sendall(
            f"POST /v1/commands/report HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()
        )
        first = until(connection, b"exit_code")
        connection.sendall(3 * MEGABYTE + b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        second = until_closed(connection)
    assert ([401], [200]) == (answers(first), answers(second))


def test_blocked_commands_hold_up_neither_health_nor_metrics_and_more_are_asked_to_come_back(backend: Backend) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def block(_: Any) -> dict[str, Any]:
        begun.release()
        release.wait(60)
        return {}

    backend.answer = block
    statuses: list[httpx.Response] = []
    with serving(backend, slots=50) as server:
        blocked = [
            threading.Thread(
                target=lambda: statuses.append(httpx.post(f"{server.url}/v1/commands/report", json={}, timeout=90))
            )
            for _ in range(50)
        ]
        for status in blocked:
            status.start()
        for _ in blocked:
            assert begun.acquire(timeout=60)
        try:
            # Long timeouts: how fast it is on an idle machine is no matter of a test. Without a thread left it is never.
            with httpx.Client(base_url=server.url, timeout=30) as client:
                assert [200] * 3 == [client.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")]
                refused = client.post("/v1/commands/report", json={})
        finally:
            release.set()
            for status in blocked:
                status.join()
        assert (503, "5", "OverloadedError") == (
            refused.status_code,
            refused.headers["retry-after"],
            refused.json()["error"],
        )
        assert passage(refused.json()["message"]) == snapshot("50 commands are running already (admin.command_slots)")
        assert [200] * 50 == [status.status_code for status in statuses]
        assert 200 == httpx.post(f"{server.url}/v1/commands/report", json={}).status_code


def test_a_stream_keeps_its_slot_until_it_was_read_or_its_reader_went_away(backend: Backend) -> None:
    backend.answer = lambda _: iter([{"text": "x" * 1_000_000}] * 200)
    with serving(backend, slots=1) as server:
        url = f"{server.url}/v1/commands/conversations_export"
        with httpx.stream("POST", url, json={}) as reading:
            pieces = reading.iter_bytes()
            assert next(pieces)
            assert 503 == httpx.post(url, json={}).status_code

        def status() -> int:
            backend.answer = lambda _: iter([{"n": 1}])
            return httpx.post(url, json={}).status_code

        eventually(status, 200)
