"""Turns over several runs and traces: resumed, handed over, recorded in pieces; and separate turns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.spans.model import Span, StatusCode
from otel_agentic.testing import span
from tests.conversations.rebuilding import (
    asks,
    assistant,
    at,
    chat,
    conversation_of,
    conversations,
    run,
    tool,
    tool_result,
    user,
)
from tests.conversations.test_conversations_store import RebuiltStore, in_one_folder, normalised
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from random import Random


GO: Final = user("Go")
LOOK: Final = asks(("x1", "search", {"q": "a"}))
TWO: Final = asks(("x1", "search", {"q": "a"}), ("x2", "search", {"q": "b"}))
HISTORY: Final = [GO, LOOK, tool_result("x1", "Ritz")]
DONE: Final = [assistant("Done.")]
IMAGE: Final = {"role": "user", "parts": [{"type": "uri", "uri": "https://example.com/cat.png"}]}
#: (query, answer, calls) of each turn.
Turns = list[tuple[str | None, str | None, list[str]]]


def turns(*spans: Span) -> Turns:
    result = conversation_of(*spans).turns
    return [(turn.query, turn.answer, [call.name for call in turn.calls]) for turn in result]


def begun(start_s: float, trace: str, received: list[Any] | None = None, **more: Any) -> Span:
    """Return a run that was given messages."""
    attributes = {} if received is None else {"gen_ai.input.messages": received}
    return run(start_s, start_s + 5, id="c1", trace=trace, attributes=attributes, **more)


def model(root: Span, received: Any, answer_then: Any, later_s: float = 1.0) -> Span:
    start_s = (root.start_ns - run(0).start_ns) / 1e9
    return chat(start_s + later_s, received, answer_then, parent=root)


FIRST: Final = begun(0, "a", [GO])
RESUMED: Final = begun(60, "b", HISTORY)
FRONT: Final = begun(0, "a", [GO], agent="front")
BOOKER: Final = begun(6, "a", [GO], agent="booker")
AGAIN: Final = begun(60, "b", [GO])
HANDED: Final = [GO, asks(("h1", "transfer_to_booker", {})), tool_result("h1", "ok")]
OPEN: Final = run(0, 1, id="c1", trace="a", query="Go")
NAMED: Final = {"gen_ai.conversation.id": "c1"}


def bare(start_s: float, trace: str, received: Any, answer_then: Any) -> Span:
    return chat(start_s, received, answer_then, trace=trace, id="c1")


def alone(start_s: float, trace: str, name: str = "search", **more: Any) -> Span:
    return tool(start_s, name, trace=trace, attributes=NAMED, **more)


def noted(name: str, start_s: float, parent: Span | None, query: str | None, answer: str | None) -> Span:
    """Return a run whose instrumentation notes plain texts."""
    texts = {"input.value": query, "output.value": answer}
    attributes = {"openinference.span.kind": "AGENT", "session.id": "c1"} | {
        key: text for key, text in texts.items() if text is not None
    }
    return span(name, parent=parent, start_ns=at(start_s), end_ns=at(9), attributes=attributes)


CREW: Final = noted("crew", 0, None, None, None)

ONE_TURN: Final[dict[str, tuple[list[Span], Turns]]] = {
    "a run resumed with the results it waited for": (
        [FIRST, model(FIRST, [GO], [LOOK]), RESUMED, model(RESUMED, HISTORY, DONE)], [("Go", "Done.", ["search"])]),
    "a run resumed twice": (
        [FIRST, model(FIRST, [GO], [LOOK]), RESUMED, model(RESUMED, HISTORY, [asks(("x3", "book", {}))]),
         (third := begun(90, "c", [*HISTORY, asks(("x3", "book", {})), tool_result("x3", 1)])),
         model(third, [*HISTORY, asks(("x3", "book", {})), tool_result("x3", 1)], DONE)],
        [("Go", "Done.", ["search", "book"])]),
    "a run whose work is recorded in separate traces": (
        [OPEN, bare(1, "b", [GO], [LOOK]), alone(2, "c", call_id="x1"), bare(3, "d", HISTORY, DONE)],
        [("Go", "Done.", ["search"])]),
    "a client, its tools in traces of their own": (
        [bare(0, "a", [GO], [TWO]), alone(2, "b", call_id="x1"), alone(2.5, "c", call_id="x2"),
         bare(5, "d", [GO, TWO, tool_result("x1", 1), tool_result("x2", 2)], DONE)], [("Go", "Done.", ["search", "search"])]),
    "an agent that was handed the query": (
        [FRONT, model(FRONT, [GO], [asks(("h1", "transfer_to_booker", {}))]), BOOKER, model(BOOKER, HANDED, DONE)],
        [("Go", "Done.", ["transfer_to_booker"])]),
    "an agent that calls another of its name": (
        [FIRST, model(FIRST, [GO], [asks(("x1", "travel", {}))]),
         (call := tool(2, "travel", call_id="x1", parent=FIRST, end_s=4)),
         (inner := run(2.1, 3.9, parent=call, query="Go", answer="Inner.")), model(inner, [GO], [assistant("Inner.")]),
         model(FIRST, [GO, asks(("x1", "travel", {})), tool_result("x1", "Inner.")], DONE, 4.2)], [("Go", "Done.", ["travel"])]),
    "a crew whose task holds the query": (
        [CREW, (worker := noted("worker", 1, CREW, "Go", "Done.")),
         chat(2, [user("Your task: Go")], DONE, parent=worker)], [("Go", "Done.", [])]),
}  # fmt: skip
SEVERAL_TURNS: Final[dict[str, tuple[list[Span], Turns]]] = {
    "the same query once more": (
        [FIRST, model(FIRST, [GO], DONE), AGAIN, model(AGAIN, [GO], [LOOK])],
        [("Go", "Done.", []), ("Go", None, ["search"])]),
    "the same query once more in one trace": (
        [FIRST, model(FIRST, [GO], DONE), (same := begun(6, "a", [GO])), model(same, [GO], DONE)],
        [("Go", "Done.", []), ("Go", "Done.", [])]),
    "the same query after one that failed": (
        [(failed := begun(0, "a", [GO], status=StatusCode.ERROR)), model(failed, [GO], [LOOK]), AGAIN,
         model(AGAIN, [GO], DONE)], [("Go", None, ["search"]), ("Go", "Done.", [])]),
    "a new query after an interrupted run": (
        [FIRST, model(FIRST, [GO], [LOOK]), (new := begun(60, "b", [*HISTORY, user("Stop")])),
         model(new, [*HISTORY, user("Stop")], DONE)], [("Go", None, ["search"]), ("Stop", "Done.", [])]),
    "an image": (
        [FIRST, model(FIRST, [GO], DONE), (second := begun(60, "b", [GO, *DONE, IMAGE])),
         model(second, [GO, *DONE, IMAGE], [assistant("A cat.")])], [("Go", "Done.", []), (None, "A cat.", [])]),
    "an image alone": (
        [FIRST, model(FIRST, [GO], DONE), (second := begun(60, "b", [IMAGE])), model(second, [IMAGE], [assistant("A cat.")])],
        [("Go", "Done.", []), (None, "A cat.", [])]),
    "a run of which nothing was recorded": (
        [FIRST, model(FIRST, [GO], DONE), run(60, 65, id="c1", trace="b")], [("Go", "Done.", []), (None, None, [])]),
    "another query of a client while a run was left open": (
        [OPEN, bare(10, "b", [user("Stop")], DONE)], [("Go", None, []), ("Stop", "Done.", [])]),
}  # fmt: skip
ALL: Final = {**ONE_TURN, **SEVERAL_TURNS}


@pytest.mark.parametrize("name", ALL)
def test_runs_are_turns_by_the_queries_that_they_bring(name: str) -> None:
    spans, expected = ALL[name]

    assert expected == turns(*spans)


def test_more_tool_spans_than_were_asked_for_are_no_part_of_the_turn() -> None:
    spans = [bare(0, "a", [GO], [LOOK]), alone(2, "b", call_id="x1"), alone(3, "c"), alone(4, "d", "book")]

    assert ("Go", None, ["search"]) == turns(*spans)[0]


def test_a_run_that_was_given_the_whole_conversation_as_text_has_the_last_message_as_query() -> None:
    received = [user("Hello agent"), assistant("Hello user"), user("Which hotel?")]
    pasted = "Hello agent\nHello user\nWhich hotel?"
    root = noted("team", 0, None, pasted, None)

    assert ["Which hotel?"] == [query for query, _, _ in turns(root, model(root, received, DONE))]


def test_a_query_that_quotes_an_older_message_stays_whole() -> None:
    received = [user("Hello agent"), assistant("Hello user"), user("Which hotel?")]
    root = noted("team", 0, None, "You wrote: Hello user. Which hotel?", None)

    assert [query for query, _, _ in turns(root, model(root, received, DONE))] == snapshot(
        ["You wrote: Hello user. Which hotel?"]
    )


@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_arrival_resumes_nothing_else(name: str, random: Random) -> None:
    spans, _ = ALL[name]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))


@pytest.mark.slow  # through the store: tests/engine/test_engine_rebuild.py
@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(in_one_folder, max_examples=4)
def test_span_by_span_through_the_store_the_same_turns_are_found(tmp_path: Path, name: str, random: Random) -> None:
    check_span_by_span(tmp_path, ALL[name][0], random)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL))
@given(random=st.randoms(use_true_random=False))
@settings(in_one_folder, max_examples=4)
def test_span_by_span_the_turns_of_each_kind_are_found(tmp_path: Path, name: str, random: Random) -> None:
    check_span_by_span(tmp_path, ALL[name][0], random)


def check_span_by_span(folder: Path, spans: list[Span], random: Random) -> None:
    """Check that the store has the same conversations, however the spans arrive, some of them twice."""
    remaining = RebuiltStore(folder)
    try:
        for item in random.sample([*spans, *spans[::2]], k=len(spans) + len(spans[::2])):
            remaining.accept(item)
            if random.random() < 0.6:
                remaining.rebuild(closed=random.random() < 0.3)
        remaining.rebuild(closed=True)

        assert normalised(conversations(*spans)) == normalised(remaining.conversations())
    finally:
        remaining.close()


@pytest.mark.parametrize("kind", ["tools", "retries"])
def test_many_pieces_of_one_turn_are_read_in_linear_time(kind: str) -> None:
    def pieces(count: int) -> Callable[[], Any]:
        request = asks(*((f"x{index}", "search", {"q": index}) for index in range(count)))
        spans = {
            "tools": [
                bare(0, "a", [GO], [request]),
                *(alone(1 + index / 100, f"t{index}", call_id=f"x{index}") for index in range(count)),
            ],
            "retries": [bare(index, "a", [GO], None) for index in range(count)],
        }[kind]
        return partial(conversation_of, *spans)

    assert 1 == len(pieces(100)().turns)
    assert growth(pieces, 100) < LINEAR
