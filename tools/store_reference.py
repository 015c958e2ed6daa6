"""Write docs/store.md: tables, views and columns, generated from the comments in a new DuckDB file.

Run it as `python -m tools.store_reference [--check]`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store
from tools.generated import ROOT, run

PAGE: Final = ROOT / "docs" / "store.md"

_INTRODUCTION: Final = """\
# Tables and views of the DuckDB file

Written by `make docs` from the comments in the database: `SELECT * FROM duckdb_columns()` returns the same. Times are
UTC: `TIMESTAMP_NS` in tables, `TIMESTAMP WITH TIME ZONE` in views. An environment that is not set is `''`, never null.
Rows of a conversation are keyed by (environment, conversation id, revision); a late span makes a new revision, and the
rows of the old one stay, superseded. The views are the place to begin.
"""

_TABLES: Final = "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal ORDER BY table_oid"
_VIEWS: Final = "SELECT view_name, comment FROM duckdb_views() WHERE NOT internal ORDER BY view_name"
_COLUMNS: Final = """
    SELECT table_name, column_name, data_type, is_nullable, comment
    FROM duckdb_columns() WHERE NOT internal ORDER BY table_oid, column_index
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table or view; `comment` is None if it has none."""

    name: str
    type: str
    nullable: bool
    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or view with its columns, in their order."""

    name: str
    comment: str | None
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """All tables and views of a new file."""

    tables: tuple[Relation, ...]
    views: tuple[Relation, ...]


def schema() -> Schema:
    """Return the schema of a new file."""
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader([], ConversationSettings())
        settings = StoreSettings(db=Path(folder) / "fresh.duckdb")
        with Store(settings, reader) as store, store.read() as connection:
            columns = connection.execute(_COLUMNS).fetchall()
            tables = connection.execute(_TABLES).fetchall()
            views = connection.execute(_VIEWS).fetchall()
    return Schema(tables=_relations(tables, columns), views=_relations(views, columns))


def _relations(named: Sequence[tuple[str, str | None]], columns: Sequence[tuple[str, ...]]) -> tuple[Relation, ...]:
    return tuple(
        Relation(
            name=name,
            comment=comment,
            columns=tuple(
                Column(name=column, type=kind, nullable=bool(nullable), comment=text or None)
                for table, column, kind, nullable, text in columns
                if table == name
            ),
        )
        for name, comment in named
    )


def uncommented(content: Schema) -> list[str]:
    """Return the tables, views and table columns without a comment, as `table` or `table.column`."""
    relations = [relation.name for relation in (*content.tables, *content.views) if not relation.comment]
    columns = [
        f"{table.name}.{column.name}" for table in content.tables for column in table.columns if not column.comment
    ]
    return relations + columns


def reference(content: Schema) -> str:
    """Return the page: the views, then the tables."""
    views = [_section(relation) for relation in content.views]
    tables = [_section(relation) for relation in content.tables]
    return "\n".join([_INTRODUCTION, "## Views\n", *views, "## Tables\n", *tables])


def _section(relation: Relation) -> str:
    # DuckDB reports all columns of a view as nullable, which would not help a reader.
    says_null = any(not column.nullable for column in relation.columns)
    rows = [
        f"| `{column.name}` | {column.type}{', may be null' if says_null and column.nullable else ''} "
        f"| {_cell(column.comment)} |"
        for column in relation.columns
    ]
    head = ["| column | type | content |", "|---|---|---|"]
    return "\n".join([f"### {relation.name}\n", f"{relation.comment or ''}\n", *head, *rows, ""])


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    run(PAGE, lambda: reference(schema()))
