"""Whether a made parameter is the expected one, mode by mode; and how far a call's arguments agree.

What an expected call asks for is compiled once into checks, one a parameter, for it is held against many made calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.opinions import NO_OPINIONS
from otel_agentic.truth.json_schema import conforms
from otel_agentic.truth.patterns import matches_fully
from otel_agentic.truth.values import canonical, is_number

if TYPE_CHECKING:
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.opinions import Opinions
    from otel_agentic.truth.model import ExpectedCall, MatchRule

#: Whether a made value is the expected one; None where only a judge could say.
Check: TypeAlias = Callable[[Any], bool | None]
#: What a check raises on a value that is nested too deeply to be compared, or too large for its mode.
_BEYOND: Final = (RecursionError, OverflowError)


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
    try:
        return check_of(expected, rule, numbers_as_text=numbers_as_text)(made)
    except _BEYOND:
        return False


def check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    """Return the check of one parameter; it may raise `RecursionError` and `OverflowError`."""
    mode = rule.mode
    if mode == "number":
        return lambda made: _near(expected, made, rule.tolerance, numbers_as_text=numbers_as_text)
    if mode == "judge":
        equal = _equality(expected, numbers_as_text=numbers_as_text)
        return lambda made: True if equal(made) else None
    return _CHECKS[mode](expected, numbers_as_text)


def _equality(expected: Any, *, numbers_as_text: bool, unordered: bool = False) -> Check:
    """Return the check for one value: numbers by value, true is not 1, text is text, objects in any order of keys."""
    if isinstance(expected, str) and not numbers_as_text:
        return lambda made: bool(made == expected)
    if expected is None or isinstance(expected, bool):
        return lambda made: made is expected
    key = canonical(expected, unordered=unordered, numbers_as_text=numbers_as_text)

    def equal(made: Any) -> bool:
        if type(made) is int and type(expected) is int:
            return made == expected
        if isinstance(made, str) and isinstance(expected, str):
            # Between two texts nothing was turned into text: "5" and "5.0" are different codes.
            return made == expected
        return canonical(made, unordered=unordered, numbers_as_text=numbers_as_text) == key

    return equal


def _near(expected: Any, made: Any, tolerance: float, *, numbers_as_text: bool) -> bool:
    if numbers_as_text and isinstance(made, str):
        key = canonical(made, numbers_as_text=True)
        made = key[1] if isinstance(key, tuple) and key[0] == "number" else made
    if not is_number(made):
        return False
    # 1.1 is within 0.1 of 1, and 0.1 + 0.2 within 0 of 0.3, for everyone but a processor.
    apart = abs(made - expected) - tolerance
    return bool(apart <= 0 or apart <= 1e-12 * max(abs(made), abs(expected)) < math.inf)


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


_CHECKS: Final[Mapping[str, Callable[[Any, bool], Check]]] = {
    "exact": lambda expected, text: _equality(expected, numbers_as_text=text),
    "unordered": lambda expected, text: _equality(expected, numbers_as_text=text, unordered=True),
    "casefold": _folded,
    "regex": lambda expected, _text: lambda made: isinstance(made, str) and matches_fully(expected, made),
    "contains": _containing,
    "one_of": _one_of,
    "any": lambda _expected, _text: lambda _made: True,
    "json_schema": lambda expected, _text: lambda made: conforms(made, expected),
}


class Agreement(NamedTuple):
    """How far the arguments of a made call agree with an expected one: `equal` of `total` keys.

    `wrong` are the keys that differ, sorted. `undecided` counts keys that only a judge could decide; they are in `equal`.
    `captured` is False where the arguments were not recorded: then nothing is equal and nothing is wrong.

    A named tuple: one is made for every pair of calls, at a third of the time that a frozen dataclass takes.
    """

    equal: int
    total: int
    wrong: tuple[str, ...] = ()
    undecided: int = 0
    captured: bool = True

    @property
    def score(self) -> float:
        """Equal keys over all keys; 1 where there is no key to compare."""
        return self.equal / self.total if self.total else 1.0

    @property
    def full(self) -> bool:
        """Whether every key agrees."""
        return self.captured and self.equal == self.total


class _Wanted(NamedTuple):
    """One parameter that is compared: the value expected, and the check.

    A made value of type `kind` compares as Python compares; None where only the check may be asked.
    """

    key: str
    expected: Any
    kind: type | None
    check: Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters of an expected call, compiled.

    `wanted` are those that are compared, `named` all keys that the call names. `alike` are the parameters where equal
    Python objects are equal values, None where they need not be; `full` is the agreement of such a call.
    """

    call: ExpectedCall
    wanted: tuple[_Wanted, ...]
    named: frozenset[str]
    alike: Mapping[str, Any] | None
    full: Agreement

    @classmethod
    def of(cls, call: ExpectedCall, *, numbers_as_text: bool) -> Parameters:
        """Return the compiled parameters of an expected call."""
        rules = call.rules
        wanted = tuple(
            _wanted(key, call.parameters.get(key), rule, numbers_as_text=numbers_as_text)
            for key, rule in rules.items()
            if rule.mode != "ignore"
        )
        exact = all(rule.mode == "exact" for rule in rules.values())
        return cls(
            call=call,
            wanted=wanted,
            named=frozenset(rules),
            alike=call.parameters if exact and _compares_like_python(call.parameters) else None,
            full=Agreement(len(wanted), len(wanted)),
        )

    def agreement(self, made: MadeCall, opinions: Opinions = NO_OPINIONS) -> Agreement:
        """Return how the arguments of a made call agree.

        Keys compared: those expected, and those made beyond them unless `ignore_extra_parameters`; `ignore` drops its key.
        """
        arguments = made.call.arguments
        if arguments is None:
            return Agreement(0, max(1, len(self.wanted)), captured=False)
        if self.alike is not None and _same(arguments, self.alike):
            return self.full
        wrong: list[str] = []
        undecided = 0
        for key, expected, kind, check in self.wanted:
            if key not in arguments:
                wrong.append(key)
                continue
            value = arguments[key]
            verdict = value == expected if type(value) is kind else _asked(check, value)
            if verdict is None:
                verdict = opinions.parameter(self.call, key, made)
                undecided += verdict is None
            if verdict is False:
                wrong.append(key)
        total = len(self.wanted)
        if not self.call.ignore_extra_parameters and not self.named.issuperset(arguments):
            extra = [key for key in arguments if key not in self.named]
            total += len(extra)
            wrong += extra
        if not (wrong or undecided):
            return self.full
        return Agreement(total - len(wrong), total, tuple(sorted(wrong)), undecided)


def _wanted(key: str, expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> _Wanted:
    plain = rule.mode == "exact" and type(expected) in {str, int, bool}
    return _Wanted(
        key, expected, type(expected) if plain else None, _compiled(expected, rule, numbers_as_text=numbers_as_text)
    )


def _compiled(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    try:
        return check_of(expected, rule, numbers_as_text=numbers_as_text)
    except _BEYOND:
        return lambda _made: False


def _asked(check: Check, value: Any) -> bool | None:
    try:
        return check(value)
    except _BEYOND:
        return False


def _same(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
    try:
        return arguments == parameters
    except RecursionError:
        return False


def _compares_like_python(value: Any) -> bool:
    """Return whether what Python holds equal to a JSON value is the same JSON value: 1 is not, for it equals true.

    >>> _compares_like_python({"a": ["x", 5, None]}), _compares_like_python({"a": 1}), _compares_like_python(True)
    (True, False, False)
    """
    try:
        if isinstance(value, dict):
            return all(isinstance(key, str) and _compares_like_python(held) for key, held in value.items())
        if isinstance(value, list):
            return all(map(_compares_like_python, value))
    except RecursionError:
        return False
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and value not in {0, 1} and not math.isnan(value)
    return value is None or isinstance(value, str)
