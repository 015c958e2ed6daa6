"""Agents that act by writing code: what runs it is no call; what the model chose by a function call is one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.testing import span
from tests.conversations.rebuilding import asks, assistant, at, chat, conversation_of, run, tool, tool_result, user

if TYPE_CHECKING:
    from otel_agentic.conversations import ToolCall
    from otel_agentic.spans.model import Span

CODE = 'found = look("Paris")\nprint(found)'
WRITTEN = assistant(f"Thought: I look it up.\n<code>\n{CODE}\n</code>")
QUERY = user("Where is the Ritz?")


def calls(*spans: Span) -> tuple[ToolCall, ...]:
    (turn,) = conversation_of(*spans).turns
    return turn.calls


def names(*spans: Span) -> list[str]:
    return [call.name for call in calls(*spans)]


def history_of_code(name: str = "python_interpreter", **arguments: Any) -> list[dict[str, Any]]:
    """Return the messages from a code agent to its model in the second step."""
    return [QUERY, WRITTEN, asks(("call_1", name, arguments or CODE)), tool_result("call_1", "Execution logs:\nParis")]


def test_code_that_the_model_wrote_into_its_answer_is_not_a_call_and_what_it_called_is() -> None:
    root = run(0, 90)
    inner = tool(2, "look", arguments={"city": "Paris"}, result="Paris", parent=root)
    spans = [
        chat(1, [QUERY], [WRITTEN], parent=root),
        inner,
        chat(5, history_of_code(), [assistant("final_answer('In Paris.')")], parent=root),
    ]

    (call,) = calls(root, *spans)

    assert ("look", {"city": "Paris"}, "Paris", None) == (call.name, call.arguments, call.result, call.parent_span_id)


def test_code_in_a_structured_answer_is_written_as_well() -> None:
    root = run(0, 90)
    structured = assistant(json.dumps({"thought": "I look it up.", "code": CODE}))
    history = [QUERY, structured, asks(("call_1", "python_interpreter", CODE)), tool_result("call_1", "Paris")]

    assert [] == names(
        root,
        chat(1, [QUERY], [structured], parent=root),
        chat(5, history, [assistant("It is in Paris.")], parent=root),
    )


def test_code_without_calls_leaves_a_turn_without_calls() -> None:
    root = run(0, 90)

    assert [] == names(
        root,
        chat(1, [QUERY], [WRITTEN], parent=root),
        chat(5, history_of_code(), [assistant("It is in Paris.")], parent=root),
    )


@pytest.mark.parametrize(("name", "key"), [("python_interpreter", "input"), ("execute", "code"), ("PythonTool", "x")])
def test_a_span_of_an_interpreter_around_tools_is_a_wrapper_even_where_the_model_chose_it(name: str, key: str) -> None:
    root = run(0, 90)
    model_call = chat(1, [QUERY], [asks(("c1", name, {key: CODE}))], parent=root)
    wrapper = tool(2, name, call_id="c1", arguments={key: CODE}, result="Paris", parent=root)
    inner = [tool(at_s, "look", arguments={"n": at_s}, result=at_s, parent=wrapper) for at_s in (2.2, 2.4)]

    tool_calls = calls(root, model_call, wrapper, *inner)

    assert [("look", {"n": 2.2}, None), ("look", {"n": 2.4}, None)] == [
        (call.name, call.arguments, call.parent_span_id) for call in tool_calls
    ]


def test_a_span_of_an_interpreter_for_code_in_the_answer_is_a_wrapper() -> None:
    root = run(0, 90)
    wrapper = tool(2, "python_interpreter", arguments={"code": CODE}, result="Paris", parent=root)

    assert [] == names(root, chat(1, [QUERY], [WRITTEN], parent=root), wrapper)


@pytest.mark.parametrize("name", ["code_interpreter", "python", "execute_code"])
def test_an_interpreter_that_the_model_chose_by_a_function_call_is_a_tool(name: str) -> None:
    root = run(0, 90)
    model_call = chat(1, [QUERY], [asks(("c1", name, {"code": CODE}))], parent=root)
    ran = tool(2, name, call_id="c1", arguments={"code": CODE}, result="Paris", parent=root)

    assert [name] == names(root, model_call, ran)
    assert [name] == names(root, model_call)


def test_an_interpreter_of_which_only_a_span_is_known_is_a_tool() -> None:
    root = run(0, 90)

    assert ["code_interpreter"] == names(root, tool(2, "code_interpreter", arguments={"code": CODE}, parent=root))


def test_a_tool_with_tools_inside_that_runs_no_code_is_a_call() -> None:
    root = run(0, 90)
    outer = tool(2, "plan_trip", arguments={"city": "Paris"}, parent=root)

    assert ["plan_trip", "look"] == names(root, outer, tool(2.2, "look", parent=outer))


def test_the_parameters_of_a_tool_name_its_positional_arguments() -> None:
    given = {"args": ["Paris"], "kwargs": {"days": 2}, "sanitize_inputs_outputs": False}
    described = {"city": {"type": "string"}, "days": {"type": "integer"}}
    root = _openinference("run", "AGENT", 0, {"input.value": "Where?"})

    (call,) = calls(
        root,
        _openinference(
            "SimpleTool",
            "TOOL",
            1,
            {"tool.name": "look", "tool.parameters": json.dumps(described), "input.value": json.dumps(given)},
            root,
        ),
    )

    assert {"city": "Paris", "days": 2} == call.arguments


def _openinference(
    name: str, kind: str, start_s: float, attributes: dict[str, str], parent: Span | None = None
) -> Span:
    end_ns = at(start_s if kind == "EVENT" else start_s + 1)
    message = {"openinference.span.kind": "TOOL" if kind == "EVENT" else kind, **attributes}
    scope = "openinference.instrumentation.x"
    return span(name, start_ns=at(start_s), end_ns=end_ns, parent=parent, attributes=message, scope=scope)


def test_an_event_of_a_tool_call_is_no_call() -> None:
    root = _openinference("agent", "AGENT", 0, {"input.value": "Where?"})
    call = _openinference(
        "look", "TOOL", 1, {"tool.name": "look", "input.value": '{"input": {"n": 1}, "options": null}'}, root
    )
    events = [
        _openinference(name, "EVENT", 1.5, {"input.value": '{"error": "none", "input": {"n": 1}}'}, call)
        for name in ("error", "retry", "error")
    ]

    (result,) = calls(root, call, *events)

    assert ("look", {"n": 1}) == (result.name, result.arguments)


def test_tools_of_an_instrumentation_that_names_none_are_calls_wherever_they_ran() -> None:
    root = _openinference("agent", "AGENT", 0, {"input.value": "Where?"})
    outer = _openinference("Outer.__call__", "TOOL", 1, {}, root)

    assert ["Outer", "Inner"] == names(root, outer, _openinference("Inner.__call__", "TOOL", 1.2, {}, outer))


def test_calls_that_only_a_history_shows_with_a_known_one_were_requested_with_it() -> None:
    """BeeAI joins the arguments of parallel calls into the first of them and drops the others."""
    root = run(0, 90)
    joined = asks(("c1", "look", '{"city": "Rome"}{"city": "Oslo"}'))
    request = asks(("c1", "look", {"city": "Rome"}), ("c2", "look", {"city": "Oslo"}))
    ran = [
        tool(start, "look", arguments={"city": city}, result=city, parent=root)
        for start, city in ((2, "Rome"), (3, "Oslo"))
    ]

    tool_calls = calls(
        root,
        chat(1, [QUERY], [joined], parent=root),
        *ran,
        chat(
            5, [QUERY, request, tool_result("c1", "Rome"), tool_result("c2", "Oslo")], [assistant("Both.")], parent=root
        ),
    )

    assert [(1, {"city": "Rome"}), (1, {"city": "Oslo"})] == [(call.step, call.arguments) for call in tool_calls]
