"""Whether a collector takes spans, by its own word: each way in which it does not, and the way back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import QueryError
from otel_agentic.testing import batch, span, speak_genai
from tests.builders import CASE, ask_hotel
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import OPEN, eventually, live_settings, running
from tests.live.test_live_collector import gauge
from tests.snapshots import passage, raises
from tests.store.test_store_reopening import fill, full_disk, kill

if TYPE_CHECKING:
    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.net.server_file import LiveServer

QUIET: dict[str, Any] = {"windows": {"widths": ["1h"], "step_s": 3600}, "conversations": OPEN["conversations"]}


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "t.duckdb"


def answers(addresses: LiveServer) -> tuple[int, int, Any]:
    """Return the statuses of readiness and health, and the body of the first one without a token."""
    ready = httpx.get(f"{addresses.admin}/readyz")
    return ready.status_code, httpx.get(f"{addresses.admin}/healthz").status_code, ready.json()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveCollector, LiveServer]]:
    """A collector that keeps all and exports nothing; tests leave it as ready as it was."""
    with running(live_settings(tmp_path_factory.mktemp("quiet") / "t.duckdb", **QUIET)) as collector:
        yield collector


READY = (200, 200, {"ready": True})
NOT_READY = (503, 200, {"ready": False})


def state(addresses: LiveServer) -> dict[str, Any]:
    collector: dict[str, Any] = httpx.post(f"{addresses.admin}/v1/commands/live", json={}).json()["collector"]
    return collector


@contextmanager
def busy(live: LiveCollector) -> Iterator[None]:
    """Keep the writer at work, so that spans sent meanwhile wait."""
    begun, released = threading.Event(), threading.Event()

    def work(_: Any) -> None:
        begun.set()
        released.wait(30)

    thread = threading.Thread(target=live.engine.store.write, args=(work,))
    thread.start()
    assert begun.wait(10)
    try:
        yield
    finally:
        released.set()
        thread.join()


def test_a_collector_is_not_ready_while_its_store_is_opened_again(db: Path) -> None:
    with running(live_settings(db, **QUIET, store={"reopen_s": 0.1})) as (live, addresses):
        fill(live.engine.store)
        assert (READY, [1.0]) == (answers(addresses), gauge(addresses, "agentic_store_open"))
        with live.engine.store.connection():  # a reader that does not let go holds up the opening
            kill(live.engine.store)
            assert NOT_READY == answers(addresses)
            reported = httpx.post(f"{addresses.admin}/v1/commands/live", json={}).json()
            assert passage(reported["collector"]["why_not"]) == snapshot("is being opened again")
            assert passage(reported["store_error"]) == snapshot("is being opened again")
            eventually(lambda: gauge(addresses, "agentic_store_open"), [0.0])

        eventually(lambda: answers(addresses), READY)
        eventually(lambda: gauge(addresses, "agentic_store_open"), [1.0])
        assert [1.0] == gauge(addresses, "agentic_store_reopened_total")


def test_a_collector_is_not_ready_while_the_disk_is_full_and_is_again_once_it_can_write(db: Path) -> None:
    with running(live_settings(db, **QUIET)) as (live, addresses):
        fill(live.engine.store)
        with full_disk(live.engine.store.path):
            with pytest.raises(AssertionError, match="503"):
                export_once(addresses)
            assert NOT_READY == answers(addresses)
            assert "File too large" in state(addresses)["why_not"]

        assert 1 == live.accept(batch(span("later"))).accepted
        eventually(lambda: answers(addresses), READY)  # a write from before may still fail


def export_once(addresses: LiveServer) -> None:
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s","name":"%s"}]}]}]}' % (
        b"1" * 32,
        b"2" * 16,
        b"x" * 200_000,
    )
    answer = httpx.post(f"{addresses.http}/v1/traces", content=body, headers={"content-type": "application/json"})
    assert 200 == answer.status_code


def test_a_collector_is_not_ready_while_its_file_lies_elsewhere(quiet: tuple[LiveCollector, LiveServer]) -> None:
    live, addresses = quiet
    db = live.engine.store.path
    moved = db.with_name("moved.duckdb")
    db.rename(moved)
    assert NOT_READY == answers(addresses)
    moved.rename(db)
    assert READY == answers(addresses)


def test_a_collector_is_not_ready_while_its_queue_is_full(db: Path) -> None:
    settings = live_settings(db, **QUIET, store={"queue_batches": 1})
    with running(settings) as (live, addresses):
        with busy(live):
            waiting = threading.Thread(target=live.accept, args=(batch(span("one"), span("two")),))
            waiting.start()
            eventually(lambda: gauge(addresses, "agentic_queue_spans"), [2.0])
            assert (READY, [1.0]) == (answers(addresses), gauge(addresses, "agentic_queue_requests"))
            with pytest.raises(AssertionError, match="503"):
                export_once(addresses)
            assert NOT_READY == answers(addresses)
            assert state(addresses)["why_not"] == snapshot("2 spans wait to be written: the queue is full")
            refused = {"agentic_transport": "otlp_http", "agentic_reason": "unavailable"}
            assert [1.0] == gauge(addresses, "agentic_ingest_refused_total", **refused)
            eventually(lambda: gauge(addresses, "agentic_collector_ready"), [0.0])
        waiting.join()
        eventually(lambda: answers(addresses), READY)
        eventually(lambda: gauge(addresses, "agentic_queue_spans"), [0.0])


class AwaitedLock:
    """A lock that reports a waiting thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.awaited = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_collector_is_not_ready_while_it_stops_and_says_so(db: Path) -> None:
    settings = live_settings(db, **QUIET, retention={"export": True, "every_s": 0.05})
    with running(settings) as (live, addresses):
        stopping = threading.Thread(target=live.stop)
        lock = live.engine.retention_lock = AwaitedLock()  # type: ignore[assignment]  # used as a context manager only
        with lock:  # the next round of exports waits for it, and the stop for that round
            assert lock.awaited.wait(10)
            stopping.start()
            eventually(lambda: answers(addresses), NOT_READY)
            assert live._state()["why_not"] == snapshot("the collector is stopping")
        stopping.join()


