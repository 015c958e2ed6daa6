"""Comparison of JSON values by value."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.text import normalise

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

#: A number as JSON writes it: "05" is a text (a postcode), not the number 5. Longer ones are texts too.
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?")
_TEXT_CHARACTERS: Final = 60


def canonical(
    value: Any, *, unordered: bool = False, fold_case: bool = False, numbers_as_text: bool = False
) -> Hashable:
    """Return a hashable key that is equal for equal JSON values.

    Numbers are equal by value (5 and 5.0), true is not 1, text is text, keys of an object come in any order.

    Args:
        value: any JSON value.
        unordered: lists compare as multisets, at any depth.
        fold_case: texts compare normalised (`normalise`), at any depth.
        numbers_as_text: a text that is a JSON number compares as that number.

    Raises:
        RecursionError: the value is nested deeper than Python's stack.

    >>> canonical({"a": 5, "b": [1, 2]}) == canonical({"b": [1, 2.0], "a": 5.0})
    True
    >>> canonical([1, 2]) == canonical([2, 1]), canonical([1, 2], unordered=True) == canonical([2, 1], unordered=True)
    (False, True)
    >>> canonical(True) == canonical(1), canonical("5") == canonical(5)
    (False, False)
    """

    def key(item: Any) -> Hashable:
        if isinstance(item, str):
            if numbers_as_text and _JSON_NUMBER.fullmatch(item):
                return ("number", float(item))
            return ("text", normalise(item) if fold_case else item)
        if isinstance(item, (list, tuple)):
            keys = tuple(key(held) for held in item)
            return ("list", frozenset(Counter(keys).items()) if unordered else keys)
        if _is_object(item):
            return ("object", frozenset((str(name), key(held)) for name, held in item.items()))
        return _constant_key(item)

    return key(value)


def _is_object(item: Any) -> bool:
    # The built-in types first: checking against the abstract one costs ten times as much.
    return type(item) is dict or (
        not (item is None or isinstance(item, (str, int, float))) and isinstance(item, Mapping)
    )


def _constant_key(item: Any) -> Hashable:
    if isinstance(item, bool) or item is None:
        return ("constant", item)
    if isinstance(item, (int, float)):
        # NaN differs from itself; two actual values that are both NaN count as equal here.
        return ("number", "nan" if math.isnan(item) else item)
    return ("other", repr(item))


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def leaves(value: Any, *, limit: int) -> Iterator[tuple[str, Any]]:
    """Yield at most `limit` texts, numbers and constants of a JSON value, each with its key.

    The key is that of the nearest enclosing object, or "".

    >>> list(leaves({"city": "Zürich", "days": [{"high": 12}]}, limit=10))
    [('city', 'Zürich'), ('high', 12)]
    """
    waiting: list[tuple[str, Any]] = [("", value)]
    count = 0
    while waiting and count < limit:
        name, item = waiting.pop()
        if _is_object(item):
            waiting.extend((str(key), held) for key, held in reversed(list(item.items())))
        elif isinstance(item, (list, tuple)):
            waiting.extend((name, held) for held in reversed(item))
        else:
            count += 1
            yield name, item


def json_text(value: Any, characters: int = _TEXT_CHARACTERS) -> str:
    """Return a JSON value as text of at most so many characters.

    >>> json_text({"b": 1, "a": "Zürich"}), json_text("x" * 10, characters=8)
    ('{"a": "Zürich", "b": 1}', '"xxxxxx…')
    """
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        text = "a value that cannot be shown"
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
