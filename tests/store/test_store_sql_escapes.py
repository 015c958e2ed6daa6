"""Ways out of a query: each is refused by the guard, and almost each by the instance when the guard is taken away."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.config import StoreSettings
from otel_agentic.errors import QueryError
from otel_agentic.store.connection import open_database
from otel_agentic.store.maintenance.migrations import migrate
from otel_agentic.store.queries.sql import TABLES, VALUES, check_statement
from tests.snapshots import raises
from tests.store.sql_escapes import BY_BOTH, BY_GUARD

CANARY: Final = "canary-5f0c2b"
#: What would sleep, or never end, is interrupted, as every query is.
_PATIENCE_S: Final = 0.3
_STATE: Final = """
SELECT 'annotations', count(*)::VARCHAR FROM annotations
UNION ALL SELECT 'table', table_name FROM duckdb_tables() WHERE NOT temporary
UNION ALL SELECT 'view', view_name FROM duckdb_views() WHERE NOT temporary
UNION ALL SELECT 'function', function_name FROM duckdb_functions() WHERE NOT internal AND database_name != 'temp'
UNION ALL SELECT name, value FROM duckdb_settings()
ORDER BY ALL
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A hardened database with a row in it, and files around it."""

    con: duckdb.DuckDBPyConnection
    folder: Path

    @property
    def export(self) -> Path:
        return self.folder / "t.duckdb.export"

    def sql(self, text: str) -> str:
        values = {
            "{outside}": self.folder,
            "{export}": self.export,
            "{secret}": self.folder / "secret.txt",
            "{name}": "t",
        }
        for name, value in values.items():
            text = text.replace(name, str(value))
        return text

    def settings(self) -> Any:
        """Return the rows, names and settings that must not change."""
        return self.con.cursor().execute(_STATE).fetchall()

    def files(self) -> list[str]:
        """Return the files that must not change."""
        return sorted(path.name for path in self.folder.rglob("*") if not path.name.startswith("t.duckdb."))

    def state(self) -> tuple[Any, list[str]]:
        """Return everything that must not change."""
        return self.settings(), self.files()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A ground for all statements: what one of them leaves behind is nothing to the others."""
    yield from _escape_ground(tmp_path_factory.mktemp("escapes"))


@pytest.fixture(scope="module")
def settings(ground: Ground) -> Any:
    """The settings that every statement has to leave behind: they take long to read."""
    return ground.settings()


@pytest.fixture
def untouched(ground: Ground, settings: Any) -> Any:
    """The state that the statement has to leave behind; other tests may have added files."""
    return settings, ground.files()


def _escape_ground(folder: Path) -> Iterator[Ground]:
    (folder / "secret.txt").write_text(f"{CANARY}\n")
    (folder / "secret.csv").write_text(f"a\n{CANARY}\n")
    (folder / "t.duckdb.export").mkdir()
    duckdb.connect(str(folder / "other.duckdb")).close()
    settings = StoreSettings(db=folder / "t.duckdb")
    with open_database(settings.db, settings, create=True) as con:
        migrate(con, "t")
        con.execute(
            "INSERT INTO annotations (annotation_id, annotator, source, conversation_id, decides, random_sample, annotated_at) "
            "VALUES ('i', 'labels.csv', 'file', 'c', true, false, make_timestamp_ns(0))"
        )
        con.execute("CHECKPOINT")
    # As the process of a query opens it.
    with open_database(
        settings.db,
        settings,
        create=False,
        export_folder=folder / "t.duckdb.export",
        read_only=True,
        spill=str(folder / "t.duckdb.tmp"),
    ) as con:
        yield Ground(con=con, folder=folder)


def answer_without_guard(ground: Ground, sql: str) -> str:
    """Return the answer of the instance in a read-only transaction; a refusal is raised."""
    con = ground.con.cursor()
    con.execute("BEGIN TRANSACTION READ ONLY")
    clock = threading.Timer(_PATIENCE_S, con.interrupt)
    clock.start()
    some_local_variable = duckdb.values(CANARY)  # it lies where DuckDB for Python looks for tables
    try:
        return str(con.execute(ground.sql(sql)).fetchall())
    finally:
        clock.cancel()
        con.close()
        del some_local_variable


def test_there_are_many_and_most_are_refused_by_both() -> None:
    assert len(BY_BOTH) >= 100
    assert BY_BOTH.keys() & BY_GUARD.keys() == set()


