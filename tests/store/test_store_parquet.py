"""Parquet files as rows."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import CaseError, TooLargeError
from otel_agentic.store.queries import parquet
from otel_agentic.store.queries.parquet import read_parquet, write_parquet
from tests.snapshots import raises


def make(path: Path, sql: str) -> Path:
    with duckdb.connect() as con:
        con.execute(f"COPY ({sql}) TO '{path}' (FORMAT parquet)")
    return path


def test_rows_come_back_as_they_were_written_and_typed(tmp_path: Path) -> None:
    path = tmp_path / "cases[1].parquet"
    rows: list[dict[str, Any]] = [
        {"case_id": "007", "turn": 1, "reviewed": True, "tool_threshold": 0.1, "minimum_steps": 2**70},
        {"case_id": "é", "turn": None, "reviewed": None, "tool_threshold": None, "minimum_steps": None},
    ]
    columns = ("case_id", "turn", "reviewed", "tool_threshold", "minimum_steps", "goal")
    write_parquet(path, columns, rows)

    table = read_parquet(path)
    assert columns == table.columns
    first, second = table.rows
    assert {
        "case_id": "007",
        "turn": 1,
        "reviewed": True,
        "tool_threshold": 0.1,
        "minimum_steps": str(2**70),
        "goal": None,
    } == first
    assert {"case_id": "é", **dict.fromkeys(columns[1:])} == second
    kinds = duckdb.read_parquet(str(path)).types
    assert ["VARCHAR", "BIGINT", "BOOLEAN", "DOUBLE", "VARCHAR", "VARCHAR"] == [str(kind) for kind in kinds]


def test_values_of_every_type_are_plain_python(tmp_path: Path) -> None:
    sql = """SELECT 1 AS "Case_ID ", [1, 2] AS listed, {'a': 1, 'b': NULL} AS held, MAP {'k': 'v'} AS mapped,
        DATE '2026-01-02' AS day, 1.5::DECIMAL(5, 2) AS exact"""
    (row,) = read_parquet(make(tmp_path / "t.parquet", sql)).rows
    assert row == {
        "case_id": 1,
        "listed": [1, 2],
        "held": {"a": 1, "b": None},
        "mapped": {"k": "v"},
        "day": date(2026, 1, 2),
        "exact": Decimal("1.50"),
    }


def test_a_folder_that_looks_like_a_partition_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "dataset=x").mkdir()
    assert ("a",) == read_parquet(make(tmp_path / "dataset=x" / "t.parquet", "SELECT 1 AS a")).columns


@pytest.mark.parametrize("content", [b"", b"hello", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_a_file_that_is_not_parquet_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with raises(CaseError, snapshot("t.parquet: not readable as Parquet: ")) as raised:
        read_parquet(tmp_path / "t.parquet")
    assert "\n" not in str(raised.value)


def test_a_small_file_that_holds_very_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "MAX_ROWS", 10)
    path = make(tmp_path / "t.parquet", "SELECT 1 AS a FROM range(1000)")
    with raises(
        TooLargeError,
        snapshot(
            "<tmp_path>/t.parquet: 1,000 rows, 39 bytes when decompressed; allowed: 10 rows and 256 MiB; split it into several files"
        ),
        tmp_path=tmp_path,
    ):
        read_parquet(path)


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be written"):
        write_parquet(tmp_path / "absent" / "t.parquet", ["case_id"], [{"case_id": "a"}])
