"""The schema: applied once, completely or not at all; every table and column has a comment."""

from __future__ import annotations

import gzip
import random
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.config import StoreSettings
from otel_agentic.errors import StoreUnusableError
from otel_agentic.store import Store
from otel_agentic.store.durability import log_path
from otel_agentic.store.maintenance.migrations import BASE, Migration, all_migrations, migrate, require_current
from otel_agentic.store.maintenance.vacuum import store_stats
from otel_agentic.testing import batch, span
from tests.snapshots import passage, raises
from tests.store.store_queries import rows, run_python

if TYPE_CHECKING:
    from otel_agentic.dialects import Reader
    from tests.store.conftest import OpenStore

pytestmark = pytest.mark.usefixtures("without_cache")

# Replaces the base schema: small, so that its remaining tables are easy to list.
GOOD = Migration(
    name=BASE,
    sql="-- One row is a thing.\nCREATE TABLE things (\n    size INTEGER, -- how big\n    label VARCHAR -- its name\n);\n",
)
BAD = Migration(name="9002_bad.sql", sql="CREATE TABLE half (a INTEGER);\nCREATE TABLE things (a INTEGER);\n")


def names_of_tables(con: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}


def test_each_migration_is_applied_once(open_store: OpenStore) -> None:
    with open_store() as first:
        before = rows(first, "SELECT * FROM schema_migrations")

    after = rows(open_store(), "SELECT * FROM schema_migrations")

    assert [(migration.name, migration.checksum) for migration in all_migrations()] == [
        (name, checksum) for name, checksum, _ in before
    ]
    assert before == after


def test_a_file_of_a_newer_release_is_refused_by_name(open_store: OpenStore, db: Path) -> None:
    open_store().close()
    with duckdb.connect(str(db)) as con:
        con.execute("INSERT INTO schema_migrations VALUES ('9999_from_the_future.sql', 'abc', now()::TIMESTAMP_NS)")

    with raises(
        StoreUnusableError,
        snapshot(
            "<tmp_path>/t.duckdb was written by a newer release of otel-agentic (it has 9999_from_the_future.sql); upgrade otel-agentic"
        ),
        tmp_path=db.parent,
    ):
        open_store()


def test_a_migration_that_fails_leaves_nothing_behind() -> None:
    with duckdb.connect() as con:
        assert [GOOD.name] == migrate(con, "memory", [GOOD])
        with pytest.raises(duckdb.CatalogException):
            migrate(con, "memory", [GOOD, BAD])

        assert {"schema_migrations", "things"} == names_of_tables(con)
        assert [(BASE,)] == con.execute("SELECT name FROM schema_migrations").fetchall()


def test_the_next_release_goes_on_where_the_last_one_stopped() -> None:
    mended = Migration(name=BAD.name, sql="CREATE TABLE half (a INTEGER);")
    with duckdb.connect() as con:
        migrate(con, "memory", [GOOD])

        assert [mended.name] == migrate(con, "memory", [GOOD, mended])
        assert [] == migrate(con, "memory", [GOOD, mended])


def test_every_table_view_and_column_says_what_it_is(store: Store) -> None:
    relations = rows(
        store,
        "SELECT table_name, comment FROM duckdb_tables() UNION ALL "
        "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal",
    )
    columns = rows(store, "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal")

    assert 24 <= len(relations)
    assert {"v_reliability", "v_failing_tools", "v_conversations", "v_coverage"} <= {name for name, _ in relations}
    assert [] == [row for row in (*relations, *columns) if not row[-1]]


def test_the_file_is_of_the_format_that_older_duckdb_opens(store: Store) -> None:
    ((tags,),) = rows(store, "SELECT tags FROM duckdb_databases() WHERE database_name = current_database()")

    assert "v1.4.0+" == tags["storage_version"]


