"""One user query to one final answer, over however many traces it took."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.spans.model import Span, SpanKind, StatusCode
from otel_agentic.testing import AgentRunScript, event, scripted_call, span, speak_genai
from tests.conversations.rebuilding import (
    asks,
    assistant,
    at,
    chat,
    conversation_of,
    run,
    tool,
    tool_result,
    turn_of,
    user,
)

LOOK = asks(("x1", "weather", {"city": "Zürich"}))


def turns(*spans: Span) -> list[tuple[str | None, str | None]]:
    return [(turn.query, turn.answer) for turn in conversation_of(*spans).turns]


def test_each_run_is_a_turn_in_order_of_time() -> None:
    spans = [run(index * 10, id="c1", trace=str(index), query=f"q{index}", answer=f"a{index}") for index in (2, 0, 1)]

    assert [("q0", "a0"), ("q1", "a1"), ("q2", "a2")] == turns(*spans)


def test_a_trace_may_hold_several_turns() -> None:
    spans = [run(index * 10, id="c1", query=f"q{index}", answer=f"a{index}") for index in range(3)]

    assert 3 == len(turns(*spans))


def test_the_same_query_twice_is_two_turns() -> None:
    script = AgentRunScript().ask("Again?").answers("Yes").ask("Again?").answers("Yes")

    assert [("Again?", "Yes"), ("Again?", "Yes")] == turns(*speak_genai(script).spans)


def test_a_run_inside_a_run_is_no_turn_of_its_own() -> None:
    root = run(0, 9, id="c1", query="Plan a trip", answer="Done")
    call = tool(1, "ask_helper", parent=root)

    assert [("Plan a trip", "Done")] == turns(root, call, run(1, 2, parent=call, query="Find a hotel", answer="Ritz"))


def test_a_run_inside_a_tool_call_is_no_turn_even_where_no_run_is_above() -> None:
    model = chat(0, [user("Plan a trip")], [asks(("x1", "ask_helper", {}))], id="c1")
    call = tool(1, "ask_helper", call_id="x1")
    inner = run(1, 2, parent=call, query="Find a hotel", answer="Ritz")
    last = chat(
        3, [user("Plan a trip"), asks(("x1", "ask_helper", {})), tool_result("x1", "Ritz")], [assistant("Done")]
    )

    assert [("Plan a trip", "Done")] == turns(model, call, inner, last)


def test_a_resumed_run_goes_on_with_its_turn() -> None:
    agent_run = run(0, 5, id="c1", trace="a", query="Book it")
    resumed = run(
        60,
        65,
        id="c1",
        trace="b",
        attributes={"gen_ai.input.messages": [user("Book it"), LOOK, tool_result("x1", "yes")]},
    )
    answered = chat(61, [user("Book it"), LOOK, tool_result("x1", "yes")], [assistant("Booked.")], parent=resumed)

    (turn,) = conversation_of(agent_run, chat(1, [user("Book it")], [LOOK], parent=agent_run), resumed, answered).turns

    assert ("Book it", "Booked.", ["weather"]) == (turn.query, turn.answer, [call.name for call in turn.calls])
    assert (at(0), at(65)) == (turn.started_ns, turn.ended_ns)


def test_a_failed_run_is_a_turn_without_an_answer() -> None:
    failed = run(0, 5, id="c1", query="Book it", status=StatusCode.ERROR, status_message="KeyError: 'x'")

    turn = turn_of(failed, chat(1, [user("Book it")], [LOOK], parent=failed))

    assert ("Book it", None, True, "KeyError: 'x'") == (turn.query, turn.answer, turn.answer_captured, turn.error)


def test_text_next_to_a_tool_call_is_no_answer() -> None:
    root = run(0, 9, id="c1", query="Weather?")

    turn = turn_of(root, chat(1, [user("Weather?")], [asks(("x1", "weather", {}), text="I look.")], parent=root))

    assert (None, True) == (turn.answer, turn.answer_captured)


def test_the_query_is_the_last_user_message_of_a_history() -> None:
    history = [user("Hi"), assistant("Hello!"), user("Weather?")]

    assert [("Weather?", "Fine.")] == turns(chat(0, history, [assistant("Fine.")], id="c1"))


def test_results_in_the_users_name_are_no_query() -> None:
    root = run(0, 9, id="c1")
    first = chat(1, [user("Weather?")], [LOOK], parent=root)
    second = chat(
        3, [user("Weather?"), LOOK, tool_result("x1", "21 °C", role="user")], [assistant("21 °C.")], parent=root
    )

    assert [("Weather?", "21 °C.")] == turns(root, first, second)


def test_a_client_without_agent_spans_has_a_turn_for_each_new_user_message() -> None:
    history = [user("Weather?"), LOOK, tool_result("x1", "21 °C"), assistant("21 °C."), user("Thanks")]
    spans = [
        chat(0, history[:1], [LOOK], id="c1", trace="a"),
        chat(5, history[:3], [assistant("21 °C.")], id="c1", trace="b"),
        chat(60, history, [assistant("Bye")], id="c1", trace="c"),
    ]

    assert [("Weather?", "21 °C."), ("Thanks", "Bye")] == turns(*spans)


def test_a_client_that_sends_new_items_only_goes_on_with_its_turn() -> None:
    spans = [
        chat(0, [user("Weather?")], [LOOK], id="c1", trace="a"),
        chat(5, [tool_result("x1", "21 °C")], [assistant("21 °C.")], id="c1", trace="b"),
    ]

    assert [("Weather?", "21 °C.")] == turns(*spans)


def test_a_model_call_that_was_tried_again_is_the_same_turn() -> None:
    failed = chat(0, [user("Weather?")], None, id="c1", status=StatusCode.ERROR)

    assert [("Weather?", "Fine.")] == turns(failed, chat(2, [user("Weather?")], [assistant("Fine.")], id="c1"))


def test_the_same_query_to_a_bare_client_after_an_answer_is_a_new_turn() -> None:
    first = chat(0, [user("Again?")], [assistant("Yes")], id="c1", trace="a")
    again = [user("Again?"), assistant("Yes"), user("Again?")]

    assert [("Again?", "Yes"), ("Again?", "No")] == turns(first, chat(60, again, [assistant("No")], id="c1", trace="b"))


def test_a_workflow_speaks_through_its_agents() -> None:
    root = run(0, 9, id="c1", agent="flow")
    agent = run(1, 8, parent=root, agent="mesa")
    model = chat(2, [user("Weather?")], [assistant("Fine.")], parent=agent)

    assert [("Weather?", "Fine.")] == turns(root, agent, model)


def test_after_a_handoff_the_last_agent_answers() -> None:
    root = run(0, 9, id="c1", agent="flow", query="Weather?")
    first, second = run(1, 2, parent=root, agent="front"), run(4, 8, parent=root, agent="weather")
    spans = [
        chat(1, [user("Weather?")], [asks(("x1", "transfer_to_weather", {}))], parent=first),
        chat(5, [user("Weather?")], [assistant("Fine.")], parent=second),
    ]

    assert [("Weather?", "Fine.")] == turns(root, first, second, *spans)


def test_a_sub_agents_words_are_not_the_answer() -> None:
    helper = AgentRunScript(agent_name="helper").ask("Find a hotel").answers("Ritz")
    script = AgentRunScript().ask("Trip?").calls(scripted_call("ask_helper", {}, result="Ritz", agent=helper))

    (turn,) = conversation_of(*speak_genai(script).spans).turns

    assert ("Trip?", None) == (turn.query, turn.answer)


def test_calls_outside_of_every_run_belong_to_the_run_before_them() -> None:
    first, second = run(0, 9, id="c1", query="A"), run(10, 19, id="c1", query="B")
    early, late = tool(3, "early", parent="never came"), tool(12, "late", parent="never came")

    conversation = conversation_of(first, second, early, late)

    assert [["early"], ["late"]] == [[call.name for call in turn.calls] for turn in conversation.turns]


def test_a_model_call_outside_of_the_run_neither_asks_nor_answers() -> None:
    root = run(10, 19, id="c1", query="Weather?")
    own = chat(11, [user("Weather?")], [assistant("Fine.")], parent=root)
    guard = chat(5, [user("Is this safe: Weather?")], [assistant("yes")], parent="never came")
    title = chat(30, [user("Give this a title")], [assistant("The weather")], parent="never came")

    assert [("Weather?", "Fine.")] == turns(guard, root, own, title)


def test_a_turn_points_at_its_run() -> None:
    root = run(0, 9, id="c1", query="Hi")

    turn = turn_of(
        root, chat(1, [user("Hi")], [assistant("Hello")], parent=root, attributes={"gen_ai.response.id": "r1"})
    )

    assert (root.trace_id, root.span_id, "r1", 0) == (turn.trace_id, turn.span_id, turn.response_id, turn.index)


def test_case_verdict_version_and_end_come_from_any_span() -> None:
    verdict = event(
        "gen_ai.evaluation.result",
        {"gen_ai.evaluation.name": "agentic.conversation", "gen_ai.evaluation.score.label": "fail"},
    )
    conversation = conversation_of(
        run(0, id="c1", trace="a", attributes={"agentic.case.id": "case-1"}, resource={"service.version": "7"}),
        run(9, id="c1", trace="b", attributes={"agentic.conversation.end": True}, events=[verdict]),
    )

    assert ("case-1", False, "7", "end_mark", True) == (
        conversation.case_id,
        conversation.verdict,
        conversation.agent_version,
        conversation.closed_by,
        conversation.ended,
    )


def test_a_workflow_that_says_nothing_itself_has_its_agents_words() -> None:
    workflow = run(0, 9, query=None, answer=None)
    first = run(1, 4, query="Where is it?", answer="I hand over.", parent=workflow)
    second = run(5, 8, query="Where is it?", answer="In Rome.", parent=workflow)

    (turn,) = conversation_of(workflow, first, second).turns

    assert ("Where is it?", "In Rome.") == (turn.query, turn.answer)


HELPER = span("helper", scope="langfuse-sdk", attributes={"langfuse.observation.type": "span", "session.id": "c1"})
REQUEST: dict[str, Any] = {"kind": SpanKind.SERVER, "parent": "in another system", "span_id": "request"}


@pytest.mark.parametrize(
    ("spans", "agent"),
    [
        ([chat(0, [user("Hi")], [assistant("Hello")])], "concierge"),
        ([chat(0, [user("Hi")], [assistant("Hello")], parent="never came")], None),
        ([tool(0, parent="never came")], None),
        ([chat(0, [user("Hi")], parent="never came", attributes={"gen_ai.agent.name": "travel"})], "travel"),
        ([chat(0, [user("Hi")], parent="request"), span("POST /chat", **REQUEST)], "concierge"),
        ([run(0, query="Hi", parent="never came")], "travel"),
        ([HELPER], None),
    ],
    ids=["bare", "rootless chat", "rootless tool", "named", "below a request", "run", "no turn"],
)
def test_the_service_stands_for_the_agent_only_where_the_root_of_a_turn_has_come(
    spans: list[Span], agent: str | None
) -> None:
    assert agent == conversation_of(*spans).agent_name


def test_a_conversation_may_have_no_turn() -> None:
    conversation = conversation_of(HELPER)

    assert ("c1", (), "none", HELPER.start_ns, HELPER.end_ns) == (
        conversation.conversation_id,
        conversation.turns,
        conversation.content_captured,
        conversation.started_ns,
        conversation.ended_ns,
    )
