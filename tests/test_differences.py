"""Differences of values: every difference has its path, and two different values never look the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_agentic.differences import MISSING, around, differences
from otel_agentic.render.text import difference_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
FLIGHTS = [{"flight_number": "HAT201"}, {"flight_number": "HAT033"}]


@pytest.mark.parametrize(
    ("expected", "actual", "text"),
    [
        (3, 1, "1 ≠ 3"),
        (3, "3", '"3" ≠ 3'),
        (True, 1, "1 ≠ true"),
        (FLIGHTS, [FLIGHTS[0], {"flight_number": "HAT212"}], "[1].flight_number: HAT212 ≠ HAT033"),
        ([1, 2], [1], "[1]: — ≠ 2"),
        ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3}}, "b.c: 3 ≠ 2"),
        ({"a": 1}, {"a": 1, "b": 2}, "b: 2 ≠ —"),
        ("a" * 70 + "b", "a" * 70 + "c", "…aaaaaaac ≠ …aaaaaaab"),
        ("Rome\x1b[31m", "Oslo", "Oslo ≠ Rome�[31m"),
    ],
)
def test_a_difference_is_one_line_around_what_differs(expected: Any, actual: Any, text: str) -> None:
    assert difference_text(expected, actual) == text


@given(JSON)
def test_equal_values_have_no_difference(value: Any) -> None:
    assert [*differences(value, value)] == []


@given(JSON, JSON)
@example([1], [True])
def test_every_difference_is_listed_at_its_path(expected: Any, actual: Any) -> None:
    result = [*differences(expected, actual)]

    for item in result:
        assert (item.expected, item.actual) != (MISSING, MISSING)
    if not result:
        assert expected == actual


@given(st.text(max_size=200), st.text(max_size=200), st.integers(min_value=4, max_value=80))
@example("a" * 100, "a" * 100 + "b", 20)
def test_different_texts_stay_different_when_they_are_cut(expected: str, actual: str, limit: int) -> None:
    cut = around(expected, actual, limit)

    assert all(len(text) <= limit for text in cut)
    assert (cut[0] == cut[1]) == (expected == actual)
