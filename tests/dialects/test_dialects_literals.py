"""Python's notation of containers and objects, read without Python."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.dialects.values import read_repr

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(st.text(), VALUES, max_size=4) | st.lists(VALUES, max_size=4))
def test_what_python_writes_is_read_back(value: Any) -> None:
    assert ast.literal_eval(repr(value)) == read_repr(repr(value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Call(name='add', of=Other(n=1), at=<Clock 3>, kind=<Kind.A: 1>)",
            {"name": "add", "of": {"n": 1}, "at": None, "kind": None},
        ),
        ("Said(role=<Role.USER: 'user'>)", {"role": "user"}),
        ("Point(1, 2, z=3)", {"0": 1, "1": 2, "z": 3}),
        ("{1, 2}", [1, 2]),
        ("{'only'}", ["only"]),
        ("('a', 'b',)", ["a", "b"]),
        ("{'at': datetime.date(2026, 1, 2)}", {"at": {"0": 2026, "1": 1, "2": 2}}),
        (r"['\ud800 \x41 \'q\' \\n']", ["\ufffd A 'q' \\n"]),
    ],
)
def test_objects_sets_and_escapes_are_read(text: str, expected: Any) -> None:
    assert expected == read_repr(text)


@pytest.mark.parametrize(
    "text", ["Hello (again).", "[1, 2", "{'a': 1} and more", "{'a' 1}", "42", "'text'", "", "f(", None, 7]
)
def test_anything_else_is_no_container(text: object) -> None:
    assert read_repr(text) is None


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "{'a': '" + "\\'" * 100_000, "[<" + "'a'" * 60_000, "[" + " " * 200_000 + "x"]
)
def test_hostile_text_is_no_container(text: str) -> None:
    # Long enough that a parser that is not linear does not end.
    assert read_repr(text) is None
