"""Read the messages of all conventions into `Message`: roles, text, tool calls and results, in content blocks or lists.

One tolerant reader for GenAI `parts`, OpenAI chat messages and Responses items, Anthropic and Bedrock content blocks,
Gemini contents, Vercel content parts, LangChain dumps and LlamaIndex blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from json import JSONDecoder
from typing import Any, Final, NamedTuple

import orjson

from otel_agentic.dialects.events import CallRequest, CallResult, Message, Part, Redacted, Role, Text
from otel_agentic.dialects.values import (
    arguments_of,
    flat,
    id_of,
    is_redacted,
    parsed,
    read_repr,
    result_of,
    unwrap_dump,
    unwrapped,
)

#: The boundary between JSON objects that are joined in one text.
_SEVERAL: Final = re.compile(r"\}\s*\{")
_JSON: Final = JSONDecoder()
#: Maximum number of parts of a message, and of messages of a list, that are read.
_MOST: Final = 10_000
#: Kinds of parts with text, by the names of the different conventions.
_TEXT_KINDS: Final = frozenset({"text", "input_text", "output_text", ""})
_REQUEST_KINDS: Final = frozenset({"tool_call", "tool-call", "tool_use", "function_call", "toolUse"})
_RESULT_KINDS: Final = frozenset(
    {"tool_call_response", "tool-result", "tool_result", "function_call_output", "toolResult"}
)
#: Kinds that are messages by themselves, without a role (OpenAI Responses).
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
#: Keys that distinguish content blocks in JSON text from a list that a user wrote.
_BLOCK_KEYS: Final = frozenset({"type", "text", *_WRAPPERS})
_CALL_ID_KEYS: Final = ("call_id", "id", "tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "ref")
_ARGUMENT_KEYS: Final = ("arguments", "args", "input", "parameters", "tool_kwargs")
_RESULT_KEYS: Final = ("result", "response", "output", "content")
#: Kinds of parts and items, and roles of messages, with reasoning.
_REASONING_KINDS: Final = ("reasoning", "thinking")
#: Keys of reasoning in a message next to its content, and in a block without a kind (Bedrock).
_REASONING_KEYS: Final = ("reasoning_content", "reasoningContent", "reasoning", "thinking")
_REASONING_TEXTS: Final = (*_REASONING_KEYS, "reasoningText", "reasoning_text", "content", "summary", "text")
#: Maximum depth of the text of a reasoning part.
_REASONING_DEPTH: Final = 8


def is_result(block: Any) -> bool:
    """Return whether a content block is the result of a tool call."""
    return isinstance(block, dict) and (kind_of(block) in _RESULT_KINDS or not _RESULT_WRAPPERS.isdisjoint(block))


def read_parts(content: Any) -> tuple[Part, ...]:
    """Return the parts of a message's content: text, one block, or a list of blocks."""
    blocks = _blocks(content) if isinstance(content, str) else content
    if isinstance(blocks, str):
        return (text_part(blocks),)
    if not isinstance(blocks, (list, dict)):
        return ()
    listed = blocks[:_MOST] if isinstance(blocks, list) else (blocks,)
    return tuple(part for part in map(read_part, listed) if part is not None)


def _blocks(content: str) -> str | list[Any]:
    """Return the content blocks in JSON text, or the text itself if it contains something else."""
    blocks = parsed(content) if content.lstrip().startswith("[") else None
    if isinstance(blocks, list) and blocks and all(isinstance(b, dict) and b.keys() & _BLOCK_KEYS for b in blocks):
        return blocks
    return content


def read_part(block: Any) -> Part | None:
    """Return the part of a content block; None for kinds that are irrelevant to the conversation."""
    if isinstance(block, str):
        return text_part(block)
    if not isinstance(block, dict) or block.get("thought") is True:  # Gemini's reasoning is text with this mark
        return None
    if "type" not in block:
        for key, kind in () if block.keys().isdisjoint(_WRAPPERS) else _WRAPPERS.items():
            if isinstance(block.get(key), dict):
                return _part_of_kind(kind, block[key])
    return _part_of_kind(kind_of(block), block)


def _reasoning(fields: Mapping[str, Any], content: Any) -> tuple[str, ...]:
    """Return the texts of the reasoning parts of a message: blocks of its content, and keys next to it."""
    reasoning: list[str] = []
    if not fields.keys().isdisjoint(_REASONING_KEYS):
        reasoning += _reasoning_texts([fields.get(key) for key in _REASONING_KEYS], _REASONING_DEPTH)
    for block in content[:_MOST] if isinstance(content, list) else ():
        if isinstance(block, dict) and _is_reasoning(block):
            reasoning += _reasoning_texts(block, _REASONING_DEPTH)
    return tuple(dict.fromkeys(reasoning))


