"""Messages in the shapes of all conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_agentic.dialects import CallRequest, CallResult, Message, Redacted, Text
from otel_agentic.dialects.messages import read_message, read_messages

WEATHER = CallRequest(call_id="c1", name="weather", arguments={"city": "Zürich"})
#: The same exchange in each shape: a question, a call next to a text, its result, the answer.
EXCHANGE = (
    Message(role="user", parts=(Text(content="Weather?"),)),
    Message(role="assistant", parts=(Text(content="I look."), WEATHER)),
    Message(role="tool", parts=(CallResult(call_id="c1", name=None, result={"t": 21}, captured=True, is_error=False),)),
    Message(role="assistant", parts=(Text(content="21 °C."),)),
)
ARGUMENTS = {"city": "Zürich"}

SHAPES: dict[str, list[dict[str, Any]]] = {
    "genai_parts": [
        {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
        {"role": "assistant", "finish_reason": "tool_call", "parts": [
            {"type": "reasoning", "content": "hm"},
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": ARGUMENTS}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"t": 21}}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "21 °C.", "name": None}]},
    ],
    "genai_parts_with_result": [
        {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
        {"role": "assistant", "parts": [
            {"type": "text", "content": "I look."},
            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": json.dumps(ARGUMENTS)}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "result": '{"t": 21}'}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "21 °C."}]},
    ],
    "openai_chat": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(ARGUMENTS)}}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"t": 21}'},
        {"role": "assistant", "content": [{"type": "text", "text": "21 °C."}], "refusal": None},
    ],
    "langchain_flat": [
        {"type": "human", "content": "Weather?"},
        {"type": "ai", "content": "I look.", "tool_calls": [{"name": "weather", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}]},
        {"type": "tool", "content": '{"t": 21}', "tool_call_id": "c1"},
        {"type": "AIMessageChunk", "content": "21 °C."},
    ],
    "langchain_data": [
        {"type": "human", "data": {"content": "Weather?", "type": "human"}},
        {"type": "ai", "data": {"content": "I look.", "tool_calls": [{"name": "weather", "args": ARGUMENTS, "id": "c1"}]}},
        {"type": "tool", "data": {"content": '{"t": 21}', "tool_call_id": "c1"}},
        {"type": "ai", "data": {"content": "21 °C."}},
    ],
    "langchain_constructor": [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "Weather?"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"],
         "kwargs": {"content": "I look.", "type": "ai", "tool_calls": [{"name": "weather", "args": ARGUMENTS, "id": "c1"}]}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"], "kwargs": {"content": '{"t": 21}', "tool_call_id": "c1"}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessageChunk"], "kwargs": {"content": "21 °C."}},
    ],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("as_text", [False, True], ids=["structured", "text"])
def test_each_shape_tells_the_same_exchange(shape: str, as_text: bool) -> None:  # noqa: FBT001 — a parameter of pytest
    value = json.dumps(SHAPES[shape]) if as_text else SHAPES[shape]

    assert read_messages(value) == EXCHANGE


def test_responses_items_stand_alone() -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": json.dumps(ARGUMENTS)},
        {"type": "function_call_output", "call_id": "c1", "output": '{"t": 21}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "21 °C."}]},
    ]

    assert (EXCHANGE[0], Message(role="assistant", parts=(WEATHER,)), *EXCHANGE[2:]) == read_messages(items)


@pytest.mark.parametrize(
    "items",
    [
        [{"role": "assistant", "parts": [{"type": "reasoning", "content": "Search first."}, {"type": "text", "content": "Hi"}]}],
        [{"role": "assistant", "parts": [{"type": "thinking", "content": "Search first."}, {"type": "text", "content": "Hi"}]}],
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "Search first.", "signature": "x"}, {"type": "text", "text": "Hi"}]}],
        [{"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "Search first."}}}, {"text": "Hi"}]}],
        [{"role": "model", "parts": [{"thought": True, "text": "Search first."}, {"text": "Hi"}]}],
        [{"role": "assistant", "reasoning_content": "Search first.", "content": "Hi"}],
        [{"role": "assistant", "reasoning": "Search first.", "content": "Hi"}],
        [{"type": "ai", "content": "Hi", "additional_kwargs": {"reasoning_content": "Search first."}}],
        [{"role": "assistant", "blocks": [{"block_type": "thinking", "content": "Search first."}, {"block_type": "text", "text": "Hi"}]}],
        [{"role": "assistant", "content": json.dumps([{"type": "thinking", "thinking": "Search first."}, {"type": "text", "text": "Hi"}])}],
        [{"role": "thinking", "content": "Search first."}, {"role": "assistant", "content": "Hi"}],
        [{"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Search first."}]},
         {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
    ],
)  # fmt: skip
def test_reasoning_of_every_shape_is_read_apart_from_the_text(items: list[dict[str, Any]]) -> None:
    for value in (items, json.dumps(items)):
        messages = read_messages(value) or ()
        assert [(("Search first.",), "Hi")] == [(message.reasoning, message.text) for message in messages]
    # Histories repeat a message without its reasoning.
    assert (Message(role="assistant", parts=(Text(content="Hi"),)),) == messages


def test_redacted_and_missing_reasoning_is_none() -> None:
    blocks = [
        {"type": "thinking", "thinking": "__REDACTED__"},
        {"type": "reasoning", "summary": []},
        {"type": "text", "text": "Hi"},
    ]
    assert [()] == [message.reasoning for message in read_messages([{"role": "assistant", "content": blocks}]) or ()]


def test_anthropic_blocks_bring_results_in_the_users_name() -> None:
    messages = read_messages(
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": ARGUMENTS}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "no such city"}], "is_error": True}]},
        ]
    )  # fmt: skip

    failed = CallResult(call_id="c1", name=None, result="no such city", captured=True, is_error=True)
    assert (Message(role="assistant", parts=(WEATHER,)), Message(role="user", parts=(failed,))) == messages


def test_bedrock_blocks_are_read_from_json_text() -> None:
    request = json.dumps([{"text": "I look."}, {"toolUse": {"toolUseId": "c1", "name": "weather", "input": ARGUMENTS}}])
    message = json.dumps(
        [{"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"text": "no such city"}]}}]
    )

    assert EXCHANGE[1] == read_message({"role": "assistant", "content": request})
    failed = CallResult(call_id="c1", name=None, result="no such city", captured=True, is_error=True)
    assert Message(role="tool", parts=(failed,)) == read_message({"role": "tool", "content": message})


def test_vercel_parts_unwrap_their_output() -> None:
    messages = read_messages(
        [
            {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": ARGUMENTS}]},
            {"role": "tool", "content": [
                {"type": "tool-result", "toolCallId": "c1", "toolName": "weather", "output": {"type": "json", "value": {"t": 21}}}]},
            {"role": "tool", "content": [
                {"type": "tool-result", "toolCallId": "c2", "toolName": "weather", "output": {"type": "error-text", "value": "down"}}]},
        ]
    )  # fmt: skip

    assert messages is not None
    assert [WEATHER] == list(messages[0].requests)
    results = [result for message in messages for result in message.results]
    assert [("c1", {"t": 21}, False), ("c2", "down", True)] == [(r.call_id, r.result, r.is_error) for r in results]


def test_gemini_parts_name_their_kind_by_their_key() -> None:
    messages = read_messages(
        [
            {"role": "user", "parts": [{"text": "Weather?"}]},
            {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "weather", "args": ARGUMENTS}}]},
            {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "weather", "response": {"t": 21}}}]},
        ]
    )

    assert messages is not None
    assert (EXCHANGE[0], Message(role="assistant", parts=(WEATHER,))) == messages[:2]
    assert [{"t": 21}] == [result.result for result in messages[2].results]


def test_calls_that_stand_in_content_blocks_and_in_tool_calls_are_one_call() -> None:
    message = read_message(
        {
            "type": "ai",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": ARGUMENTS},
            ],
            "tool_calls": [{"name": "weather", "args": ARGUMENTS, "id": "c1"}],
        }
    )

    assert EXCHANGE[1] == message


def test_calls_are_listed_as_objects_or_as_json_texts_of_them() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city": "Oslo"}'}}

    for listed in ([call], [json.dumps(call)], json.dumps([call])):
        message = read_message({"role": "assistant", "tool_calls": listed})

        assert message is not None
        assert (CallRequest(call_id="c1", name="look", arguments={"city": "Oslo"}),) == message.requests


def test_langchains_batch_of_one_prompt_is_that_prompt() -> None:
    assert EXCHANGE == read_messages([SHAPES["langchain_flat"]])


def test_an_object_with_messages_is_those_messages() -> None:
    assert EXCHANGE == read_messages({"messages": SHAPES["openai_chat"], "remaining_steps": 3})


def test_plain_text_is_a_message_of_the_default_role() -> None:
    assert (Message(role="user", parts=(Text(content="Hi"),)),) == read_messages("Hi")
    assert (Message(role="assistant", parts=(Text(content="Hi"),)),) == read_messages("Hi", "assistant")


@pytest.mark.parametrize("text", ['["a", "b"]', '[{"x": 1}]', "[1, 2]", "[]", "[not json"])
def test_a_user_who_writes_a_list_is_quoted_as_written(text: str) -> None:
    assert Message(role="user", parts=(Text(content=text),)) == read_message({"role": "user", "content": text})


def test_a_text_part_without_its_text_was_not_captured() -> None:
    message = read_message({"role": "user", "parts": [{"type": "text"}]})

    assert message == Message(role="user", parts=(Redacted(),))
    assert message.redacted
    assert message.text is None


def test_a_part_of_another_kind_is_left_out_and_hides_nothing() -> None:
    parts = [{"image": {"bytes": "…"}}, {"type": "blob", "content": "…"}, {"cachePoint": {}}, {"text": "Weather?"}]

    assert EXCHANGE[0] == read_message({"role": "user", "content": parts})


def test_a_mark_in_the_place_of_text_result_or_arguments_is_content_that_was_taken_out() -> None:
    text = read_message({"role": "user", "content": "__REDACTED__"})
    result = read_message({"role": "tool", "tool_call_id": "c1", "content": "__REDACTED__"})
    part = read_message({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "<elided>"}]})
    message = read_message({"role": "assistant", "tool_calls": [{"id": "c1", "name": "f", "args": "[REDACTED]"}]})

    assert text is not None
    assert result is not None
    assert part is not None
    assert message is not None
    assert text.redacted
    assert [False, False] == [result.results[0].captured, part.results[0].captured]
    assert message.requests[0].arguments is None


def test_a_result_that_was_left_out_differs_from_null() -> None:
    silent = read_message({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1"}]})
    null = read_message({"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": None}]})

    assert silent is not None
    assert null is not None
    assert [False, True] == [silent.results[0].captured, null.results[0].captured]


def test_nothing_captured_is_none_and_an_empty_answer_is_empty() -> None:
    assert read_messages(None) is None
    assert () == read_messages([])
    assert () == read_messages("[]")


def test_a_tool_message_keeps_a_status_of_error() -> None:
    message = read_message({"type": "tool", "content": "boom", "tool_call_id": "c1", "status": "error"})

    assert message is not None
    assert message.results[0].is_error


def test_developer_messages_are_system_messages() -> None:
    message = read_message({"role": "developer", "content": "Be kind."})

    assert message is not None
    assert message.role == "system"
