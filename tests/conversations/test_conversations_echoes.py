"""The same turn in two traces is one turn; attempts that run side by side are as many turns as there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.testing import link_to
from tests.conversations.rebuilding import asks, assistant, chat, conversations, linked, run, tool, tool_result, user
from tests.conversations.test_conversations_store import RebuiltStore, in_one_folder, normalised
from tests.steps import LINEAR, growth

if TYPE_CHECKING:
    from random import Random

    from otel_agentic.spans.model import Span

LOOK: Final = asks(("x1", "search", {"q": "a"}))


def recorded_turn(
    trace: str,
    scope: str,
    late_s: float = 0.0,
    *,
    query: str = "Which hotel?",
    answer: str | None = "The Ritz.",
    lasts_s: float = 1,
    **more: Any,
) -> list[Span]:
    """Return a turn of two model calls and a tool call, as one instrumentation saw it."""
    root = run(late_s, late_s + 9, trace=trace, scope=scope, query=query, answer=answer, **more)
    ask = [user(query)]
    calls = [(ask, [LOOK]), ([*ask, LOOK, tool_result("x1", "Ritz")], None if answer is None else [assistant(answer)])]
    return [
        root,
        *(
            chat(at + late_s, received, spoken, parent=root, scope=scope, end_s=at + late_s + lasts_s)
            for at, (received, spoken) in zip((1, 5), calls, strict=True)
        ),
        tool(3 + late_s, call_id="x1", parent=root, scope=scope, result="Ritz"),
    ]


FIRST_TRACE: Final = recorded_turn("a", "one")
LATE_S: Final = 0.004

#: Traces of one turn.
SAME: Final = {
    "two instrumentations": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S)],
    "the first of which names the conversation": [
        *recorded_turn("a", "one", id="c1"),
        *recorded_turn("b", "two", LATE_S),
    ],
    "the second of which names the conversation": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, id="c1")],
    "both of which name the conversation": [
        *recorded_turn("a", "one", id="c1"),
        *recorded_turn("b", "two", LATE_S, id="c1"),
    ],
    "three instrumentations": [
        *FIRST_TRACE,
        *recorded_turn("b", "two", LATE_S),
        *recorded_turn("c", "three", 2 * LATE_S),
    ],
    "one that knows no answer": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, answer=None)],
}
#: Traces of two turns, however similar.
DIFFERENT: Final = {
    "attempts by one instrumentation": [*FIRST_TRACE, *recorded_turn("b", "one", LATE_S)],
    "attempts one after the other": [*FIRST_TRACE, *recorded_turn("b", "two", 0.3)],
    "attempts with other answers": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, answer="The Adler.")],
    "attempts of another length": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S)[:2]],
    "attempts whose model took another time": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, lasts_s=1.2)],
    "fast attempts right after each other": [
        *recorded_turn("a", "one", lasts_s=0.01),
        *recorded_turn("b", "two", 0.03, lasts_s=0.01),
    ],
    "other queries": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, query="Which inn?")],
    "other services": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, service="other")],
    "other environments": [*FIRST_TRACE, *recorded_turn("b", "two", LATE_S, environment="staging")],
    "other names": [*recorded_turn("a", "one", id="c1"), *recorded_turn("b", "two", LATE_S, id="c2")],
}
ALL: Final = {**SAME, **DIFFERENT}


@pytest.mark.parametrize("name", SAME)
def test_a_turn_that_two_instrumentations_saw_is_one(name: str) -> None:
    (conversation,) = conversations(*SAME[name])

    assert [("Which hotel?", "The Ritz.", ["search"])] == [
        (turn.query, turn.answer, [call.name for call in turn.calls]) for turn in conversation.turns
    ]


@pytest.mark.parametrize("name", DIFFERENT)
def test_turns_that_are_merely_alike_are_two(name: str) -> None:
    assert 2 == len(conversations(*DIFFERENT[name]))


@pytest.mark.parametrize("attempts", [2, 5])
def test_attempts_side_by_side_that_two_instrumentations_saw_are_as_many_as_there_are(attempts: int) -> None:
    spans = [
        item
        for index in range(attempts)
        for scope, late_s in (("one", 0.0), ("two", LATE_S))
        for item in recorded_turn(f"{scope} {index}", scope, index * 0.2 + late_s)
    ]

    assert attempts == len(conversations(*spans))


def test_the_conversation_is_called_what_one_of_them_calls_it() -> None:
    assert ["c1"] == [
        conversation.conversation_id for conversation in linked(*SAME["the second of which names the conversation"])
    ]


def test_what_a_span_link_points_at_may_be_the_repetition() -> None:
    echo = recorded_turn("b", "two", LATE_S)
    resumed = run(900, 901, trace="later", query="Book it", links=[link_to(echo[0])])

    (conversation,) = conversations(*FIRST_TRACE, *echo, resumed)

    assert ["Which hotel?", "Book it"] == [turn.query for turn in conversation.turns]


def test_a_repetition_does_not_stand_between_a_turn_and_the_next() -> None:
    request, answered = user("Which hotel?"), assistant("The Ritz.")
    root = run(60, 65, trace="later")
    more = [root, chat(61, [request, LOOK, tool_result("x1", "Ritz"), answered, user("Book it")], parent=root)]

    (conversation,) = conversations(*FIRST_TRACE, *recorded_turn("b", "two", LATE_S), *more)

    assert ["Which hotel?", "Book it"] == [turn.query for turn in conversation.turns]


@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_arrival_repeats_nothing_else(name: str, random: Random) -> None:
    spans = ALL[name]

    assert normalised(conversations(*spans)) == normalised(conversations(*random.sample(spans, k=len(spans))))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL))
@given(random=st.randoms(use_true_random=False))
@settings(in_one_folder, max_examples=4)
def test_span_by_span_the_turns_of_each_kind_are_found(tmp_path: Path, name: str, random: Random) -> None:
    check_span_by_span(tmp_path, ALL[name], random)


def check_span_by_span(folder: Path, spans: list[Span], random: Random) -> None:
    """Check that the store has the same conversations, however the spans arrive."""
    remaining = RebuiltStore(folder)
    try:
        for item in random.sample(spans, k=len(spans)):
            remaining.accept(item)
            if random.random() < 0.6:
                remaining.rebuild(closed=random.random() < 0.3)
        remaining.rebuild(closed=True)

        assert normalised(conversations(*spans)) == normalised(remaining.conversations())
    finally:
        remaining.close()


@pytest.mark.parametrize("scopes", [1, 2])
def test_many_attempts_with_one_query_are_distinguished_in_linear_time(scopes: int) -> None:
    def attempts(count: int) -> Callable[[], Any]:
        spans = [
            chat(index / 1000, [user("Hi")], [assistant(f"Hello {index}")], trace=str(index), scope=str(index % scopes))
            for index in range(count)
        ]
        return partial(linked, *spans)

    assert 100 == len(attempts(100)())
    assert growth(attempts, 100) < LINEAR
