"""Semantic Kernel: results in Python's notation, content in text bodies, functions of the application."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from otel_agentic.dialects import Ignored, ModelCall, ToolCall
from otel_agentic.testing import log_record, span
from tests.dialects.reading import read_as, texts_of

SCOPE: Final = "semantic_kernel.functions.kernel_function"
TOOL: Final = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "desk-weather", "gen_ai.tool.call.id": "c1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{'temp': 21.5, 'rain': None}", {"temp": 21.5, "rain": None}), ("Oslo (Norway)", "Oslo (Norway)")],
)
def test_a_result_is_read_from_pythons_notation(text: str, expected: Any) -> None:
    tool_call = read_as(ToolCall, span(scope=SCOPE, attributes={**TOOL, "gen_ai.tool.call.result": text}))

    assert ("desk-weather", expected) == (tool_call.name, tool_call.result)


def test_a_function_without_a_call_id_was_called_by_the_application() -> None:
    attributes = {key: value for key, value in TOOL.items() if key != "gen_ai.tool.call.id"}

    read_as(Ignored, span(scope=SCOPE, attributes=attributes))


def test_records_are_read_in_the_order_of_the_history() -> None:
    call = span(scope="semantic_kernel.utils", attributes={"gen_ai.operation.name": "chat"})
    message = json.dumps({"role": "tool", "content": "{'temp': 21}", "tool_call_id": "c1"})
    request = json.dumps({"role": "user", "content": "Weather?"})
    logs = [
        log_record(call, "gen_ai.tool.message", message, attributes={"CHAT_MESSAGE_INDEX": 1}),
        log_record(call, "", "a line of the log"),
        log_record(call, "gen_ai.user.message", request, attributes={"CHAT_MESSAGE_INDEX": 0}),
    ]

    model_call = read_as(ModelCall, call, *logs)

    assert [("user", "Weather?"), ("tool", None)] == texts_of(model_call.messages_in)
    assert model_call.messages_in is not None
    assert [{"temp": 21}] == [result.result for result in model_call.messages_in[1].results]
