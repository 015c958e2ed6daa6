"""Do the arguments of a call fit the JSON schema of its tool: by the `jsonschema` package, bounded in all that it does.

Nothing is fetched, patterns run in linear time, and a check that takes too many steps is given up. A schema that cannot be
used says nothing of a call.

Ref: JSON Schema, draft 3 to 2020-12, as `$schema` says; 2020-12 where it says nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.layers.schema_keywords import Budget, SchemaUnusableError, bounded, running
from otel_agentic.scoring.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["SchemaFault", "SchemaUnusableError", "schema_faults"]

#: Characters of a schema, and of arguments, as JSON.
_SCHEMA_CHARACTERS: Final = 200_000
_ARGUMENT_CHARACTERS: Final = 1_000_000
#: Faults of one call that are kept, characters of a path that are told, allowed values that are named.
_FAULTS: Final = 20
_PATH_CHARACTERS: Final = 200
_CHOICES: Final = 10
_KEPT: Final = 512
#: Keywords that look for what others have seen: through references without any bound that could be set from here.
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_INVALID: Final = "the schema is no valid JSON Schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """One thing in which arguments do not fit: the parameter, as a path (`legs[0].date`), the keyword, and a sentence part."""

    path: str
    keyword: str
    told: str


def schema_faults(arguments: Mapping[str, Any], schema: Any) -> tuple[SchemaFault, ...]:
    """Return in what the arguments of a call do not fit, by path; nothing where they do.

    Numbers are whole by value (5.0 is an integer), true is no number; `nullable` allows null; `format` is not looked at.

    Raises:
        SchemaUnusableError: the schema is none, needs what is not in it, or takes too many steps; or the arguments are too large.

    >>> schema = {"properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id"]}
    >>> [(fault.path, fault.told) for fault in schema_faults({"n": "many"}, schema)]
    [('id', 'is required and was not given'), ('n', 'is "many", allowed: integer')]
    >>> schema_faults({"id": "x", "n": 5.0}, schema)
    ()
    """
    text = _json(schema)
    if text is None or len(text) > _SCHEMA_CHARACTERS:
        raise SchemaUnusableError(f"the schema is no JSON, or takes more than {_SCHEMA_CHARACTERS:,} characters of it")
    given = _json(dict(arguments))
    if given is None or len(given) > _ARGUMENT_CHARACTERS:
        told = f"the arguments are no JSON, or take more than {_ARGUMENT_CHARACTERS:,} characters of it"
        raise SchemaUnusableError(told, of_call=True)
    check = _check(text)
    if isinstance(check, str):
        raise SchemaUnusableError(check)
    return check(dict(arguments))


def _json(value: Any) -> str | None:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=_KEPT)
def _check(text: str) -> Callable[[dict[str, Any]], tuple[SchemaFault, ...]] | str:
    """Return the check of a schema, or why it cannot be used."""
    try:
        validator = _validator(json.loads(text))
    except Exception as error:  # noqa: BLE001 — a stranger's schema: whatever it breaks, it cannot be used
        return _why(error, _INVALID)

    def check(arguments: dict[str, Any]) -> tuple[SchemaFault, ...]:
        running.budget = Budget()
        try:
            found = [_fault(error) for error, _ in zip(validator.iter_errors(arguments), range(_FAULTS), strict=False)]
        except Exception as error:  # noqa: BLE001 — as above
            raise SchemaUnusableError(_why(error, "the schema cannot be held against these arguments")) from None
        return tuple(sorted(dict.fromkeys(found), key=lambda fault: (fault.path, fault.keyword, fault.told)))

    return check


def _why(error: Exception, otherwise: str) -> str:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 — slow to import, and few stores have schemas

    if isinstance(error, SchemaUnusableError):
        return f"{error}"
    if isinstance(error, Unresolvable) or isinstance(error.__cause__, Unresolvable):
        return "the schema refers to what is not in it; nothing is fetched"
    if isinstance(error, RecursionError):
        return "schema or arguments are nested too deeply"
    return otherwise


def _validator(schema: Any) -> Validator:
    """Return the validator of a schema; raise where it is none, SchemaUnusableError where that needs a word."""
    from referencing import Registry  # noqa: PLC0415 — as above

    keys = set(_keys(schema))
    if keys.intersection(_UNEVALUATED) and keys.intersection(_REFERENCES):
        raise SchemaUnusableError("the schema looks for unevaluated fields through references, which has no bound")
    kind = _class_of(schema)
    running.budget = Budget()
    error = next(bounded(kind)(kind.META_SCHEMA).iter_errors(schema), None)
    if error is not None:
        raise SchemaUnusableError(f"{_INVALID}, at {_path(error.absolute_path) or 'the top'}")
    # An empty registry: the default one fetches. And where `$schema` stands inside, the package goes on with a validator of
    # its own, which has no bounds.
    empty: Any = Registry()
    made: Validator = bounded(kind)(_without_dialects(schema), registry=empty)
    return made


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for held in value.values():
            yield from _keys(held)
    elif isinstance(value, list):
        for held in value:
            yield from _keys(held)


def _class_of(schema: Any) -> Any:
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 — as above

    named = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(named, str):
        return Draft202012Validator
    # Up to draft 7 they are named by http, since then by https; people write either.
    scheme = "http" if "://json-schema.org/draft-0" in named else "https"
    named = f"{scheme}://{named.partition('://')[2]}"
    return validators.validator_for({"$schema": named}, default=Draft202012Validator)


def _without_dialects(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_dialects(held) for held in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_dialects(held) for key, held in schema.items() if not (key == "$schema" and isinstance(held, str))
    }


def _fault(error: ValidationError) -> SchemaFault:
    keyword, wanted, value = error.validator, error.validator_value, shown(error.instance)
    told = f"is {value}, which breaks {keyword} {shown(wanted)}"
    if keyword is None:
        told = f"is {value}; nothing is allowed there"
    elif keyword == "required":
        told = "is required and was not given"
    elif keyword == "additionalProperties" and wanted is False:
        told = "is not a parameter of the tool"
    elif keyword in {"type", "enum", "const"}:
        told = f"is {value}, allowed: {_either(wanted if keyword != 'const' else [wanted], keyword)}"
    elif keyword == "pattern":
        told = f"is {value}, which does not match the pattern {shown(wanted)}"
    return SchemaFault(path=_path(error.absolute_path), keyword=f"{keyword or 'false'}", told=told)


def _either(wanted: Any, keyword: str) -> str:
    """Return what is allowed, as part of a sentence.

    >>> _either("string", "type"), _either(["a", 5], "enum")
    ('string', '"a" or 5')
    """
    choices = wanted if isinstance(wanted, list) else [wanted]
    names = [one if keyword == "type" and isinstance(one, str) else shown(one) for one in choices[:_CHOICES]]
    more = len(choices) - _CHOICES
    return " or ".join(names) + (f" or {more} more" if more > 0 else "")


def _path(parts: Any) -> str:
    """Return a path as people write it.

    >>> _path(["legs", 0, "date"])
    'legs[0].date'
    """
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else f"{part}"
    return text if len(text) <= _PATH_CHARACTERS else f"{text[: _PATH_CHARACTERS - 1]}…"
