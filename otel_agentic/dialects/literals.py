"""Reads Python's own notation of containers and objects, which some SDKs write instead of JSON.

It is parsed by hand instead of by `ast`: a repr may contain objects that Python cannot parse (`<Status.DONE: 1>`), and untrusted
text must not reach a compiler. One pass over a bounded text, bounded in depth. Haystack, LlamaIndex and smolagents record
messages this way: `ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[…])`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

#: Longer text is not read.
_MAX_LENGTH: Final = 262_144
_MAX_DEPTH: Final = 60
_MAX_DIGITS: Final = 1000  # Python refuses to read thousands of them
#: The start of a repr that is read: a container, or a call such as `Name(a=1)`.
_START: Final = re.compile(r"\s*(?:[\[{(]|[A-Za-z_][\w.]*\()")
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<text>[rb]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
    | (?P<number>-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|inf|nan)\b)
    | (?P<name>[A-Za-z_][\w.]*)
    | (?P<object><(?:[^<>'"]|'[^']*'|"[^"]*")*>)
    | (?P<mark>[\[\](){},:=])
    )""",
    re.VERBOSE | re.DOTALL,
)
#: `<Role.USER: 'user'>`: a member of an enumeration of texts.
_MEMBER: Final = re.compile(r"^\s*<[\w.]+: ('(?:[^'\\]|\\.)*')>$")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))", re.DOTALL)
_PLAIN_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
_CONSTANTS: Final = {"None": None, "True": True, "False": False}
_CLOSING: Final = {"[": "]", "(": ")"}
_HIGHEST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class _NotARepr(ValueError):  # noqa: N818 — never leaves this file
    """The text is not a Python repr, or it is too large."""


def read_repr(text: object, *, class_key: str | None = None) -> Any:
    """Return the container in a Python repr, or None if the text is not such a repr.

    Containers become dictionaries, and lists for lists, tuples and sets; an object `Name(a=1)` becomes a dictionary of its
    fields, with its class under `class_key` if that is set; a member of a text enumeration becomes its text, and other
    objects in angle brackets become None.

    >>> read_repr("{'city': 'Oslo', 'calm': True}")
    {'city': 'Oslo', 'calm': True}
    >>> read_repr("Call(name='add', arguments='{}', status=None)")
    {'name': 'add', 'arguments': '{}', 'status': None}
    >>> read_repr("Booked (see below).") is None
    True
    """
    if not isinstance(text, str) or len(text) > _MAX_LENGTH or _START.match(text) is None:
        return None
    try:
        container = _Reading(text.rstrip(), class_key).container()
    except _NotARepr:
        return None
    return container if isinstance(container, (dict, list)) else None


