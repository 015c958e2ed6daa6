"""`otel-agentic query` with SQL that begins with a comment, as it comes out of a file or an editor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.cli.query import query
from tests.cli.running import run

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.mark.parametrize("sql", ["-- how many\nSELECT 41 + 1 AS found", "--how many\nSELECT 41 + 1 AS found"])
def test_sql_may_begin_with_a_comment_and_options_may_be_on_either_side(sql: str) -> None:
    options = ["--db", "shop.duckdb", "--format", "json"]
    for arguments in ([sql, *options], [*options, sql], [*options, "--", sql]):
        parameters = query.make_context("query", arguments).params
        assert (sql, Path("shop.duckdb"), "json") == tuple(parameters[name] for name in ("sql", "db", "output"))


def test_sql_that_begins_with_a_comment_is_run(shop: Shop) -> None:
    assert [{"found": 42}] == run(
        "query", "-- how many\nSELECT 41 + 1 AS found", "--db", shop.db, "--format", "json"
    ).json


def test_an_unknown_option_is_reported_as_one(shop: Shop) -> None:
    ran = run("query", "SELECT 1", "--db", shop.db, "--fromat=json")

    assert (2, "") == (ran.code, ran.out)
    assert "--fromat" in ran.err
