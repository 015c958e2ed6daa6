"""The union of tool spans and of what model responses asked for: identity, order, arguments, results, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.testing import AgentRunScript, event, outline, scripted_call, speak_genai
from tests.conversations.rebuilding import (
    asks,
    assistant,
    call_of,
    chat,
    conversation_of,
    run,
    tool,
    tool_result,
    turn_of,
    user,
)

if TYPE_CHECKING:
    from otel_agentic.conversations import ToolCall
    from otel_agentic.spans.model import Span

ROOT = run(0, 99, id="c1", query="Go")
GO = user("Go")


def model(start_s: float, received: list[Any] | None, answer: list[Any] | None) -> Span:
    return chat(start_s, received, answer, parent=ROOT)


def work(start_s: float, name: str = "search", **more: Any) -> Span:
    return tool(start_s, name, parent=ROOT, **more)


def calls(*spans: Span) -> tuple[ToolCall, ...]:
    return turn_of(ROOT, *spans).calls


def test_a_span_and_a_request_of_one_id_are_one_call() -> None:
    (call,) = calls(
        model(1, [GO], [asks(("x1", "search", {"q": "a"}))]),
        work(2, call_id="x1", arguments='{"q": "a"}', result='["Ritz"]'),
    )

    assert ("search", {"q": "a"}, ["Ritz"], True, "x1", "both") == (
        call.name, call.arguments, call.result, call.result_captured, call.call_id, call.source,
    )  # fmt: skip


def test_a_request_without_a_span_is_a_call_with_the_result_that_the_model_received() -> None:
    request = asks(("x1", "search", {"q": "a"}))

    (call,) = calls(
        model(1, [GO], [request]), model(3, [GO, request, tool_result("x1", {"hits": 2})], [assistant("Two.")])
    )

    assert ({"hits": 2}, True, "message", None) == (call.result, call.result_captured, call.source, call.span_id)


def test_a_span_without_a_request_is_a_call() -> None:
    span = work(2, arguments='{"q": "a"}')

    (call,) = calls(span)

    assert ("span", span.span_id, {"q": "a"}) == (call.source, call.span_id, call.arguments)


def test_an_id_that_repeats_within_a_turn_names_two_calls() -> None:
    first, second = asks(("x1", "search", {"q": "a"})), asks(("x1", "search", {"q": "b"}))

    tool_calls = calls(
        model(1, [GO], [first]),
        work(2, call_id="x1", result="A"),
        model(3, [GO, first, tool_result("x1", "A")], [second]),
        work(4, call_id="x1", result="B"),
        model(5, [GO, first, tool_result("x1", "A"), second, tool_result("x1", "B")], [assistant("Done")]),
    )

    assert [(1, {"q": "a"}, "A"), (2, {"q": "b"}, "B")] == [
        (call.step, call.arguments, call.result) for call in tool_calls
    ]


def test_an_id_that_repeats_in_another_turn_is_another_call() -> None:
    once = scripted_call("search", {"q": "a"}, result="A", call_id="x1")
    again = scripted_call("search", {"q": "b"}, result="B", call_id="x1")
    script = AgentRunScript().ask("1").calls(once).answers("A").ask("2").calls(again).answers("B")

    assert script.outline() == outline(conversation_of(*speak_genai(script).spans))


def test_without_ids_name_and_arguments_join() -> None:
    tool_calls = calls(
        model(1, [GO], [asks((None, "search", {"q": "a"}), (None, "search", {"q": "b"}), (None, "book", {}))]),
        work(2, arguments='{"q": "b"}', result="B"),
        work(3, arguments='{"q": "a"}', result="A"),
        work(4, "book", result="C"),
    )

    assert [({"q": "a"}, "A"), ({"q": "b"}, "B"), ({}, "C")] == [(call.arguments, call.result) for call in tool_calls]


def test_without_ids_and_arguments_order_joins() -> None:
    tool_calls = calls(
        model(1, [GO], [asks(("x1", "search", {"q": "a"}), ("x2", "search", {"q": "b"}))]),
        work(2, result="A"),
        work(3, result="B"),
    )

    assert [("x1", "A"), ("x2", "B")] == [(call.call_id, call.result) for call in tool_calls]


def test_names_join_however_they_are_written() -> None:
    (call,) = calls(model(1, [GO], [asks((None, "delegate_work", {}))]), work(2, "Delegate Work", result="A"))

    assert ("delegate_work", "A", "both") == (call.name, call.result, call.source)


def test_two_ids_that_differ_are_two_calls() -> None:
    assert 2 == len(calls(model(1, [GO], [asks(("x1", "search", {}))]), work(2, call_id="x2")))


def test_the_models_arguments_win_over_the_spans() -> None:
    request = {"q": "a", "options": {"n": 3}}

    (call,) = calls(model(1, [GO], [asks(("x1", "search", request))]), work(2, call_id="x1", arguments='{"q": "a"}'))

    assert request == call.arguments


def test_the_spans_arguments_stand_in_for_those_the_model_is_not_known_to_have_named() -> None:
    request = {"role": "assistant", "parts": [{"type": "tool_call", "id": "x1", "name": "search"}]}
    cut = asks(("x2", "search", '{"q": "trunca'))

    tool_calls = calls(
        model(1, [GO], [request]),
        work(2, call_id="x1", arguments='{"q": "a"}'),
        model(3, [GO, request], [cut]),
        work(4, call_id="x2", arguments='{"q": "truncated"}'),
    )

    assert [{"q": "a"}, {"q": "truncated"}] == [call.arguments for call in tool_calls]


def test_calls_of_one_response_are_one_step_in_the_models_order() -> None:
    request = [("x1", "search", {"q": "a"}), ("x2", "search", {"q": "b"}), ("x3", "book", {})]

    tool_calls = calls(
        model(1, [GO], [asks(*request)]),
        work(4, call_id="x1"),  # threads start in any order
        work(3, call_id="x2"),
        work(2, "book", call_id="x3"),
        model(6, [GO], [asks(("x4", "search", {}))]),
    )

    assert [("x1", 1, 0), ("x2", 1, 1), ("x3", 1, 2), ("x4", 2, 3)] == [
        (call.call_id, call.step, call.position) for call in tool_calls
    ]


def test_a_silent_response_asked_for_the_spans_that_follow_it() -> None:
    tool_calls = calls(model(1, None, None), work(2, "a"), work(3, "b"), model(4, None, None), work(5, "c"))

    assert [("a", 1), ("b", 1), ("c", 2)] == [(call.name, call.step) for call in tool_calls]


def test_spans_that_no_model_call_precedes_are_steps_of_their_own() -> None:
    assert [("a", 1), ("b", 2)] == [(call.name, call.step) for call in calls(work(2, "a"), work(3, "b"))]


def test_the_output_of_a_run_stands_in_for_model_calls_that_say_nothing() -> None:
    complete = [
        asks(("x1", "search", {"q": "a"})),
        tool_result("x1", "A"),
        asks(("x2", "book", {})),
        tool_result("x2", "B"),
        assistant("Ok"),
    ]
    spoken = run(0, 9, id="c1", query="Go", attributes={"gen_ai.output.messages": complete})

    turn = turn_of(spoken, tool(2, call_id="x1", parent=spoken))

    assert [("x1", 1, "A", "both"), ("x2", 2, "B", "message")] == [
        (call.call_id, call.step, call.result, call.source) for call in turn.calls
    ]
    assert turn.answer == "Ok"


def test_what_a_run_repeats_of_its_history_was_not_asked_for_again() -> None:
    history = [user("Before"), asks(("x0", "old", {})), tool_result("x0", "0"), assistant("Ok"), GO]
    attributes = {
        "gen_ai.input.messages": history,
        "gen_ai.output.messages": [*history, asks(("x1", "new", {})), tool_result("x1", "1")],
    }

    assert ["new"] == [call.name for call in turn_of(run(0, 9, id="c1", attributes=attributes)).calls]


def test_a_workflow_that_repeats_its_agents_asks_for_nothing_twice() -> None:
    request = asks((None, "search", {"q": "a"}))
    flow = run(
        0, 9, id="c1", agent="flow", query="Go", attributes={"gen_ai.output.messages": [request, assistant("Ok")]}
    )
    agent = run(1, 8, parent=flow)

    assert 1 == len(turn_of(flow, agent, chat(2, [GO], [request], parent=agent), tool(3, parent=agent)).calls)


def test_a_sub_agents_calls_follow_the_call_that_holds_them() -> None:
    helper = (
        AgentRunScript(agent_name="helper")
        .ask("Find")
        .calls(scripted_call("lookup", {"k": 1}, result="R"))
        .answers("Ritz")
    )
    script = (
        AgentRunScript()
        .ask("Trip?")
        .calls(scripted_call("ask_helper", {"task": "Find"}, result="Ritz", agent=helper))
        .calls(scripted_call("book", {"name": "Ritz"}, result="ok"))
        .answers("Done")
    )

    tool_calls = conversation_of(*speak_genai(script).spans).turns[0].calls

    assert [("ask_helper", "agent", 1, "travel"), ("lookup", "tool", 2, "helper"), ("book", "tool", 3, "travel")] == [
        (call.name, call.kind, call.step, call.agent_name) for call in tool_calls
    ]
    assert [None, tool_calls[0].span_id, None] == [call.parent_span_id for call in tool_calls]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("transfer_to_weather", "transfer"),
        ("handoff_to_weather", "transfer"),
        ("transfer_to_agent", "transfer"),
        ("transfer_to_human_agents", "tool"),
        ("transfer_money", "tool"),
        ("delegate_to_accounting", "tool"),
    ],
)
def test_only_a_call_that_hands_over_to_an_agent_of_the_conversation_is_a_transfer(name: str, kind: str) -> None:
    other = run(50, 60, id="c1", parent=ROOT, agent="Weather")

    assert kind == call_of(ROOT, other, model(1, [GO], [asks(("x1", name, {}))])).kind


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"failed": True, "status_message": "ValueError: no"}, "ValueError: no"),
        ({"failed": True}, "error"),
        ({"attributes": {"error.type": "timeout"}}, "timeout"),
        ({"result": '{"error": "no such city"}'}, "no such city"),
        ({"result": {"status": "error", "why": 5}}, '{"status":"error","why":5}'),
        ({"result": '{"is_error": true, "content": "no"}'}, '{"is_error":true,"content":"no"}'),
        ({"result": '{"isError": true}'}, '{"isError":true}'),
        ({"result": "Error: no such city"}, "Error: no such city"),
        ({"result": " error executing tool"}, " error executing tool"),
        ({"result": "requests.exceptions.HTTPError: 404"}, "requests.exceptions.HTTPError: 404"),
        ({"result": "Traceback (most recent call last): x"}, "Traceback (most recent call last): x"),
        ({"result": "Errors are common here"}, None),
        ({"result": "The call had an error"}, None),
        ({"result": '{"error": null, "t": 21}'}, None),
        ({"result": '{"error": false}'}, None),
        ({"result": '{"status": "ok"}'}, None),
        ({"events": [event("exception", {"exception.type": "GraphInterrupt"})]}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_an_error_is_known_by_status_by_type_or_by_what_the_result_says(
    more: dict[str, Any], expected: str | None
) -> None:
    assert expected == calls(work(2, **more))[0].error


def test_a_result_that_the_model_received_as_an_error_makes_the_call_one() -> None:
    request = asks(("x1", "search", {}), ("x2", "search", {}))
    results = [
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "x1", "content": "no such city", "is_error": True},
            {"type": "tool_result", "tool_use_id": "x2", "content": "21 °C"}]},
    ]  # fmt: skip

    tool_calls = calls(model(1, [GO], [request]), model(3, [GO, request, *results], [assistant("Sorry")]))

    assert [("no such city", True), (None, True)] == [(call.error, call.result_captured) for call in tool_calls]


def test_results_without_ids_are_in_the_order_of_the_requests() -> None:
    request = asks((None, "a", {}), (None, "b", {}))

    tool_calls = calls(
        model(1, [GO], [request]),
        model(3, [GO, request, tool_result(None, "A"), tool_result(None, "B")], [assistant("Ok")]),
    )

    assert [("a", "A"), ("b", "B")] == [(call.name, call.result) for call in tool_calls]


def test_a_result_of_null_is_captured_and_one_left_out_is_not() -> None:
    tool_calls = calls(model(1, [GO], [asks(("x1", "a", {}), ("x2", "b", {}))]),
                  model(3, [tool_result("x1", None), {"role": "tool", "parts": [{"type": "tool_call_response", "id": "x2"}]}], [assistant("Ok")]))  # fmt: skip

    assert [(None, True), (None, False)] == [(call.result, call.result_captured) for call in tool_calls]


def test_no_arguments_captured_differs_from_no_arguments() -> None:
    assert [None, {}] == [call.arguments for call in calls(work(2, "a"), work(3, "b", arguments="{}"))]


def test_a_call_without_agent_spans_was_made_by_the_conversations_agent() -> None:
    bare = chat(0, [GO], [asks(("x1", "search", {}))], id="c1", attributes={"gen_ai.agent.name": "bare"})

    assert call_of(bare).agent_name == "bare"
