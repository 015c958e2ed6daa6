"""Values of OTLP/JSON -> plain Python, by the mapping of `google.protobuf.json_format`, read tolerantly.

Wrong containers (for example an attribute list that is an object) raise `DecodeError`, because protobuf would refuse the
request, too; wrong scalars never do.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from otel_agentic.errors import DecodeError
from otel_agentic.spans.items import require_few_json_items
from otel_agentic.spans.sanitize import (
    CUT_ATTRIBUTES,
    CUT_DEPTH,
    MAX_DEPTH,
    MENDED_BYTES,
    MENDED_NUMBER,
    clean_bytes,
    clean_float,
    clean_int,
    clean_name,
    clean_text,
    first_of,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from otel_agentic.spans.limits import Limits

#: At most as many digits as an unsigned 64-bit number has: longer numbers never fit and take quadratic time to read.
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")


def load_json(data: bytes, limits: Limits) -> Any:
    """Return the JSON value in the bytes.

    orjson reads nearly everything. Python's own parser reads the input that orjson refuses although senders write it: NaN, a
    lone surrogate, a number beyond a double, a byte order mark.

    Raises:
        DecodeError: the bytes are not UTF-8, not JSON, or nested too deeply.
        TooLargeError: they hold more than `max_items` objects, lists and values.
    """
    require_few_json_items(data, limits)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return _load_carefully(data)


def _load_carefully(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"), parse_int=_short_int)
    except UnicodeDecodeError as error:
        raise DecodeError(f"not JSON: byte {data[error.start]:#04x} at position {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise DecodeError("not OTLP/JSON: nested too deeply") from error
    except ValueError as error:
        raise DecodeError(f"not JSON: {error}") from error


def _short_int(digits: str) -> int | str:
    return int(digits) if _INTEGER.fullmatch(digits) else digits


def pick(holder: Mapping[str, Any], camel: str, snake: str) -> Any:
    """Return a field by its OTLP/JSON name, or by the snake_case name that some senders write; None if unset."""
    value = holder.get(camel)
    return holder.get(snake) if value is None else value


def objects(holder: Mapping[str, Any], camel: str, snake: str) -> list[dict[str, Any]]:
    """Return a repeated field of messages, empty if unset; if both spellings have items, the items of both.

    Raises:
        DecodeError: the field has another type; names it.
    """
    items = _listed(holder.get(camel), camel)
    more = _listed(holder.get(snake), camel) if snake != camel else None
    return [*items, *more] if more else items


def _listed(items: Any, name: str) -> list[dict[str, Any]]:
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise DecodeError(f"not OTLP/JSON: {name} is not a list of objects")
    return items


def message(holder: Mapping[str, Any], camel: str, snake: str) -> dict[str, Any]:
    """Return a field that holds one message, empty if unset.

    Raises:
        DecodeError: the field has another type; names it.
    """
    value = pick(holder, camel, snake)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodeError(f"not OTLP/JSON: {camel} is not an object")
    return value


def text_of(value: object) -> str:
    """Return a text field; another scalar becomes its text, anything else the empty text."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (bool, int, float)) else ""


def int_of(value: object) -> int:
    """Return an integer field written as number or as text, or 0 if it is neither."""
    number = _to_integer(value)
    return 0 if number is None else number


def enum_of(value: object, prefix: str, names: Mapping[str, int]) -> int:
    """Return an enumeration value written as integer or as name, with or without its prefix; 0 if unknown.

    >>> enum_of("SPAN_KIND_CLIENT", "SPAN_KIND_", {"CLIENT": 3})
    3
    """
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        return names.get(value.removeprefix(prefix), 0)
    return int_of(value)


