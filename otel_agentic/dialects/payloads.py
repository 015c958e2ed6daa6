"""One tolerant reader for the inputs and outputs that vendors record for runs, model calls and tool calls.

Function calls (`{"args", "kwargs"}`), LangChain callbacks and commands, LlamaIndex and Gemini tool outputs, results of the
Model Context Protocol, and the same as Python reprs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.literals import read_repr, record_fields
from otel_agentic.dialects.messages import is_message, read_message, read_messages
from otel_agentic.dialects.values import (
    UNNAMED_ARGUMENT,
    arguments_of,
    id_of,
    is_cut,
    is_redacted,
    parsed,
    result_of,
    text_of,
    tool_message,
    unwrapped,
)

if TYPE_CHECKING:
    from otel_agentic.dialects.events import Message, Role

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


#: Where a request to a model, or a run's input, keeps its messages.
_INPUT_KEYS: Final = ("messages", "input_messages", "contents", "new_message", "inputs", "input", "prompt", "prompts")
#: Where a response of a model, or a run's output, keeps its messages.
_OUTPUT_KEYS: Final = (
    "messages",
    "choices",
    "generations",
    "candidates",
    "message",
    "replies",
    "outputs",
    "output",
    "response",
    "content",
)
#: Where a run's input or output keeps its one interesting text, likeliest first.
_QUERY_KEYS: Final = (
    "query",
    "question",
    "input",
    "user_input",
    "user_msg",
    "task",
    "prompt",
    "message",
    "text",
    "content",
)
_ANSWER_KEYS: Final = ("answer", "output", "response", "result", "raw", "text", "content", "message", "return")
#: Beside the text of a response: the calls that it asks for.
_CALLS: Final = ("tool_calls", "toolCalls")
#: `StopEvent(result=…)`: a Python object written down, which nobody said.
_OBJECT: Final = re.compile(r"^\s*(?:<[\w.]+ object|[A-Z]\w*\((?:\w+=|\)))")
#: Under which names recorders keep the arguments of the function that ran.
_ARGUMENT_KEYS: Final = ("input_args", "inputs", "arguments", "kwargs")
#: A payload nested deeper than this says nothing.
_DEEPEST: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a run was given or said: messages where it lists them, else its one text. Both None: not captured."""

    messages: tuple[Message, ...] | None = None
    text: str | None = None


def run_input(value: Any) -> Spoken:
    """Return what a run was given."""
    return _spoken(value, _INPUT_KEYS, _QUERY_KEYS, "user")


def run_output(value: Any) -> Spoken:
    """Return what a run said in the end."""
    return _spoken(value, _OUTPUT_KEYS, _ANSWER_KEYS, "assistant")


def model_input(value: Any) -> tuple[Message, ...] | None:
    """Return the messages of a request to a model; None when not captured."""
    found = _messages(parsed(value), _INPUT_KEYS, "user", _DEEPEST)
    return found if found is not None else _lone_message(value, _QUERY_KEYS, "user")


def model_output(value: Any) -> tuple[Message, ...] | None:
    """Return the messages of a model's response; None when not captured.

    Where a record lists the whole conversation, the response is what the assistant said last; a record that ends with
    somebody else's words is no response.
    """
    found = _messages(parsed(value), _OUTPUT_KEYS, "assistant", _DEEPEST)
    if found is None:
        return _lone_message(value, _ANSWER_KEYS, "assistant")
    start = len(found)
    while start and found[start - 1].role == "assistant":
        start -= 1
    return found[start:] or None


def _spoken(value: Any, keys: Sequence[str], text_keys: Sequence[str], role: Role) -> Spoken:
    if value is None or is_redacted(value):
        return Spoken()
    found = parsed(value)
    if isinstance(found, Mapping) and found.keys() >= CALL_KEYS:
        return Spoken(text=_spoken_in_call(found))
    if isinstance(found, str):
        return Spoken(text=None if _OBJECT.match(found) or is_cut(value) else found)
    messages = _messages(found, keys, role, _DEEPEST)
    if messages:
        return Spoken(messages=messages)
    return Spoken(text=_lone_text(found, text_keys))


def _spoken_in_call(call: Mapping[str, Any]) -> str | None:
    """Return the user's text among the arguments of the function that runs the agent: by name, else the first text."""
    named, positional = parsed(call.get("kwargs")), parsed(call.get("args"))
    named = named if isinstance(named, Mapping) else {}
    texts = [item for item in positional if isinstance(item, str)] if isinstance(positional, list) else []
    by_name = next((named[key] for key in _QUERY_KEYS if isinstance(named.get(key), str)), None)
    lone = [item for item in named.values() if isinstance(item, str)]
    return by_name or next(iter(texts), None) or (lone[0] if lone else None)


def _messages(found: Any, keys: Sequence[str], role: Role, depth: int) -> tuple[Message, ...] | None:
    """Return the messages that a payload holds wherever its vendor keeps them; None when it holds none."""
    if isinstance(found, list):
        return _listed(found, keys, role, depth)
    if not isinstance(found, Mapping) or depth == 0:
        return None
    if is_message(found):
        message = read_message(found, role)
        return (message,) if message is not None and message.parts else None
    if role == "assistant" and any(isinstance(found.get(key), list) for key in _CALLS):
        message = read_message({"content": found.get("text"), **found}, role)
        return (message,) if message is not None and message.parts else None
    for key in keys:
        inner = parsed(found.get(key))
        if isinstance(inner, (Mapping, list)):
            messages = _messages(inner, keys, role, depth - 1)
            if messages:
                return messages
    return None


def _listed(items: list[Any], keys: Sequence[str], role: Role, depth: int) -> tuple[Message, ...] | None:
    if items and all(is_message(item) for item in items):
        return read_messages(items, role)
    if items and depth and isinstance(items[0], (list, Mapping)):
        # Batches and alternatives: what came first is what the agent went on with.
        return _messages(items[0], keys, role, depth - 1)
    return None


def _lone_message(value: Any, keys: Sequence[str], role: Role) -> tuple[Message, ...] | None:
    if is_cut(value):
        return None
    text = value if isinstance(value, str) and isinstance(parsed(value), str) else _named_text(parsed(value), keys)
    return read_messages(text, role) if text is not None else None


def _lone_text(value: Any, keys: Sequence[str]) -> str | None:
    """Return the one interesting text of an object: by name, else the only text there is."""
    named = _named_text(value, keys)
    if named is not None or not isinstance(value, Mapping):
        return named
    inner = next((value[key] for key in _ARGUMENT_KEYS if isinstance(value.get(key), Mapping)), None)
    if inner is not None:
        return _named_text(inner, keys)
    texts = [item for item in value.values() if isinstance(item, str) and not _OBJECT.match(item)]
    return texts[0] if len(texts) == 1 else None


def _named_text(value: Any, keys: Sequence[str]) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if not isinstance(value, Mapping):
        return text_of(value)
    named = (value[key] for key in keys if isinstance(value.get(key), str))
    return next((text for text in named if not _OBJECT.match(text)), None)