@pytest.mark.parametrize("name", [*BY_BOTH, *BY_GUARD])
def test_the_guard_refuses(ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OTEL_AGENTIC_CANARY", CANARY)
    sql = ground.sql(BY_BOTH[name] if name in BY_BOTH else BY_GUARD[name][1])
    con = ground.con.cursor()

    with pytest.raises(QueryError) as refused:
        check_statement(con, sql, folder=ground.export)

    con.close()
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("name", BY_BOTH)
def test_the_instance_refuses_without_the_guard(
    ground: Ground, untouched: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "OTEL_AGENTIC_CANARY", CANARY)

    with pytest.raises(duckdb.Error) as refused:
        answer_without_guard(ground, BY_BOTH[name])

    assert CANARY not in str(refused.value)
    assert untouched == ground.state()


@pytest.mark.parametrize("name", BY_GUARD)
def test_what_the_guard_alone_refuses_is_known_and_why(ground: Ground, name: str) -> None:
    why, sql = BY_GUARD[name]

    assert CANARY not in answer_without_guard(ground, sql)
    assert why


def test_only_the_export_folder_may_be_read(ground: Ground) -> None:
    path = ground.export / "a.parquet"
    with duckdb.connect(":memory:") as other:
        other.sql("SELECT 7 AS a").write_parquet(str(path))
    con = ground.con.cursor()
    for text in (
        "SELECT a FROM read_parquet('{export}/a.parquet')",
        "SELECT a FROM '{export}/a.parquet'",
        "SELECT a FROM read_parquet(['{export}/a.parquet', '{export}/a*.parquet'], union_by_name = true) LIMIT 1",
    ):
        sql = ground.sql(text)
        assert [(7,)] == con.execute(check_statement(con, sql, folder=ground.export)).fetchall()
        with raises(QueryError, snapshot("queries read no files")):
            check_statement(con, sql)
        with pytest.raises(QueryError, match="below /elsewhere"):
            check_statement(con, sql, folder=path.parent.parent.joinpath("/elsewhere"))
    con.close()


def test_hidden_tables_are_not_read(ground: Ground) -> None:
    con = ground.con.cursor()
    for sql in ("FROM labels", "FROM main.LABELS", "SUMMARIZE labels", "WITH labels AS (SELECT 1) FROM labels"):
        with pytest.raises(QueryError, match=r"(?i)labels"):
            check_statement(con, sql, hidden=frozenset({"labels"}))
    con.close()


#: Functions that queries may not use, by a beginning of the name or the whole of it, and why.
REFUSED_VALUES: Final = {
    "__internal": "made by the optimizer",
    "__between": "an operator has it",
    "__cast": "an operator has it",
    "collate_": "COLLATE has it",
    "icu_": "COLLATE has it",
    "has_": "rights, of which DuckDB has none",
    "inet_": "of a server, which DuckDB is not",
    "pg_": "of PostgreSQL, or sleeps",
    "st_": "of maps",
    "json_copy_": "internal",
    "json_serialize_": "SQL as data",
    "json_deserialize_": "SQL as data",
    "current_setting": "reveals settings",
    "current_query": "reveals statements",
    "current_connection_id": "reveals sessions",
    "current_transaction_id": "reveals sessions",
    "current_role": "reveals sessions",
    "current_schemas": "reveals sessions",
    "current_user": "reveals sessions",
    "session_user": "reveals sessions",
    "user": "reveals sessions",
    "txid_current": "reveals sessions",
    "getvariable": "reveals variables",
    "get_block_size": "reveals settings",
    "in_search_path": "reveals settings",
    "write_log": "writes a log",
    "parse_duckdb_log_message": "reads a log",
    "nextval": "changes a sequence",
    "setval": "changes a sequence",
    "currval": "reads a sequence",
    "setseed": "changes what others get",
    "sleep_ms": "sleeps",
    "variant_": "of VARIANT, which deep JSON takes minutes to become",
    "json_pretty": "makes texts of any length",
    "printf": "makes texts of any length",
    "format": "makes texts of any length",
    "bitstring": "makes values of any length",
    "error": "raises",
    "assert_true": "raises",
    "create_sort_key": "internal",
    "constant_or_null": "internal",
    "remap_struct": "internal",
    "index_key": "internal",
    "vector_type": "internal",
    "stats": "internal",
    "alias": "internal",
    "is_histogram_other_bin": "internal",
    "timetz_byte_comparable": "internal",
    "can_cast_implicitly": "internal",
    "map_to_pg_oid": "internal",
    "make_type": "types as values",
    "get_type": "types as values",
    "cast_to_type": "types as values",
    "replace_type": "types as values",
    "combine": "states of aggregates",
    "finalize": "states of aggregates",
    "to_aggregate_state": "states of aggregates",
    "invoke": "calls by name",
}
REFUSED_TABLES: Final = {
    "duckdb_": "reveals settings, paths, logs or the machine",
    "pragma_": "reveals settings, paths or storage",
    "read_": "reads files",
    "parquet_": "reads files",
    "sniff_csv": "reads files",
    "glob": "lists files",
    "arrow_scan": "reads memory",
    "pandas_scan": "reads memory",
    "python_": "runs Python",
    "seq_scan": "internal",
    "query": "SQL in a text",
    "json_execute_serialized_sql": "SQL in a text",
    "checkpoint": "writes",
    "force_checkpoint": "writes",
    "enable_": "changes settings",
    "disable_": "changes settings",
    "truncate_duckdb_logs": "changes logs",
    "which_secret": "reveals secrets",
    "icu_": "of no use",
    "test_": "of no use",
    "create_external_": "leaves the store",
    "destroy_external_": "leaves the store",
    "register_external_": "leaves the store",
    "deregister_external_": "leaves the store",
}
_INSTALLED: Final = """
SELECT DISTINCT lower(function_name), function_type IN ('table', 'table_macro') FROM duckdb_functions()
WHERE internal AND function_type != 'pragma'
"""


def test_every_function_of_the_installed_duckdb_was_judged() -> None:
    with duckdb.connect(":memory:") as con:
        functions = con.execute(_INSTALLED).fetchall()
    unknown = {
        name
        for name, is_table in functions
        if name not in (TABLES if is_table else VALUES)
        and not name.startswith(tuple(REFUSED_TABLES if is_table else REFUSED_VALUES))
    }

    assert set() == unknown


def test_what_is_refused_is_not_allowed_as_well() -> None:
    exact = {name for name in REFUSED_VALUES if not name.endswith("_")}
    assert set() == exact & VALUES
    assert {"getenv", "current_setting", "write_log"} & VALUES == set()
    assert {"duckdb_settings", "duckdb_secrets", "read_csv", "glob", "query"} & TABLES == set()
