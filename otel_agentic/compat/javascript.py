"""JavaScript semantics of values: equality, type names and JSON text, for systems written in JavaScript.

Values are those of parsed JSON. All numbers are doubles there: 5 and 5.0 are the same value, and so are two whole
numbers that round to the same double.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

#: Keys that are array indices come first in an object, in order of value.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LAST_INDEX: Final = 2**32 - 2
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Numbers from 1e-6 to below 1e21 are written without an exponent.
_PLAIN_LOW, _PLAIN_HIGH = 1e-6, 1e21


def type_of(value: Any) -> str:
    """Return the result of `typeof`: "object" for null, lists and objects.

    >>> [type_of(value) for value in (1.5, True, "a", None, [])]
    ['number', 'boolean', 'string', 'object', 'object']
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "object"


def deep_equal(item: Any, other: Any) -> bool:
    """Return whether two values are equal without coercion; keys may be in any order, elements of lists may not.

    >>> deep_equal({"a": 5, "b": [1]}, {"b": [1.0], "a": 5.0}), deep_equal(5, "5"), deep_equal(1, True)
    (True, False, False)
    """
    if isinstance(item, Mapping) and isinstance(other, Mapping):
        return item.keys() == other.keys() and all(deep_equal(value, other[key]) for key, value in item.items())
    if isinstance(item, list) and isinstance(other, list):
        return len(item) == len(other) and all(deep_equal(*pair) for pair in zip(item, other, strict=True))
    if type_of(item) == type_of(other) == "number":
        return _double(item) == _double(other)
    return type(item) is type(other) and bool(item == other)


def json_text(value: Any) -> str:
    """Return the text that `JSON.stringify` produces.

    >>> json_text({"b": 5.0, "10": [True, None], "2": "é"})
    '{"2":"é","10":[true,null],"b":5}'
    """
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_text(key)}:{json_text(value[key])}" for key in ordered_keys(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if type_of(value) == "number":
        return _number(_double(value))
    return json.dumps(value)


def ordered_keys(value: Mapping[str, Any]) -> list[str]:
    """Return the keys in the order in which an object has them: indices by value, then the others as given."""
    indices = [key for key in value if _INDEX.fullmatch(key) and int(key) <= _LAST_INDEX]
    return [*sorted(indices, key=int), *(key for key in value if key not in set(indices))]


def _text(value: str) -> str:
    escaped = json.dumps(value, ensure_ascii=False)
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped)


def _double(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    if _PLAIN_LOW <= abs(value) < _PLAIN_HIGH:
        # Like JavaScript, `repr` writes the shortest digits that identify the number.
        return f"{Decimal(repr(value)):f}".removesuffix(".0")
    mantissa, exponent = repr(value).split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent):+d}"