def test_waiting_work_is_reported_by_stage(db: Path) -> None:
    patient = {"conversations": {**OPEN["conversations"], "turn_idle_s": 2.0}}
    with running(live_settings(db, **{**QUIET, **patient}), cases=[("cases.jsonl", CASE)]) as (live, addresses):
        live.assembler.stop()
        export(addresses, speak_genai(ask_hotel(), start_ns=just_now()).spans)
        eventually(lambda: gauge(addresses, "agentic_pipeline_backlog", agentic_stage="read"), [1.0])
        live.assembler.tick()  # reads the trace; its turn is over two seconds after it came
        eventually(lambda: state(addresses)["backlog"], {"read": 0, "rebuild": 1, "score": 0})
        live.assembler.tick()
        eventually(lambda: state(addresses)["backlog"], {"read": 0, "rebuild": 0, "score": 0})


def test_commits_sizes_queries_and_the_share_of_background_work_are_measured(db: Path) -> None:
    with running(live_settings(db, **QUIET)) as (live, addresses):
        assert 1 == live.accept(batch(span("one"))).accepted
        assert gauge(addresses, "agentic_store_commit_duration_seconds_count") == [1.0]
        for part, file in (("data", db), ("log", db.with_name("t.duckdb.wal"))):

            def reported_size_is_current(
                part: str = part, file: Path = file
            ) -> bool:  # background work may write in between
                reported = gauge(addresses, "agentic_store_size_bytes", agentic_store_part=part)
                return reported == [float(file.stat().st_size)]

            eventually(reported_size_is_current, expected=True)

        query_thread = threading.Thread(target=endless_query, args=(live,))
        query_thread.start()
        eventually(lambda: gauge(addresses, "agentic_query_running"), [1.0])
        live.engine.store.user_queries.end_all("the test has seen it")
        query_thread.join()
        eventually(lambda: gauge(addresses, "agentic_query_running"), [0.0])

        def pressed() -> bool:
            live.engine.pressure.arrived()
            live.engine.pressure.answered(1.0)  # a sender waited for a second
            return gauge(addresses, "agentic_background_share_ratio")[0] < 0.5

        eventually(pressed, expected=True)


def endless_query(live: LiveCollector) -> None:
    with raises(QueryError, snapshot("the test has seen it")):
        live.run("query", {"sql": "SELECT count(*) FROM range(10000000) a, range(10000000) b"})


def test_refused_requests_are_counted_by_transport_and_status(quiet: tuple[LiveCollector, LiveServer]) -> None:
    _, addresses = quiet
    httpx.post(f"{addresses.http}/v1/traces", content=b"{", headers={"content-type": "application/json"})
    send_nonsense(str(addresses.grpc))
    for transport in ("otlp_http", "otlp_grpc"):
        labels = {"agentic_transport": transport, "agentic_reason": "invalid_argument"}
        assert [1.0] == gauge(addresses, "agentic_ingest_refused_total", **labels), transport


def send_nonsense(address: str) -> None:
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 — ships no types; for one test

    with grpc.insecure_channel(address.removeprefix("http://")) as channel:
        method = channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")
        with pytest.raises(grpc.RpcError):
            method(b"\xff", timeout=10)


def test_a_failing_export_is_reported_until_it_succeeds(db: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.write_text("a file where a folder should be")
    retention = {"export": True, "export_folder": folder, "every_s": 0.1}
    with running(live_settings(db, **QUIET, retention=retention)) as (live, addresses):
        assert 1 == live.accept(batch(span("one"))).accepted
        eventually(lambda: gauge(addresses, "agentic_retention_failing"), [1.0])
        assert str(folder) in state(addresses)["retention_problem"]
        folder.unlink()
        eventually(lambda: gauge(addresses, "agentic_retention_failing"), [0.0])


def test_a_collector_that_keeps_all_and_exports_nothing_has_no_series_about_it(
    quiet: tuple[LiveCollector, LiveServer],
) -> None:
    assert [] == gauge(quiet[1], "agentic_retention_failing")
