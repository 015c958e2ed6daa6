"""Calls that a framework refused to run: distinguished from those that ran with an unusual span or result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conversations.rebuilding import asks, assistant, chat, conversations, run, tool, tool_result, turn_of, user

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.spans.model import Span

GO: Final = user("Go")
ROOT: Final = run(0, 99, id="c1", query="Go")
BAD: Final = ("x1", "search", {"city": 7})
GOOD: Final = ("x2", "search", {"q": "a"})
DONE: Final = [assistant("Done.")]
REFUSALS: Final = [
    "1 validation error:\n- city: Extra inputs are not permitted\n\nFix the errors and try again.",
    "Invalid arguments for tool search",
    "The tool call failed: missing 1 required positional argument: 'q'",
    "search() got an unexpected keyword argument 'city'",
    "Invoking `search()` failed as the following mandatory input parameters are not present:\nq",
    "An error occurred while parsing tool arguments. Please try again with valid JSON.",
    "Tool 'search' not found.",
    "Required parameter q is missing.",
    "The input does not match the schema: field city is unknown.",
]
RESULTS: Final = [
    "Ticket valid until May 5",
    "No visa required.",
    "Unknown Pleasures (1979), 3 copies",
    "Failover region: eu-west",
    "The passport was validated.",
    "42",
    "",
]


def model(start_s: float, received: Any, answer: Any) -> Span:
    return chat(start_s, received, answer, parent=ROOT)


def work(start_s: float, name: str = "search", **more: Any) -> Span:
    return tool(start_s, name, parent=ROOT, **more)


def answered(why: Any) -> list[Any]:
    return [GO, asks(BAD), tool_result("x1", why)]


def asked_again(why: Any, again: tuple[str, str, Any] = GOOD) -> list[Span]:
    """Return the spans of a call without a span, of the result that the model received, and of the next call."""
    received = answered(why)
    return [
        model(1, [GO], [asks(BAD)]),
        model(3, received, [asks(again)]),
        work(4, again[1], call_id=again[0], result="Ritz"),
        model(6, [*received, asks(again), tool_result(again[0], "Ritz")], DONE),
    ]


def errors(*spans: Span) -> list[str | None]:
    return [call.error for call in turn_of(ROOT, *spans).calls]


@pytest.mark.parametrize("why", REFUSALS)
def test_a_call_without_a_span_that_is_asked_again_and_runs_was_refused(why: str) -> None:
    assert [why, None] == errors(*asked_again(why))


@pytest.mark.parametrize("result", RESULTS)
def test_a_lost_span_with_a_good_result_is_no_refusal(result: str) -> None:
    assert [None, None] == errors(*asked_again(result))


@pytest.mark.parametrize("result", [{"hits": 2}, ["required"], 7, None])
def test_a_result_that_is_no_text_is_no_refusal(result: Any) -> None:
    assert [None, None] == errors(*asked_again(result))


WHY: Final = "the input is invalid"


def test_what_a_tool_says_itself_is_its_result_however_it_sounds() -> None:
    assert [None, None] == errors(*asked_again(WHY), work(2, call_id="x1", result=WHY))


def test_a_call_after_which_another_tool_was_called_was_not_refused() -> None:
    assert [None, None] == errors(*asked_again(WHY, ("x2", "book", {})))


def test_a_call_that_is_asked_again_only_later_was_not_refused() -> None:
    received = answered(WHY)
    book = asks(("x3", "book", {}))
    spans = [
        model(1, [GO], [asks(BAD)]), model(3, received, [book]), work(4, "book", call_id="x3"),
        model(5, [*received, book], [asks(GOOD)]), work(6, call_id="x2"),
    ]  # fmt: skip

    assert [None, None, None] == errors(*spans)


def test_a_call_whose_tool_never_has_a_span_was_not_refused() -> None:
    received = answered(WHY)
    spans = [model(1, [GO], [asks(BAD)]), model(3, received, [asks(GOOD)]),
             model(5, [*received, asks(GOOD), tool_result("x2", "Ritz")], DONE)]  # fmt: skip

    assert [None, None] == errors(*spans)


@pytest.mark.parametrize("requests", [(BAD, GOOD), (GOOD, BAD)], ids=["bad first", "good first"])
def test_of_parallel_calls_the_one_that_did_not_run_was_refused(requests: tuple[Any, Any]) -> None:
    response, again = asks(*requests), asks(("x3", "search", {"q": "b"}))
    spans = [
        model(1, [GO], [response]), work(2, call_id="x2", result="Ritz"),
        model(3, [GO, response, tool_result("x1", WHY), tool_result("x2", "Ritz")], [again]), work(4, call_id="x3", result="Adler"),
    ]  # fmt: skip
    turn = turn_of(ROOT, *spans)

    assert {"x1": WHY, "x2": None, "x3": None} == {call.call_id: call.error for call in turn.calls}


def test_a_retry_after_a_good_result_leaves_it_good() -> None:
    spans = [
        model(1, [GO], [asks(GOOD)]), work(2, call_id="x2", result="Ritz"),
        model(3, [GO, asks(GOOD), tool_result("x2", "Ritz")], [asks(("x3", "search", {"q": "a"}))]),
        work(4, call_id="x3", result="Ritz"),
    ]  # fmt: skip

    assert [None, None] == errors(*spans)


def test_a_helper_that_uses_the_same_tool_refuses_nothing_of_its_callers() -> None:
    received = answered("There is no valid ticket.")
    ask = work(4, "ask", call_id="x2", end_s=20)
    helper = run(5, 19, agent="helper", parent=ask)
    inner = asks(("y1", "search", {"q": "a"}))
    spans = [
        model(1, [GO], [asks(BAD)]), model(3, received, [asks(("x2", "ask", {}))]), ask, helper,
        chat(6, [user("Find")], [inner], parent=helper), tool(8, call_id="y1", result="Ritz", parent=helper),
    ]  # fmt: skip

    assert [None, None, None] == errors(*spans)


@given(why=st.sampled_from([*REFUSALS, *RESULTS]), random=st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_of_arrival_refuses_nothing_else(why: str, random: Random) -> None:
    spans = [ROOT, *asked_again(why)]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))
