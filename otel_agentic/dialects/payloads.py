"""One tolerant reader for what vendors record as "input" and "output" of a run and of a model call.

Function calls (`{"args", "kwargs"}`), requests and responses of model APIs, LangChain states, dumps and callbacks,
LlamaIndex events, Gemini contents. Tool calls are read in `tool_payloads`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.messages import is_message, read_message, read_messages
from otel_agentic.dialects.tool_payloads import CALL_KEYS
from otel_agentic.dialects.values import is_cut, is_redacted, parsed, text_of

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
