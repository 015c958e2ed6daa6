"""One tolerant reader for the inputs and outputs that vendors record for runs, model calls and tool calls.

For runs and model calls, it reads function calls (`{"args", "kwargs"}`), requests and responses of model APIs,
LangChain states, dumps and callbacks, LlamaIndex events and Gemini contents. For tool calls, it reads function calls,
LangChain callbacks and commands, LlamaIndex and Gemini tool outputs, results of the Model Context Protocol, and Python
reprs of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.messages import is_message, read_message, read_messages
from otel_agentic.dialects.values import (
    UNNAMED_ARGUMENT,
    arguments_of,
    id_of,
    is_cut,
    is_redacted,
    parsed,
    read_repr,
    record_fields,
    result_of,
    text_of,
    tool_message,
    unwrapped,
)

if TYPE_CHECKING:
    from otel_agentic.dialects.events import Message, Role

#: The keys of a recorded function call.
CALL_KEYS: Final = frozenset({"args", "kwargs"})
#: The keys of a call that BeeAI records.
_RUN_KEYS: Final = frozenset({"input", "options"})
#: The keys of a call that LangChain's callbacks record.
_CALLBACK_KEYS: Final = frozenset({"inputs", "input_str", "tags", "metadata", "kwargs"})

#: Keys that state whether a result is an error; the presence of one distinguishes a recorder's wrapper from a tool's
#: own result.
_FAILURE_MARKS: Final = ("isError", "is_error", "state", "status")
_RECORD_KEYS: Final = frozenset(
    {*_FAILURE_MARKS, "content", "id", "type", "toolUseId", "metadata", "meta", "_meta", "annotations"}
    | {"structuredContent", "structured_content"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The result of a tool call. `call_id` and `is_error` are set if the payload itself contains them."""

    result: Any
    captured: bool
    call_id: str | None = None
    is_error: bool = False


def call_input(value: Any, parameters: Callable[[], Collection[str] | None] = lambda: None) -> Mapping[str, Any] | None:
    """Return the arguments of a tool call; None if not captured.

    Args:
        value: the recorded value.
        parameters: returns the names of the tool's parameters in order, None if its span does not record them: they name
            positional arguments, and distinguish arguments from a wrapper around them.

    >>> call_input('{"args": [], "kwargs": {"city": "Oslo"}}')
    {'city': 'Oslo'}
    >>> call_input({"inputs": {"city": "Oslo"}, "input_str": "{'city': 'Oslo'}", "tags": []})
    {'city': 'Oslo'}
    >>> call_input({"args": ["Oslo"], "kwargs": {"days": 2}}, lambda: ["city", "days"])
    {'city': 'Oslo', 'days': 2}
    >>> call_input({"input": {"city": "Oslo"}, "options": None})
    {'city': 'Oslo'}
    """
    content = parsed(value)
    if isinstance(content, Mapping):
        kwargs = parsed(content.get("kwargs"))
        if isinstance(kwargs, Mapping) and (content.keys() <= CALL_KEYS or content.keys() >= CALL_KEYS):
            return _function_arguments(content.get("args"), kwargs, parameters)
        inner = _unwrapped_arguments(content, parameters)
        if inner is not None:
            return inner
        if "inputs" in content and content.keys() <= _CALLBACK_KEYS:
            return arguments_of(content["inputs"])
    if isinstance(content, str) and content.lstrip().startswith("{"):
        literal = read_repr(content)  # the repr of a dictionary
        if isinstance(literal, Mapping):
            return literal
    return None if is_cut(value) else arguments_of(value)


def call_output(value: Any) -> Output:
    """Return the result of a tool, without the recorder's wrapper around it.

    >>> call_output('{"response": {"result": 5.5}, "name": "add", "id": "c1"}').result
    5.5
    """
    content = parsed(value)
    if value is None or is_redacted(value) or (content is value and is_cut(value)):
        return Output(result=None, captured=False)
    message = tool_message(_inner(content)) or tool_message(record_fields(content))
    output = _of_message(message) if message is not None else _of_record(content) or _recorded(content)
    if output is not None:
        return output
    result = result_of(content)
    return Output(result=result, captured=not is_redacted(result))


def _of_message(message: Mapping[str, Any]) -> Output:
    content = message["content"]
    return Output(
        result=result_of(content),
        captured=not is_redacted(content),
        call_id=id_of(message["tool_call_id"]),
        is_error=message.get("status") == "error",
    )


