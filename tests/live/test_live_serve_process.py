"""`serve` as a process of its own: signals, kills, and who holds the file."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import LocalClient, open_client
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import StoreBusyError
from otel_agentic.net.server_file import LiveServer, find_live_server, server_file
from otel_agentic.testing import NOON_NS, SECOND_NS, speak_genai
from tests.builders import ask_hotel, rows
from tests.cli.running import run
from tests.live.otlp_export import export
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.snapshots import passage

if TYPE_CHECKING:
    from otel_agentic.config import Settings

    Serve = Callable[..., subprocess.Popen[str]]

COMMAND = [sys.executable, "-m", "otel_agentic.cli", "serve"]
FREE_PORTS = ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


@pytest.fixture
def settings(db: Path) -> Settings:
    return live_settings(db)


@pytest.fixture
def serve(db: Path) -> Iterator[Serve]:
    """Start `serve` on the test's file; it is killed after the test if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, "--db", str(db), *FREE_PORTS, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()


def up(process: subprocess.Popen[str], db: Path) -> LiveServer:
    """Return the addresses of a collector once it answers."""
    deadline = time.monotonic() + 30
    while (result := find_live_server(db)) is None or result.pid != process.pid:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return result


@pytest.mark.slow  # its parts: tests/cli/test_cli_serve.py and tests/crash/test_crash_drain.py
def test_a_collector_answers_other_processes_until_sigterm_drains_it_and_removes_its_server_file(
    serve: Serve, db: Path, settings: Settings
) -> None:
    process = serve()
    result = up(process, db)
    export(result, speak_genai(ask_hotel()).spans)
    export(result, speak_genai(ask_hotel(None)).spans, "grpc")
    assert 8 == ask(settings, "query", sql="SELECT count(*) FROM spans")["rows"][0][0]
    _check_commands_reach(process, db, settings)

    process.send_signal(signal.SIGTERM)
    reported, _ = process.communicate(timeout=15)

    assert 0 == process.returncode
    assert passage(reported) == snapshot("stopping: writing accepted spans")
    assert [db.name] == [path.name for path in db.parent.iterdir()]
    with Engine(settings) as engine:
        assert [(8,)] == rows(engine, "SELECT count(*) FROM spans")


def test_a_taken_port_ends_with_exit_code_2_and_leaves_the_file_free(db: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sampled:
        address = f"127.0.0.1:{sampled.getsockname()[1]}"
        refused = run("serve", "--db", db, *FREE_PORTS, "--http", address)

    assert 2 == refused.code
    assert address in refused.lines[-1]
    assert "Traceback" not in refused.err
    assert not server_file(db).exists()
    duckdb.connect(str(db)).close()


@pytest.mark.slow  # the crash suite kills ten times
def test_a_kill_under_real_exporters_loses_nothing_that_was_acknowledged(
    serve: Serve, db: Path, settings: Settings
) -> None:
    acknowledged = 0
    for round_number in range(2):
        process = serve()
        result = up(process, db)
        for number in range(5):
            script = ask_hotel(f"c-{round_number}-{number}")
            export(
                result,
                speak_genai(script, start_ns=NOON_NS + acknowledged * SECOND_NS).spans,
                ("http", "grpc")[round_number],
            )
            acknowledged += 1
        process.kill()
        process.wait()

    client = open_client(settings, server=None)  # the file that names the killed one is still there
    assert isinstance(client, LocalClient)
    assert [[4 * acknowledged]] == client.call("query", sql="SELECT count(*) FROM spans")["rows"]
    client.close()
    with running(settings) as (live, _):
        eventually(
            lambda: rows(live.engine, "SELECT count(*) FROM conversations WHERE closed_by IS NOT NULL"),
            [(acknowledged,)],
        )


def _check_commands_reach(process: subprocess.Popen[str], db: Path, settings: Settings) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "otel_agentic.cli",
            "query",
            "SELECT count(*) AS n FROM spans",
            "--db",
            db,
            "--format",
            "json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0
    assert re.fullmatch(r"as of 20\S+Z\n", done.stderr)
    assert "8" in done.stdout
    with pytest.raises(StoreBusyError, match=f"process {process.pid}"):
        Engine(settings)
