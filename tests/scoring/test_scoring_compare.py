from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.scoring.compile import Parameters, agrees
from otel_agentic.scoring.scope import ActualCall
from otel_agentic.testing import tool_call
from otel_agentic.truth import ExpectedCall, MatchRule

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def rule(mode: str, tolerance: float = 0.0) -> MatchRule:
    return MatchRule.model_validate({"mode": mode, "tolerance": tolerance})


def expected_call(parameters: dict[str, Any], **fields: Any) -> ExpectedCall:
    return ExpectedCall.model_validate_json(json.dumps({"tool_name": "t", "parameters": parameters, **fields}))


@pytest.mark.parametrize(
    ("mode", "expected", "actual", "equal"),
    [
        ("exact", 5, 5.0, True),
        ("exact", True, 1, False),
        ("exact", "5", 5, False),
        ("exact", "Rome", "rome", False),
        ("exact", None, None, True),
        ("exact", {"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1.0}, True),
        ("exact", [1, 2], [2, 1], False),
        ("unordered", [1, [2, 3]], [[3, 2], 1], True),
        ("unordered", [1, 1, 2], [1, 2, 2], False),
        ("casefold", {"city": "Rome "}, {"city": "ROME"}, True),
        ("number", 5, 5.004, False),
        ("number", 0.3, 0.1 + 0.2, True),
        ("number", 5, "5", False),
        ("number", 1, True, False),
        ("regex", "[A-Z]{3}", "JFK", True),
        ("regex", "[A-Z]{3}", "JFKX", False),
        ("regex", "5", 5, True),
        ("regex", "[0-9]{2}", 5, False),
        ("regex", r"-?[0-9]+\.[0-9]+", -5.25, True),
        ("regex", ".*", True, False),
        ("regex", ".*", None, False),
        ("regex", ".*", ["5"], False),
        ("contains", "late", "a late checkout", True),
        ("contains", ["a"], ["b", "a"], True),
        ("contains", "a", ["b", "a"], True),
        ("contains", {"a": 1}, {"a": 1.0, "b": 2}, True),
        ("contains", {"a": 1}, {"b": 2}, False),
        ("contains", 5, 5, True),
        ("one_of", ["a", 2], 2.0, True),
        ("one_of", ["a", 2], "b", False),
        ("any", None, "whatever", True),
        ("json_schema", {"type": "integer", "minimum": 1}, 3, True),
        ("json_schema", {"type": "integer", "minimum": 1}, "3", False),
        ("judge", "Rome", "Rome", True),
        ("judge", "Rome", "Roma", None),
    ],
)
def test_each_mode_compares_as_the_format_says(mode: str, expected: Any, actual: Any, equal: object) -> None:
    assert agrees(expected, actual, rule(mode)) is equal


def test_a_number_may_be_off_by_the_tolerance() -> None:
    assert agrees(5, 5.01, rule("number", 0.01))
    assert not agrees(5, 5.02, rule("number", 0.01))


def test_numbers_that_come_as_text_compare_where_the_setting_says_so() -> None:
    assert agrees(5, "5.0", rule("exact"), numbers_as_text=True)
    assert agrees(5, "5.2", rule("number", 0.5), numbers_as_text=True)
    assert not agrees("5", "5.0", rule("exact"), numbers_as_text=True)


def actual_call(arguments: dict[str, Any] | None) -> ActualCall:
    call = tool_call("t", arguments)
    return ActualCall(turn_index=0, call=call if arguments is not None else replace(call, arguments=None))


@pytest.mark.parametrize(
    ("expected", "arguments", "score", "invalid"),
    [
        (expected_call({}), {}, 1.0, []),
        (expected_call({"a": "x"}), {"a": "x"}, 1.0, []),
        (expected_call({"a": 1}), {"a": 1}, 1.0, []),
        (expected_call({"a": 1}), {"a": True}, 0.0, ["a"]),
        (expected_call({"a": 1}), {"a": 1, "b": 2}, 1 / 2, ["b"]),
        (expected_call({"a": 1, "b": 2}), {"c": 1, "b": 2}, 1 / 3, ["a", "c"]),
        (expected_call({"a": 1}, ignore_extra_parameters=True), {"a": 1, "b": 2}, 1.0, []),
        (expected_call({"a": 1}, ignore_extra_parameters=True), {"b": 2}, 0.0, ["a"]),
        (expected_call({}, ignore_extra_parameters=True), {"b": 2}, 1.0, []),
        (expected_call({"a": None}), {}, 0.0, ["a"]),
        (expected_call({"a": None}), {"a": None}, 1.0, []),
        (expected_call({"a": 1}, match={"a": "ignore"}), {"a": 2}, 1.0, []),
        (expected_call({}, match={"a": "any"}), {"a": 2}, 1.0, []),
        (expected_call({}, match={"a": "any"}), {}, 0.0, ["a"]),
        (expected_call({}, match={"a": "ignore"}), {"a": 2, "b": 1}, 0.0, ["b"]),
        (expected_call({"c": 3}, match={"a": "ignore"}), {"a": 2, "b": 1, "c": 3}, 1 / 2, ["b"]),
        (expected_call({"a": "x"}), None, 0.0, []),
        (expected_call({}), None, 0.0, []),
    ],
)
def test_a_call_scores_equal_keys_over_the_union_of_keys(
    expected: ExpectedCall, arguments: dict[str, Any] | None, score: float, invalid: list[str]
) -> None:
    parameters, actual = Parameters.of(expected, numbers_as_text=False), actual_call(arguments)
    assert parameters.compare(actual) == (score, invalid)
    assert parameters.scores([actual]) == [score]


@given(JSON, JSON, st.sampled_from(["exact", "unordered", "casefold", "contains", "any", "judge"]), st.booleans())
def test_no_json_value_raises_and_each_agrees_with_itself(first: Any, other: Any, mode: str, text: object) -> None:
    assert agrees(first, other, rule(mode), numbers_as_text=bool(text)) in {True, False, None}
    if mode != "contains":
        assert agrees(first, first, rule(mode), numbers_as_text=bool(text)) is True


@given(JSON)
def test_no_json_value_raises_in_the_modes_with_operands(actual: Any) -> None:
    schema = {"anyOf": [{"multipleOf": 0.1}, {"uniqueItems": True}, {"items": {"minLength": 1}}]}
    for mode, operand in (("number", 1e300), ("regex", "(a|b)*"), ("one_of", [actual]), ("json_schema", schema)):
        assert agrees(operand, actual, rule(mode)) in {True, False}


def test_a_value_nested_past_the_stack_or_too_large_agrees_with_nothing() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert agrees([], deep, rule("exact")) is False
    assert agrees(1.5, 10**400, rule("number")) is False


def test_no_number_and_a_pattern_without_end_agree_with_nothing() -> None:
    assert agrees({"multipleOf": 0.1}, math.nan, rule("json_schema")) is False
    assert agrees("(a|aa)+b", "a" * 60, rule("regex")) is False
    assert agrees(5, math.nan, rule("number", 1e300)) is False
    assert agrees(5, math.inf, rule("number", 1.0)) is False


def test_a_number_at_the_tolerance_is_within_it_despite_rounding_of_the_difference() -> None:
    assert agrees(1.0, 1.1, rule("number", 0.1))
    assert agrees(-0.3, -0.1, rule("number", 0.2))
    assert not agrees(1.0, 1.1001, rule("number", 0.1))
    assert not agrees(10**18, 10**18 + 2, rule("number", 1))
