"""Messages about errors of DuckDB in logs and answers: never a value that was being stored."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from otel_agentic.store.connection import describe, error_summary

PRIVATE = "4111 the customer's own words"


def failing(sql: str) -> duckdb.Error:
    """Return the error of a statement that is given untrusted text."""
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
def test_an_error_that_quotes_a_value_is_reported_by_its_class(sql: str, tmp_path: Path) -> None:
    error = failing(sql)
    assert PRIVATE[:4] in str(error)  # DuckDB quotes it
    assert type(error).__name__ == error_summary(error)
    assert f"{tmp_path} cannot be used: {type(error).__name__}" == str(describe(error, tmp_path))


def test_an_error_about_the_file_is_reported_with_its_message(tmp_path: Path) -> None:
    with pytest.raises(duckdb.IOException) as caught:
        duckdb.connect(str(tmp_path))
    assert str(caught.value).splitlines()[0] == error_summary(caught.value)
