"""Calls that only later inputs contain: found once each, in the step that requested them, and never invented."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

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
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.spans.model import Span

GO: Final = user("Go")
ROOT: Final = run(0, 999, id="c1", query="Go")
A: Final = asks(("x1", "search", {"q": "a"}))
B: Final = asks(("x2", "search", {"q": "b"}))
BOOK: Final = asks(("x3", "book", {}))
AGAIN: Final = asks(("x2", "search", {"q": "a"}))
#: Ids that restart in each response.
FIRST: Final = asks(("call_0", "search", {"q": "a"}))
SECOND: Final = asks(("call_0", "search", {"q": "b"}))
DONE: Final = [assistant("Done.")]
#: Finish reasons of a response without other content.
WANTS_TOOLS: Final = {"gen_ai.response.finish_reasons": ["tool_calls"]}
#: (step, argument, result) of each search.
Searches = list[tuple[int, Any, Any]]


def model(start_s: float, received: Any = None, answer: Any = None, **more: Any) -> Span:
    return chat(start_s, received, answer, **{"parent": ROOT, **more})


def work(start_s: float, name: str = "search", **more: Any) -> Span:
    return tool(start_s, name, **{"parent": ROOT, **more})


def searches(*spans: Span) -> Searches:
    return [(call.step, (call.arguments or {}).get("q"), call.result) for call in turn_of(ROOT, *spans).calls]


def history(*requests: Any, results: str = "ABC", ids: tuple[str | None, ...] = ("x1", "x2", "x3")) -> list[Any]:
    """Return a history in which each request was answered, with A, B and C."""
    pairs = zip(requests, ids, results, strict=False)
    return [GO, *(message for request, name, result in pairs for message in (request, tool_result(name, result)))]


NUMBERED: Final = ("call_0",) * 3
HELPER_TOOL: Final = work(2, "ask", call_id="x9", end_s=20)
HELPER: Final = run(3, 19, agent="helper", parent=HELPER_TOOL)

CASES: Final[dict[str, tuple[list[Span], Searches]]] = {
    "a response was lost": ([model(1), model(5, history(A), DONE)], [(1, "a", "A")]),
    "a response was lost, the tool's span was not": (
        [model(1), work(2, call_id="x1", arguments={"q": "a"}, result="A"), model(5, history(A), DONE)], [(1, "a", "A")]),
    "the model call was lost altogether": ([model(5, history(A), DONE)], [(1, "a", "A")]),
    "two responses were lost": ([model(1), model(3), model(5, history(A, B), DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "two responses and one of their spans were lost": (
        [model(1), model(5, history(A, B), DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "the first of two was lost": (
        [model(1), model(3, history(A), [B]), model(5, history(A, B), DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "the second of two was lost": (
        [model(1, [GO], [A]), model(3, history(A)), model(5, history(A, B), DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "the first of two was lost, the tool's span of the second was not": (
        [model(1), model(3), work(4, call_id="x2", arguments={"q": "b"}, result="B"), model(5, history(A, B), DONE)],
        [(1, "a", "A"), (2, "b", "B")]),
    "a repeated call, the second response lost": (
        [model(1, [GO], [A]), model(3, history(A)), model(5, history(A, AGAIN), DONE)], [(1, "a", "A"), (2, "a", "B")]),
    "numbered ids, the second response lost": (
        [model(1, [GO], [FIRST]), model(3), model(5, history(FIRST, SECOND, ids=NUMBERED), DONE)],
        [(1, "a", "A"), (2, "b", "B")]),
    "later inputs repeat it": (
        [model(1), model(3, history(A), [B]), model(5, history(A, B)), model(7, history(A, B), DONE)],
        [(1, "a", "A"), (2, "b", "B")]),
    "histories that were cut down to the last call": (
        [model(1), model(3, history(A)), model(5, [GO, B, tool_result("x2", "B")], DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "nothing was lost": (
        [model(1, [GO], [A]), model(3, history(A), [B]), model(5, history(A, B), DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "nothing was lost of a repeated call": (
        [model(1, [GO], [A]), model(3, history(A), [AGAIN]), model(5, history(A, AGAIN), DONE)],
        [(1, "a", "A"), (2, "a", "B")]),
    "nothing was lost of numbered ids": (
        [model(1, [GO], [FIRST]), model(3, history(FIRST, ids=NUMBERED), [SECOND]),
         model(5, history(FIRST, SECOND, ids=NUMBERED), DONE)], [(1, "a", "A"), (2, "b", "B")]),
    "nothing was lost of a repeated numbered call": (
        [model(1, [GO], [FIRST]), model(3, history(FIRST, ids=NUMBERED), [FIRST]),
         model(5, history(FIRST, FIRST, ids=NUMBERED), DONE)], [(1, "a", "A"), (2, "a", "B")]),
    "the history has ids of its own": (
        [model(1, [GO], [A]), work(2, call_id="x1", result="A"),
         model(5, [GO, asks(("h1", "search", {"q": "a"})), tool_result("h1", "A")], DONE)], [(1, "a", "A")]),
    "the history has ids of its own and fills in arguments": (
        [model(1, [GO], [A]), work(2, call_id="x1", result="A"),
         model(5, [GO, asks(("h1", "search", {"q": "a", "n": None})), tool_result("h1", "A")], DONE)], [(1, "a", "A")]),
    "the history has neither ids nor arguments": (
        [model(1, [GO], [A]), work(2, call_id="x1", result="A"),
         model(5, [GO, asks((None, "search", None)), tool_result(None, "A")], DONE)], [(1, "a", "A")]),
    "a helper that was given the whole history": (
        [model(1, [GO], [A]), HELPER_TOOL, HELPER,
         model(4, [*history(A), user("Help!")], [assistant("!")], parent=HELPER), model(30, history(A), DONE)],
        [(1, "a", "A"), (2, None, None)]),
    "what a span kept from an earlier model call": (
        [model(1, history(A), [{**DONE[0], "parts": [*DONE[0]["parts"], *A["parts"]]}])], [(1, "a", "A")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_call_is_recorded_once_in_the_step_that_requested_it(name: str) -> None:
    spans, expected = CASES[name]

    assert expected == searches(*spans)


@given(name=st.sampled_from(sorted(CASES)), random=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_arrival_remembers_nothing_else(name: str, random: Random) -> None:
    spans = [ROOT, *CASES[name][0]]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))


@pytest.mark.parametrize(
    "newest",
    [
        user("Thanks"),
        user("You wrote: search(q=a) -> A"),
        {"role": "user", "parts": [{"type": "uri", "uri": "https://example.com/cat.png"}]},
        {"role": "user", "parts": [{"type": "text", "content": "[REDACTED]"}]},
    ],
    ids=["text", "text that quotes a call", "image", "redacted"],
)
def test_the_calls_of_an_earlier_turn_are_not_those_of_this_one(newest: dict[str, Any]) -> None:
    first = chat(1, [GO], [A], id="c1", trace="first")
    answered = chat(3, history(A), DONE, id="c1", trace="second")
    second = run(60, 70, id="c1", trace="third", query="Thanks")
    spoken = chat(61, [*history(A), *DONE, newest], [assistant("Bye")], parent=second)

    conversation = conversation_of(first, answered, second, spoken)

    assert [["search"], []] == [[call.name for call in turn.calls] for turn in conversation.turns]


def test_results_go_to_the_requesting_agent_although_no_call_has_an_id() -> None:
    ask, look = asks((None, "ask", {})), asks((None, "lookup", {}))
    helper = [
        model(4, [user("Find")], [look], parent=HELPER),
        model(6, [user("Find"), look, tool_result(None, "inner")], [assistant("Ritz")], parent=HELPER),
    ]

    turn = turn_of(
        ROOT, model(1, [GO], [ask]), HELPER_TOOL, HELPER, *helper, model(30, [GO, ask, tool_result(None, "Ritz")], DONE)
    )

    assert [("ask", "Ritz"), ("lookup", "inner")] == [(call.name, call.result) for call in turn.calls]


def test_results_without_ids_go_by_name_where_they_have_one() -> None:
    request = asks((None, "search", {}), (None, "book", {}))
    results = [{"type": "tool_call_response", "name": name, "response": name.upper()} for name in ("book", "search")]

    turn = turn_of(ROOT, model(1, [GO], [request]), model(3, [GO, request, {"role": "tool", "parts": results}], DONE))

    assert [("search", "SEARCH"), ("book", "BOOK")] == [(call.name, call.result) for call in turn.calls]


def test_a_result_without_id_is_not_that_of_an_older_call_whose_result_was_lost() -> None:
    first, two = asks((None, "a", {})), asks((None, "b", {}))

    turn = turn_of(
        ROOT, model(1, [GO], [first]), model(3, None, [two]), model(5, [GO, two, tool_result(None, "B")], DONE)
    )

    assert [("a", None), ("b", "B")] == [(call.name, call.result) for call in turn.calls]


def test_of_a_call_that_only_a_finish_reason_tells_of_the_next_one_tells_the_name() -> None:
    spans = [
        model(1, attributes=WANTS_TOOLS), model(3, attributes=WANTS_TOOLS), work(4.5, "book"),
        model(6, attributes={"gen_ai.response.finish_reasons": ["stop"]}),
    ]  # fmt: skip

    assert [(call.step, call.name, call.error) for call in turn_of(ROOT, *spans).calls] == snapshot(
        [(1, "book", "the call never ran"), (2, "book", None)]
    )


def test_a_finish_reason_before_two_calls_does_not_tell_which_of_them_was_asked_for_before() -> None:
    spans = [
        model(1, attributes=WANTS_TOOLS), model(3, attributes=WANTS_TOOLS), work(4.5, "book"), work(4.6, "search"),
        model(6, attributes={"gen_ai.response.finish_reasons": ["stop"]}),
    ]  # fmt: skip

    assert [(1, "book"), (1, "search")] == [(call.step, call.name) for call in turn_of(ROOT, *spans).calls]


def test_a_tool_that_starts_as_the_next_model_call_does_was_asked_for_by_the_one_before() -> None:
    spans = [
        model(1, end_s=2, attributes=WANTS_TOOLS), work(2, end_s=2),
        model(2, end_s=3, attributes=WANTS_TOOLS), work(3, "book", end_s=3),
        model(3, end_s=4, attributes={"gen_ai.response.finish_reasons": ["stop"]}),
    ]  # fmt: skip

    assert [(1, "search", None), (2, "book", None)] == [
        (call.step, call.name, call.error) for call in turn_of(ROOT, *spans).calls
    ]


@pytest.mark.parametrize(
    "spans",
    [
        [model(1, attributes=WANTS_TOOLS)],
        [model(1, attributes=WANTS_TOOLS), model(3, attributes=WANTS_TOOLS)],
        [model(1, attributes=WANTS_TOOLS), model(3, [GO], DONE)],
    ],
    ids=["the last one", "no call is known", "no call came of it"],
)
def test_a_finish_reason_alone_names_no_call(spans: list[Span]) -> None:
    assert () == turn_of(ROOT, *spans).calls


def test_a_handoff_to_an_agent_whose_calls_are_known_is_no_call_that_never_ran() -> None:
    other = run(3, 9, agent="other", parent=ROOT)
    spans = [model(1, attributes=WANTS_TOOLS), other, model(4, parent=other, attributes=WANTS_TOOLS),
             work(5.5, "book", parent=other)]  # fmt: skip

    assert ["book"] == [call.name for call in turn_of(ROOT, *spans).calls]


def test_many_lost_responses_are_read_in_linear_time() -> None:
    def responses(count: int) -> Callable[[], Any]:
        spans = [
            model(index, [GO, asks((f"x{index}", "search", {"q": index})), tool_result(f"x{index}", 1)])
            for index in range(1, count + 1)
        ]
        return partial(turn_of, ROOT, *spans)

    assert 100 == len(responses(100)().calls)
    assert growth(responses, 100) < LINEAR