def _is_reasoning(block: Mapping[str, Any]) -> bool:
    """Return whether a block, or an item of a list of messages, is reasoning.

    Gemini marks text as a thought, Bedrock names the kind by the key, OpenLLMetry uses a role.
    """
    if "role" in block:
        return block["role"] in _REASONING_KINDS
    named_by_key = "type" not in block and isinstance(block.get("reasoningContent"), dict)
    return named_by_key or block.get("thought") is True or kind_of(block) in _REASONING_KINDS


def _reasoning_texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip() and not is_redacted(value):
            yield value
    elif isinstance(value, list) and depth > 0:
        for item in value[:_MOST]:
            yield from _reasoning_texts(item, depth - 1)
    elif isinstance(value, dict):
        yield from _reasoning_texts([value.get(key) for key in _REASONING_TEXTS], depth - 1)


def kind_of(fields: Mapping[str, Any]) -> str:
    """Return the kind of a block or message, or the empty text."""
    kind = fields["type"] if "type" in fields else fields.get("block_type")
    return "" if kind is None else str(kind)  # text, except in malicious spans


def _part_of_kind(kind: str, block: Mapping[str, Any]) -> Part | None:
    if kind in _REQUEST_KINDS:
        return _request(block)
    if kind in _RESULT_KINDS:
        return _result(block)
    if kind not in _TEXT_KINDS:
        return None
    text = block.get("content", block.get("text"))
    if isinstance(text, str):
        return text_part(text)
    # If content capture is off, SDKs write a text part without its text.
    return Redacted() if kind else None


def _result(block: Mapping[str, Any]) -> CallResult:
    result = parsed(first_of(block, _RESULT_KEYS))
    kind = result.get("type") if isinstance(result, dict) else None
    return CallResult(
        call_id=_call_id(block),
        name=first_text(block, ("name", "toolName")),
        result=result_of(unwrapped(result) if "response" in block else result),
        captured=any(key in block for key in _RESULT_KEYS) and not is_redacted(result),
        is_error=block.get("is_error") is True
        or block.get("error") is True
        or block.get("status") == "error"
        or (isinstance(kind, str) and kind.startswith("error-")),  # Vercel
    )


def _request(block: Mapping[str, Any]) -> CallRequest | None:
    name = first_text(block, ("name", "toolName", "tool_name"))
    if name is None:
        return None
    arguments_value = first_of(block, _ARGUMENT_KEYS)
    # The joined arguments of several calls cannot be used (BeeAI joins parallel calls).
    arguments = (
        None
        if isinstance(arguments_value, str) and _SEVERAL.search(arguments_value) and _is_joined_json(arguments_value)
        else arguments_of(arguments_value)
    )
    return CallRequest(call_id=_call_id(block), name=name, arguments=arguments)


def _is_joined_json(text: str) -> bool:
    """Return whether a text consists of several JSON objects, one after the other.

    >>> _is_joined_json('{"city": "Rome"}{"city": "Oslo"}'), _is_joined_json('{"code": "f({}){}"}')
    (True, False)
    """
    try:
        _, end = _JSON.raw_decode(text.lstrip())
    except ValueError:
        return False
    return text.lstrip()[end:].lstrip().startswith("{")


def listed_calls_of(value: Any) -> Iterable[CallRequest]:
    """Yield the calls of a list next to the content."""
    calls = parsed(value)
    for entry in calls if isinstance(calls, list) else ():
        call = parsed(entry)  # an attribute may be a list of texts, but not of objects (LiveKit)
        if not isinstance(call, dict):
            continue
        inner = call.get("tool_call", call)  # OpenInference nests one level more
        inner = inner if isinstance(inner, dict) else call
        function = inner.get("function")
        fields = {**inner, **function, "id": inner.get("id")} if isinstance(function, dict) else inner
        request = _request(fields)
        if request is not None:
            yield request


def text_part(text: str) -> Part:
    """Return a text as a part of a message: `Redacted` for a redaction mark, else `Text`."""
    return Redacted() if is_redacted(text) else Text(content=text)


def _call_id(block: Mapping[str, Any]) -> str | None:
    return id_of(first_text(block, _CALL_ID_KEYS))


