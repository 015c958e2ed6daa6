"""JSON Schema for parameters, by the `jsonschema` package, with patterns run in linear time.

Ref: JSON Schema, draft 2020-12. A schema that points outside itself (`$ref` to another document) is refused: nothing is
fetched.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.patterns import compile_pattern, occurs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jsonschema.protocols import Validator

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef"})
_PATTERNS: Final = frozenset({"pattern"})


def conforms(value: Any, schema: Any) -> bool:
    """Return whether a JSON value conforms to a schema that passed `schema_problems`.

    >>> conforms(3, {"type": "integer", "minimum": 1}), conforms("3", {"type": "integer"})
    (True, False)
    """
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 — few cases use schemas, and it is slow to import
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 — same

    try:
        _validator(json.dumps(schema)).validate(value)
    except (
        ValidationError,
        Unresolvable,
        RecursionError,
        OverflowError,
        ValueError,
    ):  # multipleOf of NaN is a ValueError
        return False
    return True


def schema_problems(schema: Any) -> Iterator[str]:
    """Yield what keeps a schema from being used, one sentence each."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 — same

    if not isinstance(schema, (bool, dict)):
        yield f"a JSON Schema is an object, true or false; found {schema!r}"
        return
    checker = Draft202012Validator(Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for error in checker.iter_errors(schema):
        where = "/".join(str(part) for part in error.absolute_path) or "the top"
        yield f"not a JSON Schema, at {where}: {error.message}"
    for pattern in _texts_under(schema, _PATTERNS):
        try:
            compile_pattern(pattern)
        except ValueError as error:
            yield f"pattern {error}"
    for reference in _texts_under(schema, _REFERENCES):
        if not _resolves(reference, schema):
            yield f"$ref {reference!r} leads nowhere in this schema; nothing is fetched, write what it means in place"


@lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    from jsonschema import Draft202012Validator, ValidationError, validators  # noqa: PLC0415 — same

    def pattern(_: Any, operand: str, value: Any, __: Any) -> Iterator[ValidationError]:
        if isinstance(value, str) and not occurs(operand, value):
            yield ValidationError(f"{value!r} does not match {operand!r}")

    # The package's stubs leave this function untyped.
    bounded: type[Validator] = validators.extend(Draft202012Validator, {"pattern": pattern})  # type: ignore[no-untyped-call]
    return bounded(json.loads(schema))


def _resolves(reference: str, schema: Any) -> bool:
    from referencing import Registry, Resource  # noqa: PLC0415 — same
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 — same
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415 — same

    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    try:
        Registry().resolver_with_root(resource).lookup(reference)
    except Unresolvable:
        return False
    return True


def _texts_under(schema: Any, keywords: frozenset[str]) -> Iterator[str]:
    """Yield the texts under some keywords, at any depth."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in keywords and isinstance(value, str):
                yield value
            else:
                yield from _texts_under(value, keywords)
    elif isinstance(schema, list):
        for item in schema:
            yield from _texts_under(item, keywords)
