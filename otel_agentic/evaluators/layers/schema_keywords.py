"""Validators of JSON Schema whose every keyword is bounded: schemas and arguments are strangers'."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.patterns import compile_pattern
from otel_agentic.truth.values import canonical, is_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jsonschema import ValidationError

#: What one check may take: a step is a keyword of the schema, or an item of what it looks through.
_STEPS: Final = 100_000
#: Patterns that one check may try on texts.
_PATTERNS: Final = 500


class SchemaUnusableError(ValueError):
    """A schema cannot be used for a call; says why. Caught where calls are scored, never seen by people.

    `of_call`: it may do for other calls.
    """

    def __init__(self, why: str, *, of_call: bool = False) -> None:
        """Say why, and whether only this call is concerned."""
        super().__init__(why)
        self.of_call = of_call


@dataclass(slots=True)
class Budget:
    """What is left of what one check may take."""

    steps: int = _STEPS
    patterns: int = _PATTERNS

    def take(self, steps: int) -> None:
        """Take some steps; raise SchemaUnusableError where they are more than are left."""
        self.steps -= steps
        if self.steps < 0:
            raise SchemaUnusableError(f"checking takes more than {_STEPS:,} steps")

    def occurs(self, pattern: str, text: str) -> bool:
        """Return whether a pattern matches somewhere; raise SchemaUnusableError where too many were tried."""
        self.patterns -= 1
        if self.patterns < 0:
            raise SchemaUnusableError(f"checking tries more than {_PATTERNS} patterns")
        return compile_pattern(pattern).search(text)


class _Running(threading.local):
    """The budget of the check that runs, one a thread: keywords are functions that are given nothing of ours."""

    budget = Budget()


running: Final = _Running()


@cache
def bounded(kind: Any) -> Any:
    """Return a validator class like one of the package's, whose every keyword takes from `running.budget`."""
    from jsonschema import validators  # noqa: PLC0415 — slow to import, and few stores have schemas

    own = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    own |= {name: _multiple_of for name in ("multipleOf", "divisibleBy") if name in kind.VALIDATORS}
    if "draft-03" not in kind.META_SCHEMA["$schema"]:  # there it is a truth, on the property itself
        own["required"] = _required
    keywords = {**kind.VALIDATORS, **own}
    counted = {name: _counted(keyword) for name, keyword in keywords.items()}
    # The package's stubs leave this function untyped.
    return validators.extend(  # type: ignore[no-untyped-call]
        kind, counted, type_checker=kind.TYPE_CHECKER.redefine("integer", _is_whole)
    )


def _counted(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def counted(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
        running.budget.take(1 + _size(wanted) + _size(value))
        # OpenAPI's and Gemini's way to allow null; JSON Schema has no such keyword.
        if value is None and schema.get("nullable") is True:
            return ()
        return keyword(validator, wanted, value, schema)

    return counted


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (dict, list)) else 0


def _wrong(path: tuple[str, ...] = ()) -> ValidationError:
    from jsonschema import ValidationError  # noqa: PLC0415 — as above

    return ValidationError("", path=path)


def _pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not running.budget.occurs(wanted, value):
        yield _wrong()


def _pattern_properties(validator: Any, patterns: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    for wanted, schema in patterns.items():
        for key in value:
            if running.budget.occurs(wanted, key):
                yield from validator.descend(value[key], schema, path=key, schema_path=wanted)


def _additional_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in value:
        if key in known or any(running.budget.occurs(one, key) for one in patterns):
            continue
        if wanted is False:
            yield _wrong((key,))
        else:
            yield from validator.descend(value[key], wanted, path=key)


def _required(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        yield from (_wrong((key,)) for key in wanted if key not in value)


def _is_whole(_: Any, value: Any) -> bool:
    # By value in every draft: JSON has one kind of numbers, and drafts 3 and 4 would tell 5.0 from 5.
    return is_number(value) and (isinstance(value, int) or float(value).is_integer())


def _multiple_of(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    # As the numbers are written: to a processor 19.99 is no multiple of 0.01.
    if is_number(value) and (Fraction(str(value)) / Fraction(str(wanted))).denominator != 1:
        yield _wrong()


def _unique_items(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    # By keys: the package compares all pairs.
    if wanted and isinstance(value, list) and len({canonical(item) for item in value}) < len(value):
        yield _wrong()
