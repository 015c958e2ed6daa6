"""One tolerant reader for what vendors record as the input and output of a tool call.

Function calls (`{"args", "kwargs"}`), LangChain callbacks and commands, LlamaIndex and Gemini tool outputs, results of the
Model Context Protocol, and the same as Python shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from otel_agentic.dialects.literals import read_repr
from otel_agentic.dialects.reprs import record_fields
from otel_agentic.dialects.values import (
    UNNAMED_ARGUMENT,
    arguments_of,
    id_of,
    is_cut,
    is_redacted,
    parsed,
    result_of,
    tool_message,
    unwrapped,
)

#: What stands beside the arguments of a recorded function call.
CALL_KEYS: Final = frozenset({"args", "kwargs"})
#: What BeeAI records of a call.
_RUN_KEYS: Final = frozenset({"input", "options"})
#: What LangChain's callbacks record of a call.
_CALLBACK_KEYS: Final = frozenset({"inputs", "input_str", "tags", "metadata", "kwargs"})

#: By these a result says whether it is an error; one of them tells a record of a result from what a tool answered.
_FAILURE_MARKS: Final = ("isError", "is_error", "state", "status")
_RECORD_KEYS: Final = frozenset(
    {*_FAILURE_MARKS, "content", "id", "type", "toolUseId", "metadata", "meta", "_meta", "annotations"}
    | {"structuredContent", "structured_content"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a tool call came to. `call_id` and `is_error` are set where the payload itself tells them."""

    result: Any
    captured: bool
    call_id: str | None = None
    is_error: bool = False


def call_input(value: Any, parameters: Callable[[], Collection[str] | None] = lambda: None) -> Mapping[str, Any] | None:
    """Return a tool call's arguments, None when not captured.

    Args:
        value: what was recorded.
        parameters: returns the names of the tool's parameters in order, None where its span does not record them: they
            name positional arguments, and separate arguments from a wrapper around them.

    >>> call_input('{"args": [], "kwargs": {"city": "Oslo"}}')
    {'city': 'Oslo'}
    >>> call_input({"inputs": {"city": "Oslo"}, "input_str": "{'city': 'Oslo'}", "tags": []})
    {'city': 'Oslo'}
    >>> call_input({"args": ["Oslo"], "kwargs": {"days": 2}}, lambda: ["city", "days"])
    {'city': 'Oslo', 'days': 2}
    >>> call_input({"input": {"city": "Oslo"}, "options": None})
    {'city': 'Oslo'}
    """
    found = parsed(value)
    if isinstance(found, Mapping):
        kwargs = parsed(found.get("kwargs"))
        if isinstance(kwargs, Mapping) and (found.keys() <= CALL_KEYS or found.keys() >= CALL_KEYS):
            return _called(found.get("args"), kwargs, parameters)
        inner = _wrapped(found, parameters)
        if inner is not None:
            return inner
        if "inputs" in found and found.keys() <= _CALLBACK_KEYS:
            return arguments_of(found["inputs"])
    if isinstance(found, str) and found.lstrip().startswith("{"):
        shown = read_repr(found)  # a dictionary as Python shows it
        if isinstance(shown, Mapping):
            return shown
    return None if is_cut(value) else arguments_of(value)


def call_output(value: Any) -> Output:
    """Return what a tool answered, with whatever wrapping the recorder put around it undone.

    >>> call_output('{"response": {"result": 5.5}, "name": "add", "id": "c1"}').result
    5.5
    """
    if value is None or is_redacted(value) or is_cut(value):
        return Output(result=None, captured=False)
    found = parsed(value)
    message = tool_message(_inner(found)) or tool_message(record_fields(found))
    output = _of_message(message) if message is not None else _of_record(found) or _recorded(found)
    if output is not None:
        return output
    result = result_of(found)
    return Output(result=result, captured=not is_redacted(result))


def _of_message(message: Mapping[str, Any]) -> Output:
    told = message["content"]
    return Output(
        result=result_of(told),
        captured=not is_redacted(told),
        call_id=id_of(message["tool_call_id"]),
        is_error=message.get("status") == "error",
    )


