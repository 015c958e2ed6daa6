"""Tool calls as vendors record them, in any wrapper."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.dialects.payloads import Output, call_input, call_output


@pytest.mark.parametrize(
    "recorded",
    [
        '{"city": "Oslo"}',
        {"city": "Oslo"},
        "{'city': 'Oslo'}",
        '{"args": [], "kwargs": {"city": "Oslo"}}',
        '{"inputs": {"city": "Oslo"}, "input_str": "", "tags": []}',
        '"{\\"city\\": \\"Oslo\\"}"',
    ],
)
def test_arguments_are_read_from_each_way_to_write_them(recorded: Any) -> None:
    assert {"city": "Oslo"} == call_input(recorded)


@pytest.mark.parametrize(
    "recorded",
    [
        "content='7' name='seats' tool_call_id='c1'",
        '{"content": "7", "tool_call_id": "c1", "type": "tool"}',
        '{"tool_name": "seats", "tool_id": "c1", "tool_output": {"raw_input": {}, "raw_output": 7, "is_error": false}}',
    ],
)
def test_a_record_that_names_the_call_gives_its_id(recorded: str) -> None:
    output = call_output(recorded)

    assert ("7", "c1", False) == (str(output.result), output.call_id, output.is_error)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("Response(content=[Text(type='text', text='no seat')], state=<State.ERROR: 'error'>)", ("no seat", True)),
        ("Response(content=[Text(type='text', text='[1]')], isError=False, meta=None)", ([1], False)),
        ('{"content": [{"type": "text", "text": "[1]"}], "isError": false}', ([1], False)),
        ("status='success' result={'a': 1} error=None images=None", ({"a": 1}, False)),
        ("status='failure' result=None error='no seat'", ("no seat", True)),
    ],
)
def test_the_record_of_a_result_says_whether_it_is_an_error(recorded: str, expected: tuple[Any, bool]) -> None:
    output = call_output(recorded)

    assert expected == (output.result, output.is_error)


@pytest.mark.parametrize(
    "message",
    [
        {"content": [{"text": "x"}], "author": "Ada", "status": "draft"},
        {"content": "x", "status": "draft"},
        {"content": [{"url": "x"}], "isError": False},
        "Booked (see below).",
        "a=b",
    ],
)
def test_what_a_tool_answered_itself_stays_as_it_is(message: Any) -> None:
    assert Output(result=message, captured=True) == call_output(message)
