"""Closed hours as Parquet files: whole, true to the store, readable by any process at any time."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.engine.retention import ExportCounts, HourlyExport
from otel_agentic.live.loops import RetentionLoop
from otel_agentic.store.maintenance.export import exchange
from otel_agentic.testing import NOON_NS
from tests.builders import CASE
from tests.engine.retention_engine import Clock, conversation_ids, retaining_engine, store_talk, talk
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.snapshots import passage, raises

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine

EXPORT: Final = {"export": True}


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An engine that exports and keeps two hours."""
    with retaining_engine(tmp_path / "t.duckdb", clock, retention=EXPORT) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where its files are."""
    return tmp_path / "t.duckdb.export"


def exported(engine: Engine) -> ExportCounts:
    return HourlyExport(engine).run()


def read(sql: str, folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows of a query of a DuckDB of its own."""
    with duckdb.connect() as con:
        return con.execute(sql.replace("$folder", str(folder))).fetchall()


def spans_in(folder: Path) -> list[tuple[Any, ...]]:
    """Return conversation id and number of spans in the export."""
    sql = "SELECT conversation_id, count(*) FROM '$folder/spans/**/*.parquet' WHERE conversation_id IS NOT NULL GROUP BY ALL ORDER BY ALL"
    return read(sql, folder)


def files_in(folder: Path, table: str = "spans") -> list[str]:
    return sorted(path.relative_to(folder / table).as_posix() for path in (folder / table).rglob("*.parquet"))


def test_an_hour_is_written_once_it_is_closed(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "first", 0)
    store_talk(engine, "second", 1)

    clock.at(0.9)
    assert 0 == exported(engine).hours
    clock.at(1.9)
    assert 3 == exported(engine).hours

    assert ["day=2026-05-29/hour-12.parquet"] == files_in(folder)
    assert [("first",)] == read("SELECT conversation_id FROM '$folder/conversations/**/*.parquet'", folder)
    assert 0 == exported(engine).hours


def test_an_hour_in_which_a_conversation_is_open_waits(engine: Engine, clock: Clock, folder: Path) -> None:
    engine.store.accept(talk("open", 0))
    engine.rebuilder.rebuild(engine.rebuilder.read(engine.rebuilder.pending()), lambda _: None)
    clock.at(5)

    exported(engine)

    assert not folder.exists()


