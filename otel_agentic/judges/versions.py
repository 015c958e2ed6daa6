"""The version of a function that has none: a hash of its code, the same in every process."""

from __future__ import annotations

import hashlib
import inspect
from functools import partial
from types import CellType, CodeType
from typing import Any

_Within = tuple[object, ...]


def code_version(function: Any) -> str:
    """Return a hash of the code of a function and of the plain values that it was made with.

    Functions that it was made with, as by a decorator, count by their code; those that it only names do not.

    >>> code_version(lambda text: text in {"yes", "no"}) == code_version(lambda text: text in {"yes", "never"})
    False
    """
    content = repr(_function(function, ()))
    return f"function-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _function(function: Any, within: _Within) -> object:
    """Return what a function does as a value; `within` are those that hold it."""
    if any(function is one for one in within):  # it calls itself
        return "itself"
    inside = (*within, function)
    if isinstance(function, partial):
        return "partial", *(_made_with(each, inside) for each in (function.func, function.args, function.keywords))
    code = getattr(function, "__code__", None)
    if code is None:
        return _object(function, inside)
    defaults = (getattr(function, name, None) for name in ("__defaults__", "__kwdefaults__"))
    cells = [_held(cell, inside) for cell in getattr(function, "__closure__", None) or ()]
    return _content(code), (*(_made_with(each, inside) for each in defaults), cells)


def _object(function: Any, within: _Within) -> object:
    """Return what an object does when it is called, and what it has; a built-in function has but its name."""
    kind = type(function)
    code = getattr(kind.__call__, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", kind.__qualname__)
    held = {name: _gathered(value, within) for name, value in getattr(function, "__dict__", {}).items()}
    return kind.__qualname__, _content(code), held


def _held(cell: CellType, within: _Within) -> object:
    try:
        return _gathered(cell.cell_contents, within)
    except ValueError:  # not set yet
        return "nothing"


def _gathered(value: object, within: _Within) -> object:
    """Return a value that cannot change, else the type of it: what a function gathers is none of its code."""
    return type(value).__qualname__ if isinstance(value, list | dict | set) else _made_with(value, within)


def _made_with(value: object, within: _Within) -> object:
    """Return a value such that its text is the same in every process: sets in one order, objects without address."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, CodeType):
        return _content(value)
    if inspect.isroutine(value) or isinstance(value, partial):
        return _function(value, within)
    if isinstance(value, dict):
        return {key: _made_with(each, within) for key, each in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        held = [_made_with(each, within) for each in value]
        return tuple(held) if isinstance(value, tuple) else sorted(held, key=repr) if _unordered(value) else held
    return type(value).__qualname__


def _unordered(value: object) -> bool:
    return isinstance(value, set | frozenset)


def _content(code: CodeType) -> tuple[object, ...]:
    return code.co_code, tuple(_made_with(each, ()) for each in code.co_consts), code.co_names