def _of_record(record: Any) -> Output | None:
    """Return the result in a vendor's record of an output; None if the value is not a known record."""
    if not isinstance(record, Mapping):
        return None
    if isinstance(record.get("tool_output"), Mapping):  # LlamaIndex
        return replace(call_output(record["tool_output"]), call_id=id_of(record.get("tool_id")))
    if "raw_output" in record and "raw_input" in record:
        return Output(result=result_of(record["raw_output"]), captured=True, is_error=record.get("is_error") is True)
    if "response" in record and record.keys() <= {"id", "name", "response", "call_id"}:  # Gemini
        return Output(result=unwrapped(record["response"]), captured=True, call_id=id_of(record.get("id")))
    return None


def _recorded(content: Any) -> Output | None:
    """Return the result in the record of a call; None if the value is not such a record."""
    if not isinstance(content, str):
        return _of_blocks(content)
    record = record_fields(content)
    if record is None or not {"status", "result", "error"} <= record.keys():
        return _of_blocks(record)
    failed = record["error"] is not None
    return Output(result=record["error"] if failed else record["result"], captured=True, is_error=failed)


def _of_blocks(record: Any) -> Output | None:
    """Return the result in the content blocks of a record; None if the value is not such a record."""
    content = record.get("content") if isinstance(record, Mapping) else None
    if not isinstance(content, list) or not content or not _is_record(record.keys()):
        return None
    texts = [block.get("text") if isinstance(block, Mapping) else None for block in content]
    block_texts = [text for text in texts if isinstance(text, str)]
    if len(block_texts) < len(content):
        return None
    failed = any(record.get(key) is True or record.get(key) == "error" for key in _FAILURE_MARKS)
    return Output(
        result=parsed("\n".join(block_texts)), captured=not any(map(is_redacted, block_texts)), is_error=failed
    )


def _is_record(keys: AbstractSet[str]) -> bool:
    return not keys.isdisjoint(_FAILURE_MARKS) and keys <= _RECORD_KEYS


def _inner(record: Any) -> Any:
    """Return the output in a callback's record."""
    if not isinstance(record, Mapping):
        return record
    inner = record.get("output", record.get("outputs"))
    inside = parsed(inner) if isinstance(inner, (Mapping, str)) and "content" not in record else record
    return _last_added_message(inside) if isinstance(inside, Mapping) and "goto" in inside else inside


def _last_added_message(command: Mapping[str, Any]) -> Any:
    """Return the last message that a LangGraph command adds to the state; a tool may return a command as its result."""
    update = parsed(command.get("update"))
    messages = parsed(update.get("messages")) if isinstance(update, Mapping) else None
    return messages[-1] if isinstance(messages, list) and messages else command


def _function_arguments(
    positional: Any, named: Mapping[str, Any], parameters: Callable[[], Collection[str] | None]
) -> Mapping[str, Any]:
    unnamed = list(positional) if isinstance(positional, list) else []
    if not unnamed:
        return named
    free = [name for name in parameters() or () if name not in named]
    if len(unnamed) <= len(free):
        return {**dict(zip(free, unnamed, strict=False)), **named}
    # Parameter names of positional arguments are lost; the model's own request has them, if it was recorded.
    return {UNNAMED_ARGUMENT: unnamed[0] if len(unnamed) == 1 else unnamed, **named}


def _unwrapped_arguments(
    record: Mapping[str, Any], parameters: Callable[[], Collection[str] | None]
) -> Mapping[str, Any] | None:
    """Return the arguments inside a recorder's wrapper (BeeAI); None without a wrapper."""
    objects = [value for value in record.values() if isinstance(value, Mapping)]
    if not objects:
        return None
    names = parameters()
    if record.keys() == _RUN_KEYS and isinstance(record["input"], Mapping) and "input" not in (names or ()):
        return record["input"]
    if names is None or not record.keys().isdisjoint(names):
        return None
    matching = [value for value in objects if value and value.keys() <= set(names)]
    return matching[0] if len(matching) == 1 else None


#: The keys of messages in a request to a model, or in a run's input.
_INPUT_KEYS: Final = ("messages", "input_messages", "contents", "new_message", "inputs", "input", "prompt", "prompts")
#: The keys of messages in a response of a model, or in a run's output.
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
#: The keys of the query or answer in a run's input or output, the most likely first.
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
#: The keys of requested calls next to the text of a response.
_CALLS: Final = ("tool_calls", "toolCalls")
#: `StopEvent(result=…)`: the repr of a Python object, which is not a message.
_OBJECT: Final = re.compile(r"^\s*(?:<[\w.]+ object|[A-Z]\w*\((?:\w+=|\)))")
#: The keys under which recorders keep the arguments of the function that ran.
_ARGUMENT_KEYS: Final = ("input_args", "inputs", "arguments", "kwargs")
#: Maximum depth to which payloads are searched.
_DEEPEST: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """The input or output of a run: messages if it lists them, else its one text. Both None: not captured."""

    messages: tuple[Message, ...] | None = None
    text: str | None = None


