"""Comparison of JSON answers by value, independent of the order of keys and the layout."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice
from typing import Any, Final

import orjson

from otel_agentic.truth.values import canonical, leaves

_OPENING: Final = re.compile(r"```(?:json)?[ \t]*\n")
_CLOSING: Final = re.compile("```")
#: Number of closing fences that are tried: texts inside the JSON may contain one.
_MAX_CLOSINGS: Final = 16
#: Maximum number of values compared to compute the share in common.
_MAX_LEAVES: Final = 2_000


def json_agreement(expected: str, answer: str) -> float | None:
    """Return the agreement of two JSON objects or lists, 1.0 only if they are equal; or None if one text is not JSON.

    Below 1.0 it is the share of values in common. The answer may contain its JSON in a fenced block.

    >>> json_agreement('{"city": "Oslo", "degrees": 4}', '{"degrees": 4.0, "city": "Oslo"}')
    1.0
    >>> json_agreement('{"city": "Oslo", "degrees": 4}', '{"degrees": 4, "city": "Bergen"}')
    0.3333333333333333
    """
    own, other = _read(expected), _read(answer)
    if own is None or other is None:
        return None
    try:
        if canonical(own) == canonical(other):
            return 1.0
        own_values, other_values = _values(own), _values(other)
    except RecursionError:  # nested deeper than Python's stack: judged as text
        return None
    shared, total = (own_values & other_values).total(), (own_values | other_values).total()
    return min(shared / total, 0.99) if total else 0.0


def _values(document: Any) -> Counter[Any]:
    return Counter((name, canonical(value)) for name, value in leaves(document, limit=_MAX_LEAVES))


def _read(text: str) -> Any:
    """Return the JSON object or list of a text, bare or in a fenced block; or None."""
    plain = text.strip()
    if plain[:1] in {"{", "["}:
        return _loaded(plain)
    opening = _OPENING.search(text)
    if opening is None:
        return None
    closings = islice(_CLOSING.finditer(text, opening.end()), _MAX_CLOSINGS)
    documents = (_loaded(text[opening.end() : closing.start()].strip()) for closing in closings)
    return next((document for document in documents if document is not None), None)


def _loaded(plain: str) -> Any:
    if plain[:1] not in {"{", "["}:
        return None
    try:
        return orjson.loads(plain)
    except orjson.JSONDecodeError:
        return None
