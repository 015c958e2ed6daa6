"""Traces without a conversation id: linked by the history that a later one contains, never by mere similarity."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.spans.model import Span, StatusCode
from tests.conversations.rebuilding import asks, assistant, chat, conversations, linked, run, tool_result, user
from tests.conversations.test_conversations_store import RebuiltStore, in_one_folder, normalised
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from random import Random


HI: Final = [user("Hi")]
HELLO: Final = [assistant("Hello there!")]
MORE: Final = [user("More")]
#: How every answer of some agents ends.
ENDING: Final = "Is there anything else I can help you with?"
LOOK: Final = asks(("x1", "search", {"q": "a"}))
IMAGE: Final = {"role": "user", "parts": [{"type": "uri", "uri": "https://example.com/cat.png"}]}


def turn(start_s: float, trace: str, query: str, answer: str | None, **more: Any) -> Span:
    return run(start_s, trace=trace, query=query, answer=answer, **more)


def transcript(*answer_before: str, now: str) -> str:
    """Return a query that is the whole conversation: user and agent in turn."""
    speakers = ("Guest", "Concierge") * len(answer_before)
    lines = [f"{who}: {text}" for who, text in zip(speakers, answer_before, strict=False)]
    return "\n".join(["Conversation so far:", *lines, f"Guest: {now}"])


ORDER: Final = ("Where is order 1?", f"Order 1 is on its way.\n{ENDING}")
OTHER: Final = ("Where is order 2?", f"Order 2 has arrived.\n{ENDING}")

#: (spans, the queries of each conversation)
LINKED: Final[dict[str, tuple[list[Span], list[list[str | None]]]]] = {
    "messages": (
        [chat(0, HI, HELLO, trace="a"), chat(60, [*HI, *HELLO, *MORE], trace="b")], [["Hi", "More"]]),
    "messages with calls": (
        [chat(0, HI, [LOOK], trace="a"), chat(2, [*HI, LOOK, tool_result("x1", "A")], HELLO, trace="b"),
         chat(60, [*HI, LOOK, tool_result("x1", "A"), *HELLO, *MORE], trace="c")], [["Hi", "More"]]),
    "messages whose calls were written down in another way": (
        [chat(0, HI, [LOOK], trace="a"), chat(2, [*HI, LOOK, tool_result("x1", "A")], HELLO, trace="b"),
         chat(60, [*HI, assistant("[called search]"), *HELLO, *MORE], trace="c")], [["Hi"], ["More"]]),
    "texts whose calls were left out": (
        [chat(0, HI, [LOOK], trace="a"), chat(2, [*HI, LOOK, tool_result("x1", "A")], HELLO, trace="b"),
         chat(60, [*HI, *HELLO, *MORE], trace="c")], [["Hi", "More"]]),
    "a response that was not recorded": (
        [chat(0, HI, None, trace="a"), chat(60, [*HI, *HELLO, *MORE], trace="b")], [["Hi", "More"]]),
    "an image after words": (
        [chat(0, HI, HELLO, trace="a"), chat(60, [*HI, *HELLO, IMAGE], trace="b")], [["Hi", None]]),
    "a transcript": (
        [turn(0, "a", *ORDER), turn(60, "b", transcript(*ORDER, now="Thanks"), "Welcome.")],
        [[ORDER[0], transcript(*ORDER, now="Thanks")]]),
    "a transcript of two turns": (
        [turn(0, "a", *ORDER), turn(60, "b", transcript(*ORDER, now="And now?"), "Still on its way."),
         turn(90, "c", transcript(*ORDER, "And now?", "Still on its way.", now="Hm"), "Sorry.")],
        [[ORDER[0], transcript(*ORDER, now="And now?"),
          transcript(*ORDER, "And now?", "Still on its way.", now="Hm")]]),
    "transcripts of two conversations whose answers end in the same way": (
        [turn(0, "a", *ORDER), turn(2, "b", *OTHER), turn(60, "c", transcript(*ORDER, now="Thanks"), "Welcome."),
         turn(63, "d", transcript(*OTHER, now="Thanks"), "Welcome.")],
        [[ORDER[0], transcript(*ORDER, now="Thanks")], [OTHER[0], transcript(*OTHER, now="Thanks")]]),
    "an agent that control was handed to": (
        [run(0, 5, trace="a", agent="front", query="Hi", span_id="root"),
         chat(1, HI, HELLO, parent="root", trace="a", attributes={"gen_ai.agent.name": "booker"}),
         run(2, 4, trace="a", parent="root", agent="booker"),
         run(60, 65, trace="b", agent="booker", span_id="next"),
         chat(61, [*HI, *HELLO, *MORE], [assistant("!")], parent="next", trace="b")], [["Hi", "More"]]),
}  # fmt: skip
APART: Final[dict[str, tuple[list[Span], list[list[str | None]]]]] = {
    "attempts that begin in the same way": ([chat(0, HI, HELLO, trace="a"), chat(60, HI, HELLO, trace="b")], [["Hi"], ["Hi"]]),
    "attempts whose responses were not recorded": (
        [chat(0, HI, None, trace="a"), chat(60, HI, None, trace="b")], [["Hi"], ["Hi"]]),
    "an attempt after one that failed": (
        [chat(0, HI, None, trace="a", status=StatusCode.ERROR), chat(60, HI, HELLO, trace="b")], [["Hi"], ["Hi"]]),
    "an old answer that a user pasted": (
        [turn(0, "a", *ORDER), turn(60, "b", f"I got a mail.\n{ENDING}\nWhat is that?", "Spam.")],
        [[ORDER[0]], [f"I got a mail.\n{ENDING}\nWhat is that?"]]),
    "a user who pasted a whole answer": (
        [turn(0, "a", *ORDER), turn(60, "b", f"You wrote:\n{ORDER[1]}\nWhen?", "Soon.")],
        [[ORDER[0]], [f"You wrote:\n{ORDER[1]}\nWhen?"]]),
    "a transcript of another conversation": (
        [turn(0, "a", *ORDER), turn(60, "b", transcript(*OTHER, now="Thanks"), "Welcome.")],
        [[ORDER[0]], [transcript(*OTHER, now="Thanks")]]),
    "a transcript of another agent's": (
        [turn(0, "a", *ORDER), turn(60, "b", transcript(*ORDER, now="Thanks"), "Welcome.", agent="other")],
        [[ORDER[0]], [transcript(*ORDER, now="Thanks")]]),
    "a transcript of another service's": (
        [turn(0, "a", *ORDER), turn(60, "b", transcript(*ORDER, now="Thanks"), "Welcome.", service="other")],
        [[ORDER[0]], [transcript(*ORDER, now="Thanks")]]),
    "a transcript after the idle time": (
        [turn(0, "a", *ORDER), turn(400, "b", transcript(*ORDER, now="Thanks"), "Welcome.")],
        [[ORDER[0]], [transcript(*ORDER, now="Thanks")]]),
    "one word in common": (
        [turn(0, "a", "Hi", "Yes."), turn(60, "b", "Guest: Hi\nYes.\nGuest: Ok", "!")],
        [["Hi"], ["Guest: Hi\nYes.\nGuest: Ok"]]),
}  # fmt: skip
ALL: Final = {**LINKED, **APART}


def queries(spans: list[Span]) -> list[list[str | None]]:
    return [[item.query for item in conversation.turns] for conversation in conversations(*spans)]


@pytest.mark.parametrize("name", ALL)
def test_traces_are_linked_by_what_they_know_of_each_other(name: str) -> None:
    spans, expected = ALL[name]

    assert expected == queries(spans)


@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_arrival_links_nothing_else(name: str, random: Random) -> None:
    spans, _ = ALL[name]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))


@pytest.mark.slow  # through the store: tests/engine/test_engine_rebuild.py
@given(names=st.lists(st.sampled_from(sorted(ALL)), min_size=2, max_size=3, unique=True), random=st.randoms())
@settings(in_one_folder, max_examples=3)
def test_trace_by_trace_through_the_store_the_same_conversations_are_found(
    tmp_path: Path, names: list[str], random: Random
) -> None:
    check_trace_by_trace(tmp_path, names, random)


@pytest.mark.slow
@given(names=st.lists(st.sampled_from(sorted(ALL)), min_size=2, max_size=3, unique=True), random=st.randoms())
@settings(in_one_folder, max_examples=40)
def test_trace_by_trace_the_conversations_of_many_mixtures_are_found(
    tmp_path: Path, names: list[str], random: Random
) -> None:
    check_trace_by_trace(tmp_path, names, random)


def check_trace_by_trace(folder: Path, names: list[str], random: Random) -> None:
    """Check that the store has the same conversations for any order of the traces."""
    spans = list({item.span_id: item for name in names for item in ALL[name][0]}.values())
    remaining = RebuiltStore(folder)
    try:
        for item in random.sample(spans, k=len(spans)):
            remaining.accept(item)
            remaining.rebuild(closed=random.random() < 0.3)
        remaining.rebuild(closed=True)

        assert normalised(conversations(*spans)) == normalised(remaining.conversations())
    finally:
        remaining.close()


def test_attempts_that_go_on_side_by_side_take_one_beginning_each() -> None:
    attempts = [chat(index, HI, HELLO, trace=f"first {index}") for index in (0, 3, 6)]
    continued = [chat(60 + index, [*HI, *HELLO, *MORE], trace=f"then {index}") for index in (0, 3, 6)]

    assert [2, 2, 2] == [len(conversation.segments) for conversation in linked(*attempts, *continued)]


@pytest.mark.parametrize("kind", ["bare", "unheard", "transcript"])
def test_many_traces_without_an_id_are_linked_in_linear_time(kind: str) -> None:
    def traces(count: int) -> Callable[[], Any]:
        spans = {
            "bare": [chat(index / 100, HI, HELLO, trace=str(index)) for index in range(count)],
            "unheard": [chat(index / 100, HI, None, trace=str(index)) for index in range(count)],
            "transcript": [
                turn(index / 100, str(index), transcript(*("a line of text",) * 40, now="Now?"), "a line of text")
                for index in range(count)
            ],
        }[kind]
        return partial(linked, *spans)

    assert traces(100)()
    assert growth(traces, 100) < LINEAR
