"""MLflow: values in JSON text, plain and translated to GenAI names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.dialects.mlflow import MLflow
from otel_agentic.spans.model import StatusCode
from otel_agentic.testing import check_dialect, event, span
from tests.dialects.reading import READER, SETTINGS, read_as, texts_of

SCOPE = "mlflow.tracing.provider"


def typed(kind: str, *, given: Any = None, output: Any = None, **more: Any) -> dict[str, Any]:
    """Return the attributes of a span of a type: all of them JSON text."""
    values = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": output, **more}
    return {key.replace("__", "."): json.dumps(value) for key, value in values.items() if value is not None}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("AGENT", AgentRun),
        ("CHAIN", AgentRun),
        ("UNKNOWN", AgentRun),
        ("CHAT_MODEL", ModelCall),
        ("LLM", ModelCall),
        ("TOOL", ToolCall),
        ("PARSER", Ignored),
        ("RETRIEVER", Ignored),
    ],
)
def test_the_type_says_what_a_span_is(kind: str, expected: type) -> None:
    read_as(expected, span(attributes=typed(kind)))


def test_only_an_agent_is_a_run_for_certain() -> None:
    assert read_as(AgentRun, span(attributes=typed("AGENT"))).certain
    assert not read_as(AgentRun, span(attributes=typed("CHAIN"))).certain


def test_a_traced_function_has_query_answer_and_session_among_its_values() -> None:
    given = {"query": "Weather?", "session": "s-1", "retries": None}

    agent_run = read_as(AgentRun, span(attributes=typed("AGENT", given=given, output="21 °C.")))

    assert ("Weather?", "21 °C.", "s-1") == (agent_run.query, agent_run.answer, agent_run.header.conversation_id)


def test_the_thread_of_a_graph_wins_over_an_argument() -> None:
    metadata = {"thread_id": "thread-1", "lc_agent_name": "concierge"}

    header = read_as(AgentRun, span(attributes=typed("CHAIN", given={"session": "s"}, metadata=metadata))).header

    assert ("thread-1", "concierge") == (header.conversation_id, header.agent_name)


def test_a_session_attribute_names_the_conversation() -> None:
    attributes = {**typed("AGENT"), "session.id": "s-1"}

    assert read_as(AgentRun, span(attributes=attributes)).header.conversation_id == "s-1"


def test_a_chat_model_has_messages_and_choices() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}
    attributes = typed(
        "CHAT_MODEL",
        given={"messages": [{"role": "user", "content": "Weather?", "tool_calls": None}]},
        output={
            "id": "r1",
            "choices": [
                {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
            ],
        },
        mlflow__llm__model="m-1",
    )

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert ([("user", "Weather?")], "m-1", "r1", True) == (
        texts_of(model_call.messages_in),
        model_call.model,
        model_call.response_id,
        model_call.asks_for_tools,
    )
    assert model_call.messages_out is not None
    assert [("c1", {"city": "Zürich"})] == [(r.call_id, r.arguments) for r in model_call.messages_out[0].requests]


def test_a_tool_has_its_id_next_to_it_or_in_its_message() -> None:
    message = {"type": "tool", "content": "18 °C", "tool_call_id": "c1", "status": "success"}
    answered = read_as(ToolCall, span("weather", attributes=typed("TOOL", given={"city": "Zürich"}, output=message)))
    failed = read_as(ToolCall, span("weather", attributes=typed("TOOL", tool_call_id="c2")))

    assert ("weather", "c1", {"city": "Zürich"}, "18 °C") == (
        answered.name,
        answered.call_id,
        answered.arguments,
        answered.result,
    )
    assert ("c2", False) == (failed.call_id, failed.result_captured)


def test_a_failed_tool_tells_its_exception() -> None:
    raised = event("exception", {"exception.type": "TimeoutError", "exception.message": "late"})

    tool = read_as(ToolCall, span(attributes=typed("TOOL"), status=StatusCode.ERROR, events=[raised]))

    assert (True, "TimeoutError: late") == (tool.is_error, tool.header.error)


def test_translated_names_are_read_in_the_same_scope() -> None:
    message = {"type": "tool", "content": "18 °C", "tool_call_id": "c1", "status": "success"}
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.arguments": '{"city": "Zürich"}',
        "gen_ai.tool.call.result": json.dumps(message),
        "tool_call_id": '"c1"',
        "metadata": '{"thread_id": "thread-1"}',
    }

    tool = read_as(ToolCall, span("execute_tool weather", attributes=attributes, scope=SCOPE))

    assert ("weather", "c1", {"city": "Zürich"}, "18 °C") == (tool.name, tool.call_id, tool.arguments, tool.result)
    assert tool.header.conversation_id == "thread-1"


def test_translated_chat_has_parts() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Weather?"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"21 °C."}]}]',
    }

    model_call = read_as(ModelCall, span("chat m-1", attributes=attributes, scope=SCOPE))

    assert ([("user", "Weather?")], [("assistant", "21 °C.")]) == (
        texts_of(model_call.messages_in),
        texts_of(model_call.messages_out),
    )


def test_a_translated_run_that_lost_its_values_did_not_say_nothing() -> None:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "concierge"}

    agent_run = read_as(AgentRun, span(attributes=attributes, scope=SCOPE))

    assert (None, None, None, None) == (
        agent_run.query,
        agent_run.answer,
        agent_run.messages_in,
        agent_run.messages_out,
    )
    assert (True, "concierge") == (agent_run.certain, agent_run.header.agent_name)


def test_a_translated_chain_keeps_its_type() -> None:
    attributes = {"gen_ai.operation.name": "CHAIN", "metadata": '{"thread_id": "thread-1"}'}

    assert not read_as(AgentRun, span("CHAIN", attributes=attributes, scope=SCOPE)).certain


def test_the_type_claims_spans_of_other_scopes() -> None:
    assert READER.dialect_of(span(attributes=typed("AGENT"), scope="strands.telemetry.tracer"))[0].name == "mlflow"


def test_the_dialect_conforms() -> None:
    samples = (
        span(attributes=typed("AGENT", given={"query": "Which?"}, output="That.")),
        span(
            attributes=typed("CHAT_MODEL", given={"messages": [{"role": "user", "content": "Which?"}]}, output="That.")
        ),
        span(attributes=typed("TOOL", given={"q": "x"}, output="y")),
    )

    check_dialect(MLflow(SETTINGS), *samples)
