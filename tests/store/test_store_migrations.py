"""The schema: applied once, completely or not at all; every table and column has a comment."""

from __future__ import annotations

import gzip
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pytest

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.migrations import BASE, Migration, all_migrations, migrate
from tests.store.asking import rows, run_python

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

pytestmark = pytest.mark.usefixtures("migrated")

# Stands for the base schema: small, so that what is left of it is easy to list.
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

    assert [migration.name for migration in all_migrations()] == [name for name, _ in before]
    assert before == after


def test_a_file_of_a_newer_release_is_refused_by_name(open_store: OpenStore, db: Path) -> None:
    open_store().close()
    with duckdb.connect(str(db)) as con:
        con.execute("INSERT INTO schema_migrations VALUES ('9999_from_the_future.sql', now()::TIMESTAMP_NS)")

    with pytest.raises(StoreUnusableError, match=r"t\.duckdb.*newer release.*9999_from_the_future\.sql.*upgrade"):
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
from otel_agentic.store.database import open_database
from otel_agentic.store.migrations import migrate

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

    assert f"store export --db {db} FOLDER" in str(refused.value)
    assert "store import --db NEW.duckdb FOLDER" in str(refused.value)
    assert content == db.read_bytes()


KILLED: Final = """
import os, signal, sys
from pathlib import Path
from otel_agentic.config import StoreSettings
from otel_agentic.store.database import open_database
from otel_agentic.store.migrations import Migration, all_migrations, migrate

con = open_database(Path(sys.argv[1]), StoreSettings(), create=False)
con.create_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL), [], "INTEGER", side_effects=True)
later = Migration(name="9001_later.sql", sql="ALTER TABLE spans ADD COLUMN later INTEGER; SELECT die(); CREATE TABLE later (a INTEGER);")
migrate(con, sys.argv[1], [*all_migrations(), later])
"""


def test_a_migration_that_is_killed_leaves_the_schema_before_it(db: Path, open_store: OpenStore) -> None:
    with open_store() as store:
        before = rows(store, "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL")

    with run_python(KILLED, db) as process:
        assert -signal.SIGKILL == process.wait()

    assert before == rows(
        open_store(), "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"
    )
