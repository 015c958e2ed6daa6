"""Comparison of an actual parameter with the expected one, by mode (exact, numeric, text, ...)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_agentic.truth.values import canonical, conforms, is_number, matches_fully

if TYPE_CHECKING:
    from otel_agentic.truth.model import MatchRule

#: Whether an actual value equals the expected one; None if only a judge could decide.
Check: TypeAlias = Callable[[Any], bool | None]
#: What a check raises on a value that is nested too deeply to be compared, too large for its mode, or no number at all.
_BEYOND: Final = (RecursionError, OverflowError, ValueError)
#: Values nested no deeper than this are compared by Python itself.
_SHALLOW: Final = 16


def agrees(expected: Any, actual: Any, rule: MatchRule, *, numbers_as_text: bool = False) -> bool | None:
    """Return whether an actual value equals the expected one; None if only a judge could decide.

    Mode `judge` is decided only for equal values: tool scores ask no model. Any JSON value is accepted; one that is
    nested too deeply to be compared, or too large for its mode, equals nothing.

    >>> from otel_agentic.truth.model import EXACT, MatchRule
    >>> agrees(5, 5.0, EXACT), agrees("5", 5, EXACT), agrees("5", 5, EXACT, numbers_as_text=True)
    (True, False, True)
    >>> agrees("rome", "Roma", MatchRule(mode="judge")) is None
    True
    """
    return needs_judge(check_of(expected, rule, numbers_as_text=numbers_as_text), actual)


def needs_judge(check: Check, actual: Any) -> bool | None:
    """Return the result of a check on an actual value; False if the check cannot handle it."""
    try:
        return check(actual)
    except _BEYOND:
        return False


def check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    """Return the check of one parameter, for `asked`."""
    try:
        return _check_of(expected, rule, numbers_as_text=numbers_as_text)
    except _BEYOND:
        return lambda _decided: False


def _check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    if rule.mode == "number":
        return lambda actual: _near(expected, actual, rule.tolerance, numbers_as_text=numbers_as_text)
    if rule.mode == "judge":
        equal = _equality(expected, numbers_as_text=numbers_as_text)
        return lambda actual: True if equal(actual) else None
    return _CHECKS[rule.mode](expected, numbers_as_text)


def _equality(expected: Any, *, numbers_as_text: bool, unordered: bool = False) -> Check:
    """Return the check for one value: numbers by value, true is not 1, text is text, objects in any order of keys."""
    if isinstance(expected, str) and not numbers_as_text:
        return lambda actual: bool(actual == expected)
    if expected is None or isinstance(expected, bool):
        return lambda actual: actual is expected
    key = canonical(expected, unordered=unordered, numbers_as_text=numbers_as_text)

    def equal(actual_call: Any) -> bool:
        return canonical(actual_call, unordered=unordered, numbers_as_text=numbers_as_text) == key

    if is_number(expected) and not math.isnan(expected):
        return lambda actual: bool(actual == expected) if is_number(actual) else numbers_as_text and equal(actual)
    if isinstance(expected, str):
        # Between two texts nothing was turned into text: "5" and "5.0" are different codes.
        return lambda actual: actual == expected if isinstance(actual, str) else equal(actual)
    if unordered or numbers_as_text or not _is_json(expected):
        return equal
    return lambda actual: actual == expected and _same_truths(expected, actual)


def _near(expected: Any, actual: Any, tolerance: float, *, numbers_as_text: bool) -> bool:
    if numbers_as_text and isinstance(actual, str):
        key = canonical(actual, numbers_as_text=True)
        actual = key[1] if isinstance(key, tuple) and key[0] == "number" else actual
    if not is_number(actual):
        return False
    apart = abs(actual - expected) - tolerance
    if apart <= 0 or (isinstance(actual, int) and isinstance(expected, int)):
        return bool(apart <= 0)
    # 1.1 is within 0.1 of 1, and 0.1 + 0.2 within 0 of 0.3, for everyone but a processor.
    return bool(apart <= 1e-12 * max(abs(actual), abs(expected)) < math.inf)


def _folded(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    key = canonical(expected, fold_case=True, numbers_as_text=numbers_as_text)
    return lambda actual: canonical(actual, fold_case=True, numbers_as_text=numbers_as_text) == key


def _one_of(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    choices = [_equality(expected_call, numbers_as_text=numbers_as_text) for expected_call in expected]
    return lambda actual: any(equal(actual) for equal in choices)


def _containing(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    """Return the check that a text holds a text, a list every item of a list (or the one value), an object every entry."""
    required = expected if isinstance(expected, (list, tuple)) else [expected]
    items = [_equality(item, numbers_as_text=numbers_as_text) for item in required]
    entries = (
        {key: _equality(value, numbers_as_text=numbers_as_text) for key, value in expected.items()}
        if isinstance(expected, Mapping)
        else None
    )
    total = _equality(expected, numbers_as_text=numbers_as_text)

    def contains(actual: Any) -> bool:
        if isinstance(actual, str) and isinstance(expected, str):
            return expected in actual
        if isinstance(actual, (list, tuple)):
            return all(any(equal(item) for item in actual) for equal in items)
        if isinstance(actual, Mapping):
            return entries is not None and all(key in actual and equal(actual[key]) for key, equal in entries.items())
        return bool(total(actual))

    return contains


def _matching(expected: Any) -> Check:
    """Return the check that a pattern matches a whole text, or a number as JSON writes it."""

    def matches(actual: Any) -> bool:
        text = json.dumps(actual) if is_number(actual) else actual
        return isinstance(text, str) and matches_fully(expected, text)

    return matches


_CHECKS: Final[Mapping[str, Callable[[Any, bool], Check]]] = {
    "exact": lambda expected, text: _equality(expected, numbers_as_text=text),
    "unordered": lambda expected, text: _equality(expected, numbers_as_text=text, unordered=True),
    "casefold": _folded,
    "regex": lambda expected, _text: _matching(expected),
    "contains": _containing,
    "one_of": _one_of,
    "any": lambda _expected, _text: lambda _decided: True,
    "json_schema": lambda expected, _text: lambda actual: conforms(actual, expected),
}


def _is_json(value: Any) -> bool:
    """Return whether a value is made of what JSON is read as, and is equal to itself."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and not math.isnan(value))


