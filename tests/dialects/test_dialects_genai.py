"""GenAI semantic conventions: operations, and content in each of its places."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.dialects import AgentRun, Ignored, ModelCall, Plan, ToolCall
from otel_agentic.spans.model import StatusCode
from otel_agentic.testing import event, log_record, span
from tests.dialects.reading import read_as, texts_of

DETAILS: Final = "gen_ai.client.inference.operation.details"
QUESTION: Final = [{"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}]
SPOKEN: Final = [{"role": "assistant", "parts": [{"type": "text", "content": "21 °C."}], "finish_reason": "stop"}]
CONTENT: Final = {"gen_ai.input.messages": QUESTION, "gen_ai.output.messages": SPOKEN}


def chat(**attributes: Any) -> dict[str, Any]:
    return {"gen_ai.operation.name": "chat", **{key.replace("__", "."): value for key, value in attributes.items()}}


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("chat", ModelCall),
        ("generate_content", ModelCall),
        ("text_completion", ModelCall),
        ("invoke_agent", AgentRun),
        ("invoke_workflow", AgentRun),
        ("execute_tool", ToolCall),
        ("plan", Plan),
        ("create_agent", Ignored),
        ("embeddings", Ignored),
        ("something_new", Ignored),
    ],
)
def test_the_operation_says_what_a_span_is(operation: str, kind: type) -> None:
    assert type(read_as(kind, span(attributes={"gen_ai.operation.name": operation}))) is kind


def test_a_span_with_a_tool_name_and_no_operation_is_a_tool_call() -> None:
    assert read_as(ToolCall, span(attributes={"gen_ai.tool.name": "weather"})).name == "weather"


def test_a_model_call_that_lists_a_tool_name_stays_a_model_call() -> None:
    read_as(ModelCall, span(attributes=chat(gen_ai__tool__name="weather")))


def test_the_summary_of_parallel_calls_is_no_call() -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"}

    assert read_as(Ignored, span(attributes=attributes)).reason == snapshot("summary of parallel calls")


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "structured"])
def test_content_is_read_from_attributes(as_text: bool) -> None:  # noqa: FBT001 — a parameter of pytest
    content = {key: json.dumps(value) if as_text else value for key, value in CONTENT.items()}

    model_call = read_as(ModelCall, span(attributes={**chat(), **content}))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_content_is_read_from_one_span_event() -> None:
    content = {key: json.dumps(value) for key, value in CONTENT.items()}

    model_call = read_as(ModelCall, span(attributes=chat(), events=[event(DETAILS, content)]))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_content_is_read_from_span_events_of_one_attribute_each() -> None:
    events = [event(DETAILS, {key: json.dumps(value)}) for key, value in CONTENT.items()]

    model_call = read_as(ModelCall, span(attributes=chat(), events=events))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_content_is_read_from_a_log_record() -> None:
    model = span(attributes=chat())

    model_call = read_as(ModelCall, model, log_record(model, DETAILS, attributes=CONTENT))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_content_that_is_written_twice_is_read_once() -> None:
    model = span(attributes={**chat(), **CONTENT}, events=[event(DETAILS, CONTENT)])

    model_call = read_as(ModelCall, model, log_record(model, DETAILS, attributes=CONTENT))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


OLD_CALL: Final = [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}]


def test_log_records_of_one_message_each_say_the_role_by_their_name() -> None:
    model = span(attributes=chat())
    logs = (
        log_record(model, "gen_ai.system.message", {"content": "Be kind."}),
        log_record(model, "gen_ai.user.message", {"content": "Weather?"}),
        log_record(model, "gen_ai.assistant.message", {"tool_calls": OLD_CALL}),
        log_record(model, "gen_ai.tool.message", {"id": "c1", "content": '{"t": 21}'}),
        log_record(model, "gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "21 °C."}}),
    )

    model_call = read_as(ModelCall, model, *logs)

    assert [("system", "Be kind."), ("user", "Weather?"), ("assistant", None), ("tool", None)] == texts_of(
        model_call.messages_in
    )
    assert model_call.messages_in is not None
    assert [("c1", "weather", {"city": "Zürich"})] == [
        (request.call_id, request.name, request.arguments) for request in model_call.messages_in[2].requests
    ]
    assert [("c1", {"t": 21})] == [(result.call_id, result.result) for result in model_call.messages_in[3].results]
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_a_log_body_may_be_json_text() -> None:
    model = span(attributes=chat())

    model_call = read_as(ModelCall, model, log_record(model, "gen_ai.user.message", '{"content": "Weather?"}'))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert model_call.messages_out is None


def test_a_choice_may_contain_calls_inside_or_next_to_its_message() -> None:
    model = span(attributes=chat())
    inside = read_as(ModelCall, model, log_record(model, "gen_ai.choice", {"message": {"tool_calls": OLD_CALL}}))
    model_call = read_as(ModelCall, model, log_record(model, "gen_ai.choice", {"message": {}, "tool_calls": OLD_CALL}))

    assert inside.messages_out == model_call.messages_out
    assert inside.messages_out is not None
    assert ["weather"] == [request.name for request in inside.messages_out[0].requests]


def test_span_events_of_one_message_each_hold_bedrock_blocks() -> None:
    blocks = json.dumps([{"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Zürich"}}}])
    events = [
        event("gen_ai.user.message", {"content": json.dumps([{"text": "Weather?"}])}),
        event("gen_ai.choice", {"finish_reason": "tool_use", "message": blocks}),
    ]

    model_call = read_as(ModelCall, span(attributes=chat(), events=events))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert model_call.messages_out is not None
    assert ["c1"] == [request.call_id for request in model_call.messages_out[0].requests]


def test_messages_in_logs_and_in_events_are_the_same_messages() -> None:
    model = span(attributes=chat(), events=[event("gen_ai.user.message", {"content": "Weather?"})])

    model_call = read_as(ModelCall, model, log_record(model, "gen_ai.user.message", {"content": "Weather?"}))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)


def test_a_span_without_content_says_that_nothing_was_captured() -> None:
    model = read_as(ModelCall, span(attributes=chat()))
    run = read_as(AgentRun, span(attributes={"gen_ai.operation.name": "invoke_agent"}))
    tool = read_as(ToolCall, span(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"}))

    assert (None, None) == (model.messages_in, model.messages_out)
    assert (None, None, None, None) == (run.query, run.answer, run.messages_in, run.messages_out)
    assert (None, None, False) == (tool.arguments, tool.result, tool.result_captured)


def test_a_tool_span_tells_arguments_result_and_id() -> None:
    tool = read_as(
        ToolCall,
        span(
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "weather",
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": '{"city": "Zürich"}',
                "gen_ai.tool.call.result": '{"t": 21}',
            }
        ),
    )

    assert ("weather", "c1", {"city": "Zürich"}, {"t": 21}, True, False) == (
        tool.name,
        tool.call_id,
        tool.arguments,
        tool.result,
        tool.result_captured,
        tool.is_error,
    )


def test_a_tool_that_answers_with_a_dumped_message_gives_its_content_id_and_status() -> None:
    message = {"type": "tool", "data": {"content": "boom", "tool_call_id": "c9", "status": "error"}}
    attributes = {"gen_ai.tool.name": "weather", "gen_ai.tool.call.result": json.dumps(message)}

    tool = read_as(ToolCall, span(attributes=attributes))

    assert ("c9", "boom", True) == (tool.call_id, tool.result, tool.is_error)


@pytest.mark.parametrize("key", ["gen_ai.tool.call.result", "tool_response"])
def test_redacted_results_are_not_captured(key: str) -> None:
    tool = read_as(ToolCall, span(attributes={"gen_ai.tool.name": "weather", key: "__REDACTED__"}))

    assert (None, False) == (tool.result, tool.result_captured)


def test_the_final_result_of_a_run_is_its_answer() -> None:
    run = read_as(AgentRun, span(attributes={"gen_ai.operation.name": "invoke_agent", "final_result": "21 °C."}))

    assert run.answer == "21 °C."


@pytest.mark.parametrize(
    ("message", "error_type", "expected"),
    [
        ("", "TOOL_ERROR", "TOOL_ERROR"),
        ("TOOL_ERROR", "TOOL_ERROR", "TOOL_ERROR"),
        ("ValueError: no", "ValueError", "ValueError: no"),
        ("no", "ValueError", "ValueError: no"),
        ("no", None, "no"),
        ("", None, "error"),
    ],
)
def test_an_error_is_reported_once(message: str, error_type: str | None, expected: str) -> None:
    attributes = {"gen_ai.tool.name": "weather", **({"error.type": error_type} if error_type else {})}

    tool_call = read_as(ToolCall, span(status=StatusCode.ERROR, status_message=message, attributes=attributes))

    assert expected == tool_call.header.error
    assert tool_call.is_error


def test_an_error_type_counts_although_the_status_is_unset() -> None:
    assert read_as(ToolCall, span(attributes={"gen_ai.tool.name": "weather", "error.type": "timeout"})).is_error


def test_an_exception_explains_a_failed_span_and_is_no_failure_of_one_that_worked() -> None:
    interrupt = [event("exception", {"exception.type": "GraphInterrupt", "exception.message": "ask"})]
    attributes = {"gen_ai.tool.name": "weather"}

    failed = read_as(ToolCall, span(attributes=attributes, status=StatusCode.ERROR, events=interrupt))
    worked = read_as(ToolCall, span(attributes=attributes, events=interrupt))

    assert "GraphInterrupt: ask" == failed.header.error
    assert worked.header.error is None
    assert not worked.is_error


def test_content_of_the_first_conventions_is_read_from_prompt_and_completion() -> None:
    attributes = chat(gen_ai__prompt='[{"role": "user", "content": "Weather?"}]', gen_ai__completion="21 °C.")

    model_call = read_as(ModelCall, span(attributes=attributes))

    assert [("user", "Weather?")] == texts_of(model_call.messages_in)
    assert [("assistant", "21 °C.")] == texts_of(model_call.messages_out)


def test_a_tools_message_with_a_call_id_is_its_result_although_it_is_written_as_text() -> None:
    message = {"role": "tool", "parts": [{"type": "text", "content": "21 °C"}], "tool_call_id": "c1"}

    model_call = read_as(ModelCall, span(attributes=chat(gen_ai__input__messages=json.dumps([message]))))

    assert model_call.messages_in is not None
    assert [("c1", "21 °C")] == [(result.call_id, result.result) for result in model_call.messages_in[0].results]