def run_input(value: Any) -> Spoken:
    """Return the input of a run."""
    return _spoken(value, _INPUT_KEYS, _QUERY_KEYS, "user")


def run_output(value: Any) -> Spoken:
    """Return the final output of a run."""
    return _spoken(value, _OUTPUT_KEYS, _ANSWER_KEYS, "assistant")


def model_input(value: Any) -> tuple[Message, ...] | None:
    """Return the messages of a request to a model; None if not captured."""
    messages = _messages(parsed(value), _INPUT_KEYS, "user", _DEEPEST)
    return messages if messages is not None else _lone_message(value, _QUERY_KEYS, "user")


def model_output(value: Any) -> tuple[Message, ...] | None:
    """Return the messages of a model's response; None if not captured.

    If a record lists the complete conversation, the response is the last assistant messages; a record that ends with a
    message of another role is not a response.
    """
    messages = _messages(parsed(value), _OUTPUT_KEYS, "assistant", _DEEPEST)
    if messages is None:
        return _lone_message(value, _ANSWER_KEYS, "assistant")
    start = len(messages)
    while start and messages[start - 1].role == "assistant":
        start -= 1
    return messages[start:] or None


def _spoken(value: Any, keys: Sequence[str], text_keys: Sequence[str], role: Role) -> Spoken:
    if value is None or is_redacted(value):
        return Spoken()
    content = parsed(value)
    if isinstance(content, Mapping) and content.keys() >= CALL_KEYS:
        return Spoken(text=_spoken_in_call(content))
    if isinstance(content, str):
        return Spoken(text=None if _OBJECT.match(content) or is_cut(value) else content)
    messages = _messages(content, keys, role, _DEEPEST)
    if messages:
        return Spoken(messages=messages)
    return Spoken(text=_lone_text(content, text_keys))


def _spoken_in_call(call: Mapping[str, Any]) -> str | None:
    """Return the user's text among the arguments of the function that runs the agent: by name, else the first text."""
    named, positional = parsed(call.get("kwargs")), parsed(call.get("args"))
    named = named if isinstance(named, Mapping) else {}
    texts = [item for item in positional if isinstance(item, str)] if isinstance(positional, list) else []
    by_name = next((named[key] for key in _QUERY_KEYS if isinstance(named.get(key), str)), None)
    named_texts = [item for item in named.values() if isinstance(item, str)]
    return by_name or next(iter(texts), None) or (named_texts[0] if named_texts else None)


def _messages(content: Any, keys: Sequence[str], role: Role, depth: int) -> tuple[Message, ...] | None:
    """Return the messages in a payload, under any of the vendors' keys; None if there are no messages."""
    if isinstance(content, list):
        return _listed(content, keys, role, depth)
    if not isinstance(content, Mapping) or depth == 0:
        return None
    if is_message(content):
        message = read_message(content, role)
        return (message,) if message is not None and message.parts else None
    if role == "assistant" and any(isinstance(content.get(key), list) for key in _CALLS):
        message = read_message({"content": content.get("text"), **content}, role)
        return (message,) if message is not None and message.parts else None
    for key in keys:
        inner = parsed(content.get(key))
        if isinstance(inner, (Mapping, list)):
            messages = _messages(inner, keys, role, depth - 1)
            if messages:
                return messages
    return None


def _listed(items: list[Any], keys: Sequence[str], role: Role, depth: int) -> tuple[Message, ...] | None:
    if items and all(is_message(item) for item in items):
        return read_messages(items, role)
    if items and depth and isinstance(items[0], (list, Mapping)):
        # Batches and alternatives: the agent continued with the first.
        return _messages(items[0], keys, role, depth - 1)
    return None


def _lone_message(value: Any, keys: Sequence[str], role: Role) -> tuple[Message, ...] | None:
    if is_cut(value):
        return None
    text = value if isinstance(value, str) and isinstance(parsed(value), str) else _named_text(parsed(value), keys)
    return read_messages(text, role) if text is not None else None


def _lone_text(value: Any, keys: Sequence[str]) -> str | None:
    """Return the query or answer in an object: by key, else its only text."""
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
