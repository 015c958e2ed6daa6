"""The answer to a query as a Parquet file keeps names, types and values."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from otel_agentic.errors import QueryError
from otel_agentic.store.queries.parquet import parquet_of
from tests.store.store_queries import ask_sql

if TYPE_CHECKING:
    from otel_agentic.store import Store


def read_back(path: Path, written: bytes) -> tuple[list[str], list[tuple[Any, ...]]]:
    path.write_bytes(written)
    with duckdb.connect(":memory:") as con:
        con.execute("SET TimeZone = 'UTC'")
        answer = con.execute("SELECT * FROM read_parquet($path)", {"path": str(path)})
        return [str(column[0]) for column in answer.description or ()], answer.fetchall()


def test_types_and_values_come_back(store: Store, tmp_path: Path) -> None:
    sql = (
        'SELECT 1::UTINYINT AS a, -2.5 AS "A", \'x"y\n\' AS "q""", true AS t, NULL AS n, TIMESTAMP_NS \'2026-01-02 03:04:05.6\' AS s, '
        "TIMESTAMPTZ '2026-01-02 03:04:05+00' AS z, '\\x01\\xff'::BLOB AS b, [1, 2] AS l, {'k': 'v'} AS d, "
        "170141183460469231731687303715884105727::HUGEINT AS h, 0.1::DOUBLE AS f"
    )
    answer = ask_sql(store, sql)

    written = parquet_of(answer["columns"], answer["types"], answer["rows"])
    names, rows = read_back(tmp_path / "a.parquet", written)

    assert ["a", "A_2", 'q"', "t", "n", "s", "z", "b", "l", "d", "h", "f"] == names
    expected = (1, Decimal("-2.5"), 'x"y\n', True, None, datetime(2026, 1, 2, 3, 4, 5, 600_000))  # noqa: DTZ001 — as DuckDB gives it
    assert expected == rows[0][:6]
    assert (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), b"\x01\xff", "[1, 2]", '{"k": "v"}') == rows[0][6:10]
    assert ("170141183460469231731687303715884105727", 0.1) == rows[0][10:]


def test_no_rows_are_a_file_with_columns_and_no_columns_are_refused(tmp_path: Path) -> None:
    assert (["a"], []) == read_back(tmp_path / "a.parquet", parquet_of(["a"], ["BIGINT"], []))
    with pytest.raises(QueryError, match="no columns"):
        parquet_of([], [], [])


@pytest.mark.parametrize("name", ['a" FROM x; DROP', "a\0b", "", "a' || 'b", "é\n"])
def test_a_hostile_name_is_a_name(tmp_path: Path, name: str) -> None:
    names, rows = read_back(tmp_path / "a.parquet", parquet_of([name], ["BIGINT); DROP TABLE x; --"], [["v"]]))
    assert ([name.replace("\0", "\ufffd") or "_"], [("v",)]) == (names, rows)
