"""Tool call accuracy and F1 of RAGAS, with match modes, optional and forbidden calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Subject,
    listed,
    none_of,
    none_of_all,
    without_case,
)
from otel_agentic.evaluators.layers.calls import scopes_of, turns_absent
from otel_agentic.scoring.align import SortedCalls, sort_calls, sorted_calls
from otel_agentic.scoring.compile import CompiledCall, CompiledExpectation, compiled
from otel_agentic.scoring.scope import ActualCall, Scope, ToolRules, by_identity

if TYPE_CHECKING:
    from otel_agentic.truth.model import Case, ToolExpectation

#: Number of expectations whose required and optional parts are cached, and of counts whose scores are.
_CACHED: Final = 1024


class Share(NamedTuple):
    """A share that can be summed over scopes: `part` of `total`. A total of 0 is a share of 1: nothing was required."""

    part: float
    total: float

    @property
    def value(self) -> float:
        """The share, in [0, 1].

        >>> Share(1.5, 2.0).value, Share(0.0, 0.0).value
        (0.75, 1.0)
        """
        return self.part / self.total if self.total else 1.0

    def plus(self, other: Share) -> Share:
        """Return the share of both scopes together."""
        return Share(self.part + other.part, self.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The counts of the calls of one scope under one expectation.

    `missing` and `unasked` are names of calls. `differing` are parameters with other values than expected, `undecided`
    are parameters that only a judge could compare, both as (tool, parameter).
    """

    in_order: Share
    in_any_order: Share
    equal: Share
    missing: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    differing: tuple[tuple[str, str], ...] = ()
    undecided: tuple[tuple[str, str], ...] = ()


def count(expectation: ToolExpectation, calls: Sequence[ActualCall], rules: ToolRules) -> list[Counted]:
    """Return the counts of calls under an expectation and under each of its alternatives.

    Args:
        expectation: the expectation.
        calls: the calls of the turn or conversation to which it applies, in order.
        rules: the tool rules of the case.
    """
    compiled_expectation = compiled(expectation, rules)
    return [_counted(alternative, calls) for alternative in (compiled_expectation, *compiled_expectation.alternatives)]


def _counted(expectation: CompiledExpectation, calls: Sequence[ActualCall]) -> Counted:
    classified = sorted_calls(expectation, calls)
    extra = [index for index, rule in classified.extra if rule != "allow" or index in classified.forbidden]
    agreement = sum([pair.agreement.score for pair in classified.pairs])
    total = float(expectation.required + len(extra))
    return Counted(
        in_order=Share(min(agreement, _in_order(expectation, classified, extra, agreement)), total),
        in_any_order=Share(agreement, total),
        equal=_all_equal(classified) or _equal(expectation, classified.actual),
        missing=_missing(expectation, classified),
        unasked=tuple([classified.actual[index].call.name for index in extra]),
        differing=tuple([(pair.expected.name, key) for pair in classified.pairs for key in pair.agreement.differing]),
        undecided=()
        if not expectation.may_ask_judge
        else tuple(
            (pair.expected.name, key)
            for pair in classified.pairs
            if pair.expected.parameters.undecided(classified.actual[pair.actual_index])
            for key, mode in pair.expected.parameters.modes.items()
            if mode == "judge"
        ),
    )


def _missing(expectation: CompiledExpectation, sorted_calls: SortedCalls) -> tuple[str, ...]:
    paired_indices = {pair.expected.index for pair in sorted_calls.pairs}
    return tuple(call.name for call in expectation.calls if call.required and call.index not in paired_indices)


def _in_order(
    expectation: CompiledExpectation, sorted_calls: SortedCalls, extra: Sequence[int], agreement: float
) -> float:
    """Return the largest agreement of expected calls that can be paired without crossings.

    Expected calls of one step, and actual calls of one step, have no order among themselves: they are ordered as in the
    unordered pairing.
    """
    partner = {pair.actual_index: pair.expected for pair in sorted_calls.pairs}
    actual_index_of = {pair.expected.index: pair.actual_index for pair in sorted_calls.pairs}
    expected = sorted(
        (call for call in expectation.calls if call.required),
        key=lambda call: (call.group, actual_index_of.get(call.index, len(sorted_calls.actual)), call.index),
    )
    last = expectation.required + 1

    def sort_key(index: int) -> tuple[tuple[int, int], int, int]:
        group = partner[index].group if index in partner else last
        return sorted_calls.actual[index].step, group, index

    indices = sorted({*partner, *extra}, key=sort_key)
    rank = {index: number for number, index in enumerate(indices)}
    present = [rank[actual_index_of[call.index]] for call in expected if call.index in actual_index_of]
    if present == sorted(present):
        return agreement
    return best_in_order(expected, [sorted_calls.actual[index] for index in indices])


