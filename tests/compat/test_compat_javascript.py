from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.compat.javascript import deep_equal, json_text, type_of

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@given(value=values)
def test_the_text_of_a_value_reads_as_an_equal_value(value: Any) -> None:
    assert deep_equal(json.loads(json_text(value)), value)


@given(item=values, other=values)
def test_equal_values_are_of_one_kind_whichever_stands_first(item: Any, other: Any) -> None:
    if deep_equal(item, other):
        assert type_of(item) == type_of(other)
        assert deep_equal(other, item)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5.0, "5"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-7"),
        (0.000001, "0.000001"),
        (-3.25e-10, "-3.25e-10"),
        (5e-324, "5e-324"),
        (2**53 + 1, "9007199254740992"),
        (12345678901234567890123, "1.2345678901234568e+22"),
        (10**400, "null"),
    ],
)
def test_numbers_are_written_as_javascript_writes_them(number: float, text: str) -> None:
    assert json_text(number) == text


def test_whole_numbers_that_are_one_double_are_equal() -> None:
    assert deep_equal(2**53, 2**53 + 1)


def test_a_lone_surrogate_is_escaped() -> None:
    assert json_text("a\ud800é\u2028") == '"a\\ud800é\u2028"'
