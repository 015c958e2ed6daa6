"""The page of the DuckDB file describes all its tables, views and columns."""

from __future__ import annotations

from inline_snapshot import snapshot

from tests.snapshots import opening
from tools.generated import stale
from tools.store_reference import PAGE, Column, Relation, Schema, reference, schema, uncommented


def test_every_table_view_and_column_is_commented() -> None:
    assert [] == uncommented(schema())


def test_tables_and_columns_without_a_comment_are_named() -> None:
    columns = (Column(name="query", type="VARCHAR", nullable=True, comment=None),)
    table = Relation(name="turns", comment="a turn", columns=columns)
    view = Relation(name="v_turns", comment=None, columns=())

    assert ["v_turns", "turns.query"] == uncommented(Schema(tables=(table,), views=(view,)))


def test_a_comment_with_a_bar_or_a_line_break_stays_one_cell() -> None:
    columns = (Column(name="n", type="INTEGER", nullable=False, comment="a|b\nc"),)
    page = reference(Schema(tables=(Relation(name="t", comment="T", columns=columns),), views=()))

    assert "| `n` | INTEGER | a\\|b c |" in page


def test_a_page_that_is_not_current_is_named_with_the_difference() -> None:
    expected = PAGE.read_text(encoding="utf-8") + "one more line\n"

    difference = stale(PAGE, expected)

    assert difference is not None
    assert opening(difference) == snapshot("docs/store.md is not current; run `make docs`")
    assert "+one more line" in difference
