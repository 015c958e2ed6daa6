"""Rewriting of JSON text: unchanged parts stay as they were written, to the last white space."""

from __future__ import annotations

import json
import re
from typing import Any, Final

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder(strict=False)
_START: Final = re.compile(r'\s*[\[{"]')
#: Scalars of valid JSON text: strings, numbers and literals. The text between them is punctuation.
_SCALAR: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\s\[\]{},:"]+', re.DOTALL)


class Pairs(list[tuple[str, Any]]):
    """An object of JSON text, as a list of pairs, so that a repeated key does not hide a value."""


class Bare(str):
    """A number of JSON text as it is written, since parsing could change it."""

    __slots__ = ()


def looks_like_json(text: str) -> bool:
    """Return whether a text begins like a container or a string of JSON."""
    return _START.match(text) is not None


def parse(text: str) -> Any:
    """Return the value of JSON text, objects as `Pairs` and numbers as `Bare`.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(
        text, object_pairs_hook=Pairs, parse_int=Bare, parse_float=Bare, parse_constant=Bare, strict=False
    )


def values_of(text: str) -> list[tuple[str | None, int, int]]:
    """Return the key (None in an array), start and end of each value of a JSON container, in one pass.

    Raises:
        ValueError: it is not JSON, or not a container.
        RecursionError: it is nested too deeply.
    """
    position = _BLANK.match(text).end()  # type: ignore[union-attr] # also matches the empty text
    opening = text[position : position + 1]
    closing = {"[": "]", "{": "}"}.get(opening)
    if closing is None:
        raise ValueError("no container")
    values: list[tuple[str | None, int, int]] = []
    position = _blank_end(text, position + 1)
    while text[position : position + 1] != closing or values:
        key = None
        if closing == "}":
            key, position = _DECODER.raw_decode(text, position)
            position = _blank_end(text, _sign_end(text, _blank_end(text, position), ":"))
        _, end = _DECODER.raw_decode(text, position)
        values.append((key, position, end))
        position = _blank_end(text, end)
        if text[position : position + 1] == closing:
            break
        position = _blank_end(text, _sign_end(text, position, ","))
    if _blank_end(text, position + 1) != len(text):
        raise ValueError("text after the container")
    return values


def _blank_end(text: str, position: int) -> int:
    return _BLANK.match(text, position).end()  # type: ignore[union-attr] # also matches the empty text


def _sign_end(text: str, position: int, sign: str) -> int:
    if text[position : position + 1] != sign:
        raise ValueError(f"no {sign!r} at character {position}")
    return position + 1


def rewritten(text: str, before: Any, after: Any) -> str:
    """Return the text with the scalars that differ replaced.

    Args:
        text: valid JSON text.
        before: the result of `parse`.
        after: the same with some scalars replaced; unchanged scalars are the same objects.
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
    scalars: list[Any] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Pairs):
            for key, item in reversed(part):
                waiting += (item, key)
        elif isinstance(part, list):
            waiting += reversed(part)
        else:
            scalars.append(part)
    return scalars


def _literal(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    # A lone surrogate can only be written as an escape.
    return written if written.isprintable() or _encodes(written) else json.dumps(text)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
