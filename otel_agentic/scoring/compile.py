"""Expectations prepared for comparison: values as checks by match mode, and compiled expected calls.

An expectation is compiled once, because it is compared with the calls of many conversations. Compilation turns each
expected value into a check according to its mode (exact, number, regex, ...), groups the calls by name, and prepares
the weights and the rules for extra calls.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from otel_agentic.config.patterns import own_pattern
from otel_agentic.scoring.scope import DIMENSIONS, ActualCall, Dimension, NotEvaluatedReason, ToolRules, effect_of
from otel_agentic.truth.values import canonical, conforms, is_number

if TYPE_CHECKING:
    from otel_agentic.scoring.utilization import Use
    from otel_agentic.scoring.values import Texts
    from otel_agentic.truth.model import (
        ExpectedCall,
        ExtraRule,
        MatchRule,
        ModeName,
        Order,
        ToolExpectation,
    )


#: Returns whether an actual value equals the expected one; None if only a judge could decide.
Check: TypeAlias = Callable[[Any], bool | None]
#: Errors of a check on a value that is nested too deeply, too large for its mode, or not a number.
_UNCOMPARABLE: Final = (RecursionError, OverflowError, ValueError)
#: Values nested no deeper than this are compared by Python itself.
_SHALLOW: Final = 16


def agrees(expected: Any, actual: Any, rule: MatchRule, *, numbers_as_text: bool = False) -> bool | None:
    """Return whether an actual value equals the expected one; None if only a judge could decide.

    Mode `judge` is decided only for equal values, because tool scores ask no model. Any JSON value is accepted; a value
    that is nested too deeply to be compared, or too large for its mode, equals nothing.

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
    except _UNCOMPARABLE:
        return False


def check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    """Return the check of one parameter; call it through `needs_judge`."""
    try:
        return _check_of(expected, rule, numbers_as_text=numbers_as_text)
    except _UNCOMPARABLE:
        return lambda _actual: False


