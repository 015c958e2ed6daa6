"""Queries that take all they can, put to a real collector over HTTP: it keeps its memory, its spans and its stop."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.crash.outcome import lost_or_doubled
from tests.crash.sending import acknowledged, sending
from tests.crash.test_crash_drain import PATIENCE_S, stop
from tests.live.running_collector import eventually
from tests.store.store_queries import run_python
from tests.store.test_store_query_limits import BOMBS, ENDLESS, children

if TYPE_CHECKING:
    from tests.crash.conftest import MakeServer
    from tests.crash.serving import Server

MEGABYTE = 1_000_000
#: A call of minutes that DuckDB does not look up from, in little memory.
DEAF = "SELECT levenshtein(repeat('x', 1000000), repeat('y', 1000000))"


def resident_bytes(server: Server) -> int:
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def post(server: Server, sql: str) -> httpx.Response:
    url = f"http://{server.admin}/v1/commands/query"
    return httpx.post(url, json={"sql": sql}, timeout=120, trust_env=False)


@pytest.mark.parametrize(
    "names",
    [("flatten",), pytest.param(tuple(BOMBS), marks=pytest.mark.slow)],
    ids=["one", "all"],
)
def test_bombs_are_refused_while_spans_are_stored_and_the_collector_hardly_grows(
    make_server: MakeServer, names: tuple[str, ...]
) -> None:
    server = make_server(STORE__QUERY_TIMEOUT_S=1.0, STORE__QUERY_MEMORY_MB=300)
    server.start()
    assert 200 == post(server, "SELECT 1").status_code
    before, most = resident_bytes(server), 0
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.02):
            most = max(most, resident_bytes(server))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        answers = {name: post(server, BOMBS[name]) for name in names}
    finally:
        done.set()
        watching.join()

    assert dict.fromkeys(names, (400, "QueryError")) == {
        name: (answer.status_code, answer.json()["error"]) for name, answer in answers.items()
    }
    assert most - before < 64 * MEGABYTE
    with sending(f"http://{server.http}", server.grpc) as senders:
        pass
    stop(server)
    assert [] == lost_or_doubled(server.db, acknowledged(senders))


@pytest.mark.parametrize(
    "name", ["replace", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cross join", "levenshtein"))]
)
def test_a_stop_in_the_middle_of_a_bomb_ends_it_and_exits_with_0(make_server: MakeServer, name: str) -> None:
    server = make_server(STORE__QUERY_TIMEOUT_S=600, STORE__QUERY_MEMORY_MB=2000)
    server.start()
    answers: list[httpx.Response | httpx.HTTPError] = []

    def ask() -> None:
        try:
            answers.append(post(server, BOMBS[name]))
        except httpx.HTTPError as error:
            answers.append(error)

    request = threading.Thread(target=ask)
    request.start()
    eventually(lambda: len(children(server.process.pid)), 1)
    (query,) = children(server.process.pid)
    stop(server)
    request.join()

    assert not Path(f"/proc/{query}").exists()
    (answer,) = answers
    assert isinstance(answer, httpx.HTTPError) or "the collector is stopping" in answer.text
    assert "Traceback" not in server.log


@pytest.mark.slow  # that of any killed process is in tests/store/test_store_query_limits.py
def test_a_killed_collector_leaves_no_query_behind(make_server: MakeServer) -> None:
    server = make_server(STORE__QUERY_TIMEOUT_S=600)
    server.start()

    def ask() -> None:
        with pytest.raises(httpx.HTTPError):
            post(server, ENDLESS)

    request = threading.Thread(target=ask)
    request.start()
    eventually(lambda: len(children(server.process.pid)), 1)
    (query,) = children(server.process.pid)
    server.kill()
    request.join()

    eventually(Path(f"/proc/{query}").exists, expected=False)


def test_a_report_that_does_not_hear_an_interrupt_holds_up_no_stop_and_aborts_no_process(tmp_path: Path) -> None:
    process = run_python(
        """
        import sys
        import threading
        from otel_agentic.cli import main
        from otel_agentic.live import collector as live

        class Reporting(live.LiveCollector):
            def start(self):
                threading.Thread(target=self.report, daemon=True).start()
                return super().start()

            def report(self):
                with self.engine.store.read() as con:
                    con.execute(sys.argv[1])

        live.LiveCollector = Reporting
        ports = [f"--{name}=127.0.0.1:0" for name in ("grpc", "http", "admin")]
        main(["serve", "--db", sys.argv[2], *ports])
        """,
        DEAF,
        tmp_path / "t.duckdb",
        stderr=-2,
    )
    assert process.stdout is not None
    output = ""
    while "telemetry" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=PATIENCE_S)

    assert 0 == process.returncode, rest
    assert "terminate" not in rest
