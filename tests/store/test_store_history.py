"""Files of every earlier schema, with rows in all of their tables: what they hold is there, and of today's schema."""

from __future__ import annotations

import gzip
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.errors import StoreUnusableError
from otel_agentic.store import Store
from otel_agentic.store.database import open_database
from otel_agentic.store.migrations import Migration, all_migrations, migrate
from tests.store.asking import rows, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from tests.store.conftest import OpenStore

MIGRATIONS: Final = all_migrations()
#: Tables whose rows a later release makes of others, or of its own doing.
DERIVED: Final = {"schema_migrations", "results", "subjects", "result_cases", "window_changes"}
#: What a cell of a type holds.
VALUES: Final = {
    "VARCHAR": "'v' || {n}",
    "JSON": "'{{\"a\": ' || {n} || '}}'",
    "VARCHAR[]": "['v' || {n}]",
    "BOOLEAN": "{n} = 1",
    "DOUBLE": "0.5",
    "TIMESTAMP_NS": "make_timestamp_ns(1700000000123456789 + {n})",
}
#: Cells that other tables, or migrations, go by.
TOLD: Final = {
    "superseded": "false", "current": "true", "revision": "1", "environment": "'production'", "conversation_id": "'c' || {n}",
    "evaluation_id": "'e'", "outcome": "'pass'", "dataset": "'d'", "case_id": "'k' || {n}", "closed_by": "'idle'",
    "version": "'1'", "case_version": "'1'", "sample_ratio": "1.0",
}  # fmt: skip


def described(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, str]]:
    """Return the types of columns by table."""
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal AND table_name IN "
        "(SELECT table_name FROM duckdb_tables()) ORDER BY ALL"
    ).fetchall():
        found.setdefault(table, {})[column] = kind
    return found


def fill(con: duckdb.DuckDBPyConnection) -> None:
    """Write two rows into each table."""
    for table, columns in described(con).items():
        if table == "schema_migrations":
            continue
        cells = [
            TOLD[name] if name in TOLD and (name != "revision" or kind == "INTEGER") else VALUES.get(kind, "{n}")
            for name, kind in columns.items()
        ]
        names = ", ".join(f'"{name}"' for name in columns)
        for number in (1, 2):
            values = ", ".join(cell.format(n=number) for cell in cells)
            con.execute(f'INSERT INTO "{table}" ({names}) VALUES ({values})')  # noqa: S608 — names of the schema itself


