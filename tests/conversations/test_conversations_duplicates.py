"""One call is recorded once: nested and echoed spans of a call are merged, and calls that are merely similar are not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conversations.rebuilding import (
    asks,
    assistant,
    chat,
    conversation_of,
    conversations,
    run,
    tool,
    tool_result,
    user,
)
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.spans.model import Span

GO: Final = user("Go")
ROOT: Final = run(0, 99, id="c1", query="Go")
SEARCH: Final = asks(("x1", "search", {"q": "a"}))
HISTORY: Final = [GO, SEARCH, tool_result("x1", "Ritz")]
DONE: Final = [assistant("Done.")]
#: (name, arguments, result, error) of each call of the turn, in step order.
Calls = list[tuple[str, dict[str, Any] | None, Any, str | None]]
ONCE: Final[Calls] = [("search", {"q": "a"}, "Ritz", None)]


def calls(*spans: Span) -> Calls:
    (turn,) = conversation_of(*spans).turns
    return [
        (call.name, None if call.arguments is None else dict(call.arguments), call.result, call.error)
        for call in turn.calls
    ]


def model(start_s: float, end_s: float, received: Any = None, answer: Any = None, **more: Any) -> Span:
    return chat(start_s, received, answer, end_s=end_s, **{"parent": ROOT, **more})


def work(start_s: float, end_s: float, name: str = "search", **more: Any) -> Span:
    return tool(start_s, name, end_s=end_s, **{"parent": ROOT, **more})


def response(name: str) -> dict[str, str]:
    return {"gen_ai.response.id": name}


FRAMEWORK: Final = model(1, 5, [GO], [SEARCH])
BARE_FRAMEWORK: Final = model(1, 5)
SUM: Final = model(1, 20, [GO], [SEARCH, tool_result("x1", "Ritz"), *DONE])
SUM_OF_SUM: Final = model(1.1, 19, [GO], [SEARCH, tool_result("x1", "Ritz"), *DONE], parent=SUM)
CALL_LLM: Final = model(1, 6, [GO], [SEARCH])
TOOL: Final = work(2, 9, call_id="x1", arguments={"q": "a"}, result="Ritz")
BARE_TOOL: Final = work(2, 9, call_id="x1", arguments={"q": "a"})
PROTOCOL: Final = work(3, 8, "Search", parent=BARE_TOOL)
AGENT_TOOL: Final = work(2, 20, "ask", call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one")
ECHOED_AGENT_TOOL: Final = work(2.1, 19.9, "ask", call_id="x1", scope="two")
HELPER: Final = run(3, 19, agent="helper", parent=ECHOED_AGENT_TOOL, query="Find", answer="Ritz")

#: Several spans of one call.
SAME: Final[dict[str, tuple[list[Span], Calls]]] = {
    "a client inside a framework": ([FRAMEWORK, model(2, 4, [GO], [SEARCH], parent=FRAMEWORK), TOOL], ONCE),
    "a client that knows more": ([BARE_FRAMEWORK, model(2, 4, [GO], [SEARCH], parent=BARE_FRAMEWORK), TOOL], ONCE),
    "a client that tried twice": (
        [FRAMEWORK, model(1.5, 2, [GO], parent=FRAMEWORK, attributes={"error.type": "timeout"}),
         model(2, 4, [GO], [SEARCH], parent=FRAMEWORK), TOOL], ONCE),
    "what sums up several model calls": (
        [SUM, model(2, 3, [GO], [SEARCH], parent=SUM), work(4, 5, call_id="x1", result="Ritz", parent=SUM),
         model(6, 7, HISTORY, DONE, parent=SUM)], ONCE),
    "what holds a summary": (
        [SUM, SUM_OF_SUM, model(2, 3, [GO], [SEARCH], parent=SUM_OF_SUM),
         work(4, 5, call_id="x1", result="Ritz", parent=SUM_OF_SUM), model(6, 7, HISTORY, DONE, parent=SUM_OF_SUM)], ONCE),
    "a bare client and the tool inside a model call": (
        [CALL_LLM, model(2, 3, parent=CALL_LLM), work(4, 5, call_id="x1", result="Ritz", parent=CALL_LLM)], ONCE),
    "a protocol inside a tool": (
        [BARE_TOOL, PROTOCOL, work(4, 7, "search", parent=PROTOCOL, result="Ritz", arguments={"q": "a"})], ONCE),
    "a protocol that failed first": (
        [TOOL, work(3, 4, parent=TOOL, failed=True), work(5, 6, parent=TOOL, result="Ritz")], ONCE),
    "a protocol whose second try knows the result": (
        [BARE_TOOL, work(3, 4, parent=BARE_TOOL, failed=True, result="busy"),
         work(5, 6, parent=BARE_TOOL, result="Ritz")], ONCE),
    "a protocol with the reason of the failure": (
        [BARE_TOOL, work(3, 4, parent=BARE_TOOL, failed=True, status_message="TimeoutError: 5 s")],
        [("search", {"q": "a"}, None, "TimeoutError: 5 s")]),
    "two instrumentations of a tool": (
        [work(2, 9, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one"),
         work(2.1, 8.9, call_id="x1", scope="two")], ONCE),
    "the second of which knows more": (
        [work(2, 9, call_id="x1", scope="one"),
         work(2.1, 8.9, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="two")], ONCE),
    "one of which adds an argument": (
        [work(2, 9, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one"),
         work(2.1, 8.9, call_id="x1", arguments={"q": "a", "ctx": "<Context>"}, scope="two")], ONCE),
    "two instrumentations of a model call": (
        [model(1, 3, [GO], [SEARCH], scope="one"), model(1.1, 2.9, [GO], [SEARCH], scope="two"),
         model(5, 6, HISTORY, DONE)], ONCE),
    "two by the id of the response": (
        [model(1, 3, scope="one", attributes=response("r1")),
         model(1.1, 2.9, [GO], [SEARCH], scope="two", attributes=response("r1")), model(5, 6, HISTORY, DONE)], ONCE),
    "three instrumentations of a tool": (
        [work(2 + index / 10, 9, call_id="x1", arguments={"q": "a"}, result="Ritz", scope=str(index))
         for index in range(3)], ONCE),
}  # fmt: skip

TWICE: Final[Calls] = [*ONCE, *ONCE]
NEEDS_B: Final[Calls] = [("search", {"q": "a"}, None, None), ("search", {"q": "b"}, None, None)]
NO_ID_A: Final = asks((None, "search", {"q": "a"}))
NO_ID_B: Final = asks((None, "search", {"q": "b"}))
#: An agent that is called like the tool it uses.
NAMESAKE: Final = run(3, 19, agent="search", parent=TOOL, query="Find", scope="two")

#: Spans of several calls, however similar.
DIFFERENT: Final[dict[str, tuple[list[Span], Calls]]] = {
    "a tool that calls itself with other arguments": (
        [TOOL, work(3, 8, arguments={"q": "b"}, result="Adler", parent=TOOL)],
        [*ONCE, ("search", {"q": "b"}, "Adler", None)]),
    "a tool that calls itself under another id": ([TOOL, work(3, 8, call_id="x2", arguments={"q": "a"}, result="Ritz", parent=TOOL)], TWICE),
    "a tool inside another": ([TOOL, work(3, 8, "lookup", parent=TOOL, result=1)], [*ONCE, ("lookup", None, 1, None)]),
    "an agent with the tool's name that calls the tool": (
        [TOOL, NAMESAKE, work(4, 5, arguments={"q": "a"}, result="Ritz", parent=NAMESAKE)], TWICE),
    "a sub-agent that restarts the numbers of its calls, recorded by another instrumentation": (
        [work(2, 20, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one", span_id="outer"),
         run(3, 19, agent="helper", parent="outer", query="Find", scope="two", span_id="inner"),
         work(4, 5, call_id="x1", arguments={"q": "a"}, result="Ritz", parent="inner", scope="two")], TWICE),
    "a tool called twice with the same arguments": (
        [work(2, 3, call_id="x1", arguments={"q": "a"}, result="Ritz"), work(4, 5, call_id="x2", arguments={"q": "a"}, result="Ritz")], TWICE),
    "one after the other by two instrumentations": (
        [work(2, 3, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one"),
         work(4, 5, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="two")], TWICE),
    "at once by one instrumentation": (
        [work(2, 5, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one"),
         work(2.1, 5, call_id="x1", arguments={"q": "a"}, result="Ritz", scope="one")], TWICE),
    "two at once, recorded by two instrumentations each": (
        [work(2 + index / 10, 9, call_id="x1", arguments={"q": "a"}, result="Ritz", scope=scope)
         for index, scope in enumerate(("one", "two", "one", "two"))], TWICE),
    "parallel model calls of one instrumentation with the same messages": (
        [model(1, 3, [user("A?")], [NO_ID_A], scope="one"), model(1.5, 3, [user("A!")], [NO_ID_A], scope="one")],
        [NEEDS_B[0], NEEDS_B[0]]),
    "parallel model calls of two instrumentations that were asked differently": (
        [model(1, 3, [user("A?")], [NO_ID_A], scope="one"), model(1.5, 3, [user("A!")], [NO_ID_A], scope="two")],
        [NEEDS_B[0], NEEDS_B[0]]),
    "parallel model calls of two instrumentations that ask for other arguments": (
        [model(1, 3, answer=[NO_ID_A], scope="one"), model(1.5, 3, answer=[NO_ID_B], scope="two")], NEEDS_B),
    "parallel model calls whose responses have other ids": (
        [model(1, 3, [GO], [NO_ID_A], scope="one", attributes=response("r1")),
         model(1.5, 3, [GO], [NO_ID_A], scope="two", attributes=response("r2"))], [NEEDS_B[0], NEEDS_B[0]]),
}  # fmt: skip
ALL: Final = {**SAME, **DIFFERENT}


@pytest.mark.parametrize("name", SAME)
def test_what_tells_of_one_call_is_one_call(name: str) -> None:
    spans, expected = SAME[name]

    assert expected == calls(ROOT, *spans)


@pytest.mark.parametrize("name", DIFFERENT)
def test_calls_that_are_merely_alike_stay_apart(name: str) -> None:
    spans, expected = DIFFERENT[name]

    assert expected == calls(ROOT, *spans)


@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_order_of_arrival_does_not_change_what_is_one_call(name: str, random: Random) -> None:
    spans = [ROOT, *ALL[name][0]]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))


def test_an_agent_below_the_second_span_of_a_call_belongs_to_the_call() -> None:
    request = asks(("x1", "ask", {"q": "a"}))
    spans = [
        model(1, 1.5, [GO], [request]),
        AGENT_TOOL,
        ECHOED_AGENT_TOOL,
        HELPER,
        work(4, 5, "lookup", parent=HELPER, result=1),
        model(30, 31, [GO, request, tool_result("x1", "Ritz")], [assistant("The Ritz.")]),
    ]

    (turn,) = conversation_of(ROOT, *spans).turns

    assert ("Go", "The Ritz.") == (turn.query, turn.answer)
    assert [("ask", "agent", None), ("lookup", "tool", AGENT_TOOL.span_id)] == [
        (call.name, call.kind, call.parent_span_id) for call in turn.calls
    ]


def test_what_several_model_calls_are_summed_up_by_does_not_answer_for_them() -> None:
    spans = [SUM, model(2, 3, [GO], [SEARCH], parent=SUM), model(6, 7, HISTORY, [assistant("The Ritz.")], parent=SUM)]

    (turn,) = conversation_of(ROOT, *spans).turns

    assert turn.answer == "The Ritz."


@pytest.mark.parametrize("scopes", [1, 2])
def test_many_calls_that_say_the_same_at_once_are_read_in_linear_time(scopes: int) -> None:
    def calls(count: int) -> Callable[[], Any]:
        spans = [
            chat(1 + index / 10_000, [GO], [assistant("yes")], parent=ROOT, end_s=90, scope=str(index % scopes))
            for index in range(count)
        ]
        return partial(conversation_of, ROOT, *spans)

    assert growth(calls, 100) < LINEAR
