"""What the agent answered: in its own words, through a tool, or as the next turn remembers it; never an older answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.spans.model import Span, StatusCode
from tests.conversations.rebuilding import (
    asks,
    assistant,
    chat,
    conversation_of,
    conversations,
    run,
    tool,
    tool_result,
    turn_of,
    user,
)

if TYPE_CHECKING:
    from random import Random


GO: Final = user("Go")
ROOT: Final = run(0, 99, id="c1", query="Go")
LOOK: Final = asks(("x1", "search", {"q": "a"}))
#: (query, answer, whether its absence would be known) of each turn.
Answers = list[tuple[str | None, str | None, bool]]


def answers(*spans: Span) -> Answers:
    return [(turn.query, turn.answer, turn.answer_captured) for turn in conversation_of(*spans).turns]


def model(start_s: float, received: Any, answer: Any) -> Span:
    return chat(start_s, received, answer, parent=ROOT)


def silent(start_s: float, query: str, **more: Any) -> Span:
    """Return a run whose answer was not recorded."""
    return run(start_s, start_s + 5, id="c1", trace=query, query=query, **more)


def remembering(start_s: float, *received: Any) -> list[Span]:
    """Return the run of the query C, whose model was sent a history."""
    root = run(start_s, start_s + 5, id="c1", trace="C", query="C")
    return [root, chat(start_s + 1, [*received, user("C")], [assistant("c")], parent=root)]


A: Final = run(0, 5, id="c1", trace="A", query="A", answer="a")
TURN_A: Final = (user("A"), assistant("a"))
LAST: Final = ("C", "c", True)

#: The history that the last turn received, and the expected answers of the turns.
HISTORIES: Final[dict[str, tuple[list[Span], Answers]]] = {
    "the next turn knows it": (
        [A, silent(10, "B"), *remembering(20, *TURN_A, user("B"), assistant("b"))],
        [("A", "a", True), ("B", "b", True), LAST]),
    "the next turn knows it together with calls": (
        [A, silent(10, "B"), *remembering(20, *TURN_A, user("B"), LOOK, tool_result("x1", 1), assistant("b"))],
        [("A", "a", True), ("B", "b", True), LAST]),
    "there was no answer": (
        [A, silent(10, "B"), *remembering(20, *TURN_A, user("B"))], [("A", "a", True), ("B", None, False), LAST]),
    "there was a call and no answer": (
        [A, silent(10, "B"), *remembering(20, *TURN_A, user("B"), LOOK, tool_result("x1", 1))],
        [("A", "a", True), ("B", None, False), LAST]),
    "the next turn forgot the turn": (
        [A, silent(10, "B"), *remembering(20, *TURN_A)], [("A", "a", True), ("B", None, False), LAST]),
    "the next turn remembers nothing": (
        [A, silent(10, "B"), *remembering(20)], [("A", "a", True), ("B", None, False), LAST]),
    "the run failed": (
        [A, silent(10, "B", status=StatusCode.ERROR, status_message="boom"),
         *remembering(20, *TURN_A, user("B"), assistant("b"))], [("A", "a", True), ("B", None, False), LAST]),
    "the run recorded another one": (
        [A, run(10, 15, id="c1", trace="B", query="B", answer="own"), *remembering(20, *TURN_A, user("B"), assistant("b"))],
        [("A", "a", True), ("B", "own", True), LAST]),
    "it was taken out": (
        [A, silent(10, "B"), *remembering(20, *TURN_A, user("B"), assistant("[REDACTED]"))],
        [("A", "a", True), ("B", None, False), LAST]),
    "one that was asked twice": (
        [A, silent(10, "A "), *remembering(20, *TURN_A, user("A "), assistant("a2"))],
        [("A", "a", True), ("A ", "a2", True), LAST]),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_an_answer_that_was_not_recorded_is_the_one_that_the_next_turn_remembers(name: str) -> None:
    spans, expected = HISTORIES[name]

    assert expected == answers(*spans)


@given(name=st.sampled_from(sorted(HISTORIES)), random=st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_the_order_of_arrival_answers_nothing_else(name: str, random: Random) -> None:
    spans, _ = HISTORIES[name]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))


@pytest.mark.parametrize("name", ["final_answer", "final_result"])
def test_a_tool_that_gives_the_answer_is_no_call(name: str) -> None:
    given_answer = asks(("x2", name, {"answer": "The Ritz."}))
    spans = [
        model(1, [GO], [LOOK]), tool(2, call_id="x1", parent=ROOT, result="Ritz"),
        model(3, [GO, LOOK, tool_result("x1", "Ritz")], [given_answer]), tool(4, name, call_id="x2", parent=ROOT),
    ]  # fmt: skip

    turn = turn_of(ROOT, *spans)

    assert ("The Ritz.", ["search"]) == (turn.answer, [call.name for call in turn.calls])


@pytest.mark.parametrize(
    "answer",
    [
        asks(("x1", "final_answers", {"answer": "The Ritz."})),
        asks(("x1", "search", {"q": "a"}), text="The Ritz."),
        asks(("x1", "search", {"q": "a"}), ("x2", "final_answer", {"answer": "The Ritz."})),
    ],
    ids=["a tool with another name", "text next to a call", "an answer next to a call"],
)
def test_what_comes_with_a_call_is_no_answer(answer: dict[str, Any]) -> None:
    assert (None, True) == answers(ROOT, model(1, [GO], [answer]))[0][1:]


def test_a_tool_called_with_the_answer_gives_it_and_one_called_with_more_does_something() -> None:
    done = run(0, 99, id="c1", query="Go", answer="The Ritz.")

    def calls(arguments: dict[str, Any]) -> list[str]:
        spans = [done, chat(1, [GO], [asks(("x1", "submit", arguments))], parent=done)]
        return [call.name for call in turn_of(*spans).calls]

    assert ([], ["submit"], ["submit"]) == (
        calls({"answer": "The Ritz."}),
        calls({"form": "A38"}),
        calls({"answer": "The Ritz.", "form": "A38"}),
    )


def test_parallel_model_calls_with_equal_answers_are_one_answer() -> None:
    spans = [model(1, [user("Is it safe?")], [assistant("yes")]), model(1, [user("Is it polite?")], [assistant("yes")])]

    assert [("Go", "yes", True)] == answers(ROOT, *spans)


def test_a_title_that_another_agent_found_at_the_same_time_is_no_answer() -> None:
    ask = tool(2, "title", parent=ROOT, end_s=20)
    helper = run(3, 19, agent="title", parent=ask)
    spans = [ask, helper, chat(4, [user("Title?")], [assistant("Hotels")], parent=helper)]

    assert [("Go", "The Ritz.", True)] == answers(ROOT, *spans, model(1, [GO], [assistant("The Ritz.")]))
