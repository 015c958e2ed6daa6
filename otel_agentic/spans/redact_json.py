"""JSON text read as data and changed in place: what is not taken out stays as it was written, to the last blank."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder(strict=False)
_START: Final = re.compile(r'\s*[\[{"]')
#: Scalars of valid JSON text: strings, and what stands bare. What is between them is punctuation.
_SCALAR: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{},:"]+', re.DOTALL)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON text: equal keys stay apart, so that none of them hides a value."""


class Bare(str):
    """A number of JSON text, as it is written: reading it would change it."""

    __slots__ = ()


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as a container or a string of JSON does."""
    return _START.match(text) is not None


def parse(text: str) -> Any:
    """Return what JSON text holds, objects as `Pairs` and numbers as `Bare`.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text, object_pairs_hook=Pairs, parse_int=Bare, parse_float=Bare, parse_constant=Bare, strict=False
    )


def values_of(text: str) -> list[tuple[str | None, int, int]]:
    """Return the key (None in an array), start and end of each value of a JSON container, without reading it twice.

    Raises:
        ValueError: it is not JSON, or no container.
        RecursionError: it is nested too deeply.
    """
    position = _BLANK.match(text).end()  # type: ignore[union-attr] # matches the empty text, too
    opening = text[position : position + 1]
    closing = {"[": "]", "{": "}"}.get(opening)
    if closing is None:
        raise ValueError("no container")
    found: list[tuple[str | None, int, int]] = []
    position = _blank_end(text, position + 1)
    while text[position : position + 1] != closing or found:
        key = None
        if closing == "}":
            key, position = _DECODER.raw_decode(text, position)
            position = _blank_end(text, _sign_end(text, _blank_end(text, position), ":"))
        _, end = _DECODER.raw_decode(text, position)
        found.append((key, position, end))
        position = _blank_end(text, end)
        if text[position : position + 1] == closing:
            break
        position = _blank_end(text, _sign_end(text, position, ","))
    if _blank_end(text, position + 1) != len(text):
        raise ValueError("text behind the container")
    return found


def _blank_end(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr] # matches the empty text, too


def _sign_end(text: str, position: int, sign: str) -> int:
    if text[position : position + 1] != sign:
        raise ValueError(f"no {sign!r} at character {position}")
    return position + 1


def rewritten(text: str, before: Any, after: Any) -> str:
    """Return the text with the scalars that differ replaced.

    Args:
        text: valid JSON text.
        before: what `parse` made of it.
        after: the same with other scalars in some places; those that stay are the same objects.
    """
    pieces: list[str] = []
    done = 0
    tokens = _SCALAR.finditer(text)
    for token, old, new in zip(tokens, _scalars(before), _scalars(after), strict=True):
        if new is not old:
            pieces += (text[done : token.start()], _literal(new))
            done = token.end()
    return "".join((*pieces, text[done:]))


def _scalars(value: Any) -> list[Any]:
    """Return keys and scalars in the order in which they are written."""
    found: list[Any] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Pairs):
            for key, item in reversed(one):
                waiting += (item, key)
        elif isinstance(one, list):
            waiting += reversed(one)
        else:
            found.append(one)
    return found


def _literal(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    # A lone surrogate came as an escape; nothing else can write it.
    return written if written.isprintable() or _encodes(written) else json.dumps(text)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
