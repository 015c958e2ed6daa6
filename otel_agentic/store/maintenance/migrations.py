"""The schema of a store: `schema.sql`, then numbered migrations (`migrations/NNNN_name.sql`), each applied once.

The checksum of each applied file is stored, and compared whenever the store is opened: if a migration were edited after
it was applied, stores of one release would have different schemas. `released.sha256` lists the checksums of every
release; if only a comment of a released file changes, its earlier checksum stays in that list.

An existing store is upgraded only by commands that write to it: `serve`, `ingest` and `store upgrade`. The file is
copied first, and all pending migrations are applied in one transaction. Comments in the SQL become comments in the
database.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.connection import error_summary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store.durability import UndoFile


_log = logging.getLogger(__name__)
#: The complete schema of a new store.
BASE: Final = "schema.sql"
_RELEASED: Final = "released.sha256"
_MIGRATIONS: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    name VARCHAR NOT NULL, checksum VARCHAR NOT NULL, applied_at TIMESTAMP_NS NOT NULL
)
"""
_COMMENTED_ENTITY: Final = re.compile(r"^-- (?P<text>[^\n]+)\nCREATE (?P<kind>TABLE|VIEW) (?P<name>\w+)", re.MULTILINE)
#: The form of a column in each kind of entity: `name TYPE … -- text` in a table, `… AS name -- text` in a view's
#: SELECT.
_COMMENTED_COLUMN: Final = {
    "TABLE": re.compile(r'^    "?(?P<name>\w+)"? [A-Z][^\n]*? -- (?P<text>[^\n]+)$', re.MULTILINE),
    "VIEW": re.compile(r'^    (?:[^\n]* AS |\w+\.)?"?(?P<name>\w+)"?,? -- (?P<text>[^\n]+)$', re.MULTILINE),
}
_END: Final = {"TABLE": "\n);", "VIEW": ";\n"}
_COLUMNS: Final = "SELECT name FROM pragma_table_info('schema_migrations')"  # duckdb_columns() would bind every view
_MIGRATION_COMMENTS: Final = (
    "COMMENT ON TABLE schema_migrations IS 'One row is an applied part of this schema: schema.sql, then migrations.'",
    "COMMENT ON COLUMN schema_migrations.name IS 'schema.sql or a migration file'",
    "COMMENT ON COLUMN schema_migrations.checksum IS 'SHA-256 of the file when it was applied'",
    "COMMENT ON COLUMN schema_migrations.applied_at IS 'when it was applied: in a new store, when the empty store was created of which it is a copy'",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step of the schema: its file name, its SQL, and earlier checksums under which it was released."""

    name: str
    sql: str
    released: frozenset[str] = field(default=frozenset())

    @property
    def checksum(self) -> str:
        """SHA-256 of the file, hex."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def number(self) -> str:
        """The digits before its name."""
        return self.name.partition("_")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The result of an upgrade: the applied migrations, and the path of the copy of the old file."""

    applied: tuple[str, ...]
    copy: Path


def all_migrations() -> list[Migration]:
    """Return `schema.sql` and every later migration of this release, in order."""
    package = files("otel_agentic.store")
    lines = (package / _RELEASED).read_text("utf-8").splitlines()
    released = [line.split() for line in lines if line and not line.startswith("#")]
    sources = {BASE: package / BASE}
    if (folder := package / "migrations").is_dir():
        sources |= {file.name: file for file in sorted(folder.iterdir(), key=lambda file: file.name)}
    return [
        Migration(
            name=name,
            sql=file.read_bytes().decode(),
            released=frozenset(checksum for checksum, file_path in released if file_path.rpartition("/")[2] == name),
        )
        for name, file in sources.items()
        if name.endswith(".sql")
    ]


def pending_migrations(
    con: DuckDBPyConnection, path: str, known: Sequence[Migration] | None = None
) -> tuple[list[Migration], bool]:
    """Return the migrations that a database lacks, in order, and whether it has a schema at all.

    Args:
        con: a connection.
        path: the database's name, for messages.
        known: the migrations of this release, in order; None means `all_migrations`.

    Raises:
        StoreUnusableError: the file was written by a newer release, or before the first one, or a file of the schema
            was changed after it was applied.
    """
    known = all_migrations() if known is None else known
    try:
        columns = {name for (name,) in con.execute(_COLUMNS).fetchall()}
    except duckdb.CatalogException:  # the table does not exist
        return list(known), False
    by_name = {migration.name: migration for migration in known}
    applied: dict[str, str] = {}
    if "checksum" in columns:
        applied = dict(con.execute("SELECT name, checksum FROM schema_migrations").fetchall())
    base = by_name[BASE]
    if applied.get(BASE) not in {base.checksum, *base.released}:
        raise StoreUnusableError(
            f"{path} was written by a development version, with another {BASE} than any release has, and cannot be upgraded. "
            f"To keep its data, run `otel-agentic store export --db {path} FOLDER` with that version, then "
            "`otel-agentic store import --db NEW.duckdb FOLDER` with this one"
        )
    if newer := sorted(applied.keys() - by_name.keys()):
        raise StoreUnusableError(
            f"{path} was written by a newer release of otel-agentic (it has {', '.join(newer)}); upgrade otel-agentic"
        )
    for name, checksum in sorted(applied.items()):
        if checksum not in {by_name[name].checksum, *by_name[name].released}:
            raise StoreUnusableError(
                f"{path}: migration {name} was applied with checksum {checksum[:12]}, and this installation has another file with "
                f"this name (checksum {by_name[name].checksum[:12]}); install the release of otel-agentic that wrote the store, "
                "or restore a backup"
            )
    return [migration for migration in known if migration.name not in applied], True


def migrate(con: DuckDBPyConnection, path: str, known: Sequence[Migration] | None = None) -> list[str]:
    """Bring a database to this release's schema, without a copy; return the names of the migrations applied now.

    Raises:
        StoreUnusableError: see `pending_migrations`.
    """
    pending, _ = pending_migrations(con, path, known)
    _apply(con, pending)
    return [migration.name for migration in pending]


def bring_up_to_date(
    con: DuckDBPyConnection,
    path: Path,
    undo: UndoFile,
    *,
    upgrade: bool,
    known: Sequence[Migration] | None = None,
) -> Upgrade | None:
    """Create the schema of a new database, or copy and upgrade one of an earlier release; return the upgrade, if any.

    Args:
        con: the only connection to the database.
        path: its file.
        undo: its undo file.
        upgrade: whether an existing store may be changed.
        known: the migrations of this release, in order; None means `all_migrations`.

    Raises:
        StoreUnusableError: the store needs an upgrade and may not be changed; the upgrade failed; or see
            `pending_migrations`.
        OSError: there is no room for the copy.
        duckdb.Error: the database cannot be written.
    """
    pending, exists = pending_migrations(con, str(path), known)
    names = tuple(migration.name for migration in pending)
    if not exists:
        _apply(con, pending)
        return None
    if not pending:
        return None
    if not upgrade:
        raise _outdated(str(path), names)
    copy = path.with_name(f"{path.stem}.before-{pending[0].number}{path.suffix}")
    undo.checkpoint(con)  # so that the copy is one file
    undo.clone(copy)
    _log.warning("%s is being upgraded (%s); a copy from before is kept as %s", path, ", ".join(names), copy)
    try:
        _apply(con, pending)
    except duckdb.Error as error:
        raise StoreUnusableError(
            f"{path}: the upgrade failed ({error_summary(error)}): nothing was changed, and the copy from before is {copy}; report it, "
            "and use the release that wrote the store meanwhile"
        ) from error
    return Upgrade(applied=names, copy=copy)


def require_current(con: DuckDBPyConnection, path: str, known: Sequence[Migration] | None = None) -> None:
    """Check that a database has the schema of this release.

    Raises:
        StoreUnusableError: it has no schema or needs an upgrade; or see `pending_migrations`.
    """
    pending, exists = pending_migrations(con, path, known)
    if not exists:
        raise StoreUnusableError(f"{path} is a DuckDB file without a store; give another --db")
    if pending:
        raise _outdated(path, [migration.name for migration in pending])


def _outdated(path: str, names: Sequence[str]) -> StoreUnusableError:
    return StoreUnusableError(
        f"{path} was written by an earlier release of otel-agentic (it lacks {', '.join(names)}): run "
        f"`otel-agentic store upgrade --db {path}`, which keeps a copy of the file"
    )


def _apply(con: DuckDBPyConnection, pending: Sequence[Migration]) -> None:
    if not pending:
        return
    con.execute("BEGIN TRANSACTION")
    try:
        con.execute(_MIGRATIONS)
        for migration in pending:
            con.execute(migration.sql)
            con.execute(";\n".join((*_MIGRATION_COMMENTS, *comments(migration.sql))))
            con.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, now()::TIMESTAMP_NS)", [migration.name, migration.checksum]
            )
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
