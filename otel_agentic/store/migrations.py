"""The schema of a store: `schema.sql`, then numbered migrations, each applied once.

Comments in the SQL become comments in the database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from otel_agentic.errors import StoreUnusableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection

#: The whole schema of a new store.
BASE: Final = "schema.sql"
_MIGRATIONS: Final = (
    "CREATE TABLE IF NOT EXISTS schema_migrations (name VARCHAR NOT NULL, applied_at TIMESTAMP_NS NOT NULL)"
)
_COMMENTED_ENTITY: Final = re.compile(r"^-- (?P<text>[^\n]+)\nCREATE (?P<kind>TABLE|VIEW) (?P<name>\w+)", re.MULTILINE)
#: How a column stands in each kind of entity: `name TYPE … -- text` in a table, `… AS name -- text` in a view's SELECT.
_COMMENTED_COLUMN: Final = {
    "TABLE": re.compile(r'^    "?(?P<name>\w+)"? [A-Z][^\n]*? -- (?P<text>[^\n]+)$', re.MULTILINE),
    "VIEW": re.compile(r'^    (?:[^\n]* AS |\w+\.)?"?(?P<name>\w+)"?,? -- (?P<text>[^\n]+)$', re.MULTILINE),
}
_END: Final = {"TABLE": "\n);", "VIEW": ";\n"}
_IS_OURS: Final = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'schema_migrations'"
_MIGRATION_COMMENTS: Final = (
    "COMMENT ON TABLE schema_migrations IS 'One row is an applied part of this schema: schema.sql, then migrations.'",
    "COMMENT ON COLUMN schema_migrations.name IS 'schema.sql or a migration file'",
    "COMMENT ON COLUMN schema_migrations.applied_at IS 'when it was applied'",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema: its file name and its SQL."""

    name: str
    sql: str


def all_migrations() -> list[Migration]:
    """Return `schema.sql` and every later migration of this release, in order."""
    package = files("otel_agentic.store")
    return [Migration(name=BASE, sql=(package / BASE).read_text("utf-8"))]


def migrate(con: DuckDBPyConnection, path: str, known: Sequence[Migration] | None = None) -> list[str]:
    """Bring a database to this release's schema; return the names of the migrations applied now.

    Args:
        con: a connection that may write.
        path: the database's name, for messages.
        known: the migrations of this release, in order; None takes `all_migrations`.

    Raises:
        StoreUnusableError: the file was written by a newer release, or before the first one.
    """
    applied = _applied(con)
    known = all_migrations() if known is None else known
    if applied and BASE not in applied:
        raise StoreUnusableError(
            f"{path} was written by a development version from before the first release and cannot be upgraded. To keep "
            f"its data, run `otel-agentic store export --db {path} FOLDER` with that version, then "
            "`otel-agentic store import --db NEW.duckdb FOLDER` with this one"
        )
    newer = sorted(applied - {migration.name for migration in known})
    if newer:
        raise StoreUnusableError(
            f"{path} was written by a newer release of otel-agentic (it has {', '.join(newer)}); upgrade otel-agentic"
        )
    pending = [migration for migration in known if migration.name not in applied]
    for migration in pending:
        _apply(con, migration)
    return [migration.name for migration in pending]


def _applied(con: DuckDBPyConnection) -> set[str]:
    if not con.execute(_IS_OURS).fetchall():
        return set()
    return {str(name) for (name,) in con.execute("SELECT name FROM schema_migrations").fetchall()}


def _apply(con: DuckDBPyConnection, migration: Migration) -> None:
    con.execute("BEGIN TRANSACTION")
    try:
        con.execute(_MIGRATIONS)
        con.execute(migration.sql)
        con.execute(";\n".join((*_MIGRATION_COMMENTS, *comments(migration.sql))))
        con.execute("INSERT INTO schema_migrations VALUES (?, now()::TIMESTAMP_NS)", [migration.name])
    except BaseException:
        con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


def comments(sql: str) -> Iterator[str]:
    r"""Yield a COMMENT statement for each commented table, view and column of a migration.

    >>> list(comments("-- One row is a thing.\nCREATE TABLE things (\n    a INTEGER, -- its size\n);"))[1]
    "COMMENT ON COLUMN things.a IS 'its size'"
    """
    for entity in _COMMENTED_ENTITY.finditer(sql):
        kind, name = entity["kind"], entity["name"]
        yield f"COMMENT ON {kind} {name} IS '{_quoted(entity['text'])}'"
        body = sql[entity.end() : sql.index(_END[kind], entity.end())]
        for column in _COMMENTED_COLUMN[kind].finditer(body + "\n"):
            yield f"COMMENT ON COLUMN {name}.{_identifier(column['name'])} IS '{_quoted(column['text'])}'"


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def _identifier(name: str) -> str:
    return f'"{name}"' if name in {"window", "end", "time"} else name
