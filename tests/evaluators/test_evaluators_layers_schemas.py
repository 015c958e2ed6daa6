"""Schemas as they are written in the wild: every draft, OpenAPI's and Gemini's ways, decimals."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.evaluators.layers import Validity
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth.values import SchemaUnusableError, schema_faults
from tests.evaluators.ragas_subjects import scores_of, subject


def draft(number: int) -> str:
    return f"http://json-schema.org/draft-0{number}/schema#"


@pytest.mark.parametrize(
    ("expected", "value", "valid"),
    [
        # By the numbers as they are written: a processor's 19.99 / 0.01 is no whole number.
        (0.01, 19.99, True),
        (0.1, 0.3, True),
        (0.1, 0.35, False),
        (0.01, 19.999, False),
        (5, 10.0, True),
        (5, 12, False),
        (0.5, 10**400, True),
        (1e-300, 1e300, True),
        (0.01, "19.999", True),
        (0.01, True, True),
    ],
)
@pytest.mark.parametrize("keyword", ["multipleOf", "divisibleBy"])
def test_multiples_are_counted_in_decimals(keyword: str, expected: float, value: Any, valid: bool) -> None:  # noqa: FBT001 — a row
    schema: dict[str, Any] = {"properties": {"price": {keyword: expected}}}
    schema |= {"$schema": draft(3)} if keyword == "divisibleBy" else {}
    assert valid == (not schema_faults({"price": value}, schema))


@pytest.mark.parametrize("number", [3, 4, 6, 7])
def test_a_number_is_whole_by_value_in_every_draft(number: int) -> None:
    schema = {"$schema": draft(number), "properties": {"n": {"type": "integer"}}}
    assert () == schema_faults({"n": 5.0}, schema)
    assert [("n", "is 5.5, allowed: integer")] == [
        (fault.path, fault.message) for fault in schema_faults({"n": 5.5}, schema)
    ]
    assert ["n"] == [fault.path for fault in schema_faults({"n": True}, schema)]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"enum": ["a"], "type": "string"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "object", "properties": {"x": {}}, "required": ["x"]},
    ],
)
def test_nullable_allows_null_and_nothing_else(schema: dict[str, Any]) -> None:
    assert [] != list(schema_faults({"n": None}, {"properties": {"n": schema}}))
    nullable = {"properties": {"n": {**schema, "nullable": True}}, "required": ["n"]}
    assert () == schema_faults({"n": None}, nullable)
    assert {"n"} == {fault.path for fault in schema_faults({"n": [1]}, nullable)}
    assert ["n"] == [fault.path for fault in schema_faults({}, nullable)]
    # A parameter with the name of a keyword is no keyword.
    assert ["nullable"] == [
        fault.path for fault in schema_faults({"nullable": None}, {"properties": {"nullable": {"type": "boolean"}}})
    ]


@pytest.mark.parametrize(
    "named",
    [
        draft(7),
        draft(7).removesuffix("#"),
        draft(7).replace("http:", "https:"),
        "https://json-schema.org/draft/2019-09/schema#",
        "http://json-schema.org/draft/2019-09/schema",
    ],
)
def test_a_draft_is_known_however_its_address_is_written(named: str) -> None:
    # A list of schemas under `items` is one for each place up to 2019-09, and no schema since.
    schema = {"properties": {"all": {"items": [{"type": "string"}]}}}
    assert ["all[0]"] == [fault.path for fault in schema_faults({"all": [1]}, {"$schema": named, **schema})]
    with pytest.raises(SchemaUnusableError):
        schema_faults({"all": [1]}, schema)


def test_an_argument_that_was_recorded_without_its_name_is_held_against_no_name() -> None:
    # Some instrumentations keep the one argument of a tool without its name; it is read under `input`.
    call = tool_call("find", {"input": "Rome"})
    named: dict[str, Any] = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    lost = scores_of(Validity(), subject(conversation(turn("go", "ok", call), tool_definitions={"find": named}), None))
    assert (None, "content_not_captured") == (lost["parameter_validity"].value, lost["parameter_validity"].reason)
    own = {"properties": {"input": {"type": "integer"}}}
    scores = scores_of(Validity(), subject(conversation(turn("go", "ok", call), tool_definitions={"find": own}), None))
    assert 0.0 == scores["parameter_validity"].value
