"""Hand-offs: to whom, when, with which context, to what effect; and which agent caused the faults of a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from otel_agentic.config import Settings
from otel_agentic.evaluators.base import MetricScore, Subject
from otel_agentic.evaluators.blame import Blame
from otel_agentic.evaluators.handoffs import Expected, Received, handoffs_of
from otel_agentic.testing import conversation, tool_call, turn
from tests.conversations.rebuilding import conversations
from tests.evaluators.failing import subjects
from tests.golden.comparing import batches

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall

QUERY: Final = "Pay booking B-17 for 3 people back, please"
CAPTURES: Final = Path(__file__).parents[1] / "golden" / "captures"


def transfer(target: str, *, by: str = "desk", **changes: Any) -> ToolCall:
    return tool_call(f"transfer_to_{target}", {}, kind="transfer", agent_name=by, result=None, **changes)


def ask(target: str, request: str, *, by: str = "desk", **changes: Any) -> ToolCall:
    values = {"kind": "agent", "agent_name": by, "result": "done", "span_id": f"ask-{target}", "target_agent": target}
    return tool_call(f"ask_{target}", {"request": request}, **{**values, **changes})


def call(name: str, by: str, **arguments: Any) -> ToolCall:
    return tool_call(name, arguments, agent_name=by, result="ok")


def talk(*calls: ToolCall, answer: str | None = "Done.", query: str = QUERY, **changes: Any) -> Conversation:
    return conversation(turn(query, answer, *calls, **changes), agent_name="desk", closed_by="end_mark")


def case(*calls: Any, order: str = "any", answer: str = "Done.", **tools: Any) -> dict[str, Any]:
    expected = [{"tool_name": item} if isinstance(item, str) else item for item in calls]
    expectation = {"calls": expected, "order": order, **tools}
    return {"case_id": "refund", "turns": [{"query": QUERY, "answer": answer, "tools": expectation}]}


def about(actual: Conversation, *cases: dict[str, Any]) -> Subject:
    (subject,) = subjects(cases, [actual], criteria=("annotated",))
    return subject


def of(scores: Any, metric: str) -> list[MetricScore]:
    return [score for score in scores if score.name == f"agentic.handoffs.{metric}"]


REFUND: Final = {"tool_name": "refund", "parameters": {"booking": "B-17"}}
PAID: Final = call("refund", "refunds", booking="B-17")


@pytest.mark.parametrize(
    ("calls", "expected", "order", "shares", "labels"),
    [
        ([transfer("refunds"), PAID], ["transfer_to_refunds", REFUND], "relative", (1.0, 1.0, 1.0), ["right"]),
        ([transfer("refunds"), PAID], ["refunds", REFUND], "any", (1.0, 1.0, None), ["right"]),
        ([transfer("sales"), PAID], ["transfer_to_refunds", REFUND], "relative", (0.0, 0.0, 0.0), ["wrong_agent"]),
        ([call("refund", "desk", booking="B-17")], ["transfer_to_refunds", REFUND], "relative", (None, 0.0, 0.0), ["missing"]),
        (
            [call("refund", "desk", booking="B-17"), transfer("refunds"), call("mail", "refunds")],
            ["transfer_to_refunds", REFUND, "mail"],
            "relative", (1.0, 1.0, 0.0), ["late"],
        ),
        (
            [transfer("refunds"), call("find", "refunds"), PAID],
            ["find", "transfer_to_refunds", REFUND],
            "relative", (1.0, 1.0, 0.0), ["early"],
        ),
        (
            [transfer("refunds"), transfer("desk", by="refunds"), transfer("refunds"), PAID],
            ["transfer_to_refunds", REFUND],
            "any", (1 / 3, 1.0, None), ["right", "superfluous", "superfluous"],
        ),
        ([transfer("refunds", error="no such agent")], ["transfer_to_refunds"], "any", (None, 0.0, None), ["missing"]),
        ([ask("refunds", "pay B-17 back")], ["ask_refunds"], "any", (1.0, 1.0, None), ["right"]),
        (
            [tool_call("transfer_to_agent", {"agent_name": "Refunds"}, kind="transfer", agent_name="desk"), PAID],
            [{"tool_name": "transfer_to_agent", "parameters": {"agent_name": "refunds"}}, REFUND],
            "any", (1.0, 1.0, None), ["right"],
        ),
    ],
)  # fmt: skip
def test_hand_offs_are_compared_with_those_expected(
    calls: list[ToolCall],
    expected: list[Any],
    order: str,
    shares: tuple[float | None, ...],
    labels: list[str],
) -> None:
    scores = list(Expected().evaluate(about(talk(*calls), case(*expected, order=order))))
    assert shares == tuple(of(scores, name)[0].value for name in ("precision", "recall", "in_time"))
    assert labels == [score.label for score in of(scores, "handoff")]


def test_an_alternative_without_the_hand_off_is_another_right_way() -> None:
    either = case("transfer_to_refunds", REFUND, alternatives=[{"calls": [REFUND]}])
    alone = about(talk(call("refund", "desk", booking="B-17")), either)
    assert {"no_data"} == {score.reason for score in Expected().evaluate(alone)}


@pytest.mark.parametrize(
    ("actual", "cases"),
    [
        (talk(call("refund", "desk", booking="B-17")), [case(REFUND)]),
        (talk(), []),
        (conversation(), []),
    ],
)
def test_a_single_agent_has_no_hand_offs_to_score(actual: Conversation, cases: list[Any]) -> None:
    subject = about(actual, *cases)
    scores = [score for kind in (Expected, Received, Blame) for score in kind().evaluate(subject)]
    assert {("no_data", True)} == {(score.reason, "one agent did everything" in score.explanation) for score in scores}


def test_hand_offs_without_a_case_or_an_expectation_of_one_have_a_reason_of_their_own() -> None:
    handed = talk(transfer("refunds"), PAID)
    assert {"unmatched"} == {score.reason for score in Expected().evaluate(about(handed))}
    (explanation,) = {score.explanation for score in Expected().evaluate(about(handed, case(REFUND)))}
    assert "expects no call that hands over" in explanation


@pytest.mark.parametrize(
    ("calls", "answer", "labels"),
    [
        ([transfer("refunds"), PAID], "Done.", ["acted"]),
        ([transfer("refunds")], "Done.", ["answered"]),
        ([transfer("refunds")], None, ["dead"]),
        ([transfer("refunds", error="no such agent")], "Done.", ["failed"]),
        ([transfer("refunds"), transfer("desk", by="refunds")], "Done.", ["handed_back", "answered"]),
        (
            [transfer("refunds"), transfer("bank", by="refunds"), transfer("desk", by="bank"), call("find", "desk")],
            "Done.",
            ["passed_on", "handed_back", "acted"],
        ),
        ([transfer("refunds"), PAID, transfer("desk", by="refunds")], "Done.", ["acted", "answered"]),
        ([ask("refunds", "B-17", result="")], "Done.", ["dead"]),
        ([ask("refunds", "B-17")], "Done.", ["answered"]),
        ([ask("refunds", "B-17", result=None, result_captured=False)], "Done.", [None]),
    ],
)
def test_an_agent_that_receives_a_hand_off_does_something_with_it(
    calls: list[ToolCall], answer: str | None, labels: list[str | None]
) -> None:
    scores = of(Received().evaluate(about(talk(*calls, answer=answer))), "outcome")
    assert labels == [score.label for score in scores]
    assert {"content_not_captured"} >= {score.reason for score in scores if score.label is None}


INNER: Final = {"parent_span_id": "ask-refunds", "agent_name": "refunds"}


@pytest.mark.parametrize(
    ("calls", "cases", "value", "lost", "reason"),
    [
        ([ask("refunds", "pay B-17 back"), tool_call("refund", {"booking": "B-17"}, **INNER)], [], 1.0, [], None),
        (
            [ask("refunds", "pay it back"), tool_call("refund", {"booking": "B-17", "people": 3}, **INNER)],
            [],
            0.0,
            ["B-17", "3"],
            None,
        ),
        ([ask("refunds", "pay it back")], [case("ask_refunds", REFUND)], 0.0, ["B-17"], None),
        ([transfer("refunds", received=QUERY), PAID], [], 1.0, [], None),
        ([transfer("refunds", received="You pay bookings back."), PAID], [], 0.0, ["B-17"], None),
        ([transfer("refunds", received="You pay bookings…"), PAID], [], None, None, "content_not_captured"),
        ([transfer("refunds"), PAID], [], None, None, "content_not_captured"),
        ([transfer("refunds", received=QUERY), call("refund", "refunds", to="card")], [], None, None, "no_data"),
        # A call that another agent makes needs nothing from the hand-off.
        (
            [call("find", "desk", booking="B-17"), ask("refunds", "pay it back")],
            [case({"tool_name": "find", "parameters": {"booking": "B-17"}}, "ask_refunds")],
            None,
            None,
            "no_data",
        ),
    ],
)  # fmt: skip
def test_what_the_user_stated_reaches_the_agent_that_needs_it(
    calls: list[ToolCall], cases: list[Any], value: float | None, lost: list[str] | None, reason: str | None
) -> None:
    (score,) = of(Received().evaluate(about(talk(*calls), *cases)), "context")
    assert (value, lost, reason) == (score.value, score.details.get("lost"), score.reason)


FOR_THREE: Final = {"tool_name": "refund", "parameters": {"booking": "B-17", "people": 3}}


@pytest.mark.parametrize(
    ("calls", "expected", "answer", "blamed"),
    [
        # The receiving agent had the value, and still used another one.
        (
            [transfer("refunds", received=QUERY), call("refund", "refunds", booking="B-17", people=4)],
            [FOR_THREE], "Done.", [("refunds", "faulty_call", "refund")],
        ),
        # The agent that asked it left the value out.
        (
            [ask("refunds", "pay B-17 back"), tool_call("refund", {"booking": "B-17", "people": 1}, **INNER)],
            [FOR_THREE], "Done.", [("desk", "lost_context", "refund")],
        ),
        ([transfer("refunds"), PAID, call("drop", "refunds")], [REFUND], "Done.", [("refunds", "faulty_call", "drop")]),
        # The agent that received the hand-off ended the turn without the call; or it was the wrong agent.
        ([transfer("refunds")], [REFUND], "Done.", [("refunds", "missing_call", "refund")]),
        ([transfer("sales"), call("find", "sales")], ["transfer_to_refunds", "find"], "Done.",
            [("desk", "wrong_handoff", "transfer_to_refunds")]),
        ([ask("bank", "pay")], ["transfer_to_refunds"], "Done.", [("desk", "wrong_handoff", "transfer_to_refunds")]),
        ([transfer("refunds"), PAID], [REFUND], "No.", [("refunds", "wrong_answer", None)]),
        ([ask("refunds", "pay B-17 back"), tool_call("refund", {"booking": "B-17"}, **INNER)], [REFUND], "No.",
            [("desk", "wrong_answer", None)]),
        ([transfer("refunds"), PAID], [REFUND], "Done.", []),
    ],
)  # fmt: skip
def test_each_fault_is_attributed_to_the_agent_that_caused_it(
    calls: list[ToolCall], expected: list[Any], answer: str, blamed: list[tuple[str, str, str | None]]
) -> None:
    scores = Blame().evaluate(about(talk(*calls, answer=answer), case(*expected)))
    assert blamed == [(score.details["agent"], score.label, score.tool_name) for score in scores if not score.abstained]


def test_a_missing_call_is_blamed_on_the_agent_that_did_not_hand_over_to_the_caller_of_the_tool() -> None:
    first = turn("Pay B-12 back", "Done.", transfer("refunds"), call("refund", "refunds", booking="B-12"))
    later = turn(QUERY, "Done.", call("find", "desk"), agent_name="desk")
    truth = case("find", REFUND)
    truth["turns"] = [{"query": "Pay B-12 back"}, *truth["turns"]]
    actual = conversation(first, later, agent_name="desk", closed_by="end_mark")
    (score,) = Blame().evaluate(about(actual, truth))
    assert ("desk", "wrong_handoff", 1) == (score.details["agent"], score.label, score.turn_index)
    assert score.explanation == "desk: it ended the turn without a hand-off to refunds, which calls refund"


HANDED: Final = [
    folder
    for folder in sorted(path.parent for path in CAPTURES.glob("*/expected.json"))
    if "refunds" in (folder / "expected.json").read_text(encoding="utf-8")
]
#: Captures whose calls of other agents have no sign of a hand-off: a delegating tool is recorded like any other tool.
NOT_HANDED: Final = {"openinference-agno-team-stream", "openllmetry-agno-team", "openllmetry-old-openai-agents-chat"}


@pytest.mark.parametrize("folder", HANDED, ids=lambda folder: folder.name)
def test_the_hand_off_of_a_capture_is_scored(folder: Path) -> None:
    """The story hands a refund over from `atlas` to `refunds`, with the number of the booking that the user gave."""
    handed = [item for item in conversations(*batches(folder)) if handoffs_of(item)]
    assert len(handed) == (folder.name not in NOT_HANDED)
    for actual in handed:
        subject = Subject(conversation=actual, case=None, score=None, aligned={}, settings=Settings().scoring)
        outcome, context = Received().evaluate(subject)
        assert ["refunds"] == [handoff.target for handoff in handoffs_of(actual)]
        assert ("acted", None if actual.content_captured == "none" else 1.0) == (outcome.label, context.value)


@pytest.mark.parametrize("folder", [CAPTURES / name for name in ("native-adk-1-handed", "langfuse-5-langgraph")])
@pytest.mark.parametrize(
    ("backwards", "rename", "expected"),
    [(False, None, (1.0, 1.0, 1.0)), (True, None, (1.0, 1.0, 0.0)), (False, "transfer_to_sales", (0.0, 0.0, 0.0))],
)
def test_the_hand_off_of_a_capture_is_compared_with_its_case(
    folder: Path, rename: str | None, expected: tuple[float, ...], *, backwards: bool
) -> None:
    (actual,) = (item for item in conversations(*batches(folder)) if handoffs_of(item))
    calls = [
        {"tool_name": rename or item.name, "parameters": {} if rename else item.arguments}
        if item.kind != "tool"
        else {"tool_name": item.name, "parameters": item.arguments}
        for item in actual.turns[0].calls
    ]
    tools = {"calls": calls[::-1] if backwards else calls, "order": "relative"}
    turns = [{"query": item.query} for item in actual.turns]
    truth = {"case_id": "refund", "turns": [{**turns[0], "tools": tools}, *turns[1:]]}
    scores = list(Expected().evaluate(about(actual, truth)))
    assert expected == tuple(of(scores, name)[0].value for name in ("precision", "recall", "in_time"))
