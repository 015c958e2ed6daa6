"""Agentest 0.0.17: trajectory assertions and score thresholds.

`docs/compat.md` lists the reproduced parts, faults included.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from otel_agentic.compat.javascript import deep_equal, json_text, ordered_keys, type_of
from otel_agentic.errors import UsageError

ArgMatchMode = Literal["exact", "partial", "ignore"]
MatchMode = Literal["strict", "unordered", "contains", "within"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeToolCall:
    """A call that the agent made."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAssertion:
    """An expected or forbidden call; a `mode` of None means `ignore`, and so do `args` of None."""

    name: str
    args: Mapping[str, Any] | None = None
    mode: ArgMatchMode | None = None

    @property
    def looks_at_arguments(self) -> bool:
        """Whether a mode other than `ignore` is set."""
        return bool(self.mode) and self.mode != "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryAssertions:
    """Assertions about all calls of a conversation."""

    match_mode: MatchMode
    expected: tuple[CallAssertion, ...]
    forbidden: tuple[CallAssertion, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryResult:
    """Whether the calls match, and if not, the missing and extra names and the other problems."""

    matched: bool
    missing_calls: tuple[str, ...] = ()
    extra_calls: tuple[str, ...] = ()
    ordering_issues: tuple[str, ...] = ()
    forbidden_calls: tuple[str, ...] = ()


def match_trajectory(actual: Sequence[MadeToolCall], assertions: TrajectoryAssertions) -> TrajectoryResult:
    """Return how the calls of a conversation compare with the assertions.

    `strict`: the same calls at the same positions. `unordered`: the same calls. `contains`: the expected calls, and any
    others. `within`: no call with another name. In Agentest's definition, each expectation takes the first call that
    fits; `evaluators.trajectory` finds the pairing with the most pairs, has exact, in-order and any-order matches, and
    compares parameters by their match modes.

    Raises:
        UsageError: there is no such match mode.

    >>> made = [MadeToolCall(name="search"), MadeToolCall(name="book")]
    >>> expected = (CallAssertion(name="book"),)
    >>> match_trajectory(made, TrajectoryAssertions(match_mode="contains", expected=expected)).matched
    True
    >>> match_trajectory(made, TrajectoryAssertions(match_mode="unordered", expected=expected)).extra_calls
    ('search',)
    """
    matcher = _MATCHERS.get(assertions.match_mode)
    if matcher is None:
        raise UsageError(f"match mode {assertions.match_mode!r}; allowed: {', '.join(_MATCHERS)}")
    result = matcher(actual, assertions.expected)
    forbidden = tuple(_forbidden(actual, assertions.forbidden))
    return replace(result, matched=result.matched and not forbidden, forbidden_calls=forbidden)


def _result(missing: Sequence[str] = (), extra: Sequence[str] = (), issues: Sequence[str] = ()) -> TrajectoryResult:
    return TrajectoryResult(
        matched=not (missing or extra or issues),
        missing_calls=tuple(missing),
        extra_calls=tuple(extra),
        ordering_issues=tuple(issues),
    )


def _strict(actual: Sequence[MadeToolCall], expected: Sequence[CallAssertion]) -> TrajectoryResult:
    # Names are counted, positions compared: a call at another position is an ordering issue, not missing and extra.
    actual_names, expected_names = Counter(call.name for call in actual), Counter(call.name for call in expected)
    return _result(
        [*(expected_names - actual_names).elements()],
        [*(actual_names - expected_names).elements()],
        [*_position_issues(actual, expected)],
    )


def _position_issues(actual: Sequence[MadeToolCall], expected: Sequence[CallAssertion]) -> Iterator[str]:
    for index, (call, expected_call) in enumerate(zip(actual, expected, strict=False)):
        if call.name != expected_call.name:
            yield f'Position {index}: expected "{expected_call.name}", got "{call.name}"'
            continue
        issue = _argument_issue(call, expected_call)
        if issue:
            yield f"Position {index} ({expected_call.name}): {issue}"


def _unordered(actual: Sequence[MadeToolCall], expected: Sequence[CallAssertion]) -> TrajectoryResult:
    missing, remaining = _take(actual, expected)
    return _result(missing, [call.name for call in remaining])


def _contains(actual: Sequence[MadeToolCall], expected: Sequence[CallAssertion]) -> TrajectoryResult:
    missing, _ = _take(actual, expected)
    return _result(missing)


def _take(actual: Sequence[MadeToolCall], expected: Sequence[CallAssertion]) -> tuple[list[str], list[MadeToolCall]]:
    """Return the expected names without a call, and the calls left over.

    Greedy: each expectation takes the first call that fits, though a later one may have no other.
    """
    remaining, missing = list(actual), []
    for expected_call in expected:
        index = next((position for position, call in enumerate(remaining) if _fits(call, expected_call)), None)
        if index is None:
            missing.append(expected_call.name)
        else:
            del remaining[index]
    return missing, remaining


def _within(actual: Sequence[MadeToolCall], expected: Sequence[CallAssertion]) -> TrajectoryResult:
    extra, issues = [], []
    for call in actual:
        allowed = [expected_call for expected_call in expected if expected_call.name == call.name]
        if not allowed:
            extra.append(call.name)
        elif any(assertion.looks_at_arguments for assertion in allowed) and not any(
            _fits(call, assertion) for assertion in allowed
        ):
            issues.append(f'Tool "{call.name}": args {json_text(call.args)} did not match any expected args')
    return _result((), extra, issues)


def _forbidden(actual: Sequence[MadeToolCall], forbidden: Sequence[CallAssertion]) -> Iterator[str]:
    """Yield the first call that breaks each rule; each rule is reported once."""
    for rule in forbidden:
        call = next((call for call in actual if _fits(call, rule)), None)
        if call is not None:
            yield f"{call.name}({json_text(call.args)})" if rule.looks_at_arguments else call.name


def _fits(call: MadeToolCall, expected: CallAssertion) -> bool:
    return call.name == expected.name and _argument_issue(call, expected) is None


def _argument_issue(call: MadeToolCall, expected: CallAssertion) -> str | None:
    """Return the problem of the arguments, or None."""
    if expected.mode in {None, "ignore"} or expected.args is None:
        return None
    if expected.mode == "exact":
        if deep_equal(call.args, expected.args):
            return None
        return f"Args mismatch: expected {json_text(expected.args)}, got {json_text(call.args)}"
    for key in ordered_keys(expected.args):
        if key not in call.args or not deep_equal(call.args[key], expected.args[key]):
            actual = json_text(call.args[key]) if key in call.args else "undefined"
            return f'Arg "{key}": expected {json_text(expected.args[key])}, got {actual}'
    return None


_MATCHERS: Final[Mapping[str, Callable[[Sequence[MadeToolCall], Sequence[CallAssertion]], TrajectoryResult]]] = {
    "strict": _strict,
    "unordered": _unordered,
    "contains": _contains,
    "within": _within,
}


#: The only metric of whole conversations; the others are metrics of turns.
GOAL_COMPLETION = "goal_completion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """An average below its threshold."""

    metric: str
    average: float
    threshold: float


def metric_averages(evaluations: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the average of each metric over all turns of all conversations: a long conversation weighs more.

    Args:
        evaluations: one per conversation: `turnEvaluations` with `metrics` of `{name: {"value"}}`, and
            `goalCompletion`. A value that is not a number, such as the message of a judge that failed, is left out.

    >>> turns = [{"metrics": {"helpfulness": {"value": value}}} for value in (5, 4, "error: no reply")]
    >>> metric_averages([{"turnEvaluations": turns, "goalCompletion": {"value": 1}}])
    {'helpfulness': 4.5, 'goal_completion': 1.0}
    """
    totals: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for name, value in _scores(evaluations):
        totals[name] += value
        counts[name] += 1
    return {name: total / counts[name] for name, total in totals.items()}


def violations(averages: Mapping[str, float], thresholds: Mapping[str, float]) -> list[Violation]:
    """Return the averages below their threshold, in the order of the thresholds; metrics without scores are skipped.

    >>> violations({"helpfulness": 3.2}, {"coherence": 5.0, "helpfulness": 3.5})
    [Violation(metric='helpfulness', average=3.2, threshold=3.5)]
    """
    return [
        Violation(metric=metric, average=averages[metric], threshold=threshold)
        for metric, threshold in thresholds.items()
        if metric in averages and averages[metric] < threshold
    ]


def _scores(evaluations: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for evaluation in evaluations:
        for turn in evaluation["turnEvaluations"]:
            for name, result in turn["metrics"].items():
                if type_of(result["value"]) == "number":
                    yield name, result["value"]
        goal = evaluation.get("goalCompletion")
        if goal:
            yield GOAL_COMPLETION, goal["value"]
