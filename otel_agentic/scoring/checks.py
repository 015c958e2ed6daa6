"""Comparison of an actual parameter with the expected one, by mode (exact, numeric, text, ...)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_agentic.truth.values import canonical, conforms, is_number, matches_fully

if TYPE_CHECKING:
    from otel_agentic.truth.model import MatchRule

#: Whether a made value is the expected one; None where only a judge could say.
Check: TypeAlias = Callable[[Any], bool | None]
#: What a check raises on a value that is nested too deeply to be compared, too large for its mode, or no number at all.
_BEYOND: Final = (RecursionError, OverflowError, ValueError)
#: Values nested no deeper than this are compared by Python itself.
_SHALLOW: Final = 16


def agrees(expected: Any, made: Any, rule: MatchRule, *, numbers_as_text: bool = False) -> bool | None:
    """Return whether a made value is the expected one; None where only a judge could say.

    Mode `judge` is decided only where the values are equal: tool scores ask no model. Any JSON value is taken; one that
    is nested too deeply to be compared, or too large for its mode, agrees with nothing.

    >>> from otel_agentic.truth.model import EXACT, MatchRule
    >>> agrees(5, 5.0, EXACT), agrees("5", 5, EXACT), agrees("5", 5, EXACT, numbers_as_text=True)
    (True, False, True)
    >>> agrees("rome", "Roma", MatchRule(mode="judge")) is None
    True
    """
    return asked(check_of(expected, rule, numbers_as_text=numbers_as_text), made)


def asked(check: Check, made: Any) -> bool | None:
    """Return what a check says of a made value; False of one that is beyond it."""
    try:
        return check(made)
    except _BEYOND:
        return False


def check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    """Return the check of one parameter, for `asked`."""
    try:
        return _check_of(expected, rule, numbers_as_text=numbers_as_text)
    except _BEYOND:
        return lambda _made: False


def _check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    if rule.mode == "number":
        return lambda made: _near(expected, made, rule.tolerance, numbers_as_text=numbers_as_text)
    if rule.mode == "judge":
        equal = _equality(expected, numbers_as_text=numbers_as_text)
        return lambda made: True if equal(made) else None
    return _CHECKS[rule.mode](expected, numbers_as_text)


def _equality(expected: Any, *, numbers_as_text: bool, unordered: bool = False) -> Check:
    """Return the check for one value: numbers by value, true is not 1, text is text, objects in any order of keys."""
    if isinstance(expected, str) and not numbers_as_text:
        return lambda made: bool(made == expected)
    if expected is None or isinstance(expected, bool):
        return lambda made: made is expected
    key = canonical(expected, unordered=unordered, numbers_as_text=numbers_as_text)

    def equal(made: Any) -> bool:
        return canonical(made, unordered=unordered, numbers_as_text=numbers_as_text) == key

    if is_number(expected) and not math.isnan(expected):
        return lambda made: bool(made == expected) if is_number(made) else numbers_as_text and equal(made)
    if isinstance(expected, str):
        # Between two texts nothing was turned into text: "5" and "5.0" are different codes.
        return lambda made: made == expected if isinstance(made, str) else equal(made)
    if unordered or numbers_as_text or not _is_json(expected):
        return equal
    return lambda made: made == expected and _same_truths(expected, made)


def _near(expected: Any, made: Any, tolerance: float, *, numbers_as_text: bool) -> bool:
    if numbers_as_text and isinstance(made, str):
        key = canonical(made, numbers_as_text=True)
        made = key[1] if isinstance(key, tuple) and key[0] == "number" else made
    if not is_number(made):
        return False
    apart = abs(made - expected) - tolerance
    if apart <= 0 or (isinstance(made, int) and isinstance(expected, int)):
        return bool(apart <= 0)
    # 1.1 is within 0.1 of 1, and 0.1 + 0.2 within 0 of 0.3, for everyone but a processor.
    return bool(apart <= 1e-12 * max(abs(made), abs(expected)) < math.inf)


def _folded(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    key = canonical(expected, fold_case=True, numbers_as_text=numbers_as_text)
    return lambda made: canonical(made, fold_case=True, numbers_as_text=numbers_as_text) == key


def _one_of(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    choices = [_equality(one, numbers_as_text=numbers_as_text) for one in expected]
    return lambda made: any(equal(made) for equal in choices)


def _containing(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    """Return the check that a text holds a text, a list every item of a list (or the one value), an object every entry."""
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    items = [_equality(one, numbers_as_text=numbers_as_text) for one in wanted]
    entries = (
        {key: _equality(value, numbers_as_text=numbers_as_text) for key, value in expected.items()}
        if isinstance(expected, Mapping)
        else None
    )
    whole = _equality(expected, numbers_as_text=numbers_as_text)

    def contains(made: Any) -> bool:
        if isinstance(made, str) and isinstance(expected, str):
            return expected in made
        if isinstance(made, (list, tuple)):
            return all(any(equal(item) for item in made) for equal in items)
        if isinstance(made, Mapping):
            return entries is not None and all(key in made and equal(made[key]) for key, equal in entries.items())
        return bool(whole(made))

    return contains


def _matching(expected: Any) -> Check:
    """Return the check that a pattern matches a whole text, or a number as JSON writes it."""

    def matches(made: Any) -> bool:
        text = json.dumps(made) if is_number(made) else made
        return isinstance(text, str) and matches_fully(expected, text)

    return matches


_CHECKS: Final[Mapping[str, Callable[[Any, bool], Check]]] = {
    "exact": lambda expected, text: _equality(expected, numbers_as_text=text),
    "unordered": lambda expected, text: _equality(expected, numbers_as_text=text, unordered=True),
    "casefold": _folded,
    "regex": lambda expected, _text: _matching(expected),
    "contains": _containing,
    "one_of": _one_of,
    "any": lambda _expected, _text: lambda _made: True,
    "json_schema": lambda expected, _text: lambda made: conforms(made, expected),
}


def _is_json(value: Any) -> bool:
    """Return whether a value is made of what JSON is read as, and is equal to itself."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and not math.isnan(value))


def _same_truths(one: Any, other: Any) -> bool:
    """Return whether two values that are equal in Python are so in JSON, where 1 is not true.

    >>> _same_truths([1, {"a": True}], [1.0, {"a": True}]), _same_truths([1], [True])
    (True, False)
    """
    if isinstance(one, dict):
        return all(_same_truths(held, other[key]) for key, held in one.items())
    if isinstance(one, list):
        return all(map(_same_truths, one, other))
    return isinstance(one, bool) == isinstance(other, bool)


def _is_simple(value: Any) -> bool:
    """Return whether a made value of the same type is the same JSON value just where Python holds the two equal."""
    return value is None or isinstance(value, (bool, int, str)) or compares_like_python(value)


def compares_like_python(value: Any, depth: int = _SHALLOW) -> bool:
    """Return whether what Python holds equal to a JSON value is the same JSON value: 1 is not, for it equals true.

    A value that is nested deeply is left to the checks, where comparing may fail.

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
