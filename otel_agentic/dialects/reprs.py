"""Messages and records that were written down as Python objects: `ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[…])`.

Haystack, LlamaIndex and smolagents record them so, where they meant JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from otel_agentic.dialects.literals import read_repr

_MESSAGE: Final = re.compile(r"^\w*Message\(")
#: An object with its class, or only its fields, with blanks between them (pydantic).
_RECORD: Final = re.compile(r"\s*[A-Za-z_][\w.]*[=(]")
_FIELDS: Final = re.compile(r"\s*[A-Za-z_]\w*=")
#: A quoted text, or the blank before a field.
_TEXT_OR_GAP: Final = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![,(\[{])\s+(?=[A-Za-z_]\w*=)""", re.DOTALL
)
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


def record_fields(text: object) -> Mapping[str, Any] | None:
    """Return the fields of an object that Python shows, with its class or without; None where the text shows none.

    >>> record_fields("content='12' name='seats' tool_call_id='c1'")
    {'content': '12', 'name': 'seats', 'tool_call_id': 'c1'}
    >>> record_fields("Result(content=[Text(type='text', text='12')], isError=False)")
    {'content': [{'type': 'text', 'text': '12'}], 'isError': False}
    """
    if not isinstance(text, str) or _RECORD.match(text) is None:
        return None
    if _FIELDS.match(text) is not None:
        text = f"Record({_TEXT_OR_GAP.sub(lambda found: found[1] or ', ', text.strip())})"
    found = read_repr(text)
    return found if isinstance(found, Mapping) else None


def message_fields(text: str) -> Mapping[str, Any] | None:
    """Return the fields of a message that a repr spells, in the words of JSON messages; None where it spells none.

    >>> message_fields("ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])")
    {'role': 'user', 'content': [{'text': 'Hi', 'type': 'text'}]}
    """
    if _MESSAGE.match(text) is None:
        return None
    found = plain_fields(read_repr(text, class_key=_CLASS))
    return found if isinstance(found, Mapping) and isinstance(found.get("role"), str) else None


def called_in_text(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message whose text is `Calling tools:` and a list, as one that lists its calls (smolagents)."""
    content = message.get("content")
    block = content[0] if isinstance(content, list) and len(content) == 1 else content
    text = block.get("text") if isinstance(block, dict) else block
    calls = read_repr(text.partition(":\n")[2]) if isinstance(text, str) else None
    return {"role": "assistant", "tool_calls": calls} if isinstance(calls, list) else message


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