def first_of(fields: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the value of the first key that exists."""
    for key in keys:
        if key in fields:
            return fields[key]
    return None


def first_text(fields: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """Return the value of the first key that exists, or None if that value is not text or is empty."""
    text = first_of(fields, keys)
    return text if isinstance(text, str) and text else None


_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    "tool-call": "assistant",
    "tool-response": "tool",
}
_PAIR: Final = 2
#: The keys of a message of the GenAI conventions.
_GENAI_KEYS: Final = frozenset({"role", "parts", "finish_reason", "name"})
#: A record with one of these keys is itself a message.
_SPEAKS: Final = frozenset({"role", "parts", "content", "type"})
#: The keys of a message's content, the most certain first.
_CONTENT_KEYS: Final = ("parts", "content", "blocks")
_ITEM_KINDS: Final = frozenset({"message", "tool_call", "tool_use", "function_call", "function_call_output"})
#: Maximum number of cached messages, and their maximum size in bytes; histories repeat messages.
_MOST_KEPT: Final = 4096
_SHORT: Final = 2048
_cached: dict[bytes | tuple[bytes, Role], Message | None] = {}


class _ReadList(NamedTuple):
    """A list of messages that was read from JSON text; `start` is the text without its closing bracket."""

    start: str
    messages: tuple[Message, ...]


#: The input lists that were read last: the next model call of a trace mostly repeats one of them and adds messages. The
#: tuple is replaced and never changed, because several threads read.
_last_lists: tuple[_ReadList, ...] = ()
#: Number of these lists (agents that take turns have histories of their own), and their maximum length in characters.
_MOST_LISTS: Final = 4
_LONGEST_LIST: Final = 1_000_000


def read_messages(value: Any, default_role: Role = "user") -> tuple[Message, ...] | None:
    """Return the messages of an attribute, event or log body; None when nothing was captured.

    Args:
        value: JSON text or a structured value: a list of messages, one message, `{"messages": […]}`, or plain text.
        default_role: the role of messages without one.
    """
    if default_role == "user" and isinstance(value, str) and value.startswith("["):
        return _read_list(value)
    return _read_content(value, parsed(value), default_role)


def _read_list(text: str) -> tuple[Message, ...] | None:
    """Return the messages of an input list in JSON text; if it begins with a list read before, only the rest is parsed."""
    for known in _last_lists:
        if not text.startswith(known.start):
            continue
        rest = text[len(known.start) :].strip()
        if rest == "]":
            return known.messages
        added = parsed(f"[{rest[1:]}") if rest.startswith(",") else None
        if isinstance(added, list) and len(known.messages) + len(added) <= _MOST:
            new_messages = _messages(added, "user", _read_cached)
            messages = known.messages + new_messages
            if len(new_messages) == len(added):
                _remember(text, messages)
            return messages
    content = parsed(text)
    listed = _read_content(text, content, "user")
    # Each item must be a message on its own: reasoning belongs to the next message, which may be the first of the rest.
    if listed and isinstance(content, list) and len(content) == len(listed) and not isinstance(content[-1], list):
        _remember(text, listed)
    return listed


def _remember(text: str, messages: tuple[Message, ...]) -> None:
    """Keep a list for the next one that begins with it."""
    global _last_lists  # noqa: PLW0603 — a cache
    if len(text) <= _LONGEST_LIST:
        read = _ReadList(text[: text.rindex("]")].rstrip(), messages)
        others = [known for known in _last_lists if not text.startswith(known.start)]
        _last_lists = (read, *others[: _MOST_LISTS - 1])


def _read_content(value: Any, content: Any, default_role: Role) -> tuple[Message, ...] | None:
    if content is None:
        return None
    if isinstance(content, dict) and isinstance(content.get("messages"), list):
        content = content["messages"]
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], list):
        content = content[0]  # LangChain batches its prompts
    if isinstance(content, str):
        return (Message(role=default_role, parts=(text_part(content),)),)
    items = content[-_MOST:] if isinstance(content, list) else [content]
    read_one = _read_cached if isinstance(value, str) else read_message
    return _messages(items, default_role, read_one)


def _messages(
    items: Iterable[Any], default_role: Role, read_one: Callable[[Any, Role], Message | None]
) -> tuple[Message, ...]:
    """Return the messages of a list; reasoning with an item of its own belongs to the message after it."""
    messages: list[Message] = []
    pending: tuple[str, ...] = ()
    for item in items:
        if isinstance(item, dict) and _is_reasoning(item):
            pending += tuple(_reasoning_texts(item, _REASONING_DEPTH))
        elif (message := read_one(item, default_role)) is not None:
            if pending and message.role == "assistant":
                message = replace(message, reasoning=(*pending, *message.reasoning))
            messages.append(message)
            pending = ()
    return tuple(messages)


def _read_cached(value: Any, default_role: Role) -> Message | None:
    """Return one message of JSON text, cached, because each model call repeats all messages before it."""
    text = orjson.dumps(value)
    if len(text) > _SHORT:
        return read_message(value, default_role)
    message = _cached.get(text) or _cached.get((text, default_role))
    if message is None:
        # A message of the GenAI conventions states its role, so it is the same as a response and in a later input.
        key: bytes | tuple[bytes, Role] = text
        message = _genai_message(value)
        if message is None:
            key, message = (text, default_role), _any_message(value, default_role)
        if len(_cached) >= _MOST_KEPT:
            _cached.clear()
        _cached[key] = message
    return message


def flattened(attributes: Mapping[str, Any], prefix: str, default_role: Role) -> tuple[Message, ...] | None:
    """Return the messages flattened as `prefix.0.role`, `prefix.0.content`, …; None if all of them are empty.

    OpenInference puts `message.` before each field, and `message_content.` before those of a content block.
    """
    tree = flat(attributes, prefix)
    if not isinstance(tree, list):
        return None
    items = [item.get("message", item) for item in tree if isinstance(item, dict)]
    messages = _messages(map(_plain, items), default_role, read_message)
    # LangChain's chains flatten the role of their input's first message but not its text.
    return messages if any(message.parts for message in messages) else None


def _plain(message: Any) -> Any:
    """Return a flattened message in the shape of OpenAI's: content blocks lose their prefix."""
    if not isinstance(message, dict):
        return message
    blocks = message.get("contents")
    if not isinstance(blocks, list) or "content" in message:
        return message
    return {
        **message,
        "content": [block.get("message_content", block) for block in blocks if isinstance(block, dict)],
    }


def _fields(value: Any) -> Any:
    """Return the fields of a message in the notation of its framework, or the value itself if it is not a message."""
    if isinstance(value, str):
        fields = _message_fields(value)
        return value if fields is None else _fields(fields)
    if isinstance(value, dict) and "_role" in value:
        return _plain_fields(value)  # Haystack
    if isinstance(value, dict) and value.get("role") == "tool-call":
        return _with_listed_calls(value)  # smolagents
    if isinstance(value, list) and len(value) == _PAIR and all(isinstance(item, str) for item in value):
        role, content = value  # LangChain takes pairs of role and text
        return {"role": role, "content": content} if role.lower() in _ROLES else value
    if isinstance(value, dict) and isinstance(value.get("message"), dict) and value.keys().isdisjoint(_SPEAKS):
        value = value["message"]  # one of the choices of a response
    return unwrap_dump(value)


def is_message(value: Any) -> bool:
    """Return whether a value is one message, or an item that replaces one (a lone call or result)."""
    fields = _fields(value)
    if not isinstance(fields, dict):
        return False
    if isinstance(fields.get("parts"), list) or isinstance(fields.get("role"), str):
        return True
    kind = kind_of(fields)
    return kind in _ITEM_KINDS or (kind.lower() in _ROLES and "content" in fields)


def read_message(value: Any, default_role: Role = "user") -> Message | None:
    """Return one message; None when the value is not one.

    A message of role `tool` contains only results, in any shape of its content.
    """
    message = _genai_message(value)
    return _any_message(value, default_role) if message is None else message


def _genai_message(value: Any) -> Message | None:
    """Return a message of the GenAI conventions, None for any other; most have this shape, so it is examined first."""
    if not isinstance(value, dict) or not value.keys() <= _GENAI_KEYS:
        return None
    name, blocks = value.get("role"), value.get("parts")
    role = _ROLES.get(name) if isinstance(name, str) and name != "tool-call" else None
    if role is None or not isinstance(blocks, list):
        return None
    reasoning = _reasoning({}, blocks) if role == "assistant" else ()
    return Message(role=role, parts=read_parts(blocks), reasoning=reasoning)


def _any_message(value: Any, default_role: Role) -> Message | None:
    fields = _fields(value)
    if isinstance(fields, str):
        return Message(role=default_role, parts=(text_part(fields),))
    if not isinstance(fields, dict):
        return None
    if "role" not in fields and kind_of(fields) in CALL_KINDS:
        part = read_part(fields)  # an item of the Responses API
        return Message(role="assistant" if isinstance(part, CallRequest) else "tool", parts=(part,)) if part else None
    inner = fields.get("content")
    if isinstance(inner, dict) and isinstance(inner.get("parts"), list):
        fields = {**fields, **inner}  # Gemini's content inside another record
    role = _role(fields, default_role)
    if role == "tool" and ("parts" not in fields or "tool_call_id" in fields):
        return _tool_message(fields)
    content = first_of(fields, _CONTENT_KEYS)
    if isinstance(content, str):
        content = _blocks(content)
    parts = list(read_parts(content))
    listed = _listed_calls(fields)
    if listed:  # LangChain lists the calls of Anthropic's content blocks a second time
        requested = {part.call_id for part in parts if isinstance(part, CallRequest) and part.call_id is not None}
        parts += [request for request in listed_calls_of(listed) if request.call_id not in requested]
    if not parts and _role_name(fields) not in _ROLES:
        return None  # an item of another kind: a search, a file
    reasoning = _reasoning(_with_extra(fields), content) if role == "assistant" else ()
    return Message(role=role, parts=tuple(parts), reasoning=reasoning)


def _listed_calls(fields: Mapping[str, Any]) -> Any:
    """Return the tool calls listed next to the content; LangChain and LlamaIndex keep the provider's own elsewhere."""
    extra = fields.get("additional_kwargs")
    return (
        fields.get("tool_calls")
        or fields.get("toolCalls")
        or (extra.get("tool_calls") if isinstance(extra, dict) else None)
    )


def _role(fields: Mapping[str, Any], default: Role) -> Role:
    return _ROLES.get(_role_name(fields), default)


def _role_name(fields: Mapping[str, Any]) -> str:
    name = fields.get("role") or fields.get("type")
    return name.lower() if isinstance(name, str) else ""


def _tool_message(fields: Mapping[str, Any]) -> Message | None:
    content = parsed(first_of(fields, ("content", "blocks", "parts")))
    if isinstance(content, dict) and content.get("type") == "function" and "function" in content:
        return None  # Langfuse lists the definitions of the tools among the messages
    if isinstance(content, list) and content and all(is_result(block) for block in content):
        return Message(role="tool", parts=tuple(part for block in content if (part := read_part(block))))
    result = CallResult(
        call_id=id_of(first_text(_with_extra(fields), ("tool_call_id", "toolCallId", "id"))),
        name=first_text(fields, ("name",)),
        result=result_of(content),
        captured=bool(fields.keys() & {"content", "blocks", "parts"}) and not is_redacted(content),
        is_error=fields.get("status") == "error" or fields.get("is_error") is True,
    )
    return Message(role="tool", parts=(result,))


def _with_extra(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = fields.get("additional_kwargs")
    return {**extra, **fields} if isinstance(extra, dict) else fields


_MESSAGE_REPR: Final = re.compile(r"^\w*Message\(")
_CLASS_KEY: Final = "__class__"
#: The kind of message part of a class, by its name; the first match.
_PART_KINDS: Final = (
    (
        re.compile(r"ToolCallResult|ToolResult|ToolReturn|FunctionCallOutput|FunctionExecutionResult"),
        "tool_call_response",
    ),
    (re.compile(r"ToolCall|FunctionCall|ToolUse"), "tool_call"),
    (re.compile(r"Text"), "text"),
)


def _message_fields(text: str) -> Mapping[str, Any] | None:
    """Return the fields of a message in a repr, with the keys of JSON messages; None if it is not a message.

    >>> _message_fields("ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])")
    {'role': 'user', 'content': [{'text': 'Hi', 'type': 'text'}]}
    """
    if _MESSAGE_REPR.match(text) is None:
        return None
    fields = _plain_fields(read_repr(text, class_key=_CLASS_KEY))
    return fields if isinstance(fields, Mapping) and isinstance(fields.get("role"), str) else None


def _with_listed_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with the text `Calling tools:` and a list as a message that lists these calls (smolagents)."""
    content = message.get("content")
    block = content[0] if isinstance(content, list) and len(content) == 1 else content
    text = block.get("text") if isinstance(block, dict) else block
    calls = read_repr(text.partition(":\n")[2]) if isinstance(text, str) else None
    return {"role": "assistant", "tool_calls": calls} if isinstance(calls, list) else message


def _plain_fields(value: Any) -> Any:
    """Return a message's fields without the underscores of private ones, with each part's class as its type."""
    if isinstance(value, list):
        return [_plain_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key.lstrip("_"): _plain_fields(item) for key, item in value.items() if key != _CLASS_KEY}
    kind = next((part for pattern, part in _PART_KINDS if pattern.search(str(value.get(_CLASS_KEY, "")))), None)
    if kind is None or fields.get("type") is not None:
        return fields
    origin = fields.pop("origin", None)  # Haystack: the call that a result answers
    if isinstance(origin, Mapping):
        fields |= {"call_id": origin.get("id"), "name": origin.get("tool_name")}
    return {**fields, "type": kind}
