"""What logs and answers tell of DuckDB's errors: never a value that was to be stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from otel_agentic.store.connection import describe, error_summary

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = "4111 the customer's own words"


def failing(sql: str) -> duckdb.Error:
    """Return the error of a statement that is given a stranger's text."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE known (id VARCHAR PRIMARY KEY)")
        con.execute("INSERT INTO known VALUES ($text)", {"text": PRIVATE})
        with pytest.raises(duckdb.Error) as caught:
            con.execute(sql, {"text": PRIVATE})
    return caught.value


@pytest.mark.parametrize(
    "sql",
    ["SELECT $text::INTEGER", "SELECT $text::JSON", "SELECT $text::TIMESTAMP", "INSERT INTO known VALUES ($text)"],
)
def test_an_error_that_quotes_a_value_is_told_by_its_class(sql: str, tmp_path: Path) -> None:
    error = failing(sql)
    assert PRIVATE[:4] in str(error)  # DuckDB quotes it
    assert type(error).__name__ == error_summary(error)
    assert f"{tmp_path} cannot be used: {type(error).__name__}" == str(describe(error, tmp_path))


def test_an_error_about_the_file_is_told_in_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(duckdb.IOException) as caught:
        duckdb.connect(str(tmp_path))
    assert str(caught.value).splitlines()[0] == error_summary(caught.value)
