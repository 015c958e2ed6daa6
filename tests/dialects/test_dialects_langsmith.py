"""LangSmith's export: inputs and outputs of runs, LangChain's dumps, and a project that is no session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.dialects.langsmith import LangSmith
from otel_agentic.spans.model import StatusCode
from otel_agentic.testing import check_dialect, event, span
from tests.dialects.reading import READER, SETTINGS, read_as, texts_of

_MESSAGES = ["langchain", "schema", "messages"]


def run(kind: str, *, given: Any = None, output: Any = None, **more: Any) -> dict[str, Any]:
    """Return the attributes of a run; a double underscore in a name is a dot."""
    result = {"langsmith.span.kind": kind, **{key.replace("__", "."): value for key, value in more.items()}}
    if given is not None:
        result["gen_ai.prompt"] = json.dumps(given)
    if output is not None:
        result["gen_ai.completion"] = json.dumps(output)
    return result


def dumped(kind: str, **fields: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": [*_MESSAGES, kind], "kwargs": fields}


@pytest.mark.parametrize(
    ("kind", "operation", "expected"),
    [
        ("chain", "chain", AgentRun),
        ("llm", "chat", ModelCall),
        ("tool", "execute_tool", ToolCall),
        ("prompt", "chat", Ignored),
        ("parser", "parser", Ignored),
        ("retriever", "embeddings", Ignored),
    ],
)
def test_the_kind_of_the_run_decides(kind: str, operation: str, expected: type) -> None:
    read_as(expected, span(attributes=run(kind, gen_ai__operation__name=operation)))


def test_a_chain_is_a_run_only_where_nothing_above_it_is_one() -> None:
    assert not read_as(AgentRun, span(attributes=run("chain"))).certain


def test_the_project_is_not_the_conversation() -> None:
    project = run("chain", langsmith__trace__session_name="my-project", langsmith__trace__session_id="p-1")
    named = {**project, "langsmith.metadata.thread_id": "thread-1"}

    assert read_as(AgentRun, span(attributes=project)).header.conversation_id is None
    assert read_as(AgentRun, span(attributes=named)).header.conversation_id == "thread-1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"query": "Weather?", "session_id": "s-1"}, "s-1"),
        ({"query": "Weather?", "session": "s-1"}, "s-1"),
        ({"query": "Weather?", "session": {"id": "s-1"}}, "s-1"),
        ({"query": "Weather?", "session": {"user": "u-1"}}, None),
        ({"query": "Weather?", "session": True}, None),
        ({"query": "Weather?"}, None),
    ],
)
def test_the_function_that_runs_the_agent_may_be_given_the_conversation(given: Any, expected: str | None) -> None:
    assert expected == read_as(AgentRun, span(attributes=run("chain", given=given))).header.conversation_id


def test_a_tool_may_be_about_another_conversation() -> None:
    tool = read_as(ToolCall, span(attributes=run("tool", given={"conversation_id": "ticket-7"})))

    assert (None, {"conversation_id": "ticket-7"}) == (tool.header.conversation_id, tool.arguments)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"query": "Weather?", "history": []}, "Weather?"),
        ({"question": "Weather?"}, "Weather?"),
        ({"input": "Weather?", "chat_history": []}, "Weather?"),
    ],
)
def test_a_decorated_function_was_given_the_query(given: Any, expected: str) -> None:
    assert expected == read_as(AgentRun, span(attributes=run("chain", given=given))).query


def test_what_a_decorated_function_returned_is_the_answer() -> None:
    assert read_as(AgentRun, span(attributes=run("chain", output={"output": "21 °C."}))).answer == "21 °C."


def test_a_graph_has_messages() -> None:
    output = {"messages": [{"type": "human", "content": "Weather?"}, {"type": "ai", "content": "21 °C."}]}
    attributes = run(
        "chain",
        given={"messages": [{"role": "user", "content": "Weather?"}]},
        output=output,
        langsmith__metadata__lc_agent_name="concierge",
    )

    agent_run = read_as(AgentRun, span(attributes=attributes))

    assert [("user", "Weather?")] == texts_of(agent_run.messages_in)
    assert [("user", "Weather?"), ("assistant", "21 °C.")] == texts_of(agent_run.messages_out)
    assert agent_run.header.agent_name == "concierge"


def test_a_chat_model_has_dumped_messages() -> None:
    call = {"name": "weather", "args": {"city": "Zürich"}, "id": "c1", "type": "tool_call"}
    attributes = run(
        "llm",
        given={"messages": [[dumped("SystemMessage", content="s"), dumped("HumanMessage", content="Weather?")]]},
        output={"generations": [[{"text": "", "message": dumped("AIMessage", content="", tool_calls=[call])}]]},
    )

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert [("system", "s"), ("user", "Weather?")] == texts_of(model_call.messages_in)
    assert model_call.messages_out is not None
    assert [("c1", {"city": "Zürich"})] == [(r.call_id, r.arguments) for r in model_call.messages_out[0].requests]


def test_a_wrapped_client_has_the_models_own_messages() -> None:
    attributes = run(
        "llm",
        given={"model": "m", "messages": [{"role": "user", "content": "Weather?"}]},
        output={"id": "r1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "21 °C."}}]},
    )

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_a_tool_of_langchain_answers_with_a_message() -> None:
    message = {"type": "tool", "content": "18 °C", "tool_call_id": "c1", "status": "success"}

    tool = read_as(
        ToolCall, span("weather", attributes=run("tool", given={"city": "Zürich"}, output={"output": message}))
    )

    assert ("weather", "c1", {"city": "Zürich"}) == (tool.name, tool.call_id, tool.arguments)
    assert ("18 °C", True) == (tool.result, tool.result_captured)


def test_a_tool_may_answer_with_a_command() -> None:
    message = {"type": "tool", "content": "handed over", "tool_call_id": "c1"}
    command: dict[str, Any] = {"graph": None, "update": {"messages": [message]}, "resume": None, "goto": []}

    tool = read_as(ToolCall, span(attributes=run("tool", output={"output": command})))

    assert ("c1", "handed over") == (tool.call_id, tool.result)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"output": 5.5}, (5.5, True)),
        ({"output": {"t": 21}}, ({"t": 21}, True)),
        ({"t": 21}, ({"t": 21}, True)),
        ({"output": None}, (None, True)),
        ({}, (None, False)),
        (None, (None, False)),
    ],
)
def test_a_decorated_tool_answers_with_its_value(output: Any, expected: tuple[Any, bool]) -> None:
    tool = read_as(ToolCall, span(attributes=run("tool", output=output)))

    assert expected == (tool.result, tool.result_captured)


@pytest.mark.parametrize("output", [{}, {"output": None}])
def test_a_failed_tool_has_no_result_and_no_traceback(output: Any) -> None:
    message = "TimeoutError('late')Traceback (most recent call last):\n\n  File ..."
    raised = event("exception", {"exception.type": "Exception", "exception.message": message})

    tool = read_as(ToolCall, span(attributes=run("tool", output=output), status=StatusCode.ERROR, events=[raised]))

    assert (True, "Exception: TimeoutError('late')") == (tool.is_error, tool.header.error)
    assert (None, False) == (tool.result, tool.result_captured)


def test_the_scope_alone_claims_a_span() -> None:
    assert READER.dialect_of(span(scope="langsmith"))[0].name == "langsmith"


def test_the_dialect_conforms() -> None:
    samples = (
        span(attributes=run("chain", given={"query": "Which?"}, output={"output": "That."})),
        span(
            attributes=run(
                "llm",
                given={"messages": [{"role": "user", "content": "Which?"}]},
                output={"choices": [{"message": {"role": "assistant", "content": "That."}}]},
            )
        ),
        span(attributes=run("tool", given={"q": "x"}, output={"output": "y"}, gen_ai__tool__name="search")),
    )

    check_dialect(LangSmith(SETTINGS), *samples)
