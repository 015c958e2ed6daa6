"""Exports read back: everything once, also into a store that has some of it."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.store import find_files, receive, require_empty, send
from otel_agentic.commands import Client, Commands
from otel_agentic.errors import BackendError, BadInputError, OverloadedError, UsageError
from otel_agentic.live.loops import RetentionLoop
from otel_agentic.results.store import ExportedStore, FilePiece, ImportedStore
from otel_agentic.store.maintenance.import_files import ORDER
from tests.builders import CASE, contents, rows
from tests.engine.retention_engine import Clock, conversation_ids, retaining_engine, row_counts, store_talk, talk
from tests.live.running_collector import live_settings, running
from tests.snapshots import raises

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine

LABELS: Final = "conversation_id,verdict\nc-1,pass\n"
#: When something was written, and numbers that a store gives.
OWN: Final = {"received_at", "received_until", "built_at", "subject", "case_no", "serial", "applied_at"}


class Local(Client):
    """A client of an engine that the test holds."""

    def __init__(self, engine: Engine) -> None:
        self._commands = Commands(engine)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return a command's result."""
        return getattr(self._commands, name)(**arguments)

    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield what a command yields."""
        yield from self.call(name, **arguments)

    def close(self) -> None:
        """Leave the engine open."""


def silent(*_: Any) -> None:
    """Show no progress."""


def export(engine: Engine, folder: Path) -> ExportedStore:
    return receive(folder, Local(engine).stream_of(FilePiece, "store_export"), silent)


def imported(engine: Engine, folder: Path) -> ImportedStore:
    return send(Local(engine), find_files(folder), silent)


def held(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of a store without the values that every store sets itself."""
    skipped = {"schema_migrations", "exports", "export_looks", "removed", "window_changes"}
    result = {}
    for table in contents(engine):
        if table not in skipped:
            columns = [row[0] for row in rows(engine, f"DESCRIBE {table}") if row[0] not in OWN]
            listed = ", ".join(f'"{column}"' for column in columns)
            result[table] = rows(engine, f'SELECT {listed} FROM "{table}" ORDER BY ALL')  # noqa: S608 — names of the schema
    return result


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A store that was exported: its file, its export, and its rows."""

    db: Path
    folder: Path
    rows: dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A store with two conversations, one of them in two revisions, scored against a case and a label."""
    base = tmp_path_factory.mktemp("source")
    with retaining_engine(base / "source.duckdb", Clock(), retention={"keep": None}) as engine:
        store_talk(engine, "c-1", 0)
        store_talk(engine, "c-2", 1)
        store_talk(engine, "c-1", 2)
        Commands(engine).evaluate(cases=[("cases.jsonl", CASE)], labels=[("labels.csv", LABELS)])
        export(engine, base / "out")
        return Source(db=base / "source.duckdb", folder=base / "out", rows=held(engine))


@pytest.fixture(scope="module")
def folder(source: Source) -> Path:
    """The export of that store. Leave it as it is."""
    return source.folder


@pytest.fixture(scope="module")
def imported_file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ImportedStore]:
    """A store that had nothing and imported the export, and the result of the import."""
    db = tmp_path_factory.mktemp("imported") / "target.duckdb"
    with retaining_engine(db, Clock(), retention={"keep": None}) as engine:
        return db, imported(engine, folder)


