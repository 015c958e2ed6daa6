"""Differences of values: each has its path and both values around it, and equal values have none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.render.html.difference import MAX_DIFFERENCES, differences
from otel_agentic.render.html.filters import VALUE_LIMIT

_JSON = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
_FLIGHTS = [{"flight_number": "HAT201", "date": "2026-05-20"}, {"flight_number": "HAT212", "date": "2026-05-21"}]
_OTHER = [_FLIGHTS[0], {"flight_number": "HAT033", "date": "2026-05-21"}]


@pytest.mark.parametrize(
    ("expected", "actual", "items"),
    [
        (3, 1, [("p", "1", "3")]),
        ("second", None, [("p", "—", "second")]),
        (_OTHER, _FLIGHTS, [("p[1].flight_number", "HAT212", "HAT033")]),
        ([1, 2], [1], [("p[1]", None, "2")]),
        ({"a": 1}, {"b": 1}, [("p.a", None, "1"), ("p.b", "1", None)]),
        ([], [1], [("p", "[1]", "[]")]),
        ("a" * 70 + "b", "a" * 70 + "c", [("p", "…aaaaaaac", "…aaaaaaab")]),
        (3, "3", [("p", '"3"', "3")]),
    ],
)
def test_a_difference_has_its_path_and_both_values(expected: Any, actual: Any, items: list[Any]) -> None:
    assert items == [(item.path, item.actual, item.expected) for item in differences(expected, actual, "p")]


@given(_JSON)
def test_equal_values_do_not_differ(value: Any) -> None:
    assert [] == differences(value, value)


@given(_JSON, _JSON)
def test_differing_values_have_a_few_short_differences(expected: Any, actual: Any) -> None:
    items = differences(expected, actual)

    assert bool(items) == (expected != actual)
    assert len(items) <= MAX_DIFFERENCES
    for item in items:
        assert (item.expected, item.actual) != (None, None)
        assert all(len(text) <= VALUE_LIMIT for text in (item.expected, item.actual) if text is not None)
