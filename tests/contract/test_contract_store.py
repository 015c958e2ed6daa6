"""The DuckDB file: tables and views with their columns and types."""

from __future__ import annotations

from inline_snapshot import external_file

from tools.store_reference import Relation, schema


def test_tables_views_and_columns_are_the_golden_ones() -> None:
    result = schema()
    lines = [
        *(line for table in sorted(result.tables, key=_name) for line in _described("table", table)),
        *(line for view in sorted(result.views, key=_name) for line in _described("view", view)),
    ]
    assert "\n".join([*lines, ""]) == external_file("golden/store.txt")


def _name(relation: Relation) -> str:
    return relation.name


def _described(kind: str, relation: Relation) -> list[str]:
    columns = [
        f"  {column.name} {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in sorted(relation.columns, key=lambda column: column.name)
    ]
    return [f"{kind} {relation.name}", *columns]
