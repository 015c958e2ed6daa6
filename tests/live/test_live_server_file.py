"""One collector per file: a second one is refused with the id of the first, and the server file of a dead one misleads no client."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from otel_agentic.engine.engine import Engine
from otel_agentic.errors import StoreBusyError
from otel_agentic.net.server_file import (
    LiveServer,
    find_live_server,
    process_mark,
    remove_server_file,
    server_file,
    write_server_file,
)
from tests.builders import rows
from tests.cli.running import run
from tests.store.store_queries import run_python
from tests.stores import settings_for

HERE = LiveServer(
    pid=os.getpid(), admin="http://127.0.0.1:9", http=None, grpc=None, started_at="", process=process_mark(os.getpid())
)
COMMAND = [sys.executable, "-m", "otel_agentic.cli"]
PORTS = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def test_a_running_collector_is_found_by_every_name_of_its_file(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_server_file(db, HERE)
    db.touch()
    link = db.with_name("link.duckdb")
    link.symlink_to(db)
    monkeypatch.chdir(db.parent)

    assert [HERE] * 3 == [find_live_server(path) for path in (db, link, type(db)("t.duckdb"))]
    remove_server_file(link)
    assert not server_file(db).exists()


@pytest.mark.skipif(not process_mark(os.getpid()), reason="this system does not report the start time of a process")
def test_a_process_that_was_given_the_id_of_a_dead_collector_is_not_taken_for_it(db: Path) -> None:
    write_server_file(db, replace(HERE, process="another boot-1"))

    assert find_live_server(db) is None


def test_two_processes_have_two_marks() -> None:
    with run_python("input()") as other:
        assert process_mark(other.pid) != process_mark(os.getpid()) or not process_mark(os.getpid())
        other.communicate("\n")
    assert "" == process_mark(2**22 + 1)


def test_ingest_is_not_misled_by_the_file_of_a_dead_collector(db: Path, tmp_path: Path) -> None:
    Engine(settings_for(db), create=True).close()
    write_server_file(db, replace(HERE, process="another boot-1"))
    spans = tmp_path / "spans.jsonl"
    spans.write_text('{"resourceSpans": []}\n')

    ingested = run("ingest", str(spans), "--db", db)

    assert (0, "") == (ingested.code, ingested.err)


def test_a_file_is_one_file_by_a_link_too(db: Path) -> None:
    link = db.with_name("link.duckdb")
    with Engine(settings_for(db), create=True) as engine:
        link.symlink_to(db)
        with pytest.raises(StoreBusyError):
            Engine(settings_for(link))
        assert [(0,)] == rows(engine, "SELECT count(*) FROM spans")
    with Engine(settings_for(link)) as engine:
        assert db == engine.store.path


@pytest.mark.slow  # that a second one is refused is also in tests/cli/test_cli_serve.py
def test_of_two_collectors_that_start_at_once_one_runs_and_the_other_names_it(db: Path) -> None:
    started = [
        subprocess.Popen(
            [*COMMAND, "serve", "--db", str(db), *PORTS], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        lines = [process.stdout.readline() for process in started if process.stdout]
        ended = [number for number, line in enumerate(lines) if "is held by process" in line]
        assert 1 == len(ended), lines  # a traceback would be the first line
        winner, loser = started[1 - ended[0]], started[ended[0]]
        assert f"process {winner.pid}" in lines[ended[0]]
        assert 4 == loser.wait(30)
        assert winner.poll() is None
        assert (collector := find_live_server(db)) is None or collector.pid == winner.pid
    finally:
        for process in started:
            with process:
                process.kill()


@pytest.mark.parametrize("pid", ["0", "-1", '"1"', "null"])
def test_a_file_without_the_id_of_a_process_names_no_collector(db: Path, pid: str) -> None:
    server_file(db).write_text(
        f'{{"pid": {pid}, "admin": "http://127.0.0.1:9", "http": null, "grpc": null, "started_at": ""}}'
    )

    assert find_live_server(db) is None
