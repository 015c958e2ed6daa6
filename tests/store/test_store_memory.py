"""Where readers take all the memory, arriving spans are stored all the same, and errors name the settings."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

import duckdb
import pytest

from otel_agentic.commands import LocalClient
from otel_agentic.commands.registry import Command, Context
from otel_agentic.config import Settings
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import StoreUnusableError
from otel_agentic.store import connection, writer
from otel_agentic.store.connection import processors
from otel_agentic.store.table import rows_with
from otel_agentic.testing import batch, span
from tests.store.store_queries import value
from tests.store.test_store_reopening import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from otel_agentic.commands.registry import CommandRole
    from otel_agentic.spans.model import Receipt, SpanBatch
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

#: A list of a hundred million texts: it is not put on the disk, so it grows until memory is at its limit.
GREEDY = "SELECT length(list(md5(i::VARCHAR))::VARCHAR) FROM range(100000000) numbers(i)"


def test_a_write_that_finds_no_memory_is_tried_again_and_loses_nothing(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(memory_limit_mb=100, temp_limit_mb=1)
    errors: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            try:
                with store.connection() as con:
                    con.execute(GREEDY).fetchall()
            except duckdb.Error as error:
                errors.append(type(error).__name__)
            except StoreUnusableError:
                time.sleep(0.01)

    queries = [threading.Thread(target=ask) for _ in range(2)]
    for thread in queries:
        thread.start()
    deadline = time.monotonic() + 20
    stored = 0
    try:
        while "no memory for a write" not in caplog.text and time.monotonic() < deadline:
            receipt = accepted(store, large(stored))
            stored += receipt.accepted + receipt.duplicate
    finally:
        done.set()
        for thread in queries:
            thread.join()

    assert stored == eventually(lambda: value(store, "SELECT count(*) FROM spans"))
    assert {"InterruptException", "OutOfMemoryException"} >= set(errors)


@pytest.mark.parametrize(("memory_limit_mb", "threads"), [(100, 1), (256, 1), (512, 2), (1 << 20, processors())])
def test_a_query_has_a_thread_for_each_256_mb(open_store: OpenStore, memory_limit_mb: int, threads: int) -> None:
    store = open_store(memory_limit_mb=memory_limit_mb)

    assert value(store, "SELECT current_setting('threads')") == min(threads, processors())


def test_a_query_on_arrays_that_needs_too_much_memory_fails_for_this_reason(open_store: OpenStore) -> None:
    store = open_store(memory_limit_mb=100, temp_limit_mb=1)

    with pytest.raises(duckdb.OutOfMemoryException), store.read() as con:
        rows_with(con, {"number": range(100)}, f"{GREEDY}, requested")


@pytest.mark.parametrize(("limits", "memory"), [({}, "91.5 MiB"), ({"memory_limit_mb": 256}, "244.1 MiB")])
def test_a_command_on_a_file_needs_less_memory_unless_the_settings_set_it(
    tmp_path: Path, limits: dict[str, int], memory: str
) -> None:
    settings = Settings.model_validate({"store": {"db": tmp_path / "t.duckdb", **limits}})
    with Engine(settings, create=True) as engine:
        assert value(engine.store, "SELECT current_setting('memory_limit')") == "244.1 MiB"

    with closing(LocalClient(settings, lambda *_: None)) as client:
        assert value(client.opened().store, "SELECT current_setting('memory_limit')") == memory


def greedy(context: Context) -> None:
    with context.engine.store.read() as con:
        con.execute(GREEDY)


def greedy_results(context: Context) -> Iterator[int]:
    yield 1
    greedy(context)


@pytest.mark.parametrize("function", [greedy, greedy_results])
def test_a_command_that_needs_too_much_memory_names_the_settings(
    tmp_path: Path, function: Callable[[Context], Iterator[int] | None]
) -> None:
    limits = {"db": tmp_path / "t.duckdb", "memory_limit_mb": 100, "temp_limit_mb": 1}
    command = Command(name="greedy", role="query", function=function)

    with Engine(Settings.model_validate({"store": limits}), create=True) as engine:
        message = r"command greedy: .* 100 MB of memory \(store.memory_limit_mb\)"
        with pytest.raises(StoreUnusableError, match=message):
            list(command.run(Context(engine), {}))
        with pytest.raises(StoreUnusableError, match=message):
            list(command.run_trusted(Context(engine)))


@pytest.mark.parametrize(("role", "runs"), [("query", 2), ("admin", 1)])
def test_a_command_that_reads_runs_again_where_others_took_the_memory(
    tmp_path: Path, role: CommandRole, runs: int
) -> None:
    run = []

    def function(context: Context) -> None:
        run.append(context.engine.memory_lock.locked())
        if len(run) == 1:
            greedy(context)

    limits = {"db": tmp_path / "t.duckdb", "memory_limit_mb": 100, "temp_limit_mb": 1}
    with Engine(Settings.model_validate({"store": limits}), create=True) as engine:
        with nullcontext() if role == "query" else pytest.raises(StoreUnusableError, match="memory_limit_mb"):
            Command(name="greedy", role=role, function=function).run(Context(engine), {})
        assert [False, True][:runs] == run
        assert not engine.memory_lock.locked()


def accepted(store: Store, sent: SpanBatch) -> Receipt:
    """Return the receipt of a batch that is sent until it is taken: without memory even a COMMIT may fail."""
    return eventually(lambda: store.accept(sent))


def large(number: int) -> SpanBatch:
    """Return fifty spans of 40 KB."""
    return batch(*(span(f"{number}-{part}", attributes={"x": os.urandom(20_000).hex()}) for part in range(50)))


def becomes(condition: Callable[[], bool]) -> bool:
    """Return whether a condition holds within ten seconds."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_a_checkpoint_returns_the_memory_of_what_was_read_and_keeps_the_limit(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_KEPT_MB", 1)
    monkeypatch.setattr(writer, "_IDLE_CHECKPOINT_S", 0.05)
    cached = "SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
    limit = "SELECT current_setting('memory_limit')"
    store = open_store(checkpoint_threshold_mb=1)
    store.accept(batch(*(span(str(number), status_message=secrets.token_hex(2_000)) for number in range(2_000))))
    assert becomes(lambda: not store._writer._checkpoints.has_log)
    before = value(store, limit)
    value(store, "SELECT sum(length(status_message)) FROM spans")
    assert value(store, cached) > 4_000_000
    store.accept(batch(span("last")))  # the next checkpoint follows, because nothing else arrives
    assert becomes(lambda: value(store, cached) < 2_000_000)
    assert before == value(store, limit)
