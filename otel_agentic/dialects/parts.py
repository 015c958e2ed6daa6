"""The parts of messages: text, tool calls and their results, in the content blocks of all conventions."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import CallRequest, CallResult, Part, Redacted, Text
from otel_agentic.dialects.values import arguments_of, id_of, is_redacted, parsed, result_of, unwrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Several JSON objects in one text have this between them.
_SEVERAL: Final = re.compile(r"\}\s*\{")
_JSON: Final = JSONDecoder()
#: No message has more parts.
_MOST: Final = 10_000
#: Kinds of parts that carry text, by the names of the several conventions.
_TEXT_KINDS: Final = frozenset({"text", "input_text", "output_text", ""})
_REQUEST_KINDS: Final = frozenset({"tool_call", "tool-call", "tool_use", "function_call", "toolUse"})
_RESULT_KINDS: Final = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_call_output", "toolResult"}
)
#: What stands alone as a message, without a role (OpenAI Responses).
CALL_KINDS: Final = _REQUEST_KINDS | _RESULT_KINDS
#: Blocks that name their kind by the key of their content (Bedrock, Gemini, Genkit).
_WRAPPERS: Final[Mapping[str, str]] = {
    "toolUse": "toolUse",
    "toolResult": "toolResult",
    "functionCall": "tool_call",
    "function_call": "tool_call",
    "functionResponse": "tool_call_response",
    "function_response": "tool_call_response",
    "toolRequest": "tool_call",
    "toolResponse": "tool_call_response",
}
_RESULT_WRAPPERS: Final = frozenset(key for key, kind in _WRAPPERS.items() if kind in _RESULT_KINDS)
#: By these keys JSON text is told to be content blocks rather than a list that somebody wrote.
_BLOCK_KEYS: Final = frozenset({"type", "text", *_WRAPPERS})
_CALL_ID_KEYS: Final = ("call_id", "id", "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "ref")
_ARGUMENT_KEYS: Final = ("arguments", "args", "input", "parameters", "tool_kwargs")
_RESULT_KEYS: Final = ("result", "response", "output", "content")


def is_result(block: Any) -> bool:
    """Return whether a content block is the result of a tool call."""
    return isinstance(block, dict) and (kind_of(block) in _RESULT_KINDS or not _RESULT_WRAPPERS.isdisjoint(block))


def read_parts(content: Any) -> Iterable[Part]:
    """Yield the parts of a message's content: text, one block, or a list of blocks."""
    found = _blocks(content) if isinstance(content, str) else content
    if isinstance(found, str):
        yield from texts(found)
    elif isinstance(found, (list, dict)):
        for block in found[:_MOST] if isinstance(found, list) else (found,):
            part = read_part(block)
            if part is not None:
                yield part


def _blocks(content: str) -> str | list[Any]:
    """Return the content blocks that JSON text holds; the text itself where it holds something else."""
    found = parsed(content) if content.lstrip().startswith("[") else None
    if isinstance(found, list) and found and all(isinstance(b, dict) and b.keys() & _BLOCK_KEYS for b in found):
        return found
    return content


def read_part(block: Any) -> Part | None:
    """Return the part that a content block is; None for kinds that say nothing about the conversation."""
    if isinstance(block, str):
        return next(iter(texts(block)), None)
    if not isinstance(block, dict) or block.get("thought") is True:  # Gemini's reasoning is text with this mark
        return None
    if "type" not in block:
        for key, kind in () if block.keys().isdisjoint(_WRAPPERS) else _WRAPPERS.items():
            if isinstance(block.get(key), dict):
                return _part_of_kind(kind, block[key])
    return _part_of_kind(kind_of(block), block)


def kind_of(fields: Mapping[str, Any]) -> str:
    """Return what a block or message says that it is; empty where it does not."""
    kind = fields.get("type", fields.get("block_type"))
    return "" if kind is None else str(kind)  # text, but for the hostile


def _part_of_kind(kind: str, block: Mapping[str, Any]) -> Part | None:
    if kind in _REQUEST_KINDS:
        return _request(block)
    if kind in _RESULT_KINDS:
        return _result(block)
    if kind not in _TEXT_KINDS:
        return None
    text = block.get("content", block.get("text"))
    if isinstance(text, str):
        return next(iter(texts(text)), None)
    # A text part without its text is what SDKs write when content capture is off.
    return Redacted() if kind else None


def _result(block: Mapping[str, Any]) -> CallResult:
    told = parsed(first_of(block, _RESULT_KEYS))
    kind = told.get("type") if isinstance(told, dict) else None
    return CallResult(
        call_id=_call_id(block),
        name=first_text(block, ("name", "toolName")),
        result=result_of(unwrapped(told) if "response" in block else told),
        captured=any(key in block for key in _RESULT_KEYS) and not is_redacted(told),
        is_error=block.get("is_error") is True
        or block.get("error") is True
        or block.get("status") == "error"
        or (isinstance(kind, str) and kind.startswith("error-")),  # Vercel
    )


def _request(block: Mapping[str, Any]) -> CallRequest | None:
    name = first_text(block, ("name", "toolName", "tool_name"))
    if name is None:
        return None
    told = first_of(block, _ARGUMENT_KEYS)
    # The arguments of several calls in one text are those of none (BeeAI joins parallel calls).
    arguments = None if isinstance(told, str) and _SEVERAL.search(told) and _is_several(told) else arguments_of(told)
    return CallRequest(call_id=_call_id(block), name=name, arguments=arguments)


def _is_several(text: str) -> bool:
    """Return whether a text is several JSON objects, one after the other.

    >>> _is_several('{"city": "Rome"}{"city": "Oslo"}'), _is_several('{"code": "f({}){}"}')
    (True, False)
    """
    try:
        _, end = _JSON.raw_decode(text.lstrip())
    except ValueError:
        return False
    return text.lstrip()[end:].lstrip().startswith("{")


def listed_calls_of(value: Any) -> Iterable[CallRequest]:
    """Yield the calls of a list that stands beside the content."""
    found = parsed(value)
    for listed in found if isinstance(found, list) else ():
        item = parsed(listed)  # an attribute may hold a list of texts, but none of objects (LiveKit)
        if not isinstance(item, dict):
            continue
        inner = item.get("tool_call", item)  # OpenInference nests one level more
        inner = inner if isinstance(inner, dict) else item
        function = inner.get("function")
        fields = {**inner, **function, "id": inner.get("id")} if isinstance(function, dict) else inner
        request = _request(fields)
        if request is not None:
            yield request


def texts(text: str) -> tuple[Part, ...]:
    """Return a text as the parts of a message: one, redacted where that is what it says."""
    return (Redacted(),) if is_redacted(text) else (Text(content=text),)


def _call_id(block: Mapping[str, Any]) -> str | None:
    return id_of(first_text(block, _CALL_ID_KEYS))


def first_of(fields: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first key that is there."""
    for key in keys:
        if key in fields:
            return fields[key]
    return None


def first_text(fields: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the value of the first key that is there, where it is text and not empty."""
    found = first_of(fields, keys)
    return found if isinstance(found, str) and found else None
