"""Reading strangers' values: JSON in text, redaction marks, arguments and results in their many wrappings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What SDKs put in the place of content that they removed.
_REDACTION: Final = re.compile(
    r"^\s*(?:__REDACTED__|\[Scrubbed due to .*\]|<elided>|\[REDACTED\]|readacted)\s*$", re.DOTALL
)
#: JSON text worth parsing: a container or a quoted string. Bare numbers stay text, their digits may be an identifier.
_JSON_START: Final = re.compile(r'^\s*[\[{"]')
#: JSON text nested deeper than this stays text: nobody means it, and writing it again would fail.
_MAX_DEPTH: Final = 100
#: Flattened keys with more parts than this, or indices with more digits, are no message.
_MAX_PATH: Final = 32
_MAX_DIGITS: Final = 9
#: What stands where there is no id: `<not specified>` (google-adk), and how languages write nothing.
_NO_ID: Final = re.compile(r"(?:<[^>]*>|null|none|undefined|nan)?", re.IGNORECASE)
#: The key that holds a lone argument whose parameter name the instrumentation dropped.
UNNAMED_ARGUMENT: Final = "input"
#: Kinds of LangChain message dumps.
_TOOL_MESSAGE_KEYS: Final = frozenset({"content", "tool_call_id"})
_TEXT_BLOCK_KEYS: Final = frozenset({"type", "block_type", "text", "id", "index", "annotations"})
#: What Vercel calls the kinds of a tool's output.
_VALUE_KINDS: Final = ("text", "json", "error-text", "error-json", "content")


def is_redacted(value: object) -> bool:
    """Return whether the value is a mark that content was removed.

    >>> is_redacted("[Scrubbed due to 'session']")
    True
    """
    return isinstance(value, str) and len(value) < 200 and _REDACTION.match(value) is not None  # noqa: PLR2004 — marks are short; no regex on megabytes


def parsed(value: Any) -> Any:
    """Return the value with JSON text read once; text that is not a JSON container or string stays as it is.

    >>> parsed('{"a": 1}'), parsed("255.0"), parsed('"quoted"')
    ({'a': 1}, '255.0', 'quoted')
    """
    if not isinstance(value, str) or _JSON_START.match(value) is None:
        return value
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    # Few brackets cannot nest deeply, so that nearly all text is spared the walk.
    shallow = value.count("[") + value.count("{") <= _MAX_DEPTH
    return found if shallow or _depth(found) <= _MAX_DEPTH else value


def is_cut(value: object) -> bool:
    """Return whether the value is JSON text whose end is missing: what a length limit leaves of it.

    >>> is_cut('{"args": ["Which ho'), is_cut('{"a": 1} is no JSON')
    (True, False)
    """
    if not isinstance(value, str) or _JSON_START.match(value) is None:
        return False
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return error.pos >= len(value)
    return False


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level:
        containers = [item for item in level if isinstance(item, (list, dict))]
        level = [inner for item in containers for inner in (item.values() if isinstance(item, dict) else item)]
        depth += bool(containers)
    return depth


def text_of(value: Any) -> str | None:
    """Return the value as text: text as it is, anything else as JSON; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return orjson.dumps(value, default=str).decode()
    except (TypeError, orjson.JSONEncodeError):
        return str(value)


def id_of(value: Any) -> str | None:
    """Return an identifier as text, None for one that is empty, a placeholder or redacted.

    >>> id_of("call_1"), id_of(7), id_of("<not specified>"), id_of("null")
    ('call_1', '7', None, None)
    """
    text = text_of(value)
    return None if text is None or is_redacted(text) or _NO_ID.fullmatch(text.strip()) else text


