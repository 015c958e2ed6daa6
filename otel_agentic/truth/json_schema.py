"""The part of JSON Schema that a parameter needs: small, and strict about what it does not know.

Ref: JSON Schema, draft 2020-12, Validation vocabulary. An unknown keyword is refused when a case is loaded, never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.patterns import compile_pattern, occurs
from otel_agentic.truth.values import canonical, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Keywords that say nothing about whether a value conforms.
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "format", "deprecated", "$schema", "$id", "$comment"}
)


def conforms(value: Any, schema: Any) -> bool:
    """Return whether a JSON value conforms to a schema that passed `schema_problems`.

    >>> conforms(3, {"type": "integer", "minimum": 1}), conforms("3", {"type": "integer"})
    (True, False)
    """
    if isinstance(schema, bool):
        return schema
    return all(
        _CHECKS[keyword](value, operand, schema) for keyword, operand in schema.items() if keyword not in _ANNOTATIONS
    )


def schema_problems(schema: Any) -> Iterator[str]:
    """Yield what keeps a schema from being used, one sentence each."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"a JSON Schema is an object, true or false; found {schema!r}"
        return
    for keyword, operand in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        if keyword not in _CHECKS:
            yield f"unknown JSON Schema keyword {keyword!r}; allowed: {', '.join(sorted(_CHECKS))}"
        elif not _OPERANDS[keyword](operand):
            yield f"JSON Schema keyword {keyword!r} does not take {operand!r}"
        else:
            for inner in _inner_schemas(keyword, operand):
                yield from schema_problems(inner)


def _inner_schemas(keyword: str, operand: Any) -> list[Any]:
    if keyword == "properties":
        return list(operand.values())
    if keyword in {"anyOf", "allOf", "oneOf"}:
        return list(operand)
    return [operand] if keyword in {"items", "additionalProperties", "not"} else []


_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "number": is_number,
    "integer": lambda value: is_number(value) and value % 1 == 0,
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, (list, tuple)),
    "object": lambda value: isinstance(value, Mapping),
}


def _type(value: Any, operand: Any, _: Any) -> bool:
    return any(_TYPES[name](value) for name in ([operand] if isinstance(operand, str) else operand))


def _properties(value: Any, operand: Any, _: Any) -> bool:
    return not isinstance(value, Mapping) or all(
        conforms(value[name], schema) for name, schema in operand.items() if name in value
    )


def _additional(value: Any, operand: Any, schema: Any) -> bool:
    known = schema.get("properties", {})
    return not isinstance(value, Mapping) or all(
        conforms(held, operand) for name, held in value.items() if name not in known
    )


def _distinct(value: Any, operand: Any, _: Any) -> bool:
    return not (operand and _TYPES["array"](value)) or len({canonical(item) for item in value}) == len(value)


def _number(check: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Any], bool]:
    return lambda value, operand, _: not is_number(value) or check(value, operand)


def _sized(kind: str, check: Callable[[int, Any], bool]) -> Callable[[Any, Any, Any], bool]:
    return lambda value, operand, _: not _TYPES[kind](value) or check(len(value), operand)


_CHECKS: Final[Mapping[str, Callable[[Any, Any, Any], bool]]] = {
    "type": _type,
    "enum": lambda value, operand, _: canonical(value) in {canonical(item) for item in operand},
    "const": lambda value, operand, _: canonical(value) == canonical(operand),
    "properties": _properties,
    "additionalProperties": _additional,
    "required": lambda value, operand, _: not isinstance(value, Mapping) or all(name in value for name in operand),
    "items": lambda value, operand, _: not _TYPES["array"](value) or all(conforms(item, operand) for item in value),
    "minItems": _sized("array", lambda size, operand: size >= operand),
    "maxItems": _sized("array", lambda size, operand: size <= operand),
    "uniqueItems": _distinct,
    "minLength": _sized("string", lambda size, operand: size >= operand),
    "maxLength": _sized("string", lambda size, operand: size <= operand),
    "pattern": lambda value, operand, _: not isinstance(value, str) or occurs(operand, value),
    "minimum": _number(lambda value, operand: value >= operand),
    "maximum": _number(lambda value, operand: value <= operand),
    "exclusiveMinimum": _number(lambda value, operand: value > operand),
    "exclusiveMaximum": _number(lambda value, operand: value < operand),
    "multipleOf": _number(lambda value, operand: value % operand == 0),
    "anyOf": lambda value, operand, _: any(conforms(value, schema) for schema in operand),
    "allOf": lambda value, operand, _: all(conforms(value, schema) for schema in operand),
    "oneOf": lambda value, operand, _: sum(conforms(value, schema) for schema in operand) == 1,
    "not": lambda value, operand, _: not conforms(value, operand),
}


def _is_pattern(operand: Any) -> bool:
    try:
        return isinstance(operand, str) and compile_pattern(operand) is not None
    except ValueError:
        return False


def _is_type(operand: Any) -> bool:
    names = [operand] if isinstance(operand, str) else operand
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) and n in _TYPES for n in names)


def _is_size(operand: Any) -> bool:
    return bool(_TYPES["integer"](operand)) and operand >= 0


def _is_list(operand: Any) -> bool:
    return isinstance(operand, list) and bool(operand)


def _is_schema(operand: Any) -> bool:
    return isinstance(operand, (bool, Mapping))


_OPERANDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _is_type,
    "enum": _is_list,
    "const": lambda _: True,
    "properties": lambda operand: isinstance(operand, Mapping),
    "additionalProperties": _is_schema,
    "required": lambda operand: isinstance(operand, list) and all(isinstance(name, str) for name in operand),
    "items": _is_schema,
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), _is_size),
    "uniqueItems": lambda operand: isinstance(operand, bool),
    "pattern": _is_pattern,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), is_number),
    "multipleOf": lambda operand: is_number(operand) and operand > 0,
    **dict.fromkeys(("anyOf", "allOf", "oneOf"), _is_list),
    "not": _is_schema,
}
