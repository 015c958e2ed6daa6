"""Evaluations of different names stand side by side, and every command shows one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.testing import speak_genai
from tests.builders import CASE, ask_hotel, feed, rows

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore

CASES = [("cases.jsonl", CASE.replace('"case_id"', '"tags": ["stays"], "case_id"', 1))]
#: The same case with another answer and another parameter.
CHANGED = [("cases.jsonl", CASES[0][1].replace("hotels", "inns").replace("The Ritz.", "The Savoy."))]
#: A command, and its result for the conversation that passes by `CASES` and fails by `CHANGED`.
RESULT_OF: dict[str, Callable[[Commands, str], Any]] = {
    "report": lambda item, name: item.report(evaluation=name)["groups"][0]["c"],
    "pictures": lambda item, name: 1 - len(item.report_pictures(evaluation=name)["failing"]["rows"]),
    "gate": lambda item, name: int(item.gate(conditions={"min_success": 0.5, "min_n": 1}, evaluation=name)["passed"]),
    "failures": lambda item, name: 1 - item.failures(evaluation=name)["failed"],
    "tools_failing": lambda item, name: 1 - len(item.tools_failing(evaluation=name)),
    "suites": lambda item, name: item.suites(evaluation=name)[0]["c"],
    "suite_trend": lambda item, name: item.suite_trend(suite="stays", evaluation=name)["points"][0]["c"],
    "conversations_list": lambda item, name: len(item.conversations_list(outcome="pass", evaluation=name)),
    "conversations_show": lambda item, name: int(_conversation(item, name)["score"]["outcome"] == "pass"),
    "conversations_export": lambda item, name: (
        next(iter(item.conversations_export(evaluation=name)))["outcome"] == "pass"
    ),
    "truth_matches": lambda item, name: int(
        item.truth_matches(evaluation=name)[0]["evaluation"] == "default"
        and item.truth_matches(evaluation=name)[0]["case_id"] == "hotel"
    ),
}


def _conversation(commands: Commands, name: str) -> dict[str, Any]:
    displayed: dict[str, Any] = commands.conversations_show(conversation_id="conversation-1", evaluation=name)
    return displayed


def _evaluated_twice(engine: Engine) -> None:
    feed(engine, speak_genai(ask_hotel()))
    commands = Commands(engine)
    commands.evaluate(cases=CASES)
    commands.evaluate(cases=CHANGED, evaluation="strict")


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine on a conversation that passes under the default evaluation and fails under `strict`."""
    return copy_of(prepared_store(_evaluated_twice))


@pytest.fixture
def commands(engine: Engine) -> Commands:
    return Commands(engine)


def test_every_command_shows_the_evaluation_that_it_is_asked_for(commands: Commands) -> None:
    displayed = {name: (reply(commands, "default"), reply(commands, "strict")) for name, reply in RESULT_OF.items()}

    assert dict.fromkeys(RESULT_OF, (1, 0)) == displayed


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
        _conversation(commands, "strict"),
    ]
    assert {"strict"} == {result["evaluation"] for result in named}
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