def arguments_of(value: Any) -> Mapping[str, Any] | None:
    """Return a call's arguments as an object, None when they were not captured.

    A lone value without a parameter name is kept under `input`.

    >>> arguments_of('{"city": "Paris"}'), arguments_of("Paris"), arguments_of("")
    ({'city': 'Paris'}, {'input': 'Paris'}, {})
    """
    if value is None or is_redacted(value):
        return None
    if isinstance(value, str) and not value.strip():
        return {}
    found = parsed(value)
    if isinstance(found, str):
        found = parsed(found)  # JSON text inside JSON text
    if isinstance(found, dict):
        return found
    return {UNNAMED_ARGUMENT: found}


def has_named_arguments(arguments: Mapping[str, Any] | None) -> bool:
    """Return whether parameter names are known, rather than one value that lost its name."""
    return arguments is not None and set(arguments) != {UNNAMED_ARGUMENT}


def unwrap_dump(value: Any) -> Any:
    """Return the fields of a serialised LangChain object, whichever of its three shapes it has.

    The shapes are `{"lc": 1, "kwargs": {…}}`, `{"type": "tool", "data": {…}}` and the fields themselves.
    """
    if not isinstance(value, dict):
        return value
    if "lc" in value and isinstance(value.get("kwargs"), dict):
        return {"type": _class_role(value.get("id")), **value["kwargs"]}
    if "type" in value and isinstance(value.get("data"), dict):
        return {"type": value["type"], **value["data"]}
    return value


def _class_role(path: Any) -> str:
    """Return `human` for `[…, "HumanMessage"]`, the path of a serialised class."""
    name = path[-1] if isinstance(path, list) and path and isinstance(path[-1], str) else ""
    return name.removesuffix("Chunk").removesuffix("Message").lower()


def tool_message(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a serialised tool message, None when the value is not one."""
    fields = unwrap_dump(value)
    if isinstance(fields, dict) and fields.keys() >= _TOOL_MESSAGE_KEYS:
        return fields
    return None


def result_of(value: Any) -> Any:
    """Return what a tool answered, with JSON text read and a list of one text or JSON block undone.

    >>> result_of('[{"type": "text", "text": "21 °C"}]'), result_of({"type": "json", "value": [1]})
    ('21 °C', [1])
    """
    found = parsed(value)
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        block = found[0]
        if isinstance(block.get("text"), str) and set(block) <= _TEXT_BLOCK_KEYS:
            return parsed(block["text"])
        if set(block) == {"type", "content"} and block["type"] == "text" and isinstance(block["content"], str):
            return parsed(block["content"])  # a part of the GenAI conventions
        if set(block) == {"json"}:  # Bedrock
            return block["json"]
    if isinstance(found, dict) and set(found) == {"type", "value"} and found["type"] in _VALUE_KINDS:
        return found["value"]
    return found


def unwrapped(value: Any) -> Any:
    """Return what Gemini's convention wraps, for it wants every tool result to be an object.

    >>> unwrapped({"result": 3}), unwrapped({"temperature": 3})
    (3, {'temperature': 3})
    """
    return value["result"] if isinstance(value, dict) and set(value) == {"result"} else value


def flat(attributes: Mapping[str, Any], prefix: str) -> Any:
    """Return the tree that flattened keys `prefix.0.a.b` spell, lists in numeric order; None when there is none.

    >>> flat({"m.10.role": "b", "m.9.role": "a"}, "m")
    [{'role': 'a'}, {'role': 'b'}]
    """
    root: dict[str, Any] = {}
    start = prefix + "."
    for key, value in attributes.items():
        if not key.startswith(start):
            continue
        path = key[len(start) :].split(".")
        if len(path) <= _MAX_PATH:
            _plant(root, path, value)
    return _lists(root) if root else None


def _plant(node: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        below = node.get(part)
        if not isinstance(below, dict):
            below = node[part] = {}
        node = below
    if not isinstance(node.get(path[-1]), dict):
        node[path[-1]] = value


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    children = {key: _lists(child) for key, child in node.items()}
    if children and all(key.isdecimal() and len(key) <= _MAX_DIGITS for key in children):
        return [children[key] for key in sorted(children, key=lambda key: (int(key), key))]
    return children
