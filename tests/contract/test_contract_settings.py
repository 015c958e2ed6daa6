"""The settings: every name with its type and default."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from inline_snapshot import external_file

from otel_agentic import Settings

if TYPE_CHECKING:
    from pydantic import BaseModel


def test_settings_types_and_defaults_are_the_golden_ones() -> None:
    assert "\n".join([*_described(Settings, ""), ""]) == external_file("golden/settings.txt")


def _described(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from _described(typing.cast("type[BaseModel]", field.annotation), f"{prefix}{name}.")
        else:
            value = "required" if field.is_required() else field.get_default(call_default_factory=True)
            default = str(value) if isinstance(value, Path) else repr(value)
            yield f"{prefix}{name}: {_type_name(field.annotation)} = {default}"


def _type_name(kind: object) -> str:
    """Return a type without its limits, and without the modules of its names, which may move."""
    names = {type(None): "None", Ellipsis: "..."}
    if kind in names:
        return names[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if not arguments:
        return kind.__name__ if isinstance(kind, type) else repr(kind)
    if origin is typing.Annotated:
        return _type_name(arguments[0])
    inner = [_type_name(argument) for argument in arguments]
    name = getattr(origin, "__name__", str(origin))
    return " | ".join(inner) if name in {"Union", "UnionType"} else f"{name}[{', '.join(inner)}]"
