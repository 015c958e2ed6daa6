"""Results from the few values that a test is about; every other field is None."""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def partial(kind: type[T], values: dict[str, Any]) -> T:
    """Return a result with these values, given in their JSON form."""
    hints = get_type_hints(kind)
    known: dict[str, Any] = {field.name: None for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    in_json = getattr(kind, "__pydantic_config__", {"alias_generator": str})["alias_generator"]
    known |= {name: _typed(hints[name], values[in_json(name)]) for name in known if in_json(name) in values}
    return kind(**known)


def _typed(hint: Any, value: Any) -> Any:
    arguments = get_args(hint)
    if value is None or is_dataclass(value):
        return value
    if is_dataclass(hint) and isinstance(hint, type):
        return partial(hint, value)
    if get_origin(hint) in {Union, types.UnionType}:
        return next((_typed(argument, value) for argument in arguments if argument is not type(None)), value)
    if get_origin(hint) is list:
        return [_typed(arguments[0], item) for item in value]
    if get_origin(hint) is dict:
        return {name: _typed(arguments[1], item) for name, item in value.items()}
    return value
