"""The queries that docs/failing-tools.md shows are taken by a store; there is one for each view, there or in docs/sql.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.cli.hotel import build_hotel
from tests.cli.running import done

GUIDE: Final = Path(__file__).parents[2] / "docs" / "failing-tools.md"
SQL: Final = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that tests read and do not change."""
    return build_hotel(tmp_path_factory.mktemp("hotel"))


def queries(guide: Path = GUIDE) -> list[tuple[str, str]]:
    """Return the queries of a guide, each behind the question that it answers."""
    blocks = "".join(SQL.findall(guide.read_text(encoding="utf-8")))
    parts = [part.strip().partition("\n") for part in blocks.split(";") if part.strip()]
    return [(question, query) for question, _, query in parts]


@pytest.mark.parametrize(("question", "query"), queries())
def test_a_query_of_the_guide_answers_a_question(hotel: Path, question: str, query: str) -> None:
    assert re.fullmatch(r"-- .+\?", question)
    assert isinstance(done("query", "--db", hotel, query, "--format", "json").json, list)


def test_a_guide_has_a_query_for_each_view(hotel: Path) -> None:
    sql = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    views = {row["view_name"] for row in done("query", "--db", hotel, sql, "--format", "json").json}
    shown = [*queries(), *queries(GUIDE.with_name("sql.md"))]
    assert views == {name for _, query in shown for name in re.findall(r"(?:FROM|JOIN) (v_\w+)", query)}


def test_the_first_query_of_the_guide_finds_what_stands_first(hotel: Path) -> None:
    first, *_ = done("query", "--db", hotel, queries()[0][1], "--format", "json").json
    assert ("book", "parameters", "city", 3) == tuple(
        first[name] for name in ("tool", "dimension", "parameter", "failed")
    )
