"""Typed results to JSON values and back, by the fields of their dataclasses."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field, fields, is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")
#: A JSON object whose keys users choose, such as arguments of a call or a case in the native format.
JsonObject = dict[str, Any]
_OPTIONAL: Final = "optional"


def optional() -> Any:
    """Return a dataclass field whose key is absent in JSON while the value is None, the default."""
    return field(default=None, metadata={_OPTIONAL: True})


def renamed(**names: str) -> Any:
    """Return the value of `__pydantic_config__` for a dataclass whose JSON keys are names that Python reserves."""
    return {"alias_generator": lambda name: names.get(name, name)}


def to_json(value: Any) -> Any:
    """Return a result as JSON values: dataclasses become objects, with the keys in the order of the fields.

    Lists and objects of JSON values are returned as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: to_json(item)
            for attribute, name, is_optional in _layout(type(value))
            if (item := getattr(value, attribute)) is not None or not is_optional
        }
    if type(value) in {list, tuple}:
        return [to_json(item) for item in value]
    if type(value) is dict:
        return {str(name): to_json(item) for name, item in value.items()}
    return value


def from_json(kind: type[T], value: Any) -> T:
    """Return the result of a type from its JSON form; keys that the type does not have are ignored.

    Raises:
        ValueError: a key is missing or a value has another type.
    """
    result: T = _adapter(cast("Hashable", kind)).validate_python(value)
    return result


@cache
def _layout(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """Return the attribute and the JSON key of each field, and whether the key may be absent."""
    config = getattr(kind, "__pydantic_config__", None) or renamed()
    return tuple(
        (field.name, config["alias_generator"](field.name), _OPTIONAL in field.metadata) for field in fields(kind)
    )


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 — only results of a running collector are read

    return TypeAdapter(kind)
