"""Traces with one conversation id: which are one conversation, which are other attempts or another service's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.testing import link_to
from tests.conversations.rebuilding import asks, assistant, chat, conversations, linked, run, tool_result, user
from tests.conversations.test_conversations_store import RebuiltStore, in_one_folder, normalised

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from otel_agentic.spans.model import Span

END: Final = {"agentic.conversation.end": True}
SYSTEM: Final = {"role": "system", "parts": [{"type": "text", "content": "You help."}]}


def history(*queries: str) -> list[dict[str, Any]]:
    """Return a history: each query but the last one with its answer."""
    answered = [message for query in queries[:-1] for message in (user(query), assistant(f"{query}!"))]
    return [SYSTEM, *answered, user(queries[-1])]


def turn(start_s: float, *queries: str, **more: Any) -> list[Span]:
    """Return a trace of id "1" whose model input contains the queries: the earlier ones, then its own."""
    messages = more.pop("messages", None) or history(*queries)
    trace, own = f"{start_s} {more.get('service')}", {**more.pop("attributes", {})}
    root = run(start_s, start_s + 2, id="1", trace=trace, query=queries[-1], attributes=own, **more)
    return [root, chat(start_s + 0.5, messages, [assistant(f"{queries[-1]}!")], parent=root)]


def bare(start_s: float, query: str = "a", **more: Any) -> list[Span]:
    """Return a trace of id "1" without a model call: what the model received is unknown."""
    trace = f"{start_s} {more.get('service')}"
    return [run(start_s, start_s + 2, id="1", trace=trace, query=query, answer=f"{query}!", **more)]


def pair(start_s: float = 0, **more: Any) -> list[Span]:
    """Return two turns of a client that sends its history."""
    return [*turn(start_s, "a", **more), *turn(start_s + 10, "a", "b", **more)]


def case(name: str) -> dict[str, Any]:
    return {"attributes": {"agentic.case.id": name}}


def attempt(name: str, case_id: str | None = None) -> dict[str, Any]:
    return {"attributes": {"agentic.attempt.id": name} | ({} if case_id is None else {"agentic.case.id": case_id})}


def one_trace(start_s: float) -> list[Span]:
    """Return two turns of a client that sends its history, in one trace."""
    first, second = (
        run(start_s + n, start_s + n + 2, id="1", trace=f"one {start_s}", query="ab"[n // 5]) for n in (0, 5)
    )
    return [first, chat(start_s + 0.5, history("a"), [assistant("a!")], parent=first),
            second, chat(start_s + 5.5, history("a", "b"), [assistant("b!")], parent=second)]  # fmt: skip


BASE: Final = bare(0, service="x")[0]
GUARD: Final = turn(20, "c", messages=history("a", "b", "c"))
SUMMARY: Final = {
    "role": "system",
    "parts": [{"type": "text", "content": "You help. " + "They asked about a trip. " * 9}],
}

TITLES: Final = {"role": "system", "parts": [{"type": "text", "content": "Write."}]}

#: spans -> the queries of each conversation by name
APART: Final[dict[str, tuple[list[Span], dict[str, str]]]] = {
    "a history that begins again": ([*pair(), *pair(20)], {"1": "ab", "1#2": "ab"}),
    "a history that begins again with other words": ([*pair(), *turn(20, "c"), *turn(30, "c", "d")], {"1": "ab", "1#2": "cd"}),
    "three attempts": ([*pair(), *pair(20), *turn(40, "a")], {"1": "ab", "1#2": "ab", "1#3": "a"}),
    "turns of one trace, then again from the start": ([*one_trace(0), *one_trace(20)], {"1": "ab", "1#2": "ab"}),
    "an end mark": ([*bare(0, attributes=END), *bare(10)], {"1": "a", "1#2": "a"}),
    "another case": ([*bare(0, **case("x")), *bare(10, "b", **case("y"))], {"1": "a", "1#2": "b"}),
    "cases in turn, run twice": (
        [*bare(0, **case("x")), *bare(10, **case("y")), *bare(20, **case("x"))], {"1": "a", "1#2": "a", "1#3": "a"}),
    "another attempt": ([*bare(0, **attempt("x")), *bare(10, **attempt("y"))], {"1": "a", "1#2": "a"}),
    "attempts side by side": (
        [*bare(0, **attempt("x")), *bare(3, **attempt("y")), *bare(6, "b", **attempt("x")), *bare(9, "b", **attempt("y"))],
        {"1": "ab", "1#2": "ab"}),
    "a case named in the resource": (
        [*bare(0, resource={"agentic.case.id": "x"}), *bare(10, resource={"agentic.case.id": "y"})], {"1": "a", "1#2": "a"}),
    "a history without an agent": (
        [chat(n, history(*q), [assistant("!")], id="1", trace=str(n)) for n, q in enumerate(("a", "ab", "a", "ab"))],
        {"1": "ab", "1#2": "ab"}),
    "two services": ([*bare(0, service="x"), *bare(3, service="y")], {"1": "a", "1@y": "a"}),
    "two services, both with histories": (
        [*pair(0, service="x"), *pair(3, service="y")], {"1": "ab", "1@y": "ab"}),
    "two services, each with attempts": (
        [*pair(0, service="x"), *pair(3, service="y"), *pair(20, service="y"), *pair(23, service="x")],
        {"1": "ab", "1#2": "ab", "1@y": "ab", "1@y#2": "ab"}),
    "a link to a trace outside, shared by two services": (
        [run(0, id="1", trace="p", query="a", service="x", links=[link_to(run(0, trace="hub"))]),
         run(3, id="1", trace="q", query="a", service="y", links=[link_to(run(0, trace="hub"))])],
        {"1": "a", "1@y": "a"}),
    "an id that looks like an attempt": (
        [*pair(), *pair(20), run(50, id="1#2", trace="z", query="z")], {"1": "ab", "1#3": "ab", "1#2": "z"}),
    "an attempt that resumes after the next one began": (
        [*pair(), *turn(20, "a"), *turn(30, "a", "b", "c"), *turn(40, "a", "d")], {"1": "abc", "1#2": "ad"}),
}  # fmt: skip
#: spans -> the queries of their one conversation
TOGETHER: Final[dict[str, tuple[list[Span], str | list[str]]]] = {
    "single turns of one query": ([*turn(0, "a"), *turn(10, "a"), *turn(20, "a")], "aaa"),
    "history kept by the server": ([*turn(0, "a"), *turn(10, "b"), *turn(20, "c")], "abc"),
    "nothing captured": ([*bare(0), *bare(10, "b"), *bare(20, "c")], "abc"),
    "a history": ([*pair(), *turn(20, "a", "b", "c")], "abc"),
    "a history whose oldest messages were removed": ([*pair(), *turn(20, "b", "c")], "abc"),
    "the same query again": ([*pair(), *turn(20, "a", "b", "a")], "aba"),
    "a summary in the system prompt": ([*pair(), *turn(20, "c", messages=[SUMMARY, user("c")])], "abc"),
    "a summary before the query": (
        [*pair(), *turn(20, "c", messages=[SYSTEM, user("So far: a trip."), user("c")])], "abc"),
    "a pasted transcript": (
        [*turn(0, "first question"), *turn(10, "first question", "b"),
         *turn(20, "c", messages=[SYSTEM, user("User: first question\nYou: x\nUser: c")])], ["first question", "b", "c"]),
    "messages that a length limit has cut": (
        [*pair(), *turn(20, "c", messages=[user('[{"role": "user", "content": "a"}, {"role": "us')])], "abc"),
    "a guardrail that sees the query alone": (
        [*pair(), *GUARD, chat(20.1, history("c"), [assistant("ok")], parent=GUARD[0])], "abc"),
    "another agent that writes a title": ([*pair(), *turn(20, "Write a title", agent="titles")], ["a", "b", "Write a title"]),
    "a model call without an agent that writes a title": (
        [chat(n, messages, [assistant("!")], id="1", trace=str(n))
         for n, messages in enumerate((history("a"), history("a", "b"), [TITLES, user("t")]))], "abt"),
    "an input that was not captured": ([*pair(), *bare(20, "c")], "abc"),
    "a tool's second model call": (
        [*pair(), *(late := turn(20, "a", "b", "c")),
         chat(21, [*history("a", "b", "c"), asks(("t", "search", {})), tool_result("t", "x")], [assistant("!")], parent=late[0])],
        "abc"),
    "a case that only one root names": ([*bare(0, **case("x")), *bare(10, "b"), *bare(20, "c", **case("x"))], "abc"),
    "an end mark on the last": ([*bare(0), *bare(10, "b", attributes=END)], "ab"),
    "a trace that was open when the end came": (
        [run(0, 9, id="1", trace="m", query="a", attributes=END), run(5, 12, id="1", trace="n", query="b")], "ab"),
    "two services in one trace": (
        [*bare(0, service="x"), run(3, id="1", trace="m", query="b", service="y"),
         run(6, 9, id="1", trace="n", query="c", service="x"),
         chat(7, history("c"), [assistant("!")], trace="n", parent="0 x", service="y")], "abc"),
    "two services, linked": (
        [BASE, run(3, id="1", trace="m", query="b", service="y", links=[link_to(BASE)])], "ab"),
    "two services with one history": ([*turn(0, "a", service="x"), *turn(10, "a", "b", service="y")], "ab"),
    "a service without a name": ([*bare(0), *bare(10, "b", service="")], "ab"),
}  # fmt: skip
ALL: Final = {name: spans for table in (APART, TOGETHER) for name, (spans, _) in table.items()}


def queries(spans: list[Span]) -> dict[str, list[str | None]]:
    return {str(item.conversation_id): [turn.query for turn in item.turns] for item in conversations(*spans)}


@pytest.mark.parametrize("name", APART)
def test_evidence_divides_the_traces_of_an_id(name: str) -> None:
    spans, expected = APART[name]

    assert {key: list(value) for key, value in expected.items()} == queries(spans)


@pytest.mark.parametrize("name", TOGETHER)
def test_without_evidence_nothing_is_divided(name: str) -> None:
    spans, expected = TOGETHER[name]

    assert {"1": list(expected)} == queries(spans)


@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_order_and_duplicates_change_no_identity(name: str, random: Random) -> None:
    spans = ALL[name]

    assert conversations(*spans) == conversations(*random.sample(spans, k=len(spans)))


def check_in_batches(folder: Path, name: str, random: Random) -> None:
    """Check that the store has the same conversations for any batches, any order and repeated spans."""
    spans = ALL[name]
    remaining, store = random.sample([*spans, *spans[::2]], k=len(spans) + len(spans[::2])), RebuiltStore(folder)
    try:
        while remaining:
            size = random.randint(1, 4)
            store.accept(*remaining[:size])
            del remaining[:size]
            store.rebuild(closed=random.random() < 0.3)
        store.rebuild(closed=True)
        assert normalised(conversations(*spans)) == normalised(store.conversations())

        store.accept(*spans)
        assert [] == store.rebuild(closed=True)
    finally:
        store.close()


@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(in_one_folder, max_examples=3)
def test_batches_and_resent_spans_change_no_identity(tmp_path: Path, name: str, random: Random) -> None:
    check_in_batches(tmp_path, name, random)


@pytest.mark.slow
@given(name=st.sampled_from(sorted(ALL)), random=st.randoms(use_true_random=False))
@settings(in_one_folder, max_examples=120)
def test_many_batches_change_no_identity(tmp_path: Path, name: str, random: Random) -> None:
    check_in_batches(tmp_path, name, random)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single turns of one query", [True]),
        ("history kept by the server", [False]),
        ("nothing captured", [False]),
        ("the same query again", [False]),
        ("three attempts", [False, False, False]),
        ("an end mark", [False, False]),
    ],
)
def test_an_opening_that_comes_again_without_history_may_be_a_reused_id(name: str, expected: list[bool]) -> None:
    assert expected == [item.possible_reuse for item in linked(*ALL[name])]


def test_very_many_traces_without_a_visible_history_may_be_a_reused_id() -> None:
    spans = [item for number in range(40) for item in bare(10 * number, f"query {number}")]

    assert [True] == [item.possible_reuse for item in linked(*spans)]
    assert [False] == [item.possible_reuse for item in linked(*spans[:20])]


def test_each_split_has_its_reason() -> None:
    reasons = {name: [item.split_by for item in linked(*ALL[name])][1] for name in APART if len(APART[name][1]) > 1}

    assert all(reasons.values())
    assert "case id y instead of x" == reasons["another case"]
    assert "an end mark before it" == reasons["an end mark"]
    assert "service y, which nothing connects with x" == reasons["two services"]
