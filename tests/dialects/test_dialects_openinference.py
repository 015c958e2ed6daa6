"""OpenInference: flattened messages, values as text or JSON, kinds that lie."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.spans.model import StatusCode
from otel_agentic.testing import event, span
from tests.dialects.reading import read_as, texts_of


def of_kind(kind: str, **attributes: Any) -> dict[str, Any]:
    return {
        "openinference.span.kind": kind,
        **{key.replace("__", "."): value for key, value in attributes.items()},
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("AGENT", AgentRun), ("CHAIN", AgentRun), ("LLM", ModelCall), ("TOOL", ToolCall), ("RETRIEVER", Ignored)],
)
def test_the_kind_says_what_a_span_is(kind: str, expected: type) -> None:
    read_as(expected, span(attributes=of_kind(kind)))


def test_only_an_agent_is_a_run_for_certain() -> None:
    assert read_as(AgentRun, span(attributes=of_kind("AGENT"))).certain
    assert not read_as(AgentRun, span(attributes=of_kind("CHAIN"))).certain


def test_a_tool_that_says_it_is_an_agent_is_a_tool() -> None:
    tool = read_as(ToolCall, span("ask_agent", attributes=of_kind("AGENT", tool__name="ask_agent")))

    assert tool.name == "ask_agent"


def test_a_tool_without_a_name_has_that_of_its_span() -> None:
    assert read_as(ToolCall, span("weather", attributes=of_kind("TOOL"))).name == "weather"


def test_flattened_messages_are_in_numeric_order() -> None:
    attributes = {f"llm.input_messages.{n}.message.role": "user" for n in range(12)}
    attributes |= {f"llm.input_messages.{n}.message.content": f"{n}" for n in range(12)}

    model_call = read_as(ModelCall, span(attributes={**of_kind("LLM"), **attributes}))

    assert [("user", str(n)) for n in range(12)] == texts_of(model_call.messages_in)


def test_flattened_calls_nest_one_level_more() -> None:
    start = "llm.output_messages.0.message"
    call = f"{start}.tool_calls.0.tool_call"
    attributes = {
        f"{start}.role": "assistant",
        f"{call}.id": "c1",
        f"{call}.function.name": "weather",
        f"{call}.function.arguments": '{"city": "Zürich"}',
    }

    model_call = read_as(ModelCall, span(attributes={**of_kind("LLM"), **attributes}))

    assert model_call.messages_out is not None
    (request,) = model_call.messages_out[0].requests
    assert ("c1", "weather", {"city": "Zürich"}) == (request.call_id, request.name, request.arguments)


def test_flattened_tool_messages_carry_results() -> None:
    start = "llm.input_messages.0.message"
    attributes = {f"{start}.role": "tool", f"{start}.tool_call_id": "c1", f"{start}.content": '{"t": 21}'}

    model_call = read_as(ModelCall, span(attributes={**of_kind("LLM"), **attributes}))

    assert model_call.messages_in is not None
    (result,) = model_call.messages_in[0].results
    assert ("c1", {"t": 21}) == (result.call_id, result.result)


def test_contents_blocks_are_the_text_of_a_message() -> None:
    start = "llm.input_messages.0.message"
    attributes = {
        f"{start}.role": "user",
        f"{start}.contents.0.message_content.type": "text",
        f"{start}.contents.0.message_content.text": "Weather?",
        f"{start}.contents.1.message_content.type": "image",
    }

    model_call = read_as(ModelCall, span(attributes={**of_kind("LLM"), **attributes}))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)


def test_an_answer_without_a_role_is_the_assistants() -> None:
    model_call = read_as(
        ModelCall, span(attributes=of_kind("LLM", **{"llm.output_messages.0.message.content": "21 °C."}))
    )

    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_messages_may_be_listed_in_the_values() -> None:
    sent = {"messages": [{"role": "user", "content": "Weather?"}]}
    output = {"messages": [{"type": "human", "content": "Weather?"}, {"type": "ai", "data": {"content": "21 °C."}}]}

    run = read_as(
        AgentRun, span(attributes=of_kind("CHAIN", input__value=json.dumps(sent), output__value=json.dumps(output)))
    )

    assert [("user", "Weather?")] == texts_of(run.messages_in)
    assert [("user", "Weather?"), ("assistant", "21 °C.")] == texts_of(run.messages_out)
    assert (None, None) == (run.query, run.answer)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Weather?", "Weather?"),
        ('{"task": "Weather?", "stream": false}', "Weather?"),
        ('{"question": "Weather?"}', "Weather?"),
        ('{"city_text": "Weather?"}', "Weather?"),
        ('{"a": "x", "b": "y"}', None),
        ("__REDACTED__", None),
        (None, None),
    ],
)
def test_the_query_of_a_run_is_text_or_the_one_text_of_an_object(value: str | None, expected: str | None) -> None:
    assert expected == read_as(AgentRun, span(attributes=of_kind("AGENT", input__value=value))).query


@pytest.mark.parametrize(
    ("value", "expected"), [("21 °C.", "21 °C."), ('{"raw": "21 °C.", "json": {}}', "21 °C."), ("__REDACTED__", None)]
)
def test_the_answer_of_a_run_is_text_or_the_one_text_of_an_object(value: str, expected: str | None) -> None:
    assert expected == read_as(AgentRun, span(attributes=of_kind("AGENT", output__value=value))).answer


def test_a_tool_reads_its_id_from_the_message_it_answers_with() -> None:
    message = {"type": "tool", "data": {"content": "21", "tool_call_id": "c1", "status": "success"}}
    attributes = of_kind("TOOL", tool__name="weather", input__value="{'city': 'Z'}", output__value=json.dumps(message))

    tool = read_as(ToolCall, span(attributes=attributes))

    assert ("c1", "21", False) == (tool.call_id, tool.result, tool.is_error)
    assert {"city": "Z"} == tool.arguments


def test_a_failed_tool_has_no_result_and_its_exception_for_an_error() -> None:
    raised = [event("exception", {"exception.type": "TimeoutError", "exception.message": "late"})]

    tool = read_as(
        ToolCall, span(attributes=of_kind("TOOL", tool__name="weather"), status=StatusCode.ERROR, events=raised)
    )

    assert (True, "TimeoutError: late", False) == (tool.is_error, tool.header.error, tool.result_captured)


def test_metadata_names_agent_case_and_session_where_no_attribute_does() -> None:
    metadata = json.dumps({"lc_agent_name": "travel", "agentic.case.id": "case-1", "thread_id": "thread-1"})

    header = read_as(AgentRun, span(attributes=of_kind("CHAIN", metadata=metadata))).header
    named = read_as(
        AgentRun,
        span(attributes={**of_kind("CHAIN", metadata=metadata), "agent.name": "mesa", "session.id": "session-1"}),
    ).header

    assert ("travel", "case-1", "thread-1") == (header.agent_name, header.case_id, header.conversation_id)
    assert ("mesa", "case-1", "session-1") == (named.agent_name, named.case_id, named.conversation_id)


def test_metadata_that_is_no_object_says_nothing() -> None:
    header = read_as(AgentRun, span(attributes=of_kind("CHAIN", metadata="[1]"))).header

    assert (None, None) == (header.agent_name, header.conversation_id)


def test_redacted_messages_and_values_are_not_captured() -> None:
    start = "llm.input_messages.0.message"
    attributes = {f"{start}.role": "user", f"{start}.content": "__REDACTED__"}
    model = read_as(ModelCall, span(attributes={**of_kind("LLM"), **attributes}))
    tool = read_as(
        ToolCall,
        span(attributes=of_kind("TOOL", tool__name="t", input__value="__REDACTED__", output__value="__REDACTED__")),
    )

    assert model.messages_in is not None
    assert model.messages_in[0].redacted
    assert model.messages_out is None
    assert (None, None, False) == (tool.arguments, tool.result, tool.result_captured)
