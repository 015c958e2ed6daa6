"""OpenLLMetry: kinds, flattened messages of its older releases, and what each instrumentation records of a call."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, ToolCall
from otel_agentic.dialects.openllmetry import OpenLLMetry
from otel_agentic.spans.model import StatusCode
from otel_agentic.testing import (
    AgentRunScript,
    OpenLLMetryForm,
    check_dialect,
    event,
    log_record,
    scripted_call,
    span,
    speak_openllmetry,
)
from tests.dialects.reading import READER, SETTINGS, read_as, texts_of

PROPERTIES: Final = "traceloop.association.properties."


def entity(kind: str, *, given: Any = None, output: Any = None, **more: Any) -> dict[str, Any]:
    """Return the attributes of a span of a kind, its input and output as JSON."""
    result = {"traceloop.span.kind": kind, **{key.replace("__", "."): value for key, value in more.items()}}
    if given is not None:
        result["traceloop.entity.input"] = json.dumps(given)
    if output is not None:
        result["traceloop.entity.output"] = json.dumps(output)
    return result


def recorded_call(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


def dialect_of(**attributes: Any) -> str:
    scope = attributes.pop("scope", "")
    return READER.dialect_of(span(attributes=attributes, scope=scope))[0].name


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("workflow", AgentRun), ("agent", AgentRun), ("task", Ignored), ("tool", ToolCall), ("unknown", Ignored)],
)
def test_the_kind_says_what_a_span_is(kind: str, expected: type) -> None:
    read_as(expected, span(attributes=entity(kind)))


def test_only_an_agent_is_a_run_for_certain() -> None:
    assert read_as(AgentRun, span(attributes=entity("agent"))).certain
    assert not read_as(AgentRun, span(attributes=entity("workflow"))).certain


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"llm.request.type": "chat"}, ModelCall),
        ({"llm.request.type": "completion"}, ModelCall),
        ({"llm.request.type": "embedding"}, Ignored),
        ({"llm.request.type": "rerank"}, Ignored),
        ({"llm.request.type": "unknown", "gen_ai.prompt.0.content": "Hi"}, ModelCall),
        ({"gen_ai.prompt.0.content": "Hi"}, ModelCall),
        ({"gen_ai.operation.name": "chat", "traceloop.span.kind": "task"}, ModelCall),
        ({"gen_ai.operation.name": "handoff", "traceloop.span.kind": "handoff"}, Ignored),
        ({"gen_ai.operation.name": "create_agent", "traceloop.workflow.name": "x"}, Ignored),
    ],
)
def test_the_operation_or_the_request_type_says_what_a_span_without_a_kind_is(
    attributes: dict[str, Any], expected: type
) -> None:
    read_as(expected, span(attributes=attributes))


def test_a_span_with_attributes_of_the_sdk_is_its_own_where_the_scope_may_be() -> None:
    shared = "opentelemetry.instrumentation.openai.v1"

    assert dialect_of(scope=shared, **{f"{PROPERTIES}user_id": "u"}) == "openllmetry"
    assert dialect_of(scope="shop", **{f"{PROPERTIES}user_id": "u"}) == "none"


def test_spans_of_a_scope_that_others_share_are_read_by_the_conventions_they_follow() -> None:
    scope = "opentelemetry.instrumentation.openai_v2"

    assert dialect_of(scope=scope, **{"gen_ai.operation.name": "chat"}) == "genai"


def test_a_decorated_function_is_asked_its_first_text_and_answers_what_it_returns() -> None:
    history = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    run = read_as(
        AgentRun, span(attributes=entity("workflow", given=recorded_call("Wetter?", history), output="Schön."))
    )

    assert ("Wetter?", "Schön.") == (run.query, run.answer)


def test_an_argument_that_is_the_id_of_the_conversation_is_no_query() -> None:
    attributes = entity("workflow", given=recorded_call("conv-7", "Weather?")) | {f"{PROPERTIES}session_id": "conv-7"}

    assert read_as(AgentRun, span(attributes=attributes)).query == "Weather?"


def test_a_query_that_was_given_by_name_is_found() -> None:
    assert read_as(
        AgentRun, span(attributes=entity("agent", given=recorded_call(user="u-1", query="Weather?")))
    ).query == ("Weather?")


@pytest.mark.parametrize("output", ["null", '""', ""])
def test_a_function_that_returned_nothing_answered_nothing(output: str) -> None:
    run = read_as(AgentRun, span(attributes=entity("agent") | {"traceloop.entity.output": output}))

    assert run.answer is None
    assert run.messages_out is None


def test_values_that_a_length_limit_cut_off_are_not_captured() -> None:
    cut = {"traceloop.entity.input": '{"args": ["Wea', "traceloop.entity.output": '"It is su'}
    run = read_as(AgentRun, span(attributes=entity("workflow") | cut))
    call = read_as(ToolCall, span(attributes=entity("tool", traceloop__entity__name="add") | cut))

    assert (None, None, None, None) == (run.query, run.answer, run.messages_in, run.messages_out)
    assert (call.arguments, call.result_captured) == (None, False)


def test_a_run_whose_values_are_plain_text_is_read() -> None:
    attributes = {"traceloop.entity.input": "Weather?", "traceloop.entity.output": "It is sunny."}
    run = read_as(AgentRun, span(attributes=entity("agent") | attributes))

    assert ("Weather?", "It is sunny.") == (run.query, run.answer)


def test_without_content_nothing_counts_as_captured() -> None:
    run = read_as(AgentRun, span(attributes=entity("workflow")))

    assert (None, None, None, None) == (run.query, run.answer, run.messages_in, run.messages_out)


@pytest.mark.parametrize("name", ["session_id", "chat_id", "thread_id", "conversation_id", "sessionId"])
def test_the_conversation_is_named_by_a_property_that_the_application_set(name: str) -> None:
    run = read_as(AgentRun, span(attributes=entity("agent") | {PROPERTIES + name: "conv-7"}))

    assert run.header.conversation_id == "conv-7"


def test_the_conventional_conversation_id_wins_over_properties() -> None:
    attributes = {f"{PROPERTIES}session_id": "s", "gen_ai.conversation.id": "c"}

    assert read_as(AgentRun, span(attributes=entity("agent") | attributes)).header.conversation_id == "c"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (entity("agent", traceloop__entity__name="clerk"), "clerk"),
        (entity("agent", traceloop__entity__name="clerk", gen_ai__agent__name="Clerk"), "Clerk"),
        (entity("workflow", traceloop__entity__name="chat_turn"), None),
        (entity("workflow", agno__team__name="desk"), "desk"),
        ({"gen_ai.operation.name": "invoke_agent", "crewai.crew.agents": '[{"role": "clerk"}]'}, "clerk"),
    ],
)
def test_a_run_is_named_after_its_agent(attributes: dict[str, Any], expected: str | None) -> None:
    assert read_as(AgentRun, span(attributes=attributes)).header.agent_name == expected


def flattened(prefix: str, **fields: Any) -> dict[str, Any]:
    return {f"{prefix}.{key.replace('__', '.')}": value for key, value in fields.items()}


def test_flattened_messages_are_read() -> None:
    call = {"tool_calls__0__id": "c1", "tool_calls__0__name": "add", "tool_calls__0__arguments": '{"a": 1}'}
    attributes = {
        "llm.request.type": "chat",
        **flattened("gen_ai.prompt.0", role="user", content="1 + 2?"),
        **flattened("gen_ai.prompt.1", role="assistant", **call),
        **flattened("gen_ai.prompt.2", role="tool", content="3", tool_call_id="c1"),
        **flattened("gen_ai.completion.0", role="assistant", content="3.", finish_reason="stop"),
    }

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert texts_of(model_call.messages_in) == [("user", "1 + 2?"), ("assistant", None), ("tool", None)]
    assert model_call.messages_in is not None
    (request,), (result,) = model_call.messages_in[1].requests, model_call.messages_in[2].results
    assert (request.call_id, request.name, request.arguments) == ("c1", "add", {"a": 1})
    assert (result.call_id, result.result) == ("c1", "3")
    assert texts_of(model_call.messages_out) == [("assistant", "3.")]
    assert model_call.asks_for_tools is False


def test_flattened_calls_of_a_response_are_read() -> None:
    start = "gen_ai.completion.0.tool_calls"
    attributes = {"llm.request.type": "chat", "gen_ai.completion.0.role": "assistant"}
    attributes |= {f"{start}.{n}.id": f"c{n}" for n in range(2)} | {f"{start}.{n}.name": "add" for n in range(2)}

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert model_call.messages_out is not None
    assert [request.call_id for request in model_call.messages_out[0].requests] == ["c0", "c1"]


@pytest.mark.parametrize("content", ["", '""'])
def test_a_response_of_empty_text_alone_left_its_calls_out(content: str) -> None:
    attributes = {"llm.request.type": "chat", **flattened("gen_ai.completion.0", role="unknown", content=content)}

    assert read_as(ModelCall, span(attributes=attributes)).messages_out is None


def test_the_keys_of_a_response_are_no_response_where_haystack_writes_them() -> None:
    message_keys = {"llm.request.type": "chat", **flattened("gen_ai.completion.0", role="assistant", content="replies")}

    haystack = read_as(ModelCall, span(attributes=message_keys, scope="opentelemetry.instrumentation.haystack"))
    other = read_as(ModelCall, span(attributes=message_keys, scope="opentelemetry.instrumentation.openai"))

    assert (haystack.messages_out, texts_of(other.messages_out)) == (None, [("assistant", "replies")])


def test_messages_are_read_from_log_records() -> None:
    chat = span(attributes={"gen_ai.operation.name": "chat", f"{PROPERTIES}session_id": "s"}, scope="traceloop.tracer")
    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]
    logs = [
        log_record(chat, "gen_ai.user.message", {"content": "1 + 2?"}),
        log_record(chat, "gen_ai.tool.message", {"content": "3"}),
        log_record(chat, "gen_ai.choice", {"index": 0, "message": {"content": None}, "tool_calls": calls}),
    ]

    model_call = read_as(ModelCall, chat, *logs)

    assert texts_of(model_call.messages_in) == [("user", "1 + 2?"), ("tool", None)]
    assert model_call.messages_out is not None
    assert [request.name for request in model_call.messages_out[0].requests] == ["add"]
    assert model_call.header.conversation_id == "s"


def test_results_under_the_other_id_of_a_call_answer_the_requests_in_their_order() -> None:
    def part(kind: str, call_id: str) -> dict[str, Any]:
        return {"type": kind, "id": call_id, "name": "add", "response": call_id}

    received = [
        {"role": "tool", "parts": [part("tool_call_response", "call_0")]},
        {"role": "assistant", "parts": [part("tool_call", "fc_1"), part("tool_call", "c2"), part("tool_call", "fc_3")]},
        {"role": "tool", "parts": [part("tool_call_response", "c2")]},
        {"role": "tool", "parts": [part("tool_call_response", "call_1")]},
        {"role": "tool", "parts": [part("tool_call_response", "call_3")]},
        {"role": "tool", "parts": [part("tool_call_response", "call_4")]},
    ]
    attributes = {"llm.request.type": "chat", "gen_ai.input.messages": json.dumps(received)}

    messages = read_as(ModelCall, span(attributes=attributes)).messages_in

    assert [("call_0", "call_0"), ("c2", "c2"), ("fc_1", "call_1"), ("fc_3", "call_3"), ("call_4", "call_4")] == [
        (result.call_id, result.result) for message in messages or () for result in message.results
    ]


LANGCHAIN_CALL: Final = {
    "input_str": "{'a': 1}",
    "inputs": {"a": 1},
    "tags": ["seq:step:1"],
    "metadata": {"langgraph_node": "tools"},
    "kwargs": {"tool_call_id": "c1"},
}
LANGCHAIN_RESULT: Final = {
    "output": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {"content": "3", "type": "tool", "name": "add", "tool_call_id": "c1", "status": "success"},
    },
    "kwargs": {"tags": []},
}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            entity("tool", given=recorded_call(a=1), output=3, traceloop__entity__name="add"),
            ("add", None, {"a": 1}, "3", False),
        ),
        (
            entity("tool", given=LANGCHAIN_CALL, output=LANGCHAIN_RESULT, traceloop__entity__name="add"),
            ("add", "c1", {"a": 1}, "3", False),
        ),
        (
            {
                "traceloop.span.kind": "tool",
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "add",
                "gen_ai.tool.call.arguments": json.dumps(LANGCHAIN_CALL),
                "gen_ai.tool.call.result": json.dumps(LANGCHAIN_RESULT),
            },
            ("add", "c1", {"a": 1}, "3", False),
        ),
        (
            entity(
                "task",
                output={
                    "tool_name": "add",
                    "tool_id": "c1",
                    "tool_output": {"raw_input": {"kwargs": {"a": 1}}, "raw_output": 3, "is_error": False},
                },
                tool__name="add",
                tool__arguments='{"a": 1}',
            ),
            ("add", "c1", {"a": 1}, 3, False),
        ),
        (
            entity(
                "task",
                output={"tool_output": {"raw_input": {}, "raw_output": "no such city", "is_error": True}},
                tool__name="add",
            ),
            ("add", None, None, "no such city", True),
        ),
    ],
    ids=["decorator", "langchain before GenAI names", "langchain", "llama-index", "llama-index failure"],
)
def test_a_call_is_read_as_each_instrumentation_wraps_it(attributes: dict[str, Any], expected: tuple[Any, ...]) -> None:
    call = read_as(ToolCall, span("add.tool", attributes=attributes))

    assert (call.name, call.call_id, call.arguments, call.result, call.is_error) == expected


@pytest.mark.parametrize(
    ("text", "result", "is_error"),
    [
        ("status='success' result='21 °C' error=None images=None", "21 °C", False),
        ("status='success' result={'t': [21, 22.5]} error=None", {"t": [21, 22.5]}, False),
        ("status='failure' result=None error=\"it's full\"", "it's full", True),
        ("status='success' result='a status=b \\'c\\' d=1' error=None", "a status=b 'c' d=1", False),
        ("status='success' result='cut off", "status='success' result='cut off", False),
        ("status='open' until=5", "status='open' until=5", False),
        ("The status=fine", "The status=fine", False),
    ],
)
def test_a_record_of_a_function_tells_its_result_or_its_error(text: str, result: Any, is_error: bool) -> None:  # noqa: FBT001 — a parameter of pytest
    attributes = entity("tool", gen_ai__tool__name="book") | {"traceloop.entity.output": text}

    call = read_as(ToolCall, span(attributes=attributes))

    assert (call.result, call.is_error) == (result, is_error)


def test_a_tool_that_raised_has_no_result() -> None:
    failed = event("exception", {"exception.type": "ValueError", "exception.message": "invalid time"})
    attributes = entity("tool", given=recorded_call(time="25:00"), traceloop__entity__name="book")

    call = read_as(ToolCall, span(attributes=attributes, status=StatusCode.ERROR, events=[failed]))

    assert (call.result_captured, call.header.error) == (False, "ValueError: invalid time")


def test_a_handoff_is_the_call_of_the_tool_that_hands_over() -> None:
    attributes = entity("handoff", gen_ai__operation__name="handoff", gen_ai__handoff__from_agent="clerk")

    call = read_as(ToolCall, span(attributes=attributes | {"gen_ai.handoff.to_agent": "Booking Desk"}))

    assert (call.name, call.handoff_to, call.header.agent_name) == ("transfer_to_booking_desk", "Booking Desk", "clerk")


@pytest.mark.parametrize("target", [None, "", "unknown"])
def test_a_handoff_to_an_unknown_agent_is_no_call(target: str | None) -> None:
    read_as(Ignored, span(attributes=entity("handoff", gen_ai__handoff__to_agent=target)))


def test_a_task_that_got_a_conversation_may_be_a_run() -> None:
    given = {"inputs": {"messages": [{"role": "user", "content": "A table for two"}]}, "tags": []}
    attributes = entity("task", given=given, traceloop__entity__name="booking")

    run = read_as(AgentRun, span(attributes=attributes))

    assert (run.certain, run.header.agent_name, texts_of(run.messages_in)) == (
        False,
        "booking",
        [("user", "A table for two")],
    )


def test_a_crew_answers_and_its_task_says_what_was_asked() -> None:
    crew = {"gen_ai.operation.name": "invoke_agent", "crewai.crew.result": "Booked."}
    task = {"gen_ai.operation.name": "invoke_agent", "crewai.task.description": "A table for two"}

    assert read_as(AgentRun, span(attributes=crew)).answer == "Booked."
    assert read_as(AgentRun, span(attributes=task)).query == "A table for two"


@pytest.mark.parametrize("form", ["old", "new"])
def test_the_dialect_conforms(form: OpenLLMetryForm) -> None:
    turn = (
        AgentRunScript()
        .ask("Which hotel?")
        .calls(scripted_call("search", {"q": "x"}, result=["Ritz"]))
        .answers("The Ritz.")
    )

    check_dialect(OpenLLMetry(SETTINGS), *speak_openllmetry(turn, form).spans)
