"""What decides whether a conversation is correct: what its case annotates, and any metric."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic import evaluate
from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.scoring.criteria import Criterion, parsed
from otel_agentic.testing import AgentRunScript, conversation, scripted_call, speak_genai, tool_call, turn
from tests.builders import feed, rows

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore

QUERY = "Refund order 7."
REFUND: dict[str, Any] = {"calls": [{"tool_name": "refund", "parameters": {"amount": 10}}]}
CASE: dict[str, Any] = {"case_id": "refund", "turns": [{"query": QUERY, "answer": "Refunded.", "tools": REFUND}]}
STATE: dict[str, Any] = {
    "case_id": "refund",
    "turns": [{"query": QUERY}],
    "expected_state": {"order": {"status": "refunded"}},
}
CHECKS = '''
from otel_agentic.conversations.model import Conversation
from otel_agentic.evaluators.custom import evaluator


@evaluator()
def brief(conversation: Conversation) -> float:
    """1 for a short answer."""
    return float(all(len(turn.answer or "") < 20 for turn in conversation.turns))
'''


def run(amount: int = 10, answer: str = "Refunded.", state: dict[str, Any] | None = None) -> Conversation:
    return conversation(turn(QUERY, answer, tool_call("refund", {"amount": amount}, result="ok")), final_state=state)


def outcome(
    actual: Conversation, case: dict[str, Any], **arguments: Any
) -> tuple[str, str | None, list[tuple[str, str]]]:
    """Return outcome and reason of a conversation, and each deciding criterion with its outcome."""
    (score,) = evaluate(actual, case, **{"metrics": "none", **arguments}).scores
    return score.outcome, score.reason, [(name, result) for name, result, *_ in score.criteria]


@pytest.mark.parametrize(
    ("actual", "criteria", "expected"),
    [
        (run(), None, ("pass", None, [("answer", "pass"), ("tools", "pass")])),
        (run(amount=99), None, ("fail", "tool_fault", [("answer", "pass"), ("tools", "fail")])),
        (run(amount=99), ["answer"], ("pass", None, [("answer", "pass")])),
        (run(answer="No."), ["tools"], ("pass", None, [("tools", "pass")])),
        (run(amount=99), ["selection"], ("pass", None, [("selection", "pass")])),
        (run(amount=99), ["parameters"], ("fail", "tool_fault", [("parameters", "fail")])),
        (run(), ["state"], ("not_evaluated", "no_data", [("state", "not_evaluated")])),
        (run(answer="No."), ["answer", "state"], ("fail", "wrong_answer", [("answer", "fail"), ("state", "not_evaluated")])),
    ],
)  # fmt: skip
def test_a_wrong_parameter_fails_unless_only_answers_decide(
    actual: Conversation, criteria: list[str] | None, expected: tuple[str, str | None, list[tuple[str, str]]]
) -> None:
    assert expected == outcome(actual, CASE, criteria=criteria)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"order": {"status": "refunded", "by": "a"}}, ("pass", None)),
        ({"order": {"status": "open"}}, ("fail", "state_mismatch")),
        ({"order": {}}, ("fail", "state_mismatch")),
        (None, ("not_evaluated", "state_not_recorded")),
    ],
)
def test_a_case_with_nothing_but_a_state_is_decided_by_it(
    state: dict[str, Any] | None, expected: tuple[str, str | None]
) -> None:
    assert (*expected, [("state", expected[0])]) == outcome(run(state=state), STATE)


def test_a_case_names_criteria_of_its_own() -> None:
    case = {**CASE, "criteria": ["answer"]}
    assert "pass" == outcome(run(amount=99), case)[0]
    assert "pass" == outcome(run(amount=99), case, criteria=["tools"])[0]


@pytest.mark.parametrize(
    ("criteria", "expected"),
    [
        (["answer", "operations.tool_calls <= 1"], ("pass", None)),
        (["answer", "operations.tool_calls <= 0"], ("fail", "criterion")),
        (["answer", "operations.turn_end = answered"], ("pass", None)),
        (["answer", "operations.turn_end = error|no_answer"], ("fail", "criterion")),
        (["answer", "operations.cost <= 1"], ("not_evaluated", "model_calls_not_recorded")),
        (["answer", "operations.cost <= 1 if known"], ("pass", None)),
        (["operations.loops"], ("pass", None)),
    ],
)
def test_any_metric_can_decide(criteria: list[str], expected: tuple[str, str | None]) -> None:
    actual, reason, decided = outcome(run(), CASE, criteria=criteria)
    assert expected == (actual, reason)
    assert {name for name, _ in decided} <= set(criteria)


def test_a_function_of_the_user_can_decide(tmp_path: Path) -> None:
    file = tmp_path / "checks.py"
    file.write_text(CHECKS, encoding="utf-8")
    criteria = [f"{file}:brief >= 1"]
    assert ("pass", None) == outcome(run(), CASE, criteria=criteria)[:2]
    assert ("fail", "criterion") == outcome(run(answer="Refunded, at long last."), CASE, criteria=criteria)[:2]


def test_criteria_without_a_case_decide_conversations_without_one() -> None:
    actual = conversation(turn("Something else?", "Yes.", tool_call("refund", {}, result="ok")))
    assert ("pass", None) == outcome(actual, CASE, criteria=["operations.turn_end = answered"])[:2]
    assert ("not_evaluated", "unmatched") == outcome(actual, CASE, criteria=["annotated", "operations.loops"])[:2]
    assert ("fail", "criterion") == outcome(actual, CASE, criteria=["annotated", "operations.tool_calls <= 0"])[:2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("annotated", Criterion(text="annotated", name="annotated")),
        ("a.b>=.5", Criterion(text="a.b >= .5", name="a.b", minimum=0.5)),
        ("a.b <= 0 if known", Criterion(text="a.b <= 0 if known", name="a.b", maximum=0.0, optional=True)),
        ("a.b = x|y z", Criterion(text="a.b = x|y z", name="a.b", labels=frozenset({"x", "y z"}))),
    ],
)
def test_a_criterion_is_written_as_a_metric_with_a_bound(text: str, expected: Criterion) -> None:
    assert (expected,) == parsed((text, f" {text} "))


@pytest.mark.parametrize("text", ["", ">= 4", "a b", "a.b >= high", "a.b > 4", "tools >= 1"])
def test_a_malformed_criterion_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"^criterion "):
        parsed((text,))


def talk(name: str, amount: int, answer: str = "Refunded.") -> Any:
    call = scripted_call("refund", {"amount": amount}, result="ok")
    return speak_genai(AgentRunScript(conversation_id=name).ask(QUERY).calls(call).answers(answer))


LINE = '{"case_id": "refund", "turns": [{"query": "Refund order 7.", "answer": "Refunded.", "tools": {"calls": [{"tool_name": "refund", "parameters": {"amount": 10}}]}}]}'  # fmt: skip


def refunds(engine: Engine) -> None:
    """Store and evaluate a right conversation, one with a wrong amount and one with a wrong answer."""
    stored = (("right", 10, "Refunded."), ("amount", 99, "Refunded."), ("answer", 10, "No."))
    feed(engine, *(talk(name, amount, answer) for name, amount, answer in stored))
    Commands(engine).evaluate(cases=[("cases.jsonl", LINE)])


@pytest.fixture
def commands(copy_of: CopyOf, prepared_store: PreparedStore) -> Commands:
    return Commands(copy_of(prepared_store(refunds)))


def test_an_evaluation_says_what_each_criterion_decided(engine: Engine) -> None:
    stored = (("right", 10, "Refunded."), ("amount", 99, "Refunded."), ("both", 99, "No."))
    feed(engine, *(talk(name, amount, answer) for name, amount, answer in stored))
    done = Commands(engine).evaluate(cases=[("cases.jsonl", LINE)], metrics=["none"])
    assert {
        "answer": {"pass": 2, "fail": 1, "not_evaluated": 0, "alone": 0, "uncovered": 0},
        "tools": {"pass": 1, "fail": 2, "not_evaluated": 0, "alone": 1, "uncovered": 0},
    } == done["criteria"]
    assert {"pass": 2, "fail": 1, "not_evaluated": 0} == done["answers"]
    criteria = Commands(engine).conversations_show(conversation_id="amount")["score"]["criteria"]
    assert [("answer", "pass"), ("tools", "fail")] == [(item["name"], item["outcome"]) for item in criteria]
    assert [("agentic.answer", "pass"), ("agentic.tools", "fail")] == rows(
        engine,
        "SELECT name, label FROM scores WHERE conversation_id = 'amount' AND target = 'conversation' "
        "AND name IN ('agentic.answer', 'agentic.tools') ORDER BY name",
    )


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        ("correct", (1, 3)),
        ("answer and tools", (1, 3)),
        ("selection", (3, 3)),
        ("operations.tool_calls <= 0", (0, 3)),
        ("state", (0, 0)),
        ("traffic", (3, 3)),
        *(
            pytest.param(criterion, (2, 3), marks=pytest.mark.slow)
            for criterion in ("answer", "tools", "tools and operations.loops")
        ),
    ],
)
def test_a_report_has_the_rates_of_any_criterion(commands: Commands, criterion: str, expected: tuple[int, int]) -> None:
    (group,) = commands.report(criterion=criterion, k=[1])["groups"]
    assert (criterion, *expected) == (group["criterion"], group["c"], group["n"])


def test_a_report_of_several_criteria_names_their_rules(commands: Commands) -> None:
    report = commands.report(criterion="correct, tools", k=[1])
    assert [("correct", 1), ("tools", 2)] == [(group["criterion"], group["c"]) for group in report["groups"]]
    assert ["correct", "tools"] == [item["name"] for item in report["criteria"]]
    assert [True, False] == [group["tier_evidence"]["withheld"] is None for group in report["groups"]]
    by_first = commands.report_pictures(criterion="correct, tools", k=[1])
    assert commands.report_pictures(criterion="correct", k=[1]) == by_first


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        ("toools", "did you mean tools"),
        ("agentest.helpfulness >= 4", "otel-agentic evaluate --metrics agentic.agentest.helpfulness"),
        ("operations.model_calls", "has no threshold"),
        ("operations.latency_p95 <= 3", "a metric of groups"),
    ],
)
def test_a_report_refuses_a_criterion_that_it_cannot_compute(commands: Commands, criterion: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        commands.report(criterion=criterion)
