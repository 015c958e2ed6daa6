"""`otel-agentic query` with SQL that begins with a comment, as it comes out of a file or an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.running import run

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.mark.parametrize("sql", ["-- how many\nSELECT 41 + 1 AS found", "--how many\nSELECT 41 + 1 AS found"])
def test_sql_may_begin_with_a_comment_and_options_stand_on_either_side(shop: Shop, sql: str) -> None:
    before = run("query", sql, "--db", shop.db, "--format", "json")
    after = run("query", "--db", shop.db, "--format", "json", sql)
    told = run("query", "--db", shop.db, "--format", "json", "--", sql)

    assert ([{"found": 42}],) * 3 == (before.json, after.json, told.json)


def test_an_option_that_does_not_exist_is_still_told_as_one(shop: Shop) -> None:
    ran = run("query", "SELECT 1", "--db", shop.db, "--fromat=json")

    assert (2, "") == (ran.code, ran.out)
    assert "--fromat" in ran.err
