"""Langfuse: observations of decorated functions, wrapped clients and LangChain's callbacks."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.dialects.langfuse import Langfuse
from otel_agentic.testing import check_dialect, span
from tests.dialects.reading import READER, SETTINGS, read_as, texts_of

OWN: Final = "langfuse.observation."


def observed(kind: str, *, given: Any = None, output: Any = None, **more: Any) -> dict[str, Any]:
    """Return the attributes of an observation, text as it is and anything else as JSON."""
    result = {f"{OWN}type": kind, **{f"{OWN}{key.replace('__', '.')}": value for key, value in more.items()}}
    for key, value in (("input", given), ("output", output)):
        if value is not None:
            result[OWN + key] = value if isinstance(value, str) else json.dumps(value)
    return result


def called(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("agent", AgentRun),
        ("chain", AgentRun),
        ("span", AgentRun),
        ("generation", ModelCall),
        ("tool", ToolCall),
        ("retriever", Ignored),
        ("guardrail", Ignored),
        ("event", Ignored),
    ],
)
def test_the_type_says_what_an_observation_is(kind: str, expected: type) -> None:
    read_as(expected, span(attributes=observed(kind)))


def test_only_an_agent_is_a_run_for_certain() -> None:
    assert read_as(AgentRun, span(attributes=observed("agent"))).certain
    assert not read_as(AgentRun, span(attributes=observed("chain"))).certain
    assert not read_as(AgentRun, span(scope="langfuse-sdk")).certain


def test_a_node_of_a_graph_is_called_an_agent_for_its_name_only() -> None:
    node = observed("agent", metadata__langgraph_node='"agent"')

    assert not read_as(AgentRun, span("agent", attributes=node)).certain


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (called("Weather?", [{"role": "system", "content": "s"}]), "Weather?"),
        (called(query="Weather?", session_id="s-1"), "Weather?"),
        (called(ticket="t-1", question="Weather?"), "Weather?"),
        ("Weather?", "Weather?"),
        (called(), None),
    ],
)
def test_a_decorated_function_was_given_the_query(given: Any, expected: str | None) -> None:
    assert expected == read_as(AgentRun, span(attributes=observed("agent", given=given))).query


def test_a_decorated_function_returned_the_answer() -> None:
    assert read_as(AgentRun, span(attributes=observed("agent", output="21 °C."))).answer == "21 °C."


def test_the_traces_own_input_and_output_come_first() -> None:
    attributes = observed("agent", given=called(1, 2), output={"ok": True, "took": 3})
    attributes |= {"langfuse.trace.input": '{"message": "Weather?"}', "langfuse.trace.output": "21 °C."}

    agent_run = read_as(AgentRun, span(attributes=attributes))

    assert ("Weather?", "21 °C.") == (agent_run.query, agent_run.answer)


@pytest.mark.parametrize(
    "named",
    [
        {"session.id": "s-1"},
        {"langfuse.trace.metadata.thread_id": '"s-1"'},
        {"langfuse.trace.metadata.conversationId": "s-1"},
        {f"{OWN}metadata.thread_id": '"s-1"'},
        {f"{OWN}input": json.dumps(called(query="Weather?", session_id="s-1"))},
    ],
)
def test_the_conversation_is_the_session_else_what_metadata_and_arguments_name(named: dict[str, Any]) -> None:
    attributes = {**observed("chain"), **named}

    assert read_as(AgentRun, span(attributes=attributes)).header.conversation_id == "s-1"


def test_a_session_wins_over_an_argument() -> None:
    attributes = {**observed("agent", given=called(session_id="other")), "session.id": "s-1"}

    assert read_as(AgentRun, span(attributes=attributes)).header.conversation_id == "s-1"


def test_a_decorated_tool_has_arguments_and_result() -> None:
    attributes = observed("tool", given=called(city="Zürich"), output="18 °C")

    tool = read_as(ToolCall, span("weather", attributes=attributes))

    assert ("weather", {"city": "Zürich"}, "18 °C") == (tool.name, tool.arguments, tool.result)


def test_a_tool_of_langchain_answers_with_a_message() -> None:
    message = {"type": "tool", "content": "18 °C", "tool_call_id": "c1", "status": "success"}
    attributes = observed("tool", given={"city": "Zürich"}, output=message)

    tool = read_as(ToolCall, span("weather", attributes=attributes))

    assert ("c1", {"city": "Zürich"}, "18 °C") == (tool.call_id, tool.arguments, tool.result)


def test_a_failed_tool_of_langchain_keeps_its_call_id() -> None:
    attributes = observed("tool", metadata__tool_call_id='"c1"', level="ERROR", status_message="late")

    tool = read_as(ToolCall, span(attributes=attributes))

    assert ("c1", True, "late", False) == (tool.call_id, tool.is_error, tool.header.error, tool.result_captured)


@pytest.mark.parametrize(("level", "expected"), [("ERROR", "error"), ("WARNING", None), ("DEBUG", None)])
def test_only_the_level_error_is_a_failure(level: str, expected: str | None) -> None:
    assert expected == read_as(ToolCall, span(attributes=observed("tool", level=level))).header.error


def test_a_wrapped_client_has_the_models_own_messages() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}
    attributes = observed(
        "generation",
        given={"tools": [], "messages": [{"role": "user", "content": "Weather?"}]},
        output={"role": "assistant", "content": None, "tool_calls": [call]},
        model__name="m-1",
    )

    model_call = read_as(ModelCall, span("OpenAI-generation", attributes=attributes))

    assert ([("user", "Weather?")], "m-1") == (texts_of(model_call.messages_in), model_call.model)
    assert model_call.messages_out is not None
    assert [("c1", {"city": "Zürich"})] == [(r.call_id, r.arguments) for r in model_call.messages_out[0].requests]


def test_a_streamed_answer_is_bare_text() -> None:
    model_call = read_as(ModelCall, span(attributes=observed("generation", given=[], output="21 °C.")))

    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


@pytest.mark.parametrize(
    "output",
    [
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        [
            {"type": "reasoning", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"},
        ],
    ],
    ids=["one item", "several"],
)
def test_the_items_of_a_response_are_read(output: Any) -> None:
    model_call = read_as(ModelCall, span(attributes=observed("generation", output=output)))

    assert model_call.messages_out is not None
    assert [("c1", "weather")] == [(r.call_id, r.name) for message in model_call.messages_out for r in message.requests]


def test_definitions_of_tools_are_no_results() -> None:
    definition = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    given = [{"role": "user", "content": "Weather?"}, {"role": "tool", "content": definition}]

    model_call = read_as(ModelCall, span(attributes=observed("generation", given=given)))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)


def test_spans_of_others_in_the_same_process_are_left_to_them() -> None:
    attributes = {"langfuse.environment": "production", "gen_ai.operation.name": "chat"}

    assert READER.dialect_of(span(attributes=attributes))[0].name == "genai"


def test_the_dialect_conforms() -> None:
    samples = (
        span(attributes=observed("agent", given=called("Which?"), output="That.")),
        span(attributes=observed("generation", given=[{"role": "user", "content": "Which?"}], output="That.")),
        span(attributes=observed("tool", given=called(q="x"), output="y")),
    )

    check_dialect(Langfuse(SETTINGS), *samples, content=("langfuse.trace.input", "langfuse.trace.output"))