def test_every_connection_reads_times_as_utc(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")

    assert [("UTC",)] == rows(open_store(), "SELECT current_setting('TimeZone')")


MIGRATED: Final = """
import os, sys
from pathlib import Path
from otel_agentic.config import StoreSettings
from otel_agentic.store.connection import open_database
from otel_agentic.store.maintenance.migrations import migrate

con = open_database(Path(sys.argv[1]), StoreSettings(), create=True)
migrate(con, sys.argv[1])
os._exit(9)
"""


def test_a_process_that_dies_right_after_the_schema_was_applied_leaves_a_file_that_opens(
    db: Path, open_store: OpenStore
) -> None:
    with run_python(MIGRATED, db) as process:
        assert 9 == process.wait()
    assert db.with_name(db.name + ".wal").exists()

    assert len(all_migrations()) == len(rows(open_store(), "SELECT * FROM schema_migrations"))


#: A store of a development version, from before there was one schema file.
BEFORE_RELEASE: Final = Path(__file__).parent.parent / "golden" / "store" / "before-release.duckdb.gz"


def test_a_store_from_before_the_first_release_is_refused_with_the_way_to_keep_its_data(
    db: Path, open_store: OpenStore
) -> None:
    content = gzip.decompress(BEFORE_RELEASE.read_bytes())
    db.write_bytes(content)

    with pytest.raises(StoreUnusableError) as refused:
        open_store()

    assert passage(refused, db=db) == snapshot("store export --db <db> FOLDER")
    assert passage(refused) == snapshot("store import --db NEW.duckdb FOLDER")
    assert content == db.read_bytes()


LATER: Final = Migration(
    name="0001_later.sql",
    sql="ALTER TABLE spans ADD COLUMN later INTEGER DEFAULT 7;\n-- One row is a thing.\nCREATE TABLE later (\n    a INTEGER -- its size\n);\n",
)
FAILING: Final = Migration(name="0002_failing.sql", sql="CREATE TABLE half (a INTEGER); SELECT * FROM nowhere;")
NEXT: Final = [*all_migrations(), LATER]
SHAPE: Final = "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"


@pytest.fixture(scope="module")
def older_file(tmp_path_factory: pytest.TempPathFactory, reader: Reader) -> tuple[bytes, bytes]:
    """The content of a store of this release, and of its log, which alone holds the spans."""
    db = tmp_path_factory.mktemp("older") / "t.duckdb"
    with Store(StoreSettings(db=db), reader) as store:
        store.accept(batch(*(span(f"s{number}", span_id=f"{number}") for number in range(20))))
        return db.read_bytes(), log_path(db).read_bytes()


@pytest.fixture
def older(db: Path, older_file: tuple[bytes, bytes]) -> Path:
    """A store of this release, with spans that only its log holds."""
    content, log = older_file
    db.write_bytes(content)
    log_path(db).write_bytes(log)
    return db


def test_a_later_release_asks_for_an_upgrade_and_changes_nothing_before(older: Path, open_store: OpenStore) -> None:
    before = older.read_bytes(), log_path(older).read_bytes()
    with raises(
        StoreUnusableError,
        snapshot(
            "<tmp_path>/t.duckdb was written by an earlier release of otel-agentic (it lacks 0001_later.sql): run `otel-agentic store upgrade --db <tmp_path>/t.duckdb`, which keeps a copy of the file"
        ),
        tmp_path=older.parent,
    ):
        open_store(schema=NEXT)
    assert before == (older.read_bytes(), log_path(older).read_bytes())
    assert [] == list(older.parent.glob("*before*"))


def test_a_query_asks_for_an_upgrade_of_an_older_store_and_refuses_another_database() -> None:
    with duckdb.connect() as con:
        with raises(StoreUnusableError, snapshot("t.duckdb is a DuckDB file without a store; give another --db")):
            require_current(con, "t.duckdb")
        migrate(con, "t.duckdb")
        require_current(con, "t.duckdb")
        with raises(StoreUnusableError, snapshot("run `otel-agentic store upgrade --db t.duckdb`")):
            require_current(con, "t.duckdb", NEXT)


def test_an_upgrade_keeps_a_copy_that_an_earlier_release_opens(
    older: Path, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    with open_store(schema=NEXT, upgrade=True) as store:
        assert store.upgraded is not None
        copy = store.upgraded.copy
        assert (("0001_later.sql",), older.with_name("t.before-0001.duckdb")) == (store.upgraded.applied, copy)
        assert [(20, 7)] == rows(store, "SELECT count(*), any_value(later) FROM spans")
        assert [("its size",)] == rows(store, "SELECT comment FROM duckdb_columns() WHERE table_name = 'later'")
        store.accept(batch(span("s", span_id="new")))
    assert str(copy) in caplog.text
    assert 0o600 == copy.stat().st_mode & 0o777
    with open_store(schema=NEXT) as again:  # no migration is pending
        assert again.upgraded is None
    with open_store(db=copy) as before:
        assert [(20,)] == rows(before, "SELECT count(*) FROM spans")
    with pytest.raises(StoreUnusableError, match="newer release"):
        open_store()


@pytest.mark.parametrize("number", [1, 2])
def test_an_upgrade_that_fails_changes_nothing(older: Path, open_store: OpenStore, number: int) -> None:
    with open_store() as store:
        before = rows(store, SHAPE)
    known = [*NEXT[:number], FAILING]  # alone, and after one that works

    with raises(
        StoreUnusableError,
        snapshot(
            "<tmp_path>/t.duckdb: the upgrade failed (Catalog Error: Table with name nowhere does not exist!): nothing was changed, and the copy from before is <tmp_path>/t.before-<first>.duckdb; report it, and use the release that wrote the store meanwhile"
        ),
        tmp_path=older.parent,
        first=f"000{3 - number}",
    ):
        open_store(schema=known, upgrade=True)

    with open_store() as store:
        assert before == rows(store, SHAPE)
        assert [(20,)] == rows(store, "SELECT count(*) FROM spans")
    (copy,) = older.parent.glob("*.before-*")
    assert f"t.before-000{3 - number}.duckdb" == copy.name
    with open_store(db=copy) as original:
        assert [(20,)] == rows(original, "SELECT count(*) FROM spans")


def test_without_room_for_the_copy_nothing_is_changed(older: Path, open_store: OpenStore) -> None:
    older.with_name("t.before-0001.duckdb").mkdir()
    with pytest.raises(StoreUnusableError, match=r"t\.duckdb"):
        open_store(schema=NEXT, upgrade=True)
    with open_store() as store:
        assert [(20,)] == rows(store, "SELECT count(*) FROM spans")


def test_a_new_store_gets_the_base_and_every_migration_without_a_copy(db: Path, open_store: OpenStore) -> None:
    with open_store(schema=NEXT) as store:
        assert [BASE, LATER.name] == [name for (name,) in rows(store, "SELECT name FROM schema_migrations")]
        assert store.upgraded is None
        with store.read() as con:
            assert LATER.name == store_stats(con)["schema"]
    assert [] == list(db.parent.glob("*before*"))


def test_a_migration_that_was_edited_after_it_was_applied_is_named(open_store: OpenStore) -> None:
    open_store(schema=NEXT).close()
    edited = replace(LATER, sql=LATER.sql.replace("a INTEGER", "a BIGINT"))

    with pytest.raises(StoreUnusableError, match=rf"0001_later\.sql.*{LATER.checksum[:12]}.*{edited.checksum[:12]}"):
        open_store(schema=[*all_migrations(), edited])

    released = replace(edited, released=frozenset({LATER.checksum}))  # only its comments changed
    open_store(schema=[*all_migrations(), released]).close()


def test_an_edited_base_schema_is_refused_unless_it_was_released(db: Path, open_store: OpenStore) -> None:
    open_store().close()
    (base,) = all_migrations()
    edited = replace(base, sql=base.sql + "-- more\n")

    with raises(
        StoreUnusableError,
        snapshot(
            "<tmp_path>/t.duckdb was written by a development version, with another schema.sql than any release has, and cannot be upgraded. To keep its data, run `otel-agentic store export --db <tmp_path>/t.duckdb FOLDER` with that version, then `otel-agentic store import --db NEW.duckdb FOLDER` with this one"
        ),
        tmp_path=db.parent,
    ):
        open_store(schema=[edited])

    open_store(schema=[replace(edited, released=frozenset({base.checksum}))]).close()


def test_what_was_released_is_unchanged() -> None:
    assert [] == [
        migration.name
        for migration in all_migrations()
        if migration.released and migration.checksum not in migration.released
    ]


SLOWLY: Final = """
import sys
from pathlib import Path
from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store
from otel_agentic.store.maintenance.migrations import Migration, all_migrations

later = Migration(name="0001_later.sql", sql=sys.argv[2])
print("begins")
Store(StoreSettings(db=Path(sys.argv[1])), Reader.from_settings(ConversationSettings()), create=False, upgrade=True,
      schema=[*all_migrations(), later]).close()
print("done")
"""


@pytest.mark.slow
def test_an_upgrade_that_is_killed_at_any_moment_leaves_the_old_schema_or_the_new_one(
    older: Path, open_store: OpenStore, tmp_path: Path
) -> None:
    content, log, draw = older.read_bytes(), log_path(older).read_bytes(), random.Random(17)  # noqa: S311 — moments
    sql = LATER.sql + "CREATE TABLE much AS SELECT range AS a, 'x' || range AS b FROM range(500000);\n"  # noqa: S608 — ours
    schema = [*all_migrations(), replace(LATER, sql=sql)]
    outcomes = Counter[str]()
    for number in range(12):
        folder = tmp_path / f"killed-{number}"
        folder.mkdir()
        db = folder / "t.duckdb"
        db.write_bytes(content)
        log_path(db).write_bytes(log)
        with run_python(SLOWLY, db, sql) as process:
            assert process.stdout is not None
            assert "begins" == process.stdout.readline().strip()
            copy = folder / "t.before-0001.duckdb"
            while (
                number % 2 and not copy.exists() and process.poll() is None
            ):  # every second kill meets the upgrade itself
                time.sleep(0.001)
            time.sleep(draw.uniform(0, 0.3) if number else 0)
            process.kill()
        try:
            with open_store(db=db) as store:
                assert [(20,)] == rows(store, "SELECT count(*) FROM spans")
                outcomes["old"] += 1
        except StoreUnusableError:
            with open_store(db=db, schema=schema) as store:
                assert [(20, 7)] == rows(store, "SELECT count(*), any_value(later) FROM spans")
                outcomes["new"] += 1
        if copy.exists():
            with open_store(db=copy) as original:
                assert [(20,)] == rows(original, "SELECT count(*) FROM spans")
                outcomes["copies"] += 1
    assert 6 <= outcomes["copies"]
    assert outcomes["old"]
