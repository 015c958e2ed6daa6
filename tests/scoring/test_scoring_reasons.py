"""Every sentence that a person reads about a fault."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.scoring import ToolFault, ToolScore
from otel_agentic.scoring.model import first_difference, shown_call
from otel_agentic.truth.values import json_text
from tests.snapshots import ending, exactly, opening

ACTUAL: dict[str, Any] = {"turn_index": 1, "actual_position": 2, "step": 3}


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (
            ToolFault("missing", "book", expected={"seats": 2}, expected_index=0),
            "expected call 1, book(seats=2), was not made",
        ),
        (
            ToolFault("missing", "book", expected={}, expected_index=1, turn_index=4),
            "expected call 2 of turn 5, book(), was not made",
        ),
        (
            ToolFault("spurious", "book", expected=0, actual={"seats": 2}, **ACTUAL),
            "book(seats=2) in turn 2, step 3 was not asked for",
        ),
        (
            ToolFault("spurious", "book", expected=0, actual=None, **ACTUAL),
            "book in turn 2, step 3 was not asked for",
        ),
        (
            ToolFault("spurious", "book", expected=2, actual={}, note="forbid", **ACTUAL),
            "book() in turn 2, step 3 was one too many, 2 calls were expected; extra calls like it are forbidden",
        ),
        (
            ToolFault("forbidden", "drop", actual={"table": "users"}, note="dr*", **ACTUAL),
            "drop(table=\"users\") in turn 2, step 3 is forbidden by 'dr*'",
        ),
        (ToolFault("forbidden", "drop", actual={}, note="drop", **ACTUAL), "drop() in turn 2, step 3 is forbidden"),
        (
            ToolFault("wrong_order", "a", expected="before b", **ACTUAL),
            "a in turn 2, step 3 is out of order: expected before b",
        ),
        (
            ToolFault("wrong_order", "a", expected=2, actual=1, **ACTUAL),
            "a in turn 2, step 3 is out of order: expected as number 2, came as number 1",
        ),
        (
            ToolFault("unused_result", "find", note="the data flag its result as unused", **ACTUAL),
            "the result of find in turn 2, step 3 was not used: the data flag its result as unused",
        ),
        (
            ToolFault("errored", "find", note="no seat", **ACTUAL),
            'find in turn 2, step 3 answered with an error: "no seat"',
        ),
        (ToolFault("errored", "find", **ACTUAL), "find in turn 2, step 3 answered with an error"),
    ],
)
def test_a_fault_says_which_call_of_which_turn_and_what_is_wrong(fault: ToolFault, sentence: str) -> None:
    assert fault.explanation == sentence


@pytest.mark.parametrize(
    ("mode", "expected", "recorded", "message"),
    [
        ("exact", 5, "5", 'parameter x was "5", expected 5'),
        ("exact", None, 1, "parameter x was 1, expected null"),
        ("exact", 1, True, "parameter x was true, expected 1"),
        ("exact", [1, {"a": 2}], [1, {"a": 3}], "parameter x[1].a was 3, expected 2"),
        ("exact", [1, 2], [1], "parameter x[1] was not given, expected 2"),
        ("exact", [1], [1, 2], "parameter x[1] = 2 was not expected"),
        ("exact", {"a": 1, "b": 2}, {"a": 1}, "parameter x.b was not given, expected 2"),
        ("exact", {"a": 1}, {"a": 1, "c": None}, "parameter x.c = null was not expected"),
        ("exact", {"a": 1}, [1], 'parameter x was [1], expected {"a": 1}'),
        ("unordered", [1, 2], [2], "parameter x was [2], expected [1, 2] in any order"),
        ("casefold", "Rome", "Bern", 'parameter x was "Bern", expected "Rome" in upper or lower case'),
        ("number", 5, 6, "parameter x was 6, expected a number near 5"),
        ("regex", "[A-Z]+", "a", 'parameter x was "a", expected a text or number of the pattern "[A-Z]+"'),
        ("contains", "late", "soon", 'parameter x was "soon", expected something that contains "late"'),
        ("one_of", ["a", "b"], "c", 'parameter x was "c", expected one of ["a", "b"]'),
        (
            "json_schema",
            {"type": "integer"},
            "c",
            'parameter x was "c", expected a value of the schema {"type": "integer"}',
        ),
        ("judge", "Rome", "Oslo", 'parameter x was "Oslo", expected what means "Rome"'),
    ],
)
def test_a_wrong_parameter_says_what_was_expected_and_where_values_differ(
    mode: Any, expected: Any, recorded: Any, message: str
) -> None:
    fault = ToolFault(
        "wrong_parameters", "book", parameter="x", expected=expected, actual=recorded, mode=mode, **ACTUAL
    )
    assert exactly(fault.explanation, message=message) == snapshot("book in turn 2, step 3: <message>")


def test_a_parameter_that_is_not_there_or_not_expected_says_so() -> None:
    absent = ToolFault("wrong_parameters", "book", parameter="x", expected="a", mode="regex", provided=False, **ACTUAL)
    assert ending(absent.explanation) == snapshot(
        'parameter x was not given, expected a text or number of the pattern "a"'
    )
    absent = ToolFault("wrong_parameters", "book", parameter="x", mode="any", provided=False, **ACTUAL)
    assert ending(absent.explanation) == snapshot("parameter x was not given, expected any value")
    beyond = ToolFault("wrong_parameters", "book", parameter="x", actual={"a": 1}, **ACTUAL)
    assert ending(beyond.explanation) == snapshot('parameter x = {"a": 1} was not expected')


def test_long_values_are_cut_and_short_arguments_of_a_call_come_first() -> None:
    assert json_text("x" * 100) == f'"{"x" * 58}…'
    arguments = {"legs": "l" * 100, "seats": 2, "note": "n" * 100, "other": "o" * 100, "zone": 1}
    assert exactly(shown_call("book", arguments), value="l" * 58) == snapshot(
        'book(seats=2, zone=1, legs="<value>…, …)'
    )
    assert shown_call("book", {"legs": [{"to": "Rome"}] * 20}).endswith('{"to": "Ro…)')
    assert shown_call("book", {"k" * 200: 1, "a": 1}) == "book(a=1, …)"


def test_values_without_a_textual_form_are_explained_as_well() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    fault = ToolFault("wrong_parameters", "book", parameter="x", expected=[[1]], actual=deep, mode="exact", **ACTUAL)
    assert opening(fault.explanation) == snapshot(
        "book in turn 2, step 3: parameter x[0][0] was a value that cannot be shown"
    )
    other = ToolFault("wrong_parameters", "book", parameter="x", expected=deep, actual=[deep], mode="exact", **ACTUAL)
    assert opening(other.explanation) == snapshot("book in turn 2, step 3: parameter x")
    assert first_difference(float("nan"), {1: 2}, "x")[0] == "x"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"outcome": "pass", "required": 2, "paired": 2}, "2 of 2 required calls were made"),
        ({"outcome": "pass", "required": 1, "paired": 1}, "1 of 1 required call was made"),
        ({"outcome": "pass"}, "no call was required, and none was made that is not allowed"),
        (
            {"outcome": "pass", "required": 1, "paired": 1, "faults": (ToolFault("errored", "a", **ACTUAL),)},
            "1 of 1 required call was made; a in turn 2, step 3 answered with an error",
        ),
        (
            {"outcome": "pass", "faults": (ToolFault("errored", "a", **ACTUAL),)},
            "no call was required; a in turn 2, step 3 answered with an error",
        ),
        (
            {"outcome": "fail", "faults": (ToolFault("errored", "a"), ToolFault("errored", "b", note="no"))},
            'a somewhere answered with an error; b somewhere answered with an error: "no"',
        ),
        ({"outcome": "not_evaluated", "note": "no word"}, "no word"),
        (
            {"outcome": "not_evaluated", "note": "no word", "faults": (ToolFault("errored", "a", **ACTUAL),)},
            "no word; a in turn 2, step 3 answered with an error",
        ),
    ],
)
def test_a_score_says_its_faults_and_where_it_passed_what_went_well(fields: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"turn_index": 0, "reason": None, "overall": 1.0, "dimensions": {}, "faults": ()}
    assert ToolScore(**{**values, **fields}).explanation == message