def best_in_order(expected: Sequence[CompiledCall], actual: Sequence[ActualCall]) -> float:
    """Return the greatest sum of agreements over pairs of calls with the same name, no two of which cross.

    Ref: S. Needleman, C. Wunsch (1970), A general method applicable to the search for similarities, without gap penalty.
    """
    previous_row = [0.0] * (len(actual) + 1)
    for expected_call in expected:
        indices = [index for index, other in enumerate(actual) if other.call.name == expected_call.name]
        scores = dict(zip(indices, expected_call.parameters.scores([actual[index] for index in indices]), strict=True))
        row = [0.0]
        for position in range(len(actual)):
            row.append(
                max(row[position], previous_row[position + 1], previous_row[position] + scores.get(position, 0.0))
            )
        previous_row = row
    return previous_row[-1]


def _all_equal(sorted_calls: SortedCalls) -> Share | None:
    """Return the terms of F1 if exactly the required calls occurred, with equal arguments, else None."""
    required, actual = sorted_calls.expectation.required, len(sorted_calls.actual)
    are_equal = actual == required and sum(pair.agreement.score == 1.0 for pair in sorted_calls.pairs) == required
    return Share(2.0 * required, 2.0 * required) if are_equal and required else None


def _equal(expectation: CompiledExpectation, actual: Sequence[ActualCall]) -> Share:
    """Return the terms of F1: twice the number of exact calls, and the number of all expected and actual calls."""
    required, optional = _by_need(expectation)
    sorted_calls = SortedCalls.of(sort_calls(required, _as_tools(actual)))
    hits, unpaired_expected = len(sorted_calls.excused), _lacking(required, sorted_calls)
    unpaired = [sorted_calls.actual[index] for index, _ in sorted_calls.extra]
    excused = {pair.actual_index for pair in SortedCalls.of(sort_calls(optional, unpaired)).excused}
    mismatches = 0
    for position, actual_call in enumerate(unpaired):
        if position in excused:
            continue
        name = actual_call.call.name
        # With the name of an unpaired expected call it is that call with wrong arguments; else an allowed call is
        # ignored.
        if unpaired_expected[name]:
            unpaired_expected[name] -= 1
        elif expectation.extra_rule(name) == "allow" and not expectation.forbids(name):
            continue
        mismatches += 1
    return Share(2.0 * hits, float(hits + mismatches + expectation.required))


def _as_tools(actual: Sequence[ActualCall]) -> list[ActualCall]:
    """Return all calls as successful calls of kind `tool`, so that errors, transfers and agents as tools count."""
    return [
        actual_call
        if actual_call.call.kind == "tool" and actual_call.call.error is None
        else replace(actual_call, call=replace(actual_call.call, kind="tool", error=None))
        for actual_call in actual
    ]


def _lacking(required: CompiledExpectation, sorted_calls: SortedCalls) -> Counter[str]:
    """Return how many expected calls of each name have no exact actual call."""
    counts = Counter(call.name for call in required.calls)
    counts.subtract(pair.expected.name for pair in sorted_calls.excused)
    return counts


@by_identity(_CACHED)
def _by_need(compiled_expectation: CompiledExpectation) -> tuple[CompiledExpectation, CompiledExpectation]:
    """Return the required and the optional calls as separate expectations.

    All calls become optional, because a pairing then contains exactly those that occurred as expected.
    """
    expectation, rules = compiled_expectation.expectation, compiled_expectation.rules
    optional_calls = [call.model_copy(update={"required": False}) for call in expectation.calls]
    parts = [
        expectation.model_copy(
            update={
                "calls": tuple(
                    optional_call
                    for optional_call, call in zip(optional_calls, expectation.calls, strict=True)
                    if call.required == is_required
                ),
                "alternatives": (),
                "order": "any",
            }
        )
        for is_required in (True, False)
    ]
    return compiled(parts[0], rules), compiled(parts[1], rules)


ACCURACY: Final = "agentic.ragas.tool_call_accuracy"
UNORDERED: Final = "agentic.ragas.tool_call_accuracy_unordered"
TOOL_CALL_F1: Final = "agentic.ragas.tool_call_f1"