@pytest.fixture
def imported_store(imported_file: tuple[Path, ImportedStore], tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An engine on a copy of that store."""
    db = Path(shutil.copy(imported_file[0], tmp_path / "imported.duckdb"))
    with retaining_engine(db, clock, retention={"keep": None}) as engine:
        yield engine


@pytest.fixture
def target(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An empty store."""
    with retaining_engine(tmp_path / "target.duckdb", clock, retention={"keep": None}) as engine:
        yield engine


def test_a_new_store_is_what_the_exported_one_was(
    source: Source, imported_file: tuple[Path, ImportedStore], imported_store: Engine
) -> None:
    _, result = imported_file

    assert source.rows == held(imported_store)
    assert 0 == result.rebuilt_traces
    assert {table: count.rows for table, count in result.tables.items()} == {
        table: count.new for table, count in result.tables.items()
    }


def test_an_export_without_times_of_scores_is_what_the_exported_store_was(
    source: Source, tmp_path: Path, target: Engine
) -> None:
    earlier = Path(shutil.copytree(source.folder, tmp_path / "earlier"))
    for table in ("matches", "tool_faults", "call_pairs"):
        for file in (earlier / table).rglob("*.parquet"):
            part = file.with_suffix(".part")
            selected = f"SELECT * EXCLUDE (scored_at) FROM read_parquet('{file}', hive_partitioning = false)"  # noqa: S608 — a path of this test
            duckdb.execute(f"COPY ({selected}) TO '{part}' (FORMAT parquet)")
            part.replace(file)

    imported(target, earlier)

    assert source.rows == held(target)


def test_to_import_twice_changes_nothing(folder: Path, imported_store: Engine) -> None:
    before = contents(imported_store)

    again = imported(imported_store, folder)

    assert {0} == {count.new for count in again.tables.values()}
    assert before == contents(imported_store)


def test_an_import_into_its_own_store_changes_nothing(source: Source, tmp_path: Path, clock: Clock) -> None:
    db = Path(shutil.copy(source.db, tmp_path / "own.duckdb"))
    with retaining_engine(db, clock, retention={"keep": None}) as engine:
        before = contents(engine)

        imported(engine, source.folder)

        assert before == contents(engine)


def test_what_the_store_had_of_a_conversation_is_rebuilt_with_what_came(folder: Path, target: Engine) -> None:
    store_talk(target, "c-1", 0)
    store_talk(target, "own", 0)

    result = imported(target, folder)

    assert 1 == result.rebuilt_traces
    assert ["c-1", "c-2", "own"] == conversation_ids(target)
    assert [(1, True, 1), (2, False, 2)] == rows(
        target, "SELECT revision, superseded, turn_count FROM conversations WHERE conversation_id = 'c-1' ORDER BY ALL"
    )
    assert [(16, 16)] == rows(target, "SELECT count(*), count(DISTINCT (trace_id, span_id)) FROM spans")


def test_cases_of_the_store_stay_in_force(folder: Path, target: Engine) -> None:
    own = CASE.replace("The Ritz.", "The Savoy.")
    Commands(target).truth_import(cases=[("cases.jsonl", own)], labels=[])

    imported(target, folder)

    assert [(False, "The Ritz."), (True, "The Savoy.")] == rows(
        target, "SELECT current, definition->>'$.turns[0].answer' FROM cases ORDER BY ALL"
    )


def test_what_a_collector_exported_is_read_back_too(tmp_path: Path, clock: Clock, target: Engine) -> None:
    with retaining_engine(tmp_path / "live.duckdb", clock, retention={"export": True, "keep": "2h"}) as live:
        store_talk(live, "gone", 0)
        store_talk(live, "kept", 1.5)
        before = row_counts(live)
        clock.at(3)
        RetentionLoop(live).round()
        assert ["kept"] == conversation_ids(live)

        imported(target, tmp_path / "live.duckdb.export")
        imported(live, tmp_path / "live.duckdb.export")

    assert ["gone", "kept"] == conversation_ids(target)
    assert before == row_counts(target)


def test_a_removed_conversation_that_is_back_is_frozen_no_more(tmp_path: Path, clock: Clock) -> None:
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        store_talk(engine, "back", 0)
        export(engine, tmp_path / "out")
        clock.at(2.5)
        RetentionLoop(engine).round()
        assert [] == conversation_ids(engine)

        imported(engine, tmp_path / "out")
        store_talk(engine, "back", 2.5)

        assert [(1, True, 1), (2, False, 2)] == rows(
            engine, "SELECT revision, superseded, turn_count FROM conversations ORDER BY ALL"
        )
        assert [] == rows(engine, "SELECT * FROM removed")


class StoppingAt(Local):
    """A client that dies before it imports a table."""

    def __init__(self, engine: Engine, table: str) -> None:
        super().__init__(engine)
        self._table = table

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return a command's result, or die."""
        if name == "store_import_table" and arguments["table"] == self._table:
            raise KeyboardInterrupt
        return super().call(name, **arguments)


def test_an_import_that_was_killed_again_and_again_begins_anew_and_stores_nothing_twice(
    source: Source, target: Engine
) -> None:
    for table in sorted(("turns", "results", "conversations", "cases"), key=ORDER.index):
        with pytest.raises(KeyboardInterrupt):
            send(StoppingAt(target, table), find_files(source.folder), silent)
        del target.uploads  # as in a new process

    imported(target, source.folder)

    assert source.rows == held(target)


def test_one_import_at_a_time(target: Engine) -> None:
    target.uploads.begin()

    with raises(OverloadedError, snapshot("another import is running")):
        target.uploads.begin()


@pytest.mark.parametrize(
    ("table", "data", "reply"),
    [
        ("../../etc/passwd", "", r"table '\.\./\.\./etc/passwd' cannot be imported"),
        ("spans", "%%%", "spans: data is not base64"),
        ("spans", b64encode(b"no parquet").decode(), "spans: not readable as Parquet"),
    ],
)
def test_a_piece_that_is_no_part_of_an_export_is_refused(target: Engine, table: str, data: str, reply: str) -> None:
    upload = target.uploads.begin()

    with pytest.raises((UsageError, BadInputError), match=reply):
        target.uploads.piece(upload, table, data, last=True)


def test_a_file_with_ids_that_are_none_is_refused_before_it_is_stored(target: Engine, tmp_path: Path) -> None:
    file = tmp_path / "x" / "spans" / "all.parquet"
    file.parent.mkdir(parents=True)
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 'not hex' AS trace_id, 'nor this' AS span_id) TO '{file}'")

    with raises(BadInputError, snapshot("spans: 'not hex nor this' are not the ids of a trace and a span")):
        imported(target, tmp_path / "x")