def test_names_types_and_rows_are_those_of_the_store(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
    clock.at(1.5)
    exported(engine)

    for table in ("spans", "log_records", "conversations", "turns", "tool_calls", "scores", "results"):
        file = f"'{folder}/{table}/**/*.parquet', hive_partitioning = false"
        described = read(f"DESCRIBE SELECT * FROM read_parquet({file})", folder)  # noqa: S608 — a folder of the test
        with engine.store.read() as con:
            own = con.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()  # noqa: S608 — the names above
            stored = con.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()  # noqa: S608 — the same
        assert [row[:2] for row in own] == [row[:2] for row in described], table
        assert stored == read(f"SELECT * FROM read_parquet({file}) ORDER BY ALL", folder), table  # noqa: S608 — the same


def test_files_are_compressed_with_zstd_and_sorted_by_time(engine: Engine, clock: Clock, folder: Path) -> None:
    for index in (3, 1, 2):
        store_talk(engine, f"c-{index}", index / 10)
    clock.at(1.5)
    exported(engine)

    starts = [start for (start,) in read("SELECT start_time FROM '$folder/spans/**/*.parquet'", folder)]
    assert sorted(starts) == starts
    assert [("ZSTD",)] == read(
        "SELECT DISTINCT compression FROM parquet_metadata('$folder/spans/**/*.parquet')", folder
    )


def test_a_late_span_has_its_hour_written_again(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "first", 0)
    clock.at(1.5)
    exported(engine)

    store_talk(engine, "late", 0.5)
    assert 3 == exported(engine).hours

    assert ["day=2026-05-29/hour-12.parquet"] == files_in(folder)
    assert [("first", 3), ("late", 3)] == spans_in(folder)


def test_a_score_that_changes_has_its_hour_written_again(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    exported(engine)

    Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
    assert 1 == exported(engine).hours

    sql = "SELECT c.conversation_id, s.label FROM '$folder/conversations/**/*.parquet' c JOIN '$folder/scores/**/*.parquet' s USING (environment, conversation_id, revision) WHERE s.name = 'agentic.conversation'"
    assert [("c", "pass")] == read(sql, folder)


def test_what_retention_removed_stays_in_an_hour_that_is_written_again(
    engine: Engine, clock: Clock, folder: Path
) -> None:
    store_talk(engine, "gone", 0)
    clock.at(2.5)
    RetentionLoop(engine).round()
    assert [] == conversation_ids(engine)

    store_talk(engine, "late", 0.4)
    RetentionLoop(engine).round()

    assert [("gone", 3), ("late", 3)] == spans_in(folder)
    assert [("gone",), ("late",)] == read(
        "SELECT conversation_id FROM '$folder/conversations/**/*.parquet' ORDER BY ALL", folder
    )
    assert [("gone",), ("late",)] == read(
        "SELECT conversation_id FROM '$folder/turns/**/*.parquet' ORDER BY ALL", folder
    )


def test_what_was_removed_changes_nothing_that_was_exported(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "one", 0)
    store_talk(engine, "two", 0.6)
    Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
    clock.at(2.5)
    wrote, removed_counts = RetentionLoop(engine).round()
    assert wrote is not None
    assert removed_counts is not None
    assert (3, 1) == (wrote.hours, removed_counts.conversations)

    assert 0 == exported(engine).hours


def test_nothing_is_removed_before_its_hour_was_exported(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    folder.write_text("no folder")
    clock.at(2.5)

    wrote, removed_counts = RetentionLoop(engine).round()

    assert wrote is not None
    assert passage(str(wrote.problem)) == snapshot("could not be exported")
    assert not removed_counts
    assert ["c"] == conversation_ids(engine)

    folder.unlink()
    _, removed_counts = RetentionLoop(engine).round()
    assert removed_counts
    assert [("c", 3)] == spans_in(folder)


def test_the_hours_of_a_day_are_put_into_one_file(engine: Engine, clock: Clock, folder: Path) -> None:
    for number in range(3):
        store_talk(engine, f"c-{number}", number * 2)
    clock.at(12.9)
    exported(engine)
    assert 3 == len(files_in(folder))

    clock.at(14)
    assert 3 == exported(engine).days

    assert ["day=2026-05-29/day.parquet"] == files_in(folder)
    assert ["day=2026-05-29/day.parquet"] == files_in(folder, "tool_calls")
    assert [(f"c-{index}", 3) for index in range(3)] == spans_in(folder)
    assert (0, 0) == (exported(engine).hours, exported(engine).days)
    assert not (folder / ".work").exists()


@pytest.mark.slow  # of an hour: a test above
def test_a_late_span_of_a_day_in_one_file_is_in_that_file(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c-0", 0)
    store_talk(engine, "c-2", 2)
    clock.at(14)
    RetentionLoop(engine).round()
    assert ["day=2026-05-29/day.parquet"] == files_in(folder)

    store_talk(engine, "late", 1)
    RetentionLoop(engine).round()

    assert ["day=2026-05-29/day.parquet"] == files_in(folder)
    assert [("c-0", 3), ("c-2", 3), ("late", 3)] == spans_in(folder)


def test_a_removed_file_is_written_again(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    exported(engine)
    (folder / "spans" / "day=2026-05-29" / "hour-12.parquet").unlink()

    exported(engine)

    assert [("c", 3)] == spans_in(folder)


def test_what_a_process_that_died_left_half_written_is_cleared(engine: Engine, clock: Clock, folder: Path) -> None:
    half = folder / ".work" / "0123" / "hour-12.parquet"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"PAR1 half")
    store_talk(engine, "c", 0)
    clock.at(1.5)

    exported(engine)

    assert not half.exists()
    assert [("c", 3)] == spans_in(folder)


def test_a_damaged_file_is_named_and_stays_as_it_is(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    exported(engine)
    file = folder / "spans" / "day=2026-05-29" / "hour-12.parquet"
    file.write_bytes(b"damaged")
    store_talk(engine, "late", 0.5)

    problem = exported(engine).problem

    assert problem is not None
    assert "hour-12.parquet" in problem
    assert b"damaged" == file.read_bytes()


@contextmanager
def limited_file_size(size_bytes: int) -> Iterator[None]:
    """Let this process write no file beyond a size; Python ignores the signal, so that the write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of file sizes are those of Linux")
def test_a_file_that_cannot_be_written_whole_is_absent_and_is_tried_again(
    engine: Engine, clock: Clock, folder: Path
) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    HourlyExport(engine).look()
    with limited_file_size(200):
        problem = exported(engine).problem

    assert problem is not None
    assert passage(problem) == snapshot("could not be exported")
    assert [] == list(folder.rglob("*.parquet*"))
    assert exported(engine).problem is None
    assert [("c", 3)] == spans_in(folder)


READER: Final = """
import duckdb, sys
from pathlib import Path
folder, stop = sys.argv[1:]
print("ready", flush=True)
seen, rounds = set(), 0
while not Path(stop).exists():
    with duckdb.connect() as con:
        seen |= set(con.execute(f"SELECT count(*) FROM '{folder}/spans/**/hour-*.parquet'").fetchall()[0])
    rounds += 1
print(sorted(seen), rounds >= 3)
"""


@pytest.mark.slow
def test_another_process_reads_while_files_are_replaced(
    engine: Engine, clock: Clock, folder: Path, tmp_path: Path
) -> None:
    store_talk(engine, "c-0", 0)
    clock.at(1.2)
    exported(engine)
    stop = tmp_path / "stop"
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(folder), str(stop)], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert "ready" == reader.stdout.readline().strip()
        for index in range(1, 6):
            store_talk(engine, f"c-{index}", index / 100)
            exported(engine)
        stop.touch()
        line_of_reader = reader.stdout.readline().strip()

    recorded, enough = line_of_reader.rsplit(" ", 1)
    assert {int(count) for count in recorded.strip("[]").split(", ")} <= {4 * number for number in range(1, 7)}, (
        line_of_reader
    )
    assert "True" == enough


def test_an_open_reader_goes_on_with_what_it_opened(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    exported(engine)
    file = folder / "spans" / "day=2026-05-29" / "hour-12.parquet"
    with file.open("rb") as held:
        before = os.fstat(held.fileno()).st_size
        store_talk(engine, "late", 0.5)
        exported(engine)

        assert before == len(held.read())
    assert before < file.stat().st_size


@pytest.mark.skipif(sys.platform != "linux", reason="folders change places on Linux")
def test_folders_change_places_at_one_moment(tmp_path: Path) -> None:
    item, other = tmp_path / "one", tmp_path / "other"
    for path in (item, other):
        path.mkdir()
        (path / "says").write_text(path.name)
    missed: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            if not other.is_dir():
                missed.append("gone")

    watcher = threading.Thread(target=look)
    watcher.start()
    done = [exchange(item, other) for _ in range(51)]
    stop.set()
    watcher.join()

    assert {True} == set(done)
    assert ("other", "one") == ((item / "says").read_text(), (other / "says").read_text())
    assert [] == missed


def test_a_folder_that_is_not_there_cannot_change_places(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()

    assert not exchange(tmp_path / "one", tmp_path / "nowhere")


def test_users_sql_reads_the_folder_and_no_other(engine: Engine, clock: Clock, folder: Path, tmp_path: Path) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    exported(engine)
    other = tmp_path / "other.parquet"
    read(f"COPY (SELECT 1 AS a) TO '{other}'", folder)

    answer = Commands(engine).query(sql=f"SELECT count(*) FROM read_parquet('{folder}/spans/**/*.parquet')")  # noqa: S608 — a folder of the test

    assert [[4]] == answer["rows"]
    with raises(Exception, snapshot("files of the export only")):
        Commands(engine).query(sql=f"SELECT * FROM read_parquet('{other}')")  # noqa: S608 — same


def test_a_running_collector_exports_by_itself(tmp_path: Path, folder: Path) -> None:
    db = tmp_path / "t.duckdb"
    with retaining_engine(db, Clock(), retention={"keep": None}) as engine:
        store_talk(engine, "c", 0)
    result = live_settings(db, retention={"export": True, "every_s": 0.05})
    with running(result):
        eventually(lambda: ask(result, "store_stats")["export"]["written"], 3)

        assert [("c", 3)] == spans_in(folder)


def test_times_that_a_clock_made_up_have_their_own_days(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "old", -NOON_NS / 3_600_000_000_000, ahead=True)
    clock.at(1.5)
    exported(engine)

    assert ["day=1970-01-01/day.parquet"] == files_in(folder)
