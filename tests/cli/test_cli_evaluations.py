"""Evaluations side by side, from the command line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.pictured import Page
from tests.cli.running import done, run

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

NAME = "compat:agentest"


@pytest.fixture(scope="module")
def db(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scored store, scored with Agentest's arithmetic, too."""
    db = Path(shutil.copy(shop.db, tmp_path_factory.mktemp("evaluations") / "t.duckdb"))
    assert NAME in done("evaluate", "--db", db, "--compat", "agentest").out
    return db


def test_a_compat_run_keeps_the_default_evaluation(shop: Shop, db: Path) -> None:
    report = ("report", "--format", "json", "--db")

    assert done(*report, shop.db).json == done(*report, db).json
    assert NAME == done(*report, db, "--evaluation", NAME).json["evaluation"]


@pytest.mark.parametrize(
    "command",
    [
        ("report",),
        ("tools", "failing"),
        ("failures",),
        ("gate", "--min-success", "0.1", "--min-n", "1"),
        ("conversations", "show", "c1"),
        *(
            pytest.param(command, marks=pytest.mark.slow)
            for command in (
                ("report", "--format", "markdown"),
                ("suite", "list"),
                ("conversations", "list"),
                ("truth", "matches"),
            )
        ),
    ],
    ids=" ".join,
)
def test_what_is_printed_names_the_evaluation_unless_it_is_the_default_one(db: Path, command: tuple[str, ...]) -> None:
    assert NAME not in run(*command, "--db", db).out
    assert NAME in run(*command, "--db", db, "--evaluation", NAME).out.replace("\\", "")


@pytest.mark.slow
def test_pictures_show_the_evaluation_that_is_named(db: Path) -> None:
    """Agentest's arithmetic gives no scores of tools, so its page has no faults of them."""
    default, named = (
        Page.of(done("report", "--format", "html", "--db", db, *name).out).text for name in ((), ("--evaluation", NAME))
    )

    assert "was given a wrong order" in default
    assert "was given a wrong order" not in named


def test_a_query_shows_the_evaluation_that_it_names(db: Path) -> None:
    sql = "SELECT conversation_id, explanation FROM v_conversations ORDER BY ALL"
    default, named = (
        done("query", "--db", db, "--format", "json", *name, sql).json for name in ((), ("--evaluation", NAME))
    )

    assert default != named
    refused = run("query", "--db", db, "--evaluation", "nope", sql)
    assert 2 == refused.code
    assert NAME in refused.err


def test_an_unknown_evaluation_is_refused_with_those_that_exist(db: Path) -> None:
    ran = run("report", "--db", db, "--evaluation", "nope")
    assert (2, True) == (ran.code, f"{NAME}, default" in ran.err)