def _check_of(expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> Check:
    if rule.mode == "number":
        return lambda actual: _near(expected, actual, rule.tolerance, numbers_as_text=numbers_as_text)
    if rule.mode == "judge":
        equal = _equality(expected, numbers_as_text=numbers_as_text)
        return lambda actual: True if equal(actual) else None
    return _CHECKS[rule.mode](expected, numbers_as_text)


def _equality(expected: Any, *, numbers_as_text: bool, unordered: bool = False) -> Check:
    """Return the check for equality with one value.

    Numbers compare by value, true differs from 1, a text differs from a number, and the order of keys is irrelevant.
    """
    if isinstance(expected, str) and not numbers_as_text:
        return lambda actual: bool(actual == expected)
    if expected is None or isinstance(expected, bool):
        return lambda actual: actual is expected
    key = canonical(expected, unordered=unordered, numbers_as_text=numbers_as_text)

    def equal(actual: Any) -> bool:
        return canonical(actual, unordered=unordered, numbers_as_text=numbers_as_text) == key

    if is_number(expected) and not math.isnan(expected):
        return lambda actual: bool(actual == expected) if is_number(actual) else numbers_as_text and equal(actual)
    if isinstance(expected, str):
        # Two texts are compared as they are: "5" and "5.0" are different codes, not numbers written as text.
        return lambda actual: actual == expected if isinstance(actual, str) else equal(actual)
    if unordered or numbers_as_text or not _is_json(expected):
        return equal
    return lambda actual: actual == expected and _same_booleans(expected, actual)


def _near(expected: Any, actual: Any, tolerance: float, *, numbers_as_text: bool) -> bool:
    if numbers_as_text and isinstance(actual, str):
        key = canonical(actual, numbers_as_text=True)
        actual = key[1] if isinstance(key, tuple) and key[0] == "number" else actual
    if not is_number(actual):
        return False
    excess = abs(actual - expected) - tolerance
    if excess <= 0 or (isinstance(actual, int) and isinstance(expected, int)):
        return bool(excess <= 0)
    # 1.1 is within 0.1 of 1, and 0.1 + 0.2 is within 0 of 0.3, although not in binary floating point.
    return bool(excess <= 1e-12 * max(abs(actual), abs(expected)) < math.inf)


def _folded(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    key = canonical(expected, fold_case=True, numbers_as_text=numbers_as_text)
    return lambda actual: canonical(actual, fold_case=True, numbers_as_text=numbers_as_text) == key


def _one_of(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    choices = [_equality(choice, numbers_as_text=numbers_as_text) for choice in expected]
    return lambda actual: any(equal(actual) for equal in choices)


def _containing(expected: Any, numbers_as_text: bool) -> Check:  # noqa: FBT001 — one signature for all modes
    """Return the check that a text contains a text, a list contains every item, or an object contains every entry."""
    # A single value is treated as a list of one item.
    items = expected if isinstance(expected, (list, tuple)) else [expected]
    item_checks = [_equality(item, numbers_as_text=numbers_as_text) for item in items]
    entry_checks = (
        {key: _equality(value, numbers_as_text=numbers_as_text) for key, value in expected.items()}
        if isinstance(expected, Mapping)
        else None
    )
    whole_check = _equality(expected, numbers_as_text=numbers_as_text)

    def contains(actual: Any) -> bool:
        if isinstance(actual, str) and isinstance(expected, str):
            return expected in actual
        if isinstance(actual, (list, tuple)):
            return all(any(equal(item) for item in actual) for equal in item_checks)
        if isinstance(actual, Mapping):
            return entry_checks is not None and all(
                key in actual and equal(actual[key]) for key, equal in entry_checks.items()
            )
        return bool(whole_check(actual))

    return contains


def _matching(expected: Any) -> Check:
    """Return the check that a pattern matches a whole text, or a number as JSON writes it."""

    def matches(actual: Any) -> bool:
        text = json.dumps(actual) if is_number(actual) else actual
        return isinstance(text, str) and own_pattern(expected).fullmatch(text)

    return matches


_CHECKS: Final[Mapping[str, Callable[[Any, bool], Check]]] = {
    "exact": lambda expected, text: _equality(expected, numbers_as_text=text),
    "unordered": lambda expected, text: _equality(expected, numbers_as_text=text, unordered=True),
    "casefold": _folded,
    "regex": lambda expected, _text: _matching(expected),
    "contains": _containing,
    "one_of": _one_of,
    "any": lambda _expected, _text: lambda _actual: True,
    "json_schema": lambda expected, _text: lambda actual: conforms(actual, expected),
}


def _is_json(value: Any) -> bool:
    """Return whether a value consists of types that a JSON parser returns, without NaN."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and not math.isnan(value))


def _same_booleans(value: Any, other: Any) -> bool:
    """Return whether two values that are equal in Python are also equal in JSON, where 1 is not true.

    >>> _same_booleans([1, {"a": True}], [1.0, {"a": True}]), _same_booleans([1], [True])
    (True, False)
    """
    if isinstance(value, dict):
        return all(_same_booleans(member, other[key]) for key, member in value.items())
    if isinstance(value, list):
        return all(map(_same_booleans, value, other))
    return isinstance(value, bool) == isinstance(other, bool)


def compares_like_python(value: Any, depth: int = _SHALLOW) -> bool:
    """Return whether Python and JSON agree on what equals a value; they disagree on 1, because 1 == True in Python.

    The result is False for deeply nested values, because the checks handle comparisons that raise.

    >>> compares_like_python({"a": ["x", 5, None]}), compares_like_python({"a": 1}), compares_like_python(True)
    (True, False, False)
    """
    if isinstance(value, dict):
        return depth > 0 and all(compares_like_python(member, depth - 1) for member in value.values())
    if isinstance(value, list):
        return depth > 0 and all(compares_like_python(member, depth - 1) for member in value)
    if isinstance(value, (int, float)):
        return value not in {0, 1} and not math.isnan(value)  # true and false are 1 and 0
    return value is None or isinstance(value, str)


class ToolVerdicts(Protocol):
    """The opinions of a judge on tool calls.

    None means no opinion: the data alone decide, or the score is not evaluated.
    """

    @property
    def silence(self) -> NotEvaluatedReason:
        """The reason of an outcome that is not evaluated because `parameter` returned no opinion."""
        ...

    def parameter(self, expected: ExpectedCall, key: str, actual: ActualCall) -> bool | None:
        """Return whether an actual parameter means the same as the expected one.

        Called in match mode `judge` if the values are not equal, for every two calls that may be paired.
        """
        ...

    def used(self, actual: ActualCall, later: Sequence[ActualCall], texts: Texts) -> Use | None:
        """Return whether the result of a call was used.

        Called for successful paired calls whose use the data do not decide, under the expectation that counts.
        """
        ...


class _NoVerdicts:
    """Verdicts without a judge: there is never an opinion."""

    silence: NotEvaluatedReason = "no_data"

    def parameter(self, expected: ExpectedCall, key: str, actual: ActualCall) -> bool | None:
        """Return None: there is no opinion."""
        del expected, key, actual
        return None

    def used(self, actual: ActualCall, later: Sequence[ActualCall], texts: Texts) -> Use | None:
        """Return None: there is no opinion."""
        del actual, later, texts
        return None


NO_VERDICTS: Final[ToolVerdicts] = _NoVerdicts()


_ABSENT: Final = object()


class _ExpectedParameter(NamedTuple):
    """One compared parameter: the expected value, and the check.

    `check` is None if Python's own comparison is sufficient. If `truth` is not None, it also states whether the actual
    value must be a boolean (True) or must not be one (False).
    """

    key: str
    expected: Any
    truth: bool | None
    check: Check | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameters:
    """The compiled parameters of an expected call, with which the arguments of actual calls are compared.

    `compared` are all parameters except the ignored ones; `values` are the expected values and `modes` the match modes,
    by key; `ignored` are the keys of mode `ignore`. `equal_arguments` equals arguments that are exactly as expected; if
    a comparison of objects cannot decide that, it equals nothing. `strict` is True if keys beyond the expected ones
    count. `may_ask_judge` is True if a mode leaves a parameter to a judge.
    """

    call: ExpectedCall
    compared: tuple[_ExpectedParameter, ...]
    values: Mapping[str, Any]
    modes: Mapping[str, ModeName]
    ignored: tuple[str, ...]
    equal_arguments: object
    strict: bool
    may_ask_judge: bool

    @classmethod
    def of(cls, call: ExpectedCall, *, numbers_as_text: bool) -> Parameters:
        """Return the compiled parameters of an expected call."""
        modes: dict[str, ModeName] = {key: rule.mode for key, rule in call.rules.items()}
        exact = all(mode == "exact" for mode in modes.values())
        return cls(
            call=call,
            compared=tuple(
                _expected_parameter(key, call.parameters.get(key), rule, numbers_as_text=numbers_as_text)
                for key, rule in call.rules.items()
                if rule.mode != "ignore"
            ),
            values=call.parameters,
            modes=modes,
            ignored=tuple(key for key, mode in modes.items() if mode == "ignore"),
            equal_arguments=call.parameters if exact and compares_like_python(call.parameters) else object(),
            strict=not call.ignore_extra_parameters,
            may_ask_judge="judge" in modes.values(),
        )

    def scores(self, actual: Sequence[ActualCall], verdicts: ToolVerdicts = NO_VERDICTS) -> list[float]:
        """Return the scores of several actual calls; faster than `compare` because no differing keys are collected."""
        compared, scores = self.compared, []
        for actual_call in actual:
            arguments = actual_call.call.arguments
            if arguments is None or arguments == self.equal_arguments:
                scores.append(0.0 if arguments is None else 1.0)
                continue
            equal, unexpected = 0, len(arguments)  # decremented for each expected key
            for key, expected, truth, check in compared:
                value = arguments.get(key, _ABSENT)
                if value is _ABSENT:
                    continue
                unexpected -= 1
                if check is None:
                    if value == expected and (truth is None or truth is (type(value) is bool)):
                        equal += 1
                    continue
                if self._verdict(key, check, value, actual_call, verdicts) is not False:
                    equal += 1
            total = len(compared)
            if unexpected and self.strict:
                total += unexpected - len([key for key in self.ignored if key in arguments])
            scores.append(equal / total if total else 1.0)
        return scores

    def compare(self, actual: ActualCall, verdicts: ToolVerdicts = NO_VERDICTS) -> tuple[float, list[str]]:
        """Return how far the arguments of an actual call agree, and the differing keys, sorted.

        The score is the share of equal keys, or 1 if there are no keys to compare. The expected keys are compared and,
        unless `ignore_extra_parameters` is set, the actual keys beyond them; keys of mode `ignore` are not. A key that
        only a judge could compare counts as equal if there is no verdict. If the arguments were not recorded, the score
        is 0 and no key differs.
        """
        arguments = actual.call.arguments
        if arguments is None:
            return 0.0, []
        invalid: list[str] = []
        unexpected = len(arguments)  # as in `scores`
        for key, expected, truth, check in self.compared:
            value = arguments.get(key, _ABSENT)
            if value is _ABSENT:
                invalid.append(key)
                continue
            unexpected -= 1
            if check is None:
                if value != expected or (truth is not None and truth is not (type(value) is bool)):
                    invalid.append(key)
                continue
            if self._verdict(key, check, value, actual, verdicts) is False:
                invalid.append(key)
        total = len(self.compared)
        if unexpected and self.strict:
            extra = [key for key in arguments if key not in self.modes]
            total += len(extra)
            invalid += extra
        invalid.sort()
        return (total - len(invalid)) / total if invalid else 1.0, invalid

    def undecided(self, actual: ActualCall, verdicts: ToolVerdicts = NO_VERDICTS) -> int:
        """Return the number of keys that only a judge could compare and that have no verdict."""
        arguments = actual.call.arguments or {}
        return [
            self._verdict(key, check, arguments[key], actual, verdicts)
            for key, _, _, check in self.compared
            if check is not None and self.modes[key] == "judge" and key in arguments
        ].count(None)

    def _verdict(self, key: str, check: Check, value: Any, actual: ActualCall, verdicts: ToolVerdicts) -> bool | None:
        verdict = needs_judge(check, value)
        return verdicts.parameter(self.call, key, actual) if verdict is None else verdict


def _expected_parameter(key: str, expected: Any, rule: MatchRule, *, numbers_as_text: bool) -> _ExpectedParameter:
    truth = isinstance(expected, bool) if isinstance(expected, (int, float)) and expected in {0, 1} else None
    if rule.mode == "exact" and not numbers_as_text and (truth is not None or compares_like_python(expected)):
        return _ExpectedParameter(key, expected, truth, None)
    return _ExpectedParameter(key, expected, None, check_of(expected, rule, numbers_as_text=numbers_as_text))


#: Maximum number of cached compiled expectations, and of cached rules for tool names in each of them.
_CACHED_EXPECTATIONS: Final = 4096
_CACHED_NAMES: Final = 256
#: Sums of weights and shares are floating-point: a score this close to the threshold reaches it.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledCall:
    """An expected call: its index in the list, its position in the order, and its compiled parameters.

    `group` is its position in the order, 1..G, shared by calls of equal steps; 0 for an optional call. `rank` is its
    position among the calls of its name, where calls of one step share the rank of the first; without an order all have
    rank 0.
    """

    call: ExpectedCall
    index: int
    name: str
    required: bool
    group: int
    rank: int
    parameters: Parameters


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledName:
    """The expected calls of one name, sorted by rank; `only` is set if there is exactly one.

    `times` is the number of required calls. `may_ask_judge` is True if a parameter of a call may be left to a judge.
    """

    calls: tuple[CompiledCall, ...]
    only: CompiledCall | None
    ranks: tuple[int, ...]
    times: int
    may_ask_judge: bool

    @classmethod
    def of(cls, calls: Sequence[CompiledCall]) -> CompiledName:
        """Return the expected calls of one name, sorted by rank, then by content so that their index is irrelevant."""
        ranked = tuple(sorted(calls, key=lambda call: (call.rank, _content(call.call), call.index)))
        return cls(
            calls=ranked,
            only=ranked[0] if len(ranked) == 1 else None,
            ranks=tuple(call.rank for call in ranked),
            times=sum(call.required for call in calls),
            may_ask_judge=any(call.parameters.may_ask_judge for call in calls),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledExpectation:
    """An expectation under the rules of its case.

    `named` are the calls by name. `required` is the number of required calls; `required_only` is True if no call is
    optional and none is forbidden by name; `may_ask_judge` is True if a judge may be asked. `ordered` is True if there
    is an order and at least two required calls. `threshold` is the minimum score of a pass, less a tolerance for
    rounding. `weights` are in the order of `DIMENSIONS`. `forbidden_by` returns the name or glob that forbids a tool
    name; `extra_rule` returns the rule for an extra call by its tool name, `extra` is that rule if it is the same for
    all. `alternatives` are other expectations, any of which makes the calls correct.
    """

    expectation: ToolExpectation
    rules: ToolRules
    calls: tuple[CompiledCall, ...]
    named: Mapping[str, CompiledName]
    required: int
    required_only: bool
    may_ask_judge: bool
    order: Order
    ordered: bool
    threshold: float
    weights: tuple[float, float, float, float]
    forbidden_by: Callable[[str], str | None] | None
    extra: ExtraRule | None
    extra_rule: Callable[[str], ExtraRule]
    alternatives: tuple[CompiledExpectation, ...]

    def forbids(self, tool_name: str) -> bool:
        """Return whether a tool name is forbidden."""
        return self.forbidden_by is not None and self.forbidden_by(tool_name) is not None


def compiled(expectation: ToolExpectation, rules: ToolRules) -> CompiledExpectation:
    """Return the compiled expectation, from a cache if it was compiled under equal rules before."""
    return _cached(_CacheKey(expectation, rules))


class _CacheKey:
    """An expectation, compared by identity because models that hold dictionaries are unhashable, and equal rules."""

    __slots__ = ("expectation", "rules")

    def __init__(self, expectation: ToolExpectation, rules: ToolRules) -> None:
        self.expectation = expectation
        self.rules = rules

    def __hash__(self) -> int:
        return id(self.expectation)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _CacheKey)
            and self.expectation is other.expectation
            and (self.rules is other.rules or self.rules == other.rules)
        )


@lru_cache(maxsize=_CACHED_EXPECTATIONS)
def _cached(key: _CacheKey) -> CompiledExpectation:
    return _compile(key.expectation, key.rules)


def _compile(expectation: ToolExpectation, rules: ToolRules) -> CompiledExpectation:
    calls = _compiled_calls(expectation, numbers_as_text=rules.numbers_as_text)
    named: dict[str, list[CompiledCall]] = defaultdict(list)
    for call in calls:
        named[call.name].append(call)
    required = sum(call.required for call in calls)
    return CompiledExpectation(
        expectation=expectation,
        rules=rules,
        calls=calls,
        named={name: CompiledName.of(group) for name, group in named.items()},
        required=required,
        required_only=not expectation.forbidden and all(call.required for call in calls),
        may_ask_judge=any(call.parameters.may_ask_judge for call in calls),
        order=expectation.order,
        ordered=expectation.order != "any" and required > 1,
        threshold=rules.threshold - _ROUNDING,
        weights=_scaled(rules.weights),
        forbidden_by=_forbidden_by(expectation.forbidden),
        extra=expectation.extra_calls if isinstance(expectation.extra_calls, str) else None,
        extra_rule=_extra_rule(expectation, rules),
        alternatives=tuple(_compile(alternative, rules) for alternative in expectation.alternatives),
    )


def _compiled_calls(expectation: ToolExpectation, *, numbers_as_text: bool) -> tuple[CompiledCall, ...]:
    steps = [step_of(call, index) for index, call in enumerate(expectation.calls)]
    required_steps = sorted({step for step, call in zip(steps, expectation.calls, strict=True) if call.required})
    group_of = {step: group for group, step in enumerate(required_steps, start=1)}
    ranks = _ranks(expectation, steps)
    return tuple(
        CompiledCall(
            call=call,
            index=index,
            name=call.tool_name,
            required=call.required,
            group=group_of[steps[index]] if call.required else 0,
            rank=ranks[index],
            parameters=Parameters.of(call, numbers_as_text=numbers_as_text),
        )
        for index, call in enumerate(expectation.calls)
    )


def _ranks(expectation: ToolExpectation, steps: Sequence[int]) -> list[int]:
    """Return for each call the number of calls of its name in earlier steps; 0 for all if there is no order."""
    if expectation.order == "any":
        return [0] * len(steps)
    steps_by_name: dict[str, list[int]] = defaultdict(list)
    for step, tool_name in sorted(zip(steps, (call.tool_name for call in expectation.calls), strict=True)):
        steps_by_name[tool_name].append(step)
    return [steps_by_name[call.tool_name].index(step) for step, call in zip(steps, expectation.calls, strict=True)]


def step_of(expected: ExpectedCall, index: int) -> int:
    """Return the step of an expected call: its own, else its 1-based position in the list."""
    return index + 1 if expected.step is None else expected.step


def _content(call: ExpectedCall) -> str:
    """Return the call as text, a sort key for calls of equal rank, so that no score depends on their index."""
    rules = {key: [rule.mode, rule.tolerance] for key, rule in call.rules.items()}
    content = [call.parameters, rules, call.required, call.ignore_extra_parameters]
    try:
        return json.dumps(content, sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        return ""


def _forbidden_by(patterns: Sequence[str]) -> Callable[[str], str | None] | None:
    if not patterns:
        return None
    # The cache is bounded because names are untrusted: an agent may invent any number of tools.
    return lru_cache(_CACHED_NAMES)(
        lambda name: next((pattern for pattern in patterns if fnmatchcase(name, pattern)), None)
    )


def _extra_rule(expectation: ToolExpectation, rules: ToolRules) -> Callable[[str], ExtraRule]:
    extra_calls = expectation.extra_calls
    if isinstance(extra_calls, str):
        return lambda _name: extra_calls
    return lru_cache(_CACHED_NAMES)(lambda name: expectation.extra_rule(effect_of(name, rules.effects)))


def _scaled(weights: Mapping[Dimension, float]) -> tuple[float, float, float, float]:
    """Return weights as shares of the largest, so that sums of tiny or huge weights neither underflow nor overflow."""
    largest = max(weights.values(), default=0.0) or 1.0
    selection, parameters, sequence, utilization = (weights.get(name, 0.0) / largest for name in DIMENSIONS)
    return selection, parameters, sequence, utilization
