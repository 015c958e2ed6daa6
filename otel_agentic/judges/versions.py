"""Versions of functions that have none: a hash of the code, equal in every process."""

from __future__ import annotations

import hashlib
import inspect
from functools import partial
from types import CellType, CodeType
from typing import Any

_Within = tuple[object, ...]


def code_version(function: Any) -> str:
    """Return a hash of the code of a function and of the plain values bound in it.

    Functions bound in it, such as by a decorator, count by their code; functions that it only refers to by name do not.

    >>> code_version(lambda text: text in {"yes", "no"}) == code_version(lambda text: text in {"yes", "never"})
    False
    """
    content = repr(_function(function, ()))
    return f"function-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _function(function: Any, within: _Within) -> object:
    """Return a function's behaviour as a value; `within` are the enclosing functions."""
    if any(function is outer for outer in within):  # recursion
        return "itself"
    inside = (*within, function)
    if isinstance(function, partial):
        return "partial", *(_stable(part, inside) for part in (function.func, function.args, function.keywords))
    code = getattr(function, "__code__", None)
    if code is None:
        return _object(function, inside)
    defaults = (getattr(function, name, None) for name in ("__defaults__", "__kwdefaults__"))
    cells = [_cell(cell, inside) for cell in getattr(function, "__closure__", None) or ()]
    return _content(code), (*(_stable(part, inside) for part in defaults), cells)


def _object(function: Any, within: _Within) -> object:
    """Return an object's behaviour when it is called, and its attributes; a built-in function has only its name."""
    kind = type(function)
    code = getattr(kind.__call__, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", kind.__qualname__)
    held = {name: _immutable(value, within) for name, value in getattr(function, "__dict__", {}).items()}
    return kind.__qualname__, _content(code), held


def _cell(cell: CellType, within: _Within) -> object:
    try:
        return _immutable(cell.cell_contents, within)
    except ValueError:  # not set yet
        return "nothing"


def _immutable(value: object, within: _Within) -> object:
    """Return a value that cannot change, or the type of a mutable one: data that a function collects is not part of its code."""
    return type(value).__qualname__ if isinstance(value, list | dict | set) else _stable(value, within)


def _stable(value: object, within: _Within) -> object:
    """Return a value whose text is equal in every process: sets in a fixed order, objects without address."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, CodeType):
        return _content(value)
    if inspect.isroutine(value) or isinstance(value, partial):
        return _function(value, within)
    if isinstance(value, dict):
        return {key: _stable(item, within) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        held = [_stable(item, within) for item in value]
        return tuple(held) if isinstance(value, tuple) else sorted(held, key=repr) if _unordered(value) else held
    return type(value).__qualname__


def _unordered(value: object) -> bool:
    return isinstance(value, set | frozenset)


def _content(code: CodeType) -> tuple[object, ...]:
    return code.co_code, tuple(_stable(item, ()) for item in code.co_consts), code.co_names