def _same_truths(item: Any, other: Any) -> bool:
    """Return whether two values that are equal in Python are so in JSON, where 1 is not true.

    >>> _same_truths([1, {"a": True}], [1.0, {"a": True}]), _same_truths([1], [True])
    (True, False)
    """
    if isinstance(item, dict):
        return all(_same_truths(held, other[key]) for key, held in item.items())
    if isinstance(item, list):
        return all(map(_same_truths, item, other))
    return isinstance(item, bool) == isinstance(other, bool)


def _is_simple(value: Any) -> bool:
    """Return whether a made value of the same type is the same JSON value just where Python holds the two equal."""
    return value is None or isinstance(value, (bool, int, str)) or compares_like_python(value)


def compares_like_python(value: Any, depth: int = _SHALLOW) -> bool:
    """Return whether Python's equality is that of JSON for a value; not for 1, because it equals True.

    Deeply nested values are left to the checks, which handle failing comparisons.

    >>> compares_like_python({"a": ["x", 5, None]}), compares_like_python({"a": 1}), compares_like_python(True)
    (True, False, False)
    """
    if isinstance(value, dict):
        return depth > 0 and all(compares_like_python(held, depth - 1) for held in value.values())
    if isinstance(value, list):
        return depth > 0 and all(compares_like_python(held, depth - 1) for held in value)
    if isinstance(value, (int, float)):
        return value not in {0, 1} and not math.isnan(value)  # true and false are 1 and 0
    return value is None or isinstance(value, str)