def _of_record(found: Any) -> Output | None:
    """Return what a vendor's record of an output holds; None where the value is none of those known."""
    if not isinstance(found, Mapping):
        return None
    if isinstance(found.get("tool_output"), Mapping):  # LlamaIndex
        return replace(call_output(found["tool_output"]), call_id=id_of(found.get("tool_id")))
    if "raw_output" in found and "raw_input" in found:
        return Output(result=result_of(found["raw_output"]), captured=True, is_error=found.get("is_error") is True)
    if "response" in found and found.keys() <= {"id", "name", "response", "call_id"}:  # Gemini
        return Output(result=unwrapped(found["response"]), captured=True, call_id=id_of(found.get("id")))
    return None


def _recorded(found: Any) -> Output | None:
    """Return what the record of a call says of its result; None where the value is no such record."""
    if not isinstance(found, str):
        return _of_blocks(found)
    record = record_fields(found)
    if record is None or not {"status", "result", "error"} <= record.keys():
        return _of_blocks(record)
    failed = record["error"] is not None
    return Output(result=record["error"] if failed else record["result"], captured=True, is_error=failed)


def _of_blocks(found: Any) -> Output | None:
    """Return what the record of a result holds in content blocks; None where the value is no such record."""
    content = found.get("content") if isinstance(found, Mapping) else None
    if not isinstance(content, list) or not content or not _is_record(found.keys()):
        return None
    texts = [block.get("text") if isinstance(block, Mapping) else None for block in content]
    told = [text for text in texts if isinstance(text, str)]
    if len(told) < len(content):
        return None
    failed = any(found.get(key) is True or found.get(key) == "error" for key in _FAILURE_MARKS)
    return Output(result=parsed("\n".join(told)), captured=not any(map(is_redacted, told)), is_error=failed)


def _is_record(keys: AbstractSet[str]) -> bool:
    return not keys.isdisjoint(_FAILURE_MARKS) and keys <= _RECORD_KEYS


def _inner(found: Any) -> Any:
    """Return what stands in a callback's record of an output."""
    if not isinstance(found, Mapping):
        return found
    inner = found.get("output", found.get("outputs"))
    inside = parsed(inner) if isinstance(inner, (Mapping, str)) and "content" not in found else found
    return _added(inside) if isinstance(inside, Mapping) and "goto" in inside else inside


def _added(command: Mapping[str, Any]) -> Any:
    """Return the last message that a LangGraph command adds to the state: a tool may return one instead of its result."""
    update = parsed(command.get("update"))
    messages = parsed(update.get("messages")) if isinstance(update, Mapping) else None
    return messages[-1] if isinstance(messages, list) and messages else command


def _called(
    positional: Any, named: Mapping[str, Any], parameters: Callable[[], Collection[str] | None]
) -> Mapping[str, Any]:
    unnamed = list(positional) if isinstance(positional, list) else []
    if not unnamed:
        return named
    free = [name for name in parameters() or () if name not in named]
    if len(unnamed) <= len(free):
        return {**dict(zip(free, unnamed, strict=False)), **named}
    # Parameter names of positional arguments are lost: the model's own request, where there is one, knows them.
    return {UNNAMED_ARGUMENT: unnamed[0] if len(unnamed) == 1 else unnamed, **named}


def _wrapped(found: Mapping[str, Any], parameters: Callable[[], Collection[str] | None]) -> Mapping[str, Any] | None:
    """Return the arguments inside a recorder's wrapper (BeeAI); None where there is no wrapper."""
    objects = [value for value in found.values() if isinstance(value, Mapping)]
    if not objects:
        return None
    names = parameters()
    if found.keys() == _RUN_KEYS and isinstance(found["input"], Mapping) and "input" not in (names or ()):
        return found["input"]
    if names is None or not found.keys().isdisjoint(names):
        return None
    fitting = [value for value in objects if value and value.keys() <= set(names)]
    return fitting[0] if len(fitting) == 1 else None
