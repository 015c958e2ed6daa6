"""A console on the demo's recordings: a running collector without receivers, and a client with a session."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from otel_agentic.live.collector import LiveCollector
from otel_agentic.net.tickets import new_ticket, secret_of
from tests.demo_store import evaluated_demo
from tests.stores import PreparedStore, settings_for


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningConsole:
    """A console: its URL and its store."""

    url: str
    db: Path

    def session(self, annotator: str = "ana") -> httpx.Client:
        """Return a client with a session of an annotator."""
        headers = {"sec-fetch-site": "same-origin"}
        ticket = new_ticket(secret_of(self.db), annotator)
        answer = httpx.post(f"{self.url}/login", data={"ticket": ticket}, headers=headers)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        return httpx.Client(base_url=self.url, headers=headers, cookies=answer.cookies, timeout=30)

    def run(self, command: str, **arguments: Any) -> Any:
        """Return the result of a command: what a page needs besides would be most of the cost of a test."""
        answer = httpx.post(f"{self.url}/v1/commands/{command}", json=arguments, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()


def serving(db: Path, **sections: Any) -> Iterator[RunningConsole]:
    """Serve the console of a store on a free port."""
    admin = {"address": "127.0.0.1:0"} | sections.pop("admin", {})
    settings = settings_for(db, admin=admin, **sections)
    collector = LiveCollector(settings, ())
    server = collector.start()
    try:
        yield RunningConsole(url=server.admin, db=db)
    finally:
        assert collector.stop()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages wait for their reports, which take seconds where other tests use the processors."""
    monkeypatch.setattr("otel_agentic.console.app._PATIENCE_S", 60.0)


@pytest.fixture(scope="session")
def demo_file(prepared_store: PreparedStore) -> Path:
    """Return the demo's store, which tests copy and do not change."""
    return prepared_store(evaluated_demo)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, demo_file: Path) -> Iterator[RunningConsole]:
    """Serve the console of the demo's store."""
    yield from serving(Path(shutil.copy(demo_file, tmp_path_factory.mktemp("console") / "demo.duckdb")))


@pytest.fixture
def session(console: RunningConsole) -> Iterator[httpx.Client]:
    """Return a client with a session."""
    with console.session() as client:
        yield client


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, empty_file: Path) -> Iterator[RunningConsole]:
    """Serve the console of a store without spans."""
    db = tmp_path_factory.mktemp("empty-console") / "empty.duckdb"
    shutil.copy(empty_file, db)
    yield from serving(db)
