"""What goes wrong around retention, export and import holds up nothing else and loses nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.store import find_files, send
from otel_agentic.commands import Commands
from otel_agentic.engine.retention import HourlyExport, RetentionPass
from otel_agentic.errors import BadInputError
from otel_agentic.testing import NOON_NS, batch, span
from tests.builders import feed, rows
from tests.commands.test_commands_import import Local, export, silent
from tests.engine.retention_engine import HOUR_NS, Clock, conversation_ids, retaining_engine, row_counts, store_talk
from tests.engine.test_engine_exports import spans_in
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine

#: The latest time that a span may have.
LAST_NS: Final = 2**63 - 2
KEEP_NS: Final = 2 * HOUR_NS


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An engine that exports and keeps two hours."""
    with retaining_engine(tmp_path / "t.duckdb", clock, retention={"export": True}) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where its files are."""
    return tmp_path / "t.duckdb.export"


def test_a_trace_that_ends_with_time_itself_does_not_hold_up_retention(tmp_path: Path, clock: Clock) -> None:
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        store_talk(engine, "c", 0)
        store_talk(engine, "other", 0.1)
        engine.store.write(
            lambda con: con.execute(
                "INSERT INTO trace_links BY NAME SELECT * REPLACE (md5('hostile') AS trace_id, make_timestamp_ns($last) AS "
                "ended_at) FROM trace_links WHERE conversation_id = 'c'",
                {"last": LAST_NS},
            )
        )
        clock.at(5)

        assert 2 == RetentionPass(engine, KEEP_NS).run().conversations
        assert {} == row_counts(engine)


def test_the_last_day_of_time_is_exported_like_any_other(engine: Engine, tmp_path: Path) -> None:
    feed(engine, span("last", start_ns=LAST_NS, end_ns=LAST_NS))

    result = export(engine, tmp_path / "out")

    assert 1 == result.tables["spans"]
    assert (tmp_path / "out" / "spans" / "day=2262-04-11" / "day.parquet").is_file()


def test_what_arrived_since_the_last_round_is_not_removed_by_hand_before_it_is_exported(
    engine: Engine, clock: Clock, folder: Path
) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    HourlyExport(engine).run()
    store_talk(engine, "late", 0.5)
    clock.at(5)

    Commands(engine).store_vacuum(keep="2h")
    assert ["c", "late"] == conversation_ids(engine)

    HourlyExport(engine).run()
    Commands(engine).store_vacuum(keep="2h")
    assert {} == row_counts(engine)
    assert [("c", 3), ("late", 3)] == spans_in(folder)


def test_a_span_that_arrives_between_the_look_and_the_removal_stays(engine: Engine, clock: Clock) -> None:
    feed(engine, span("http", start_ns=NOON_NS, end_ns=NOON_NS + 1))
    clock.at(1.5)
    HourlyExport(engine).run()
    clock.at(5)

    class Late(RetentionPass):
        def _save_bounds(self) -> None:
            engine.store.accept(batch(span("late", start_ns=NOON_NS + 5, end_ns=NOON_NS + 6)))
            super()._save_bounds()

    assert 1 == Late(engine, KEEP_NS).run().spans
    assert [("late",)] == rows(engine, "SELECT name FROM spans")


def test_a_damaged_file_holds_up_no_other_hour(engine: Engine, clock: Clock, folder: Path) -> None:
    store_talk(engine, "c", 0)
    clock.at(1.5)
    HourlyExport(engine).run()
    (damaged := folder / "spans" / "day=2026-05-29" / "hour-12.parquet").write_bytes(b"damaged")
    store_talk(engine, "late", 0.5)
    store_talk(engine, "next", 2)
    clock.at(6)

    result = HourlyExport(engine).run()

    assert result.problem is not None
    assert "hour-12.parquet" in result.problem
    assert b"damaged" == damaged.read_bytes()
    damaged.rename(folder / "aside")
    assert [("next", 3)] == spans_in(folder)
    RetentionPass(engine, KEEP_NS).run()
    assert ["c", "late"] == conversation_ids(engine)  # of which an hour waits


def test_a_full_disk_is_not_tried_hour_by_hour(engine: Engine, clock: Clock, folder: Path) -> None:
    for hour in range(9):
        store_talk(engine, f"c-{hour}", hour)
    clock.at(11)
    (folder / "spans").parent.mkdir(parents=True)
    (folder / "spans").write_bytes(b"no folder")  # every hour of spans fails
    tried = HourlyExport(engine)

    assert tried.run().problem is not None
    assert 5 == len(tried._failed)


def damaged_import(target: Engine, folder: Path) -> str:
    """Begin an import of an invalid file; return its id."""
    upload: str = target.uploads.begin()
    with pytest.raises(BadInputError):
        target.uploads.piece(upload, "spans", b64encode(b"no parquet").decode(), last=True)
    return upload


def test_after_a_file_that_was_refused_another_import_may_begin_at_once(engine: Engine, folder: Path) -> None:
    damaged_import(engine, folder)

    assert not (folder / ".work").exists()
    assert engine.uploads.begin()


@pytest.mark.parametrize(
    ("time", "displayed"),
    [
        ("'infinity'::TIMESTAMP", "infinity"),
        ("'-infinity'", "-infinity"),
        ("make_timestamp_ns(-1)", "1969-12-31 23:59:59.999999999"),
        ("'1969-12-31'", "1969-12-31"),
    ],
)
def test_a_time_that_is_none_is_refused_before_it_stops_everything(
    engine: Engine, tmp_path: Path, time: str, displayed: str
) -> None:
    file = tmp_path / "x" / "spans" / "all.parquet"
    file.parent.mkdir(parents=True)
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT md5('') AS trace_id, md5('')[:16] AS span_id, {time} AS start_time) TO '{file}'")

    with raises(
        BadInputError,
        snapshot(
            "<tmp_path>/x/spans/all.parquet: spans: start_time is <time>: times must not be before 1970 or infinite"
        ),
        tmp_path=tmp_path,
        time=displayed,
    ):
        send(Local(engine), find_files(tmp_path / "x"), silent)


def test_a_file_that_is_damaged_in_the_middle_is_blamed_and_not_the_store(
    engine: Engine, clock: Clock, tmp_path: Path
) -> None:
    with retaining_engine(tmp_path / "source.duckdb", clock) as source:
        store_talk(source, "c", 0)
        export(source, tmp_path / "out")
    (file,) = (tmp_path / "out" / "spans").rglob("*.parquet")
    content = bytearray(file.read_bytes())
    content[600:900] = bytes(item ^ 0xFF for item in content[600:900])
    file.write_bytes(content)

    with pytest.raises(BadInputError, match=r"day\.parquet: spans: "):
        send(Local(engine), find_files(tmp_path / "out"), silent)


def test_what_an_import_brings_is_no_rubbish_to_a_vacuum(tmp_path: Path, clock: Clock, engine: Engine) -> None:
    with retaining_engine(tmp_path / "source.duckdb", clock) as source:
        store_talk(source, "c", 0)
        export(source, tmp_path / "out")

    class Interrupted(Local):
        def call(self, name: str, /, **arguments: Any) -> Any:
            if arguments.get("table") == "conversations" and name == "store_import_table":
                super().call("store_vacuum")
            return super().call(name, **arguments)

    send(Interrupted(engine), find_files(tmp_path / "out"), silent)

    assert [(1,)] == rows(engine, "SELECT count(*) FROM turns")


def test_imported_spans_count_as_received_after_all_that_was_there(
    tmp_path: Path, clock: Clock, engine: Engine, folder: Path
) -> None:
    with retaining_engine(tmp_path / "source.duckdb", clock) as source:
        store_talk(source, "c", 0)
        export(source, tmp_path / "out")
    clock.at(1)
    store_talk(engine, "own", 1)
    HourlyExport(engine).look()
    clock.at(0)  # the clock of this computer was set back, or a batch was committed while the import waited

    send(Local(engine), find_files(tmp_path / "out"), silent)
    clock.at(3)
    HourlyExport(engine).run()

    assert [("c", 3), ("own", 3)] == spans_in(folder)
