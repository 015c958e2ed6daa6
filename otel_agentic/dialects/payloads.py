"""One tolerant reader for what vendors record as "input" and "output": of a run, of a model call, of a tool call.

Function calls (`{"args", "kwargs"}`), requests and responses of model APIs, LangChain states, dumps and callbacks,
LlamaIndex events and tool outputs, Gemini contents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
#: What stands beside the arguments of a recorded function call.
_CALL_KEYS: Final = frozenset({"args", "kwargs"})
#: What LangChain's callbacks record of a call.
_CALLBACK_KEYS: Final = frozenset({"inputs", "input_str", "tags", "metadata", "kwargs"})
#: `StopEvent(result=…)`: a Python object written down, which nobody said.
_OBJECT: Final = re.compile(r"^\s*(?:<[\w.]+ object|[A-Z]\w*\((?:\w+=|\)))")
#: A payload nested deeper than this says nothing.
_DEEPEST: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a run was given or said: messages where it lists them, else its one text. Both None: not captured."""

    messages: tuple[Message, ...] | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a tool call came to. `call_id` and `is_error` are set where the payload itself tells them."""

    result: Any
    captured: bool
    call_id: str | None = None
    is_error: bool = False


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


def call_input(value: Any) -> Mapping[str, Any] | None:
    """Return a tool call's arguments, None when not captured.

    >>> call_input('{"args": [], "kwargs": {"city": "Oslo"}}')
    {'city': 'Oslo'}
    >>> call_input({"inputs": {"city": "Oslo"}, "input_str": "{'city': 'Oslo'}", "tags": []})
    {'city': 'Oslo'}
    """
    found = parsed(value)
    if isinstance(found, Mapping):
        kwargs = parsed(found.get("kwargs"))
        if isinstance(kwargs, Mapping) and (found.keys() <= _CALL_KEYS or found.keys() >= _CALL_KEYS):
            return _called(found.get("args"), kwargs)
        if "inputs" in found and found.keys() <= _CALLBACK_KEYS:
            return arguments_of(found["inputs"])
    return None if is_cut(value) else arguments_of(value)


def call_output(value: Any) -> Output:
    """Return what a tool answered, with whatever wrapping the recorder put around it undone.

    >>> call_output('{"response": {"result": 5.5}, "name": "add", "id": "c1"}').result
    5.5
    """
    if value is None or is_redacted(value) or is_cut(value):
        return Output(result=None, captured=False)
    found = parsed(value)
    message = tool_message(_inner(found))
    if message is not None:
        told = message["content"]
        return Output(
            result=result_of(told),
            captured=not is_redacted(told),
            call_id=id_of(message["tool_call_id"]),
            is_error=message.get("status") == "error",
        )
    if isinstance(found, Mapping) and "raw_output" in found and "raw_input" in found:  # LlamaIndex
        return Output(result=result_of(found["raw_output"]), captured=True, is_error=found.get("is_error") is True)
    if isinstance(found, Mapping) and "response" in found and found.keys() <= {"id", "name", "response", "call_id"}:
        return Output(result=unwrapped(found["response"]), captured=True, call_id=id_of(found.get("id")))
    result = result_of(found)
    return Output(result=result, captured=not is_redacted(result))


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


def _called(positional: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    unnamed = list(positional) if isinstance(positional, list) else []
    if not unnamed:
        return named
    # Parameter names of positional arguments are lost: the model's own request, where there is one, knows them.
    return {UNNAMED_ARGUMENT: unnamed[0] if len(unnamed) == 1 else unnamed, **named}


def _spoken(value: Any, keys: Sequence[str], text_keys: Sequence[str], role: Role) -> Spoken:
    if value is None or is_redacted(value):
        return Spoken()
    found = parsed(value)
    if isinstance(found, Mapping) and found.keys() >= _CALL_KEYS:
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
    texts = [item for item in value.values() if isinstance(item, str) and not _OBJECT.match(item)]
    return texts[0] if len(texts) == 1 else None


def _named_text(value: Any, keys: Sequence[str]) -> str | None:
    if isinstance(value, str) or value is None:
        return value
    if not isinstance(value, Mapping):
        return text_of(value)
    named = (value[key] for key in keys if isinstance(value.get(key), str))
    return next((text for text in named if not _OBJECT.match(text)), None)
