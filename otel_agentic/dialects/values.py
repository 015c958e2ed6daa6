"""Reading strangers' values: JSON in text, redaction marks, arguments and results in their many wrappings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

#: What SDKs put in the place of content that they removed.
_REDACTION: Final = re.compile(r"^\s*(?:__REDACTED__|\[Scrubbed due to .*\]|<elided>|\[REDACTED\])\s*$", re.DOTALL)
#: JSON text worth parsing: a container or a quoted string. Bare numbers stay text, their digits may be an identifier.
_JSON_START: Final = re.compile(r'^\s*[\[{"]')
#: The key that holds a lone argument whose parameter name the instrumentation dropped.
UNNAMED_ARGUMENT: Final = "input"
#: Kinds of LangChain message dumps.
_TOOL_MESSAGE_KEYS: Final = frozenset({"content", "tool_call_id"})


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
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


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
    if isinstance(found, Mapping):
        return found
    return {UNNAMED_ARGUMENT: found}


def has_named_arguments(arguments: Mapping[str, Any] | None) -> bool:
    """Return whether parameter names are known, rather than one value that lost its name."""
    return arguments is not None and set(arguments) != {UNNAMED_ARGUMENT}


def unwrap_dump(value: Any) -> Any:
    """Return the fields of a serialised LangChain object, whichever of its three shapes it has.

    The shapes are `{"lc": 1, "kwargs": {…}}`, `{"type": "tool", "data": {…}}` and the fields themselves.
    """
    if not isinstance(value, Mapping):
        return value
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        return value["kwargs"]
    if "type" in value and isinstance(value.get("data"), Mapping):
        return {"type": value["type"], **value["data"]}
    return value


def tool_message(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a serialised tool message, None when the value is not one."""
    fields = unwrap_dump(value)
    if isinstance(fields, Mapping) and fields.keys() >= _TOOL_MESSAGE_KEYS:
        return fields
    return None


def result_of(value: Any) -> Any:
    """Return what a tool answered, with JSON text read and a list of one text block undone."""
    found = parsed(value)
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], Mapping):
        block = found[0]
        if isinstance(block.get("text"), str) and set(block) <= {"type", "text", "id", "index", "annotations"}:
            return parsed(block["text"])
    return found


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
        node = root
        *path, leaf = key[len(start) :].split(".")
        for part in path:
            below = node.get(part)
            if not isinstance(below, dict):
                below = node[part] = {}
            node = below
        if not isinstance(node.get(leaf), dict):
            node[leaf] = value
    return _lists(root) if root else None


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    children = {key: _lists(child) for key, child in node.items()}
    if children and all(key.isdecimal() for key in children):
        return [children[key] for key in sorted(children, key=int)]
    return children
