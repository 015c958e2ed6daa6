"""The queries that docs/sql.md shows are taken by a store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from otel_agentic.config import EvaluatorSettings
from otel_agentic.evaluators.registry import all_evaluators, metrics_by_name
from tests.cli.hotel import build_hotel
from tests.cli.running import done

GUIDE: Final = Path(__file__).parents[2] / "docs" / "sql.md"
#: Of these nobody has an answer, for no judge was asked.
JUDGED: Final = {"-- Which turns were worst by a metric, and what was said of them?", "-- Where did the judge fail?"}
SQL: Final = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def hotel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store that tests read and do not change."""
    return build_hotel(tmp_path_factory.mktemp("hotel"))


def queries() -> list[tuple[str, str]]:
    """Return the queries of the guide, each behind the question that it answers."""
    blocks = "".join(SQL.findall(GUIDE.read_text(encoding="utf-8")))
    parts = [part.strip().partition("\n") for part in blocks.split(";") if part.strip()]
    return [(question, query) for question, _, query in parts]


@pytest.mark.parametrize(("question", "query"), queries())
def test_a_query_of_the_guide_answers_its_question(hotel: Path, question: str, query: str) -> None:
    assert re.fullmatch(r"-- .+\?", question)
    rows = done("query", "--db", hotel, query, "--format", "json").json
    assert bool(rows) == (question not in JUDGED)


def test_the_metrics_that_the_guide_names_are_there() -> None:
    named = set(re.findall(r"'(agentic\.[\w.]+)'", GUIDE.read_text(encoding="utf-8")))
    assert named <= set(metrics_by_name(all_evaluators(EvaluatorSettings())))
    assert named
