"""Evaluations of different names stand side by side, and every command shows one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.testing import speak_genai
from tests.builders import CASE, ask_hotel, feed, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_agentic.engine.engine import Engine

CASES = [("cases.jsonl", CASE.replace('"case_id"', '"tags": ["stays"], "case_id"', 1))]
#: The same case with another answer and another parameter.
CHANGED = [("cases.jsonl", CASES[0][1].replace("hotels", "inns").replace("The Ritz.", "The Savoy."))]
#: A command, and what it says of the conversation that passes by `CASES` and fails by `CHANGED`.
SHOWN: dict[str, Callable[[Commands, str], Any]] = {
    "report": lambda it, name: it.report(evaluation=name)["groups"][0]["c"],
    "pictures": lambda it, name: 1 - len(it.report_pictures(evaluation=name)["failing"]["rows"]),
    "gate": lambda it, name: int(it.gate(conditions={"min_success": 0.5, "min_n": 1}, evaluation=name)["passed"]),
    "failures": lambda it, name: 1 - it.failures(evaluation=name)["failed"],
    "tools_failing": lambda it, name: 1 - len(it.tools_failing(evaluation=name)),
    "suites": lambda it, name: it.suites(evaluation=name)[0]["c"],
    "suite_trend": lambda it, name: it.suite_trend(suite="stays", evaluation=name)["points"][0]["c"],
    "conversations_list": lambda it, name: len(it.conversations_list(outcome="pass", evaluation=name)),
    "conversations_show": lambda it, name: int(_shown(it, name)["score"]["outcome"] == "pass"),
    "conversations_export": lambda it, name: next(iter(it.conversations_export(evaluation=name)))["outcome"] == "pass",
    "truth_matches": lambda it, name: int(
        it.truth_matches(evaluation=name)[0]["evaluation"] == "default"
        and it.truth_matches(evaluation=name)[0]["case_id"] == "hotel"
    ),
}


def _shown(commands: Commands, name: str) -> dict[str, Any]:
    shown: dict[str, Any] = commands.conversations_show(conversation_id="conversation-1", evaluation=name)
    return shown


@pytest.fixture
def commands(engine: Engine) -> Commands:
    """Commands on a conversation that passes under the default evaluation and fails under `strict`."""
    feed(engine, speak_genai(ask_hotel()))
    commands = Commands(engine)
    commands.evaluate(cases=CASES)
    commands.evaluate(cases=CHANGED, evaluation="strict")
    return commands


def test_every_command_shows_the_evaluation_that_it_is_asked_for(commands: Commands) -> None:
    shown = {name: (said(commands, "default"), said(commands, "strict")) for name, said in SHOWN.items()}

    assert dict.fromkeys(SHOWN, (1, 0)) == shown


def test_results_follow_the_default_evaluation_alone(engine: Engine, commands: Commands) -> None:
    assert [("pass",)] == rows(engine, "SELECT outcome FROM results")
    assert [(1,)] == rows(engine, "SELECT correct FROM v_reliability")


def test_scoring_again_supersedes_scores_of_the_same_name_only(engine: Engine, commands: Commands) -> None:
    commands.evaluate(cases=CASES, evaluation="strict")

    assert [("default", "pass", False), ("strict", "fail", True), ("strict", "pass", False)] == rows(
        engine, "SELECT evaluation, outcome, superseded FROM conversation_scores ORDER BY ALL"
    )
    assert [("default",), ("strict",)] == rows(
        engine,
        """
        SELECT evaluation FROM scores WHERE name = 'agentic.conversation' AND NOT superseded AND label = 'pass'
        ORDER BY evaluation
        """,
    )


def test_a_command_carries_the_name_of_the_evaluation(commands: Commands) -> None:
    named = [
        commands.report(evaluation="strict"),
        commands.failures(evaluation="strict"),
        commands.gate(evaluation="strict"),
        commands.suite_trend(suite="stays", evaluation="strict"),
        *commands.tools_failing(evaluation="strict"),
        *commands.conversations_list(evaluation="strict"),
        _shown(commands, "strict"),
    ]
    assert {"strict"} == {found["evaluation"] for found in named}
    assert any("strict" in note for note in named[2]["notes"])


def test_an_unknown_evaluation_is_refused_with_those_that_exist(commands: Commands) -> None:
    with pytest.raises(UsageError, match=r"'nope'.*default, strict"):
        commands.report(evaluation="nope")


@pytest.mark.parametrize("name", ["", "with space", "x" * 65, "-x"])
def test_a_name_that_is_none_is_refused(commands: Commands, name: str) -> None:
    with pytest.raises(UsageError, match="evaluation"):
        commands.evaluate(evaluation=name)


def test_metrics_stand_side_by_side_too(engine: Engine, commands: Commands) -> None:
    sql = """
    SELECT evaluation, superseded, count(*) FROM scores WHERE name = 'agentic.operations.tool_errors' GROUP BY ALL ORDER BY ALL
    """
    assert [("default", False, 1), ("strict", False, 1)] == rows(engine, sql)