def read_attributes(holder: Mapping[str, Any], limits: Limits, altered: Counter[str]) -> dict[str, Any]:
    """Return the attribute list of a message as a dict; of equal keys the last wins, as in the SDKs.

    Raises:
        DecodeError: it is not a list of key-value objects.
    """
    pairs = objects(holder, "attributes", "attributes")
    longest = limits.max_value_bytes
    attributes: dict[str, Any] = {}
    for pair in first_of(pairs, limits.max_attributes, CUT_ATTRIBUTES, altered):
        key, value = clean_name(text_of(pair.get("key")), limits, altered), pair.get("value")
        # Nine of ten values are text; reading them here makes decoding 12 % faster.
        text = value.get("stringValue") if isinstance(value, dict) and len(value) == 1 else None
        if isinstance(text, str):
            attributes[key] = clean_text(text, longest, altered)
        else:
            attributes[key] = read_value(value, limits, altered)
    return attributes


def read_value(value: object, limits: Limits, altered: Counter[str], depth: int = 0) -> Any:
    """Return an AnyValue as a plain Python value, None for an empty one.

    Raises:
        DecodeError: it is not an object.
    """
    if value is None:
        return None
    if not isinstance(value, dict):
        raise DecodeError('not OTLP/JSON: a value is not an object such as {"stringValue": "text"}')
    for name, content in value.items():
        reader = _READERS.get(name)
        if reader is not None and content is not None:
            return reader(content, limits, altered, depth)
    return None


def _string(content: object, limits: Limits, altered: Counter[str], _depth: int) -> str:
    return clean_text(text_of(content), limits.max_value_bytes, altered)


def _bool(content: object, _limits: Limits, _altered: Counter[str], _depth: int) -> bool:
    return content is True or content in ("true", 1)


def _int(content: object, limits: Limits, altered: Counter[str], _depth: int) -> int | str:
    number = _to_integer(content)
    if number is not None:
        return clean_int(number, altered)
    altered[MENDED_NUMBER] += 1
    return clean_text(text_of(content), limits.max_value_bytes, altered)


def _double(content: object, limits: Limits, altered: Counter[str], _depth: int) -> float | str:
    text = text_of(content)
    try:
        # float() also reads the names of numbers that are not finite ("NaN", "-Infinity").
        return clean_float(float(text), altered)
    except ValueError:
        altered[MENDED_NUMBER] += 1
        return clean_text(text, limits.max_value_bytes, altered)


def _bytes(content: object, limits: Limits, altered: Counter[str], _depth: int) -> bytes | str:
    text = text_of(content)
    # Standard and URL-safe alphabets are both legal in protobuf's JSON, with or without padding.
    digits = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        raw = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        altered[MENDED_BYTES] += 1
        return clean_text(text, limits.max_value_bytes, altered)
    return clean_bytes(raw, limits.max_value_bytes, altered)


def _array(content: object, limits: Limits, altered: Counter[str], depth: int) -> list[Any] | None:
    values = _members(content, "arrayValue", altered, depth)
    return None if values is None else [read_value(item, limits, altered, depth + 1) for item in values]


def _kvlist(content: object, limits: Limits, altered: Counter[str], depth: int) -> dict[str, Any] | None:
    pairs = _members(content, "kvlistValue", altered, depth)
    if pairs is None:
        return None
    return {
        clean_name(text_of(pair.get("key")), limits, altered): read_value(pair.get("value"), limits, altered, depth + 1)
        for pair in pairs
    }


def _members(content: object, name: str, altered: Counter[str], depth: int) -> list[dict[str, Any]] | None:
    if depth >= MAX_DEPTH:
        altered[CUT_DEPTH] += 1
        return None
    if not isinstance(content, dict):
        raise DecodeError(f"not OTLP/JSON: {name} is not an object")
    return objects(content, "values", "values")


def _to_integer(value: object) -> int | None:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return int(value) if _INTEGER.fullmatch(value) else None
    return int(value) if isinstance(value, float) and value.is_integer() else None


_READERS: Final[dict[str, Callable[[object, Limits, Counter[str], int], Any]]] = {
    "stringValue": _string,
    "string_value": _string,
    "intValue": _int,
    "int_value": _int,
    "boolValue": _bool,
    "bool_value": _bool,
    "doubleValue": _double,
    "double_value": _double,
    "arrayValue": _array,
    "array_value": _array,
    "kvlistValue": _kvlist,
    "kvlist_value": _kvlist,
    "bytesValue": _bytes,
    "bytes_value": _bytes,
}