def contents(con: duckdb.DuckDBPyConnection, tables: dict[str, dict[str, str]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of some tables, in the columns and types that are given."""
    return {
        table: con.execute(
            f'SELECT {", ".join(_read(name, kind) for name, kind in columns.items())} FROM "{table}" ORDER BY ALL'  # noqa: S608 — the same
        ).fetchall()
        for table, columns in tables.items()
        if table not in DERIVED
    }


def _read(name: str, kind: str) -> str:
    # A digest became a list of digests.
    return '"history_out"[1]' if (name, kind) == ("history_out", "VARCHAR") else f'"{name}"'


@pytest.mark.parametrize(
    "known", range(1, len(MIGRATIONS)), ids=lambda known: f"after {MIGRATIONS[known - 1].name[:4]}"
)
def test_a_file_of_an_earlier_schema_opens_with_all_that_it_holds(db: Path, open_store: OpenStore, known: int) -> None:
    con = open_database(db, StoreSettings(), create=True)
    migrate(con, str(db), MIGRATIONS[:known])
    fill(con)
    tables = described(con)
    before = {
        table: con.execute(f'SELECT {", ".join(f"{chr(34)}{name}{chr(34)}" for name in columns)} FROM "{table}" ORDER BY ALL').fetchall()  # noqa: S608 — the same
        for table, columns in tables.items()
        if table not in DERIVED
    }  # fmt: skip
    con.close()

    store = open_store()

    with store.read() as reading:
        assert before == contents(reading, tables)
        views = [
            name for (name,) in reading.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        ]
        for view in views:
            reading.execute(f"SELECT * FROM {view}").fetchall()  # noqa: S608 — the same
    assert 10 <= len(views)
    assert [(2, 2)] == rows(store, "SELECT count(*), count(DISTINCT conversation_id) FROM results")
    assert [migration.name for migration in MIGRATIONS] == [
        name for (name,) in rows(store, "SELECT name FROM schema_migrations ORDER BY name")
    ]
    assert [] == rows(
        store,
        "SELECT table_name FROM duckdb_tables() WHERE comment IS NULL UNION ALL "
        "SELECT table_name || '.' || column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL",
    )


def test_an_upgraded_file_has_the_schema_of_a_new_one(tmp_path: Path) -> None:
    found = []
    for name, known in (("new", len(MIGRATIONS)), ("old", 1)):
        con = open_database(tmp_path / f"{name}.duckdb", StoreSettings(), create=True)
        migrate(con, name, MIGRATIONS[:known])
        migrate(con, name)
        found.append((described(con), con.execute("SELECT view_name, sql FROM duckdb_views() ORDER BY ALL").fetchall()))
        con.close()

    assert found[0] == found[1]


KILLED: Final = """
import os, signal, sys
from pathlib import Path
import duckdb
from otel_agentic.config import StoreSettings
from otel_agentic.store.database import open_database
from otel_agentic.store.migrations import Migration, all_migrations, migrate

path, place, share = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
known = all_migrations()
con = open_database(path, StoreSettings(), create=True)
con.create_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL), [], "INTEGER", side_effects=True)
statements = known[place].sql.split(";\\n")
middle = int(len(statements) * share)
halted = ";\\n".join([*statements[:middle], "SELECT die()", *statements[middle:]])
migrate(con, str(path), [*known[:place], Migration(name=known[place].name, sql=halted)])
"""


@pytest.mark.parametrize(
    ("place", "share"),
    [
        (len(MIGRATIONS) - 1, 0.5),
        *(
            pytest.param(place, share, marks=pytest.mark.slow)
            for place in range(1, len(MIGRATIONS))
            for share in (0.0, 0.5, 1.0)
        ),
    ],
)
def test_a_migration_that_is_killed_leaves_the_schema_before_it(
    db: Path, open_store: OpenStore, place: int, share: float
) -> None:
    con = open_database(db, StoreSettings(), create=True)
    migrate(con, str(db), MIGRATIONS[:place])
    fill(con)
    before = contents(con, described(con))
    tables = described(con)
    con.close()

    with run_python(KILLED, db, str(place), str(share)) as process:
        assert -signal.SIGKILL == process.wait()

    con = open_database(db, StoreSettings(), create=False)
    assert tables == described(con)
    assert before == contents(con, tables)
    con.close()
    assert len(MIGRATIONS) == len(rows(open_store(), "SELECT * FROM schema_migrations"))


def test_a_schema_of_tomorrow_is_refused_by_name_and_left_as_it_is(db: Path, open_store: OpenStore) -> None:
    con = open_database(db, StoreSettings(), create=True)
    migrate(con, str(db), [*MIGRATIONS, Migration(name="9999_tomorrow.sql", sql="CREATE TABLE tomorrow (a INTEGER);")])
    con.close()

    with pytest.raises(
        StoreUnusableError, match=r"written by a newer release.*9999_tomorrow\.sql.*upgrade otel-agentic"
    ):
        open_store()

    con = open_database(db, StoreSettings(), create=False)
    assert [("tomorrow",)] == con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE table_name = 'tomorrow'"
    ).fetchall()
    con.close()


#: Written by the oldest DuckDB that may be installed; `tests/golden/store/README.md` tells how.
OLDEST: Final = Path(__file__).parent.parent / "golden" / "store" / "duckdb-1.5.5.duckdb.gz"


@pytest.fixture
def oldest(db: Path) -> Iterator[Store]:
    """The store that DuckDB 1.5.5 wrote."""
    db.write_bytes(gzip.decompress(OLDEST.read_bytes()))
    with Store(StoreSettings(db=db), Reader.from_settings(ConversationSettings()), create=False) as store:
        yield store


def test_a_file_that_the_oldest_duckdb_wrote_opens_with_what_it_holds(oldest: Store) -> None:
    assert [(2, 2)] == rows(oldest, "SELECT count(*), count(DISTINCT conversation_id) FROM results")
    assert [("c1",), ("c2",)] == rows(oldest, "SELECT conversation_id FROM v_conversations ORDER BY ALL")
    assert len(MIGRATIONS) == len(rows(oldest, "SELECT * FROM schema_migrations"))
    assert OLDEST.stat().st_size < 100_000
