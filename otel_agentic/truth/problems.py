"""Messages about invalid cases: the field, the actual value, the allowed values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from otel_agentic.truth.model import (
    Case,
    CaseTurn,
    Effect,
    ExpectedCall,
    ExtraRule,
    MatchRule,
    ModeName,
    ToolExpectation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_SHOWN_CHARACTERS: Final = 80

#: Parts of a location that are pydantic's own: the key of an object, and the form that was tried.
_TAGS: Final = frozenset({"[key]", "[text]", "[list]", "[messages]", "[object]"})

#: The record that the value of a field holds, which determines the allowed names.
_RECORDS: Final[Mapping[str, type[BaseModel]]] = {
    "turns": CaseTurn,
    "tools": ToolExpectation,
    "alternatives": ToolExpectation,
    "calls": ExpectedCall,
    "match": MatchRule,
}

_EXTRA_RULES: Final = ", ".join(get_args(ExtraRule))

#: Fields with several forms: pydantic names each form it tried, a person needs one sentence.
_SHAPES: Final[Mapping[str, str]] = {
    "extra_calls": f"{_EXTRA_RULES}, or one of these for each of {' and '.join(get_args(Effect))}, "
    'such as {"read": "allow", "write": "forbid"}',
    "match": f'for each parameter one of {", ".join(get_args(ModeName))}, or {{"mode": "number", "tolerance": 0.01}}',
    "answer": "a text that is not empty, or a list of such texts, each of which is accepted",
    "outputs": "a list of texts (not empty) and numbers",
    "verdict": '"pass", "fail", or a reward (a number)',
}

#: Those of these whose next part is the author's own: a parameter, or a position in a list.
_INDEXED: Final = frozenset({"answer", "match", "outputs"})

#: Errors whose message is complete.
_SENTENCES: Final[Mapping[str, str]] = {
    "value_error": "{error}",
    "missing": "missing; it is required here",
    "json_invalid": "not JSON: {error}; a line holds one case as a JSON object",
}

#: The allowed values by pydantic's type of error; other errors keep pydantic's words.
_ALLOWED: Final[Mapping[str, str]] = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "finite_number": "a finite number",
    "less_than_equal": "a number of at most {le:g}",
    "greater_than_equal": "a number of at least {ge:g}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """The problem of a field: its path, the actual value and the allowed ones."""

    path: tuple[str | int, ...]
    sentence: str


def describe(error: ValidationError) -> Iterator[Complaint]:
    """Yield one complaint per invalid field, in the order of the fields."""
    reported: set[tuple[str | int, ...]] = set()
    for detail in error.errors(include_url=False):
        path = _field_path(detail)
        if path not in reported:
            reported.add(path)
            yield Complaint(path=path, sentence=_sentence(detail))


def _shaped_field(detail: ErrorDetails) -> tuple[int, str] | None:
    """Return the index and name of the field with several forms that contains the error, or None."""
    for index, part in enumerate(detail["loc"]):
        # A parameter may itself be called `match` or `outputs`; the content of `parameters` is free.
        if part == "parameters":
            return None
        if part in _SHAPES:
            return index, str(part)
    return None


def _field_path(detail: ErrorDetails) -> tuple[str | int, ...]:
    shaped = _shaped_field(detail)
    named = tuple(part for part in detail["loc"] if part not in _TAGS)
    # After a field with several forms only the parameter (`match`) or the position (lists) is the author's own name.
    return named if shaped is None else named[: named.index(shaped[1]) + 1 + (shaped[1] in _INDEXED)]


def _sentence(detail: ErrorDetails) -> str:
    kind, actual = detail["type"], found_text(detail["input"])
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**detail.get("ctx", {}))
    if kind == "extra_forbidden" and _shaped_field(detail) is None:
        return f"unknown field, found {actual}; allowed: {', '.join(sorted(_record_at(detail).model_fields))}"
    shaped = _shaped_field(detail)
    if shaped is not None:
        return f"found {actual}; allowed: {_SHAPES[shaped[1]]}"
    if not detail["loc"]:
        return f"a case is a JSON object, found {actual}"
    return f"found {actual}; allowed: {_allowed(detail)}"


def _record_at(detail: ErrorDetails) -> type[BaseModel]:
    holders = [part for part in detail["loc"][:-1] if isinstance(part, str) and part in _RECORDS]
    return _RECORDS[holders[-1]] if holders else Case


def _allowed(detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "literal_error":
        return str(context["expected"]).replace("'", "").replace(" or ", ", ")
    if detail["type"] in _ALLOWED:
        return _ALLOWED[detail["type"]].format(**context)
    return detail["msg"].removeprefix("Input should be ")


def found_text(value: Any) -> str:
    """Return a value as quoted in messages: as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
