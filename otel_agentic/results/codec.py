"""Typed results to JSON values and back, by the fields of their dataclasses."""

from __future__ import annotations

from dataclasses import field, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

T = TypeVar("T")
_KEY: Final = "key"
_OPTIONAL: Final = "optional"


def key(name: str | None = None, *, optional: bool = False) -> Any:
    """Return a dataclass field whose JSON form differs from its name and value.

    Args:
        name: the key in JSON, for names that Python reserves; unless given, the name of the field.
        optional: the key is absent while the value is None, which is then the default.
    """
    metadata = {_KEY: name, _OPTIONAL: optional}
    return field(default=None, metadata=metadata) if optional else field(metadata=metadata)


def to_json(value: Any) -> Any:
    """Return a result as JSON values: dataclasses become objects, with the keys in the order of the fields.

    Lists and objects of JSON values are returned as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: to_json(item)
            for attribute, name, optional in _layout(type(value))
            if (item := getattr(value, attribute)) is not None or not optional
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
    """Return attribute, JSON key and whether the key may be absent, of each field."""

    def row(name: str, metadata: Mapping[str, Any]) -> tuple[str, str, bool]:
        return name, metadata.get(_KEY) or name, metadata.get(_OPTIONAL, False)

    return tuple(row(item.name, item.metadata) for item in fields(kind))


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 — only results of a running collector are read

    return TypeAdapter(kind)
