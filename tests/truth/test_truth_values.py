from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.config.patterns import own_pattern
from otel_agentic.truth.values import (
    canonical,
    conforms,
    leaves,
    normalise,
    says_text,
    schema_problems,
    similarity,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 3.0, 3.5),
        ({"type": ["string", "null"]}, None, 1),
        ({"type": "number"}, 1, True),
        ({"enum": ["a", 1]}, 1.0, "b"),
        ({"const": {"a": 1}}, {"a": 1.0}, {"a": 2}),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"a": "x", "b": 1}, {"b": 1}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"a": 1, "b": 2}),
        ({"items": {"minimum": 2}, "minItems": 1}, [2, 3], [1]),
        ({"uniqueItems": True, "maxItems": 2}, [1, 2], [1, 1.0]),
        ({"minLength": 2, "maxLength": 3, "pattern": "^[a-z]+$"}, "ab", "AB"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 10, "multipleOf": 5, "maximum": 9}, 5, 10),
        ({"anyOf": [{"type": "null"}, {"minimum": 3}]}, None, 2),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3),
        ({"oneOf": [{"minimum": 1}, {"maximum": 5}]}, 0, 3),
        ({"not": {"type": "string"}, "description": "no text"}, 1, "x"),
        (True, 1, None),
    ],
)
def test_a_schema_tells_good_from_bad(schema: Any, good: Any, bad: Any) -> None:
    assert list(schema_problems(schema)) == []
    assert conforms(good, schema)
    assert schema is True or not conforms(bad, schema)


@pytest.mark.parametrize(
    "schema",
    [5, {"$ref": "#/x"}, {"minimum": "1"}, {"items": {"type": "x"}}, {"pattern": "("}, {"anyOf": []}, {"enum": 1}],
)
def test_a_schema_that_is_not_understood_is_refused(schema: Any) -> None:
    assert list(schema_problems(schema))


@given(JSON)
def test_every_value_equals_itself_in_every_spelling(value: Any) -> None:
    for flags in ({}, {"unordered": True}, {"fold_case": True}, {"numbers_as_text": True}):
        assert canonical(value, **flags) == canonical(value, **flags)
        assert hash(canonical(value, **flags)) == hash(canonical(value, **flags))
    assert len(list(leaves(value, limit=5))) <= 5


def test_unordered_lists_compare_as_multisets_at_any_depth() -> None:
    assert canonical([[1, 2], [3, 3]], unordered=True) == canonical([[3, 3], [2, 1]], unordered=True)
    assert canonical([3, 3, 1], unordered=True) != canonical([3, 1, 1], unordered=True)


def test_a_postcode_is_no_number_even_where_numbers_come_as_text() -> None:
    assert canonical("5", numbers_as_text=True) == canonical(5, numbers_as_text=True)
    assert canonical("05", numbers_as_text=True) != canonical(5, numbers_as_text=True)


def test_a_pattern_that_backtracks_forever_does_not_match() -> None:
    assert not own_pattern("(a|a)*b").fullmatch("a" * 5000)


@given(st.text(max_size=30), st.text(max_size=30))
def test_similarity_is_symmetric_and_between_0_and_1(first: str, other: str) -> None:
    assert similarity(first, other) == similarity(other, first)
    assert 0 <= similarity(first, other) <= 1
    assert similarity(first, first) == 1


@given(st.text(max_size=30))
def test_white_space_around_a_text_changes_nothing(text: str) -> None:
    assert normalise(f"  {text}  ") == normalise(text)


def test_words_are_whole_except_where_a_script_has_no_spaces() -> None:
    assert not says_text("concatenate", "cat")
    assert says_text("a cat, asleep", "cat")
    assert says_text("首都は東京です", "東京")
