"""`otel-agentic doctor --live`: the state of a running collector."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Final

import pytest
from inline_snapshot import snapshot
from rich.cells import cell_len

from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import decode_document
from otel_agentic.spans.sanitize import Limits
from tests.cli.running import done, on_terminal, run
from tests.cli.small import conversation, request, spans_of
from tests.live.running_collector import eventually, live_settings, running
from tests.snapshots import opening, passage
from tests.store.test_store_reopening import fill, kill

LIMITS: Final = Limits.from_settings(ReceiveSettings())
_CALL: Final = ("look_up", {"order": "A1"}, '{"day": "Monday"}')


def test_a_file_that_no_collector_holds_is_reported_and_not_opened() -> None:
    ran = run("doctor", "--live", "--db", "t.duckdb")

    assert 5 == ran.code
    assert opening(ran.err) == snapshot(
        "otel-agentic: no collector holds t.duckdb; `otel-agentic serve --db t.duckdb` starts one"
    )
    assert not Path("t.duckdb").exists()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder to work in whose settings name a database that no collector holds, and an address without one."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as closed:  # its port is free again, and no other process uses it this soon
        monkeypatch.setenv("OTEL_AGENTIC_ADMIN__ADDRESS", f"127.0.0.1:{closed.getsockname()[1]}")
    return tmp_path


def test_without_arguments_the_collector_at_the_admin_address_is_asked(
    elsewhere: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(live_settings(tmp_path_factory.mktemp("other") / "t.duckdb")) as (_, addresses):
        monkeypatch.setenv("OTEL_AGENTIC_ADMIN__ADDRESS", addresses.admin.removeprefix("http://"))
        ran = done("doctor", "--live")

    assert passage(ran.out) == snapshot("the collector is ready")
    assert passage(ran.err, admin=addresses.admin) == snapshot(
        "no collector holds otel-agentic.duckdb; asking the one at <admin>"
    )


def test_without_arguments_the_collector_of_a_database_in_this_folder_is_asked(elsewhere: Path) -> None:
    with running(live_settings(elsewhere / "mine.duckdb")):
        ran = done("doctor", "--live", "--format", "json")
        with running(live_settings(elsewhere / "second.duckdb")):
            several = run("doctor", "--live")

    assert ran.json["collector"]["db"].endswith("mine.duckdb")
    assert "mine.duckdb" in ran.err
    assert (several.code, "mine.duckdb, second.duckdb" in several.err) == snapshot((2, True))


def test_without_a_collector_the_searched_addresses_are_reported(elsewhere: Path) -> None:
    ran = run("doctor", "--live")

    assert 5 == ran.code
    assert passage(ran.err) == snapshot("otel-agentic serve --db otel-agentic.duckdb")
    assert str(elsewhere) in ran.err
    assert not Path("otel-agentic.duckdb").exists()


def test_a_running_collector_tells_what_it_receives_and_what_went_wrong(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    bad = {**spans_of(conversation("c2"))[0], "traceId": "xx"}
    with running(live_settings(db)) as (live, addresses):
        assert passage(done("doctor", "--live", "--db", db).out) == snapshot(
            "no spans received yet: point the exporter at http://"
        )
        for item in (conversation("c1", calls=[_CALL], content=False), request([bad])):
            live.accept(decode_document(json.dumps(item).encode(), LIMITS))
        eventually(lambda: done("doctor", "--live", "--db", db, "--format", "json").json["turns"], 1)
        output = done("doctor", "--live", "--server", addresses.admin).out
        state = done("doctor", "--live", "--db", db, "--format", "json").json
        wide = {width: on_terminal(width, "doctor", "--live", "--db", str(db)) for width in (60, 80, 160)}

    assert opening(output) == snapshot("the collector is ready, since ")
    assert passage(output) == snapshot("2 spans and log records stored since then, 0 duplicate, 1 rejected")
    assert "\nwaiting: " in output
    assert "\nstore " in output
    assert ["shop", "shop-tracing", "genai", "genai", "2"] == line_with(output, "shop-tracing").split()[:5]
    assert passage(output) == snapshot(
        "queries: 0 of 1, answers: 0 of 1, arguments: 0 of 1, results: 0 of 1 — content capture is off: set "
    )
    assert "problems found\n  1 x " in output
    assert ("shop", "shop-tracing", "genai", 2) == tuple(
        state["spans"][0][name] for name in ("service", "scope", "dialect", "spans")
    )
    assert {"ready", "received", "reasons", "problems", "open_conversations"} <= set(state["collector"])
    assert {"why_not", "backlog", "queued_spans", "store_bytes", "log_bytes", "judge", "retention_problem"} <= set(
        state["collector"]
    )
    assert [] == [width for width, lines in wide.items() if any(cell_len(line) > width for line in lines)]


def test_a_collector_whose_store_is_away_says_why_and_shows_the_rest(tmp_path: Path) -> None:
    db = tmp_path / "t.duckdb"
    with running(live_settings(db)) as (live, addresses):
        with live.engine.store.connection():  # a reader that does not let go holds up the opening
            fill(live.engine.store)
            kill(live.engine.store)
            lines = on_terminal(80, "doctor", "--live", "--server", addresses.admin)
        eventually(lambda: live.ready, expected=True)

    assert opening(lines[0]) == snapshot("the collector does not accept spans; up since ")
    assert passage(" ".join(lines[1:3])) == snapshot("is being opened again")
    assert any(line.startswith("waiting: ") for line in lines)
    assert [] == [line for line in lines if cell_len(line) > 80]


def line_with(output: str, term: str) -> str:
    return next(line for line in output.splitlines() if term in line)
