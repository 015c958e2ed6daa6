"""`evaluate --metrics` and `--evaluator` as a user gives them, and their output."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.evaluate import require_no_files
from otel_agentic.commands import RemoteClient
from otel_agentic.errors import UsageError
from tests.cli.running import done, run
from tests.snapshots import ending, passage

if TYPE_CHECKING:
    from tests.cli.conftest import Shop

CHECKS = '''
"""Checks of a shop."""

from otel_agentic.conversations.model import Turn
from otel_agentic.evaluators.custom import evaluator


@evaluator(name="shop.brief", threshold=1)
def brief(turn: Turn) -> bool:
    """Whether the answer is brief."""
    return len(turn.answer or "") < 20


@evaluator(name="shop.broken")
def broken(turn: Turn) -> float:
    raise ValueError("out of order")
'''


@pytest.fixture
def db(shop: Shop, tmp_path: Path) -> Path:
    """A copy of the shop's store, and a file of evaluators next to it."""
    (tmp_path / "checks.py").write_text(CHECKS)
    return Path(shutil.copy(shop.db, tmp_path / "t.duckdb"))


def test_a_metric_of_a_user_file_is_computed_and_shown(db: Path) -> None:
    output = done("evaluate", "--db", db, "--metrics", "none", "--evaluator", "checks.py:brief", "--force").out

    assert "Metrics: 4 conversations" in output
    (row,) = [line.split() for line in output.splitlines() if line.startswith("shop.brief")]
    assert ["shop.brief", "4"] == row[:2]


def test_what_has_a_score_is_caught_up_and_the_second_run_has_nothing_to_do(db: Path) -> None:
    first = done("evaluate", "--db", db, "--metrics", "none", "--evaluator", "checks.py:brief").out
    second = done("evaluate", "--db", db, "--metrics", "none", "--evaluator", "checks.py:brief").out

    assert passage(first) == snapshot("Metrics: 4 conversations, 4 of them scored earlier")
    assert ("nothing to score" in second, "Metrics" in second) == (True, False)


def test_json_has_all_of_it(db: Path) -> None:
    arguments = ("--metrics", "none", "--evaluator", "checks.py:brief", "--evaluator", "checks.py:broken")
    result = json.loads(done("evaluate", "--db", db, *arguments, "--format", "json").out)["evaluators"]

    assert (result["conversations"], result["caught_up"], result["faults"]) == snapshot(
        (4, 4, {"evaluator shop.broken failed: ValueError": 4})
    )
    brief, broken = result["metrics"]
    assert ("shop.brief", "shop.brief", 4, {}) == (
        brief["name"],
        brief["evaluator"],
        brief["n"],
        brief["not_evaluated"],
    )
    assert ("shop.broken", 0, None, {"no_data": 4}) == (
        broken["name"],
        broken["n"],
        broken["mean"],
        broken["not_evaluated"],
    )


def test_what_goes_wrong_in_an_evaluator_is_a_warning_once(db: Path) -> None:
    output = done("evaluate", "--db", db, "--metrics", "none", "--evaluator", "checks.py:broken").out

    assert 1 == " ".join(output.split()).count(
        "warning: evaluator shop.broken failed: ValueError (4 conversations); it counts as not evaluated"
    )


def test_files_of_evaluators_are_no_matter_of_a_running_collectors_client() -> None:
    client = RemoteClient("http://127.0.0.1:1", None)
    require_no_files(client, ())
    with pytest.raises(UsageError) as refused:
        require_no_files(client, ("checks.py:brief",))
    client.close()

    assert str(refused.value) == snapshot(
        "evaluate --evaluator checks.py:brief: a running collector holds the store and uses the evaluators of its "
        'own settings; set evaluators.files = ["checks.py:brief"] there and restart it'
    )


def test_metrics_without_any_score_are_listed_together(db: Path) -> None:
    output = done("evaluate", "--db", db, "--metrics", "none", "--evaluator", "checks.py:broken").out

    assert passage(output) == snapshot(
        "Metrics: 4 conversations, 4 of them scored earlier no score: shop.broken (4 no_data)"
    )


def test_metrics_of_a_family_that_need_a_model_are_skipped_and_listed(db: Path) -> None:
    ran = done("evaluate", "--db", db, "--metrics", "layers", "--force")
    result = json.loads(done("evaluate", "--db", db, "--metrics", "all", "--force", "--format", "json").out)[
        "evaluators"
    ]

    (line,) = [line for line in ran.out.splitlines() if line.startswith("skipped (needs an LLM judge): layers.")]
    assert ending(line) == snapshot("; pass --judge langchain:openai:gpt-5-mini")
    assert "agentic.agentest.helpfulness" in result["left_out"]
    assert not set(result["left_out"]) & {metric["name"] for metric in result["metrics"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--metrics", "unknown"), "no metric 'unknown'; allowed: default, all, none"),
        (("--metrics", "tool_recal"), "no metric 'tool_recal'; did you mean layers.tool_recall or "),
        (("--metrics", "agentest.helpfulness"), "--judge langchain:openai:gpt-5-mini"),
        (("--metrics", "layers,helpfulness"), "an LLM judge is needed for agentic.agentest.helpfulness, and"),
        (("--metrics", "agentest"), "an LLM judge is needed for agentic.agentest."),
        (("--evaluator", "checks.py"), "checks.py"),
        (("--evaluator", "checks.py:width"), "evaluators in checks.py: brief, broken"),
        (("--evaluator", "nowhere.py:brief"), "nowhere.py"),
    ],
)
def test_what_cannot_be_computed_is_a_usage_error(db: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = run("evaluate", "--db", db, *arguments)

    assert 2 == ran.code
    assert message in " ".join(ran.err.split())


def test_the_default_metrics_are_computed_unless_others_are_chosen(db: Path) -> None:
    everything = json.loads(done("evaluate", "--db", db, "--force", "--format", "json").out)["evaluators"]
    none = json.loads(done("evaluate", "--db", db, "--metrics", "none", "--force", "--format", "json").out)

    assert 4 == everything["conversations"]
    assert (0, []) == (none["evaluators"]["conversations"], none["evaluators"]["metrics"])
