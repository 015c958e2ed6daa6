"""The admin address: every failure is answered in one readable shape, and never with 500."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import SecretStr

from otel_agentic.errors import QueryError, StoreBusyError, TooLargeError, UsageError
from otel_agentic.net import Credentials, Tokens
from otel_agentic.pipeline import RemoteClient
from otel_agentic.server import AdminServer, build_app
from tests.collectors.raw import answers, connect, until, until_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

JSON = {"content-type": "application/json"}
NOBODY = Credentials({})
MEGABYTE = b" " * (1 << 20)


class Backend:
    """Answers with what the test gives it."""

    def __init__(self) -> None:
        self.answer: Callable[[Mapping[str, Any]], Any] = dict
        self.asked: list[str] = []
        self.state: dict[str, Any] = {"ready": True}

    def run(self, name: str, arguments: Mapping[str, Any], gone: Callable[[], bool]) -> Any:  # noqa: ARG002 — same
        self.asked.append(name)
        return self.answer(arguments)

    def metrics(self, accept: str) -> tuple[str, bytes]:  # noqa: ARG002 — the signature of what it stands for
        return ("text/plain; version=0.0.4; charset=utf-8", b"agentic_up 1\n")

    def health(self) -> dict[str, Any]:
        if self.state is None:
            raise ArithmeticError("unforeseen")
        return self.state


@pytest.fixture
def backend() -> Backend:
    return Backend()


@contextmanager
def serving(backend: Backend, token: str | None = None) -> Iterator[AdminServer]:
    credentials = Credentials({"admin": Tokens("admin.token", SecretStr(token) if token else None)})
    app = build_app(backend, credentials=credentials)
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
    made = RemoteClient(str(http.base_url), None)
    yield made
    made.close()


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
def test_a_failure_is_told_with_its_class_and_exit_code(
    http: httpx.Client, backend: Backend, error: Exception, status: int, exit_code: int
) -> None:
    backend.answer = raising(error)

    answer = http.post("/v1/commands/report")

    assert status == answer.status_code
    assert {"error": type(error).__name__, "message": "no", "exit_code": exit_code} == answer.json()


def test_an_unforeseen_failure_is_logged_and_asks_for_another_try(
    http: httpx.Client, backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.state = None  # type: ignore[assignment]  # it raises

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
    assert [] == backend.asked


def test_a_body_beyond_the_limit_is_refused_before_it_is_kept(http: httpx.Client, backend: Backend) -> None:
    answer = http.post("/v1/commands/query", content=(MEGABYTE for _ in range(65)))

    assert (413, "TooLargeError") == (answer.status_code, answer.json()["error"])
    assert [] == backend.asked


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
    found = client.stream("conversations_export")

    assert {"n": 1} == next(found)
    with pytest.raises(StoreBusyError, match="held"):
        next(found)


def test_arguments_reach_the_command(http: httpx.Client, backend: Backend) -> None:
    backend.answer = dict

    assert {"k": [1, 2]} == http.post("/v1/commands/report", json={"k": [1, 2]}).json()
    assert {} == http.post("/v1/commands/report").json()
    assert ["report", "report"] == backend.asked


def test_readiness_follows_the_backend(http: httpx.Client, backend: Backend) -> None:
    ready = http.get("/readyz").status_code
    backend.state = {"ready": False}

    assert (200, 503, 200) == (ready, http.get("/readyz").status_code, http.get("/healthz").status_code)


def test_metrics_come_as_they_are(http: httpx.Client) -> None:
    answer = http.get("/metrics")

    assert ("text/plain; version=0.0.4; charset=utf-8", "agentic_up 1\n") == (
        answer.headers["content-type"],
        answer.text,
    )


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/v1/commands/a/b", 404), ("/v1/commands/report", 405)])
def test_other_paths_and_methods_are_not_served(http: httpx.Client, path: str, status: int) -> None:
    answer = http.get(path)

    assert (status, 2) == (answer.status_code, answer.json()["exit_code"])
    assert f"GET {path}: " in answer.json()["message"]
    assert ("POST" if status == 405 else None) == answer.headers.get("allow")


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic open-sesame", "open-sesame"])
def test_without_the_token_nothing_is_told(backend: Backend, header: str | None) -> None:
    with serving(backend, "open-sesame") as server:
        headers = {"authorization": header} if header else {}
        answers = [
            httpx.post(f"{server.url}/v1/commands/report", headers=headers),
            httpx.get(f"{server.url}/metrics", headers=headers),
        ]

        assert [401, 401] == [answer.status_code for answer in answers]
        assert all("open-sesame" not in answer.text for answer in answers)
        assert 200 == httpx.get(f"{server.url}/healthz", headers=headers).status_code
    assert [] == backend.asked


def test_with_the_token_commands_run(backend: Backend) -> None:
    with serving(backend, "open-sesame") as server:
        client = RemoteClient(server.url, "open-sesame")
        assert {} == client.call("report")
        client.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_a_public_address_without_a_token_is_refused(backend: Backend, address: str) -> None:
    with pytest.raises(UsageError, match="token"):
        AdminServer(build_app(backend, credentials=NOBODY), address, guarded=False, insecure=False)


def test_the_address_is_free_again_after_a_stop(backend: Backend) -> None:
    with serving(backend) as server:
        address = server.url.removeprefix("http://")

    again = AdminServer(build_app(backend, credentials=NOBODY), address, guarded=False, insecure=False)
    again.stop()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_web_page_cannot_send_commands_by_the_content_types_it_may_set(backend: Backend, kind: str) -> None:
    with serving(backend) as server:
        answer = httpx.post(f"{server.url}/v1/commands/report", content=b"{}", headers={"content-type": kind})
    assert (415, []) == (answer.status_code, backend.asked)


def test_a_web_page_cannot_reach_the_commands_by_a_name_of_its_own_for_this_machine(backend: Backend) -> None:
    with serving(backend) as server:
        headers = {**JSON, "host": f"evil.example:{server.url.rsplit(':', 1)[1]}"}
        answer = httpx.post(f"{server.url}/v1/commands/report", content=b"{}", headers=headers)
    assert 403 == answer.status_code
    assert "loopback" in answer.json()["message"]


def test_a_host_with_a_port_of_five_thousand_digits_is_refused_and_fills_no_log(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(backend) as server, caplog.at_level(logging.WARNING):
        answer = httpx.get(f"{server.url}/metrics", headers={"host": "localhost:" + "9" * 5000})
    assert (403, "") == (answer.status_code, caplog.text)


def test_a_large_body_refused_at_its_head_gets_one_answer_and_the_next_request_its_own(backend: Backend) -> None:
    with serving(backend, "open-sesame") as server, connect(server.url) as connection:
        length = 3 * len(MEGABYTE)
        connection.sendall(f"POST /v1/commands/report HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        first = until(connection, b"exit_code")
        connection.sendall(3 * MEGABYTE + b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        second = until_closed(connection)
    assert ([401], [200]) == (answers(first), answers(second))