def test_a_span_that_is_sent_again_after_its_import_is_a_duplicate(imported_store: Engine) -> None:
    receipt = imported_store.store.accept(talk("c-1", 0))

    assert (0, 6) == (receipt.accepted, receipt.duplicate)


def test_a_file_with_foreign_columns_is_refused_by_their_names(target: Engine, tmp_path: Path) -> None:
    file = tmp_path / "x" / "spans" / "all.parquet"
    file.parent.mkdir(parents=True)
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT 'a' AS trace_id, 1 AS evil) TO '{file}'")

    with raises(
        BadInputError,
        snapshot(
            "<tmp_path>/x/spans/all.parquet: spans: the file has columns that the table lacks (evil): it was written by a newer release, or is not an export of otel-agentic"
        ),
        tmp_path=tmp_path,
    ):
        imported(target, tmp_path / "x")
    assert {} == row_counts(target)


def test_a_row_that_cannot_be_stored_is_refused_by_its_table(target: Engine, tmp_path: Path) -> None:
    file = tmp_path / "x" / "turns" / "all.parquet"
    file.parent.mkdir(parents=True)
    with duckdb.connect() as con:
        con.execute(f"COPY (SELECT '' AS environment, 'c' AS conversation_id, 'x' AS revision) TO '{file}'")

    with raises(BadInputError, snapshot("turns: a row cannot be stored")):
        imported(target, tmp_path / "x")


def test_a_collector_that_names_a_path_outside_is_not_obeyed(tmp_path: Path) -> None:
    piece = FilePiece(file="../evil.parquet", rows=1, data="", last=True, done=1, total=1)

    with raises(BackendError, snapshot("sent an invalid file name: '../evil.parquet'")):
        receive(tmp_path / "out", [piece], silent)
    assert [] == list(tmp_path.rglob("*.parquet"))


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()

    with pytest.raises(UsageError, match="not empty"):
        require_empty(tmp_path)


def test_a_part_of_the_days_is_exported_where_that_is_asked(tmp_path: Path, clock: Clock) -> None:
    with retaining_engine(tmp_path / "t.duckdb", clock, retention={"keep": None}) as engine:
        store_talk(engine, "first", 0)
        store_talk(engine, "second", 24)
        day_ns = clock.now_ns // 86_400_000_000_000 * 86_400_000_000_000
        pieces = list(Commands(engine).store_export(since_ns=day_ns))

    files = [piece["file"] for piece in pieces if piece["file"] and piece["file"].startswith("spans")]
    assert ["spans/day=2026-05-30/day.parquet"] == files
    assert not (tmp_path / "t.duckdb.export").exists()


def test_every_exported_table_is_imported(folder: Path) -> None:
    assert set(find_files(folder)) <= set(ORDER)


def test_a_running_collector_takes_an_import_and_rebuilds_what_is_new(folder: Path, tmp_path: Path) -> None:
    with running(live_settings(tmp_path / "live.duckdb")) as (live, _):
        live.accept(talk("c-1", 0))

        class Live(Local):
            def call(self, name: str, /, **arguments: Any) -> Any:
                return live.run(name, arguments)

        result = send(Live(live.engine), find_files(folder), silent)

        assert 12 == len(rows(live.engine, "SELECT * FROM spans"))
        assert {"conversations", "spans"} <= set(result.tables)
