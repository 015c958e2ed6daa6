"""Which conversation a trace, or a part of one, belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.testing import AgentRunScript, link_to, span, speak_genai
from tests.conversations.rebuilding import (
    asks,
    assistant,
    at,
    chat,
    conversation_of,
    conversations,
    linked,
    run,
    tool,
    tool_result,
    user,
)

if TYPE_CHECKING:
    from otel_agentic.spans.model import Span

HI = [user("Hi")]
HELLO = [assistant("Hello!")]


def ids(*items: Span) -> list[str]:
    return [str(conversation.conversation_id) for conversation in linked(*items)]


def test_an_explicit_id_is_inherited_over_the_whole_trace() -> None:
    root = run(0, 9)
    model = chat(1, parent=root, id="c1")
    sibling = tool(2, trace=root.trace_id, parent="never came")

    (conversation,) = linked(root, model, sibling)

    assert ("c1", "explicit") == (conversation.conversation_id, conversation.method)
    assert 3 == sum(len(segment.nodes) for segment in conversation.segments)


def test_the_roots_id_wins_over_a_sub_agents() -> None:
    root = run(0, 9, id="c1")
    call = tool(1, parent=root)
    inner = run(1, 2, parent=call, agent="helper", id="of its own")

    assert ["c1"] == ids(root, call, inner, chat(1, parent=inner, id="of its own"))


def test_an_agent_used_as_a_tool_names_the_conversation_only_where_it_is_all_there_is() -> None:
    root = run(0, 9)
    call = tool(1, parent=root)
    inner = run(1, 2, parent=call, agent="helper", id="helper's")

    assert ["c1"] == ids(root, chat(3, parent=root, id="c1"), call, inner)
    assert [root.trace_id] == ids(root, call, inner)
    assert ["helper's"] == ids(call, inner)


def test_a_model_call_inside_a_tool_names_the_conversation_like_any_other() -> None:
    root = run(0, 9)
    call = tool(1, parent=root)

    assert ["c1"] == ids(root, call, chat(1, parent=call, id="c1"))


def test_several_sub_agents_with_sessions_of_their_own_name_nothing() -> None:
    root = run(0, 9, query="Go")
    calls = [tool(1, parent=root), tool(2, parent=root)]
    inner = [run(index, index + 1, parent=call, id=f"s{index}") for index, call in enumerate(calls)]

    (conversation,) = linked(root, *calls, *inner)

    assert (root.trace_id, "trace") == (conversation.conversation_id, conversation.method)


def test_the_environment_is_part_of_the_identity() -> None:
    staging = run(0, id="1", trace="a", environment="staging")
    production = run(9, id="1", trace="b", environment="production")

    assert [("staging", "1"), ("production", "1")] == [
        conversation.key for conversation in conversations(staging, production)
    ]


def test_the_older_name_of_the_environment_counts_too() -> None:
    old = run(0, id="1", resource={"deployment.environment": "staging"})

    assert ("staging", "1") == conversation_of(old).key


@pytest.mark.parametrize("mark", ["[Scrubbed due to 'session']", "__REDACTED__", ""])
def test_a_redacted_id_is_none_and_joins_nothing(mark: str) -> None:
    first, second = run(0, id=mark, trace="a", query="Hi"), run(9, id=mark, trace="b", query="Ho")

    assert [first.trace_id, second.trace_id] == ids(first, second)


def test_a_session_around_the_agent_names_the_conversation() -> None:
    request = span("POST /chat", start_ns=at(0), end_ns=at(5), attributes={"session.id": "s1"})

    assert ["s1"] == ids(request, chat(1, HI, HELLO, parent=request))


def test_a_session_around_the_agent_gives_way_to_the_agents_own_id() -> None:
    request = span("POST /chat", start_ns=at(0), end_ns=at(5), attributes={"session.id": "browser"})

    assert ["c1"] == ids(request, run(1, 4, parent=request, id="c1"))


def test_a_trace_without_any_id_is_a_conversation_by_itself() -> None:
    alone = run(0, query="Hi")

    (conversation,) = linked(alone)

    assert (alone.trace_id, "trace", False) == (
        conversation.conversation_id,
        conversation.method,
        conversation.ambiguous,
    )


def test_a_trace_may_hold_several_conversations() -> None:
    harness = span("batch", start_ns=at(0), end_ns=at(99), attributes={"gen_ai.operation.name": "invoke_workflow"})
    first, second = run(1, 9, parent=harness, id="c1", query="A"), run(10, 20, parent=harness, id="c2", query="B")
    calls = [tool(2, "one", parent=first), tool(11, "two", parent=second)]

    rebuilt = conversations(harness, first, second, *calls)

    assert [("c1", ["A"], ["one"]), ("c2", ["B"], ["two"])] == [
        (item.conversation_id, [turn.query for turn in item.turns], [c.name for turn in item.turns for c in turn.calls])
        for item in rebuilt
    ]


def test_an_orphan_in_a_trace_of_several_conversations_belongs_to_the_one_before_it() -> None:
    first, second = run(0, 9, id="c1", query="A"), run(10, 20, id="c2", query="B")
    orphan = tool(12, "late", parent="never came")

    rebuilt = conversations(first, second, orphan)

    assert [[], ["late"]] == [[call.name for turn in item.turns for call in turn.calls] for item in rebuilt]


def test_a_span_link_joins_a_trace_to_the_conversation_it_points_at() -> None:
    first = run(0, 1, trace="a", query="Book it")
    resumed = run(900, 901, trace="b", query="Yes", links=[link_to(first)])

    (conversation,) = linked(first, resumed)

    assert ("span_link", 2) == (conversation.method, len(conversation.segments))


def test_a_span_link_to_a_named_conversation_takes_its_name() -> None:
    named = run(0, 1, trace="a", id="c1")

    assert ["c1"] == ids(named, run(900, 901, trace="b", links=[link_to(named)]))


def test_a_name_wins_over_a_span_link() -> None:
    named = run(0, 1, trace="a", id="c1")

    assert ["c1", "c2"] == ids(named, run(9, 10, trace="b", id="c2", links=[link_to(named)]))


def test_growing_history_links_traces_without_an_id() -> None:
    first = chat(0, HI, HELLO, trace="a")
    second = chat(60, [*HI, *HELLO, user("Weather?")], [assistant("Fine.")], trace="b")

    (conversation,) = linked(second, first)

    assert ("history", first.trace_id) == (conversation.method, conversation.conversation_id)


def test_history_links_through_tool_calls() -> None:
    request = asks(("x1", "weather", {"city": "Zürich"}))
    calls = [
        chat(0, HI, [request], trace="a"),
        chat(2, [*HI, request, tool_result("x1", "21")], HELLO, trace="b"),
        chat(4, [*HI, request, tool_result("x1", "21"), *HELLO, user("Thanks")], [assistant("Bye")], trace="c"),
    ]

    (conversation,) = conversations(*calls)

    assert [("Hi", "Hello!"), ("Thanks", "Bye")] == [(turn.query, turn.answer) for turn in conversation.turns]


def test_system_prompts_and_white_space_do_not_break_a_history() -> None:
    system = {"role": "system", "parts": [{"type": "text", "content": "It is noon."}]}
    first = chat(0, [system, *HI], [assistant("Hello!\n")], trace="a")
    later = {"role": "system", "parts": [{"type": "text", "content": "It is one."}]}
    second = chat(60, [later, *HI, *HELLO, user("Weather?")], trace="b")

    assert 1 == len(linked(first, second))


def continued(start_s: float, trace: str, **more: Any) -> Span:
    return chat(start_s, [*HI, *HELLO, user("More")], [assistant("More!")], trace=trace, **more)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (continued(400, "b"), "the idle time is over"),
        (continued(0.5, "b"), "the first one had not ended"),
        (continued(60, "b", service="other"), "another service"),
        (continued(60, "b", environment="staging"), "another environment"),
        (continued(60, "b", attributes={"gen_ai.agent.name": "other"}), "another agent"),
        (chat(60, [user("Ho"), *HELLO, user("More")], trace="b"), "another history"),
        (chat(60, HI, HELLO, trace="b"), "the same query once more is no longer history"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_history_does_not_link(second: Span, why: str) -> None:
    first = chat(0, HI, HELLO, trace="a")

    assert 2 == len(linked(first, second)), why


def test_the_latest_of_those_with_the_same_history_is_gone_on_with() -> None:
    attempts = [chat(index, HI, HELLO, trace=f"t{index}") for index in (0, 3)]

    rebuilt = linked(*attempts, continued(60, "next"))

    assert [1, 2] == [len(item.segments) for item in rebuilt]


def test_one_that_was_gone_on_with_is_no_candidate_any_more() -> None:
    attempts = [chat(index, HI, HELLO, trace=f"t{index}") for index in (0, 3)]

    rebuilt = linked(*attempts, continued(60, "next"), continued(70, "after"))

    assert [2, 2] == [len(item.segments) for item in rebuilt]
    assert not any(item.ambiguous for item in rebuilt)


def test_a_tie_leaves_the_trace_by_itself_and_is_counted() -> None:
    attempts = [chat(0, HI, HELLO, trace=f"t{index}") for index in (0, 1)]

    rebuilt = linked(*attempts, continued(60, "next"))

    assert [(False, "trace"), (False, "trace"), (True, "trace")] == [(item.ambiguous, item.method) for item in rebuilt]


def test_the_longest_history_wins_over_the_latest() -> None:
    long = chat(10, [*HI, *HELLO, user("A")], [assistant("B")], trace="long")
    short = chat(20, HI, HELLO, trace="short")
    next_one = chat(60, [*HI, *HELLO, user("A"), assistant("B"), user("C")], trace="next")

    result = {item.conversation_id: len(item.segments) for item in linked(long, short, next_one)}

    assert {long.trace_id: 2, short.trace_id: 1} == result


def test_a_named_conversation_is_never_joined_by_history() -> None:
    named = chat(0, HI, HELLO, trace="a", id="c1")

    assert 2 == len(linked(named, continued(60, "b")))


def test_a_trace_that_says_nothing_of_agents_is_no_conversation() -> None:
    assert [] == linked(span("GET /health"), span("SELECT 1", trace="other"))


@given(order=st.permutations(range(12)))
@settings(max_examples=10)
def test_the_order_of_arrival_links_nothing_differently(order: list[int]) -> None:
    spans = [
        chat(0, HI, HELLO, trace="a"), chat(0, HI, HELLO, trace="b"), continued(60, "c"), continued(61, "d"),
        *speak_genai(AgentRunScript(conversation_id="x").ask("1").answers("2").ask("3").answers("4")).spans,
        run(5, trace="e", id="x"), chat(90, [*HI, *HELLO, user("More"), assistant("More!"), user("?")], trace="f"),
        run(95, trace="g", links=[link_to(run(5, trace="e", id="x"))]), chat(6, HI, HELLO, trace="h"),
    ]  # fmt: skip
    assert 12 == len(spans)

    assert conversations(*spans) == conversations(*(spans[index] for index in order))