class _Reading:
    """One pass over the text of a repr."""

    def __init__(self, text: str, class_key: str | None) -> None:
        self._text = text
        self._class_key = class_key
        self._at = 0

    def container(self) -> Any:
        value = self._value(0)
        if self._at != len(self._text):
            raise _NotARepr
        return value

    def _take(self) -> tuple[str, str]:
        token = _TOKEN.match(self._text, self._at)
        if token is None or token.lastgroup is None:
            raise _NotARepr
        self._at = token.end()
        return token.lastgroup, token[token.lastgroup]

    def _took(self, mark: str) -> bool:
        token = _TOKEN.match(self._text, self._at)
        if token is None or token["mark"] != mark:
            return False
        self._at = token.end()
        return True

    def _expect(self, mark: str) -> None:
        if not self._took(mark):
            raise _NotARepr

    def _value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise _NotARepr
        kind, piece = self._take()
        if kind == "text":
            return _unescaped(piece)
        if kind == "number":
            return _number(piece)
        if kind == "object":
            member = _MEMBER.search(piece)
            return None if member is None else _unescaped(member[1])
        if kind == "name":
            return self._object(piece, depth + 1) if self._took("(") else _CONSTANTS.get(piece)
        if piece == "{":
            return self._braces(depth + 1)
        if piece in _CLOSING:
            return self._items(_CLOSING[piece], depth + 1)
        raise _NotARepr

    def _items(self, closing: str, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._took(closing):
            items.append(self._value(depth))
            if not self._took(","):
                self._expect(closing)
                break
        return items

    def _braces(self, depth: int) -> dict[str, Any] | list[Any]:
        if self._took("}"):
            return {}
        first = self._value(depth)
        if not self._took(":"):
            return [first, *self._rest_of_set(depth)]
        fields = {str(first): self._value(depth)}
        while not self._took("}"):
            self._expect(",")
            if self._took("}"):
                break
            key = self._value(depth)
            self._expect(":")
            fields[str(key)] = self._value(depth)
        return fields

    def _rest_of_set(self, depth: int) -> list[Any]:
        if self._took(","):
            return self._items("}", depth)
        self._expect("}")
        return []

    def _object(self, name: str, depth: int) -> dict[str, Any]:
        fields = self._fields(depth)
        return fields if self._class_key is None else {**fields, self._class_key: name}

    def _fields(self, depth: int) -> dict[str, Any]:
        """Return the fields of an object; fields without a name get their number."""
        fields: dict[str, Any] = {}
        while not self._took(")"):
            start = self._at
            kind, token = self._take()
            if kind == "name" and self._took("="):
                fields[token] = self._value(depth)
            else:
                self._at = start
                fields[str(len(fields))] = self._value(depth)
            if not self._took(","):
                self._expect(")")
                break
        return fields


def _number(token: str) -> int | float:
    return int(token) if token.lstrip("-").isdecimal() and len(token) < _MAX_DIGITS else float(token)


def _unescaped(token: str) -> str:
    prefixed = token[0] in "rb"
    inner = token[2:-1] if prefixed else token[1:-1]
    return inner if "\\" not in inner or token[0] == "r" else _ESCAPE.sub(_escaped, inner)


def _escaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code is None:
        return _PLAIN_ESCAPES.get(match[4], match[4])
    point = int(code, 16)
    # A lone surrogate could not be encoded again.
    return chr(point) if point <= _HIGHEST_CODE_POINT and point not in _SURROGATES else "�"


_MESSAGE: Final = re.compile(r"^\w*Message\(")
#: An object with its class, or only its fields, with spaces between them (pydantic).
_RECORD: Final = re.compile(r"\s*[A-Za-z_][\w.]*[=(]")
_FIELDS: Final = re.compile(r"\s*[A-Za-z_]\w*=")
#: A quoted text, or the space before a field.
_TEXT_OR_GAP: Final = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?<![,(\[{])\s+(?=[A-Za-z_]\w*=)""", re.DOTALL
)
_CLASS: Final = "__class__"
#: The kind of message part of a class, by its name; the first match.
_PARTS: Final = (
    (
        re.compile(r"ToolCallResult|ToolResult|ToolReturn|FunctionCallOutput|FunctionExecutionResult"),
        "tool_call_response",
    ),
    (re.compile(r"ToolCall|FunctionCall|ToolUse"), "tool_call"),
    (re.compile(r"Text"), "text"),
)


def record_fields(text: object) -> Mapping[str, Any] | None:
    """Return the fields of an object in a repr, with or without its class; None if the text is not such a repr.

    >>> record_fields("content='12' name='seats' tool_call_id='c1'")
    {'content': '12', 'name': 'seats', 'tool_call_id': 'c1'}
    >>> record_fields("Result(content=[Text(type='text', text='12')], isError=False)")
    {'content': [{'type': 'text', 'text': '12'}], 'isError': False}
    """
    if not isinstance(text, str) or _RECORD.match(text) is None:
        return None
    if _FIELDS.match(text) is not None:
        text = f"Record({_TEXT_OR_GAP.sub(lambda match: match[1] or ', ', text.strip())})"
    fields = read_repr(text)
    return fields if isinstance(fields, Mapping) else None


def message_fields(text: str) -> Mapping[str, Any] | None:
    """Return the fields of a message in a repr, with the keys of JSON messages; None if it is not a message.

    >>> message_fields("ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Hi')])")
    {'role': 'user', 'content': [{'text': 'Hi', 'type': 'text'}]}
    """
    if _MESSAGE.match(text) is None:
        return None
    fields = plain_fields(read_repr(text, class_key=_CLASS))
    return fields if isinstance(fields, Mapping) and isinstance(fields.get("role"), str) else None


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