_RECORD: Final = "have the instrumentation record content"

_SHARES: Final[Mapping[str, Callable[[Counted], Share]]] = {
    ACCURACY: lambda counted: counted.in_order,
    UNORDERED: lambda counted: counted.in_any_order,
    TOOL_CALL_F1: lambda counted: counted.equal,
}


class ToolCalls(BuiltInEvaluator):
    """The three metrics of tool calls."""

    name = "ragas.tool_calls"
    needs = frozenset({"turns", "case", "expected_tools"})

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the three scores of a conversation."""
        case = subject.case
        if case is None:
            return none_of_all(self.metrics, *without_case(subject))
        scopes = scopes_of(subject)
        missing = _scope_lacking(subject, case, scopes)
        if missing is not None:
            return none_of_all(self.metrics, *missing)
        rules = ToolRules.of(case, subject.settings)
        return _scores_of(tuple(tuple(count(expectation, scope.calls, rules)) for expectation, scope, _ in scopes))


@lru_cache(maxsize=_CACHED)
def _scores_of(counted: Sequence[Sequence[Counted]]) -> Sequence[MetricScore]:
    """Return the three scores; cached, because most conversations of an agent have the counts of earlier ones."""
    return tuple(_tool_call_score(name, share, counted) for name, share in _SHARES.items())


def _scope_lacking(
    subject: Subject, case: Case, scopes: Sequence[tuple[ToolExpectation, Scope, bool]]
) -> Missing | None:
    """Return the reason why the calls cannot be scored, or None."""
    if not scopes:
        return "no_data", f"case {case.case_id!r} expects nothing of tools; annotate `tools`"
    absent = turns_absent(subject)
    if absent is not None:
        return absent
    if any(not scope.captured and (is_whole or scope.turn_index is not None) for _, scope, is_whole in scopes):
        return "content_not_captured", f"no content was captured, so that a call may be missing; {_RECORD}"
    unrecorded_call = next(_unrecorded(scopes, count_errors=subject.settings.count_errors), None)
    if unrecorded_call is not None:
        message = f"the arguments of {unrecorded_call.call.name} in turn {unrecorded_call.turn_index + 1} were not captured; {_RECORD}"
        return "content_not_captured", message
    return None


def _unrecorded(scopes: Sequence[tuple[ToolExpectation, Scope, bool]], *, count_errors: bool) -> Iterator[ActualCall]:
    """Yield the counted calls whose arguments were not recorded."""
    for expectation, scope, _ in scopes:
        named = {call.tool_name for call in expectation.calls}
        for actual_call in scope.calls:
            counts = actual_call.call.kind == "tool" or actual_call.call.name in named
            if counts and actual_call.call.arguments is None and (actual_call.call.error is None or count_errors):
                yield actual_call


def _tool_call_score(name: str, share: Callable[[Counted], Share], counted: Sequence[Sequence[Counted]]) -> MetricScore:
    """Return one metric of a conversation; of each expectation, only the alternative that fits best counts."""
    best = [max(alternatives, key=lambda alternative: share(alternative).value) for alternatives in counted]
    undecided = [parameter for alternative in best for parameter in alternative.undecided]
    if undecided:
        tool, key = undecided[0]
        return none_of(
            name, "no_data", f"parameter {key} of {tool} is for a judge to compare, and this metric asks none"
        )
    total = reduce(Share.plus, (share(alternative) for alternative in best))
    return MetricScore(
        name=name,
        value=total.value,
        explanation=_deviations_text(best, in_order=name == ACCURACY),
        details={"part": total.part, "whole": total.total},
    )


def _deviations_text(best: Sequence[Counted], *, in_order: bool) -> str:
    """Return a deterministic sentence on the deviations of the calls."""
    missing = Counter(name for alternative in best for name in alternative.missing)
    unasked = Counter(name for alternative in best for name in alternative.unasked)
    differing = [f"{tool}({key})" for alternative in best for tool, key in alternative.differing]
    parts = [
        f"not made: {listed(missing)}" if missing else "",
        f"not asked for: {listed(unasked)}" if unasked else "",
        f"other arguments: {listed(differing)}" if differing else "",
        "not in the expected order"
        if in_order and any(alternative.in_order < alternative.in_any_order for alternative in best)
        else "",
    ]
    return "; ".join(filter(None, parts)) or "every expected call was made as expected, and no other"
