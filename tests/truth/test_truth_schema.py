"""The published schema and the models agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator, meta
from pydantic import ValidationError

from otel_agentic.truth import Case
from otel_agentic.truth.formats.base import case_schema, field_descriptions, schema_text
from otel_agentic.truth.model import CaseTurn, ExpectedCall, MatchRule, ToolExpectation
from tests.truth.making import records
from tools.case_schema import PAGE

VALIDATOR = Draft202012Validator(case_schema())


def accepted_by_model(record: Any) -> bool:
    try:
        Case.model_validate_json(json.dumps(record))
    except ValidationError:
        return False
    return True


def indices(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all fields of a record that the format itself names."""
    result = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            # The content of these is the author's own.
            if key not in {"parameters", "expected_state", "match", "metadata"}:
                result += indices(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            result += indices(inner, (*path, index))
    return result


def changed(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The record with another value at the end of a way."""
    if not path:
        return value
    first, *rest = path
    if isinstance(record, dict):
        return {**record, first: changed(record[first], tuple(rest), value)}
    return [changed(inner, tuple(rest), value) if index == first else inner for index, inner in enumerate(record)]


@given(record=records())
def test_what_the_models_accept_the_schema_accepts(record: dict[str, Any]) -> None:
    assert accepted_by_model(record)
    assert [] == [error.message for error in VALIDATOR.iter_errors(record)]


@given(record=records(), data=st.data())
def test_a_changed_field_is_refused_by_both_or_by_neither(record: dict[str, Any], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(indices(record)[1:]))
    value = data.draw(st.sampled_from([None, True, -1, 0, 2.5, "", "allow", "x", [], [1], [""], {}, {"x": 1}]))
    mutated = changed(record, path, value)
    assert accepted_by_model(mutated) == VALIDATOR.is_valid(mutated)


@pytest.mark.parametrize(
    "record",
    [
        {"case_id": "a", "colour": 1},
        {"case_id": "a", "tools": {"calls": [], "alternatives": [{"calls": [], "alternatives": [{"calls": []}]}]}},
        {"case_id": "a", "tool_weights": {"selection": 0}},
        {
            "case_id": "a",
            "tools": {
                "calls": [
                    {"tool_name": "x", "parameters": {"a": 1}, "match": {"a": {"mode": "casefold", "tolerance": 1}}}
                ]
            },
        },
    ],
)
def test_rules_across_fields_are_in_the_schema_where_it_can_say_them(record: dict[str, Any]) -> None:
    assert (False, False) == (accepted_by_model(record), VALIDATOR.is_valid(record))


def test_the_schema_takes_a_case_a_list_of_cases_and_an_object_that_holds_one() -> None:
    case = {"case_id": "a"}
    assert all(map(VALIDATOR.is_valid, (case, [case], {"cases": [case], "dataset": "d"})))
    assert not any(map(VALIDATOR.is_valid, ([1], {"cases": [{}]}, {"cases": [case], "colour": 1}, {}, "a")))


def test_the_schema_is_one_and_is_published() -> None:
    meta.validate(case_schema())
    assert PAGE.read_text(encoding="utf-8") == schema_text()


def test_every_field_is_described() -> None:
    models = {
        model.__name__: set(model.model_fields) for model in (Case, CaseTurn, ToolExpectation, ExpectedCall, MatchRule)
    }
    assert models == {name: set(fields) for name, fields in field_descriptions().items()}
