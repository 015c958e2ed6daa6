"""Who may open the console: tickets, tokens, cookies, hosts, and forms of other sites."""

from __future__ import annotations

import stat
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from otel_agentic.console.sessions import Sessions
from otel_agentic.errors import ConfigError
from otel_agentic.net.tickets import TICKET_S, Tickets, new_ticket, secret_of
from tests.console.conftest import RunningConsole, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FORM = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory, empty_file: Path) -> Iterator[RunningConsole]:
    """Serve a console with tokens; the file of query tokens is next to the store."""
    db = tmp_path_factory.mktemp("guarded") / "t.duckdb"
    db.write_bytes(empty_file.read_bytes())
    tokens = db.with_name("tokens")
    tokens.write_text("reader\n")
    tokens.chmod(0o600)
    yield from serving(db, admin={"token": "root-token", "query_token_file": str(tokens)})


def test_a_page_needs_a_session(console: RunningConsole) -> None:
    answer = httpx.get(f"{console.url}/conversations")

    assert answer.status_code == 401
    assert "otel-agentic console --db FILE" in answer.text
    twin = httpx.get(f"{console.url}/conversations.json")
    assert (twin.status_code, twin.json()["error"][:10]) == (401, "no session")


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/nowhere", 404, "There is no page /nowhere"),
        ("/conversation?id=nowhere", 400, "nowhere"),
        ("/span", 400, "/span needs the parameter trace_id"),
    ],
)
def test_an_error_is_a_page_with_the_navigation_for_a_person_with_a_session(
    console: RunningConsole, path: str, status: int, text: str
) -> None:
    page = {"accept": "text/html"}
    with console.session() as client:
        answer = client.get(path, headers=page)
        target, mark, query = path.partition("?")
        program = client.get(f"{target}.json{mark}{query}", headers={"accept": "application/json"})

    assert (answer.status_code, text in answer.text) == (status, True)
    assert '<a href="/tools">Tools</a>' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "Tools" not in program.text
    without = httpx.get(f"{console.url}{path}", headers=page)
    assert (without.status_code, "Tools" in without.text) == (404 if path == "/nowhere" else 401, False)


def test_a_ticket_opens_one_session_and_only_by_a_form(console: RunningConsole) -> None:
    ticket = new_ticket(secret_of(console.db), "ana")
    with httpx.Client(base_url=console.url, headers=_FORM) as client:
        for _ in range(3):  # a link scanner
            assert client.get("/login", params={"ticket": ticket}).status_code == 200
        assert client.get("/").status_code == 401
        assert client.post("/login", data={"ticket": ticket}).status_code == 303
        assert client.get("/").status_code == 200
    again = httpx.post(f"{console.url}/login", data={"ticket": ticket}, headers=_FORM)
    assert (again.status_code, "used before" in again.text) == (401, True)


@pytest.mark.parametrize("ticket", ["", "x.y", "x" * 2000, "MTox.0", "ä.ö"])
def test_an_invalid_ticket_opens_nothing(console: RunningConsole, ticket: str) -> None:
    assert httpx.post(f"{console.url}/login", data={"ticket": ticket}, headers=_FORM).status_code == 401


def test_a_ticket_expires() -> None:
    now = [1_000.0]
    ticket = new_ticket(b"s" * 32, "ana")
    expired = Tickets(b"s" * 32, clock=lambda: float("inf"))
    valid = Tickets(b"s" * 32, clock=lambda: now[0])

    assert expired.spend(ticket) is None
    assert valid.spend(ticket) == "ana"
    assert Tickets(b"t" * 32, clock=lambda: now[0]).spend(ticket) is None
    assert TICKET_S == 600


def test_only_this_user_can_read_the_secret(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    secret = secret_of(db)
    file = tmp_path / "t.duckdb.console"

    assert secret_of(db) == secret
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="not a secret of this user alone"):
        secret_of(db)


def test_the_cookie_is_kept_from_scripts_and_other_sites(console: RunningConsole) -> None:
    ticket = new_ticket(secret_of(console.db), "ana")
    answer = httpx.post(f"{console.url}/login", data={"ticket": ticket}, headers=_FORM)

    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/"))
    assert cookie.startswith(f"otel-agentic-{console.url.rpartition(':')[2]}=")


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "", "origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site", "origin": "null"},
    ],
)
def test_forms_of_other_sites_change_nothing(console: RunningConsole, headers: dict[str, str]) -> None:
    with console.session() as client:
        answer = client.post("/label", data={"id": "lyon-family-1.1.0-3", "verdict": "pass"}, headers=headers)
        votes = client.get("/conversation.json?id=lyon-family-1.1.0-3").json()["score"]["outcome"]

    assert (answer.status_code, votes) == (403, "fail")


def test_another_host_is_refused(console: RunningConsole) -> None:
    with console.session() as client:
        assert client.get("/", headers={"host": "evil.example"}).status_code == 403


def test_the_cookie_opens_no_command(console: RunningConsole, guarded: RunningConsole) -> None:
    with guarded.session() as client:
        answer = client.post("/v1/commands/report", json={})
    assert answer.status_code == 401


def test_a_token_opens_a_session_of_its_role(guarded: RunningConsole) -> None:
    with httpx.Client(base_url=guarded.url, headers=_FORM) as client:
        assert client.post("/login", data={"token": "wrong"}).status_code == 401
        assert client.post("/login", data={"token": "reader", "name": "Bo"}).status_code == 303
        assert "Bo (read-only)" in client.get("/").text
        for form in ("/label", "/case", "/acknowledge"):
            refused = client.post(form, data={"id": "x", "verdict": "pass", "record": "{}"})
            assert (refused.status_code, '<a href="/tools">Tools</a>' in refused.text) == (403, True)
        assert client.post("/logout").status_code == 200
        assert client.get("/").status_code == 401


def test_a_removed_token_ends_its_sessions(guarded: RunningConsole) -> None:
    tokens = guarded.db.with_name("tokens")
    with httpx.Client(base_url=guarded.url, headers=_FORM) as client:
        client.post("/login", data={"token": "reader"})
        assert client.get("/").status_code == 200
        tokens.write_text("another\n")
        deadline = time.monotonic() + 20
        while client.get("/").status_code != 401:
            assert time.monotonic() < deadline, "the session is still open"
            time.sleep(0.1)


def test_sessions_end_by_time_and_are_bounded() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    first = sessions.open("ana", "admin")
    for _ in range(30):
        now[0] += 1700
        if now[0] < 12 * 3600:
            assert sessions.find(first) is not None
    assert sessions.find(first) is None  # twelve hours

    idle = sessions.open("ana", "admin")
    now[0] += 1801
    assert sessions.find(idle) is None

    oldest = sessions.open("ana", "admin")
    for _ in range(1000):
        sessions.open("bo", "admin")
    assert sessions.find(oldest) is None


def test_without_the_console_its_paths_are_unknown(tmp_path: Path, empty_file: Path) -> None:
    db = tmp_path / "t.duckdb"
    db.write_bytes(empty_file.read_bytes())
    for running in serving(db, admin={"console": False}):
        assert httpx.get(f"{running.url}/").status_code == 404
        assert not db.with_name("t.duckdb.console").exists()
