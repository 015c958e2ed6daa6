"""What a request to a collector may take: queries are few at once, and no path of the server is opened."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from otel_agentic import LiveCollector, load_settings
from otel_agentic.errors import OverloadedError, QueryError, UsageError
from tests.live.running_collector import eventually, live_settings, running
from tests.snapshots import raises


def test_a_query_beyond_the_slots_is_refused_until_one_is_free(tmp_path: Path) -> None:
    settings = load_settings(store={"db": tmp_path / "live.duckdb", "query_timeout_s": 1.5}, admin={"query_slots": 1})
    live = LiveCollector(settings, collectors=())
    try:
        running = threading.Thread(target=_ignoring_timeout, args=(live,))
        running.start()
        with raises(OverloadedError, snapshot("1 queries are running already (admin.query_slots)")):
            _until_refused(live)
        running.join()
        assert live.run("query", {"sql": "SELECT 1 AS one"})["rows"] == [[1]]
    finally:
        live.stop()


def test_an_asker_that_closes_its_connection_frees_its_slot(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "t.duckdb", admin={"query_slots": 1, "address": "127.0.0.1:0"})
    with running(settings) as (live, addresses):
        sql = b'{"sql": "SELECT count(*) FROM range(10000000) a, range(10000000) b"}'
        host, port = addresses.admin.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as asker:
            head = f"POST /v1/commands/query HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
            asker.sendall(f"{head}content-length: {len(sql)}\r\n\r\n".encode() + sql)
            eventually(lambda: len(live.engine.store.user_queries.running), 1)

        eventually(lambda: _rows_or_refusal(live), [[1]])


@pytest.fixture(scope="module")
def one_slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCollector]:
    """A collector that runs one query at a time, without receivers."""
    db = tmp_path_factory.mktemp("slots") / "t.duckdb"
    live = LiveCollector(live_settings(db, admin={"query_slots": 1}), collectors=())
    try:
        yield live
    finally:
        live.stop()


def test_a_query_that_fails_frees_its_slot(one_slot: LiveCollector) -> None:
    for sql in ("SELECT nothing", "DELETE FROM spans", "SELECT len(range(10000000000))", "\ud800", ""):
        with pytest.raises(QueryError):  # OverloadedError if the query before it kept the slot
            one_slot.run("query", {"sql": sql})
    assert [[1]] == one_slot.run("query", {"sql": "SELECT 1 AS one"})["rows"]


def _rows_or_refusal(live: LiveCollector) -> object:
    try:
        return live.run("query", {"sql": "SELECT 1 AS one"})["rows"]
    except OverloadedError as refusal:
        return refusal


def _until_refused(live: LiveCollector) -> None:
    for _ in range(1000):
        live.run("query", {"sql": "SELECT 1"})


def _ignoring_timeout(live: LiveCollector) -> None:
    with pytest.raises(QueryError, match="took longer than"):
        live.run("query", {"sql": "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"})


@pytest.mark.parametrize(
    "name", ["secret.json", "/etc/shadow", "/no/such.json", "/root", "/dev/zero", "../up.json", "a/b"]
)
def test_a_gate_opens_no_path_that_a_request_names(one_slot: LiveCollector, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.json").write_text("{")
    with raises(UsageError, snapshot("name one in the store, or send the content of the file as `baseline`")):
        one_slot.run("gate", {"conditions": {"baseline": str(tmp_path / name), "min_success": 0.1}})
