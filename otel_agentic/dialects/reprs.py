"""Messages that were written down as Python objects: `ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])`.

Haystack, LlamaIndex and smolagents record them so, where they meant JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from otel_agentic.dialects.literals import read_repr

_MESSAGE: Final = re.compile(r"^\w*Message\(")
_CLASS: Final = "__class__"
#: Which part of a message a class stands for, by what its name says; the first that fits.
_PARTS: Final = (
    (
        re.compile(r"ToolCallResult|ToolResult|ToolReturn|FunctionCallOutput|FunctionExecutionResult"),
        "tool_call_response",
    ),
    (re.compile(r"ToolCall|FunctionCall|ToolUse"), "tool_call"),
    (re.compile(r"Text"), "text"),
)


def message_fields(text: str) -> Mapping[str, Any] | None:
    """Return the fields of a message that a repr spells, in the words of JSON messages; None where it spells none.

    >>> message_fields("ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])")
    {'role': 'user', 'content': [{'text': 'Hi', 'type': 'text'}]}
    """
    if _MESSAGE.match(text) is None:
        return None
    found = plain_fields(read_repr(text, class_key=_CLASS))
    return found if isinstance(found, Mapping) and isinstance(found.get("role"), str) else None


def plain_fields(value: Any) -> Any:
    """Return a message's fields without the underscores of private ones, with each part's class as its type."""
    if isinstance(value, list):
        return [plain_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key.lstrip("_"): plain_fields(item) for key, item in value.items() if key != _CLASS}
    kind = next((part for pattern, part in _PARTS if pattern.search(str(value.get(_CLASS, "")))), None)
    if kind is None or fields.get("type") is not None:
        return fields
    origin = fields.pop("origin", None)  # Haystack: the call that a result answers
    if isinstance(origin, Mapping):
        fields |= {"call_id": origin.get("id"), "name": origin.get("tool_name")}
    return {**fields, "type": kind}
