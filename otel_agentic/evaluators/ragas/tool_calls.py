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
    SameObject,
    Subject,
    listed,
    none_of,
    none_of_all,
    without_case,
)
from otel_agentic.evaluators.layers.calls import scopes_of, turns_absent
from otel_agentic.scoring.align import SortedCalls, sort_calls
from otel_agentic.scoring.compile import CompiledCall, CompiledExpectation, compiled
from otel_agentic.scoring.scope import ActualCall, Scope, ToolRules

if TYPE_CHECKING:
    from otel_agentic.truth.model import Case, ToolExpectation

#: Expectations whose form for F1 is kept.
_CACHED: Final = 1024


class Share(NamedTuple):
    """A share that can be summed over scopes: `part` of `total`. A total of 0 is a share of 1: nothing was to be done."""

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
    """What the calls of one scope come to under one expectation.

    `missing` and `unasked` are names of calls, `differing` are (tool, parameter) of calls that were made otherwise. `undecided`
    are parameters, as (tool, parameter), that only a judge could compare.
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
        calls: of the turn or conversation to which it applies, in order.
        rules: those of the case.
    """
    ready = compiled(expectation, rules)
    return [_counted(item, calls) for item in (ready, *ready.alternatives)]


def _counted(expectation: CompiledExpectation, calls: Sequence[ActualCall]) -> Counted:
    calls_sorted = SortedCalls.of(sort_calls(expectation, calls))
    extra = [index for index, rule in calls_sorted.extra if rule != "allow" or index in calls_sorted.forbidden]
    agreed = sum(pair.agreement.score for pair in calls_sorted.pairs)
    total = float(expectation.required + len(extra))
    return Counted(
        in_order=Share(min(agreed, _in_order(expectation, calls_sorted, extra, agreed)), total),
        in_any_order=Share(agreed, total),
        equal=_equal(expectation, calls_sorted.actual),
        missing=_missing(expectation, calls_sorted),
        unasked=tuple(calls_sorted.actual[index].call.name for index in extra),
        differing=tuple((pair.expected.name, key) for pair in calls_sorted.pairs for key in pair.agreement.differing),
        undecided=tuple(
            (pair.expected.name, key)
            for pair in calls_sorted.pairs
            if pair.expected.parameters.undecided(calls_sorted.actual[pair.actual_index])
            for key, mode in pair.expected.parameters.modes.items()
            if mode == "judge"
        ),
    )


def _missing(expectation: CompiledExpectation, calls_sorted: SortedCalls) -> tuple[str, ...]:
    answered = {pair.expected.index for pair in calls_sorted.pairs}
    return tuple(call.name for call in expectation.calls if call.required and call.index not in answered)


def _in_order(
    expectation: CompiledExpectation, calls_sorted: SortedCalls, extra: Sequence[int], agreed: float
) -> float:
    """Return the largest agreement of expected calls that can be paired without crossings.

    Expected calls of one step, and actual calls of one step, have no order among themselves: they are ordered as in the
    free pairing.
    """
    partner = {pair.actual_index: pair.expected for pair in calls_sorted.pairs}
    place_of = {pair.expected.index: pair.actual_index for pair in calls_sorted.pairs}
    expected = sorted(
        (call for call in expectation.calls if call.required),
        key=lambda call: (call.group, place_of.get(call.index, len(calls_sorted.actual)), call.index),
    )
    last = expectation.required + 1

    def made_at(index: int) -> tuple[tuple[int, int], int, int]:
        group = partner[index].group if index in partner else last
        return calls_sorted.actual[index].step, group, index

    indices = sorted({*partner, *extra}, key=made_at)
    rank = {other_place: number for number, other_place in enumerate(indices)}
    present = [rank[place_of[call.index]] for call in expected if call.index in place_of]
    if present == sorted(present):
        return agreed
    return best_in_order(expected, [calls_sorted.actual[other_place] for other_place in indices])


def best_in_order(expected: Sequence[CompiledCall], actual: Sequence[ActualCall]) -> float:
    """Return the greatest sum of agreements over pairs of calls of one name, no two of which cross.

    Ref: S. Needleman, C. Wunsch (1970), A general method applicable to the search for similarities, without gap penalty.
    """
    before = [0.0] * (len(actual) + 1)
    for expected_call in expected:
        indices = [index for index, other in enumerate(actual) if other.call.name == expected_call.name]
        scores = dict(
            zip(indices, expected_call.parameters.scores([actual[other_place] for other_place in indices]), strict=True)
        )
        now = [0.0]
        for position in range(len(actual)):
            now.append(max(now[position], before[position + 1], before[position] + scores.get(position, 0.0)))
        before = now
    return before[-1]


def _equal(expectation: CompiledExpectation, actual: Sequence[ActualCall]) -> Share:
    """Return the terms of F1: twice the number of calls exactly as expected, and the number of all expected and actual calls."""
    required, optional = _by_need(expectation)
    calls_sorted = SortedCalls.of(sort_calls(required, _as_tools(actual)))
    hits, lacking = len(calls_sorted.excused), _lacking(required, calls_sorted)
    left = [calls_sorted.actual[index] for index, _ in calls_sorted.extra]
    excused = {pair.actual_index for pair in SortedCalls.of(sort_calls(optional, left)).excused}
    invalid = 0
    for position, item in enumerate(left):
        if position in excused:
            continue
        name = item.call.name
        # An allowed extra call is ignored; one in the position of an expected call is that call with wrong arguments.
        if lacking[name]:
            lacking[name] -= 1
        elif expectation.extra_rule(name) == "allow" and not expectation.forbids(name):
            continue
        invalid += 1
    return Share(2.0 * hits, float(hits + invalid + expectation.required))


def _as_tools(actual: Sequence[ActualCall]) -> list[ActualCall]:
    """Return the calls that count for any part of the expectation, including successful transfers and agents used as tools."""
    return [
        item
        if item.call.kind == "tool" and item.call.error is None
        else replace(item, call=replace(item.call, kind="tool", error=None))
        for item in actual
    ]


def _lacking(required: CompiledExpectation, calls_sorted: SortedCalls) -> Counter[str]:
    """Return how many expected calls of each name were not made exactly."""
    result = Counter(call.name for call in required.calls)
    result.subtract(pair.expected.name for pair in calls_sorted.excused)
    return result


def _by_need(expectation: CompiledExpectation) -> tuple[CompiledExpectation, CompiledExpectation]:
    """Return the required and the optional calls as expectations of their own.

    All become optional, because a pairing then contains exactly those that occurred as expected.
    """
    return _divided(SameObject(expectation))


@lru_cache(maxsize=_CACHED)
def _divided(same: SameObject[CompiledExpectation]) -> tuple[CompiledExpectation, CompiledExpectation]:
    provided, rules = same.item.expectation, same.item.rules
    free = [call.model_copy(update={"required": False}) for call in provided.calls]
    parts = [
        provided.model_copy(
            update={
                "calls": tuple(
                    item for item, call in zip(free, provided.calls, strict=True) if call.required == needed
                ),
                "alternatives": (),
                "order": "any",
            }
        )
        for needed in (True, False)
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
        scopes = list(scopes_of(subject, case))
        lacking = _scope_lacking(subject, case, scopes)
        if lacking is not None:
            return none_of_all(self.metrics, *lacking)
        rules = ToolRules.of(case, subject.settings)
        counted = [count(expectation, scope.calls, rules) for expectation, scope, _ in scopes]
        return [_tool_call_score(name, share, counted) for name, share in _SHARES.items()]


def _scope_lacking(
    subject: Subject, case: Case, scopes: Sequence[tuple[ToolExpectation, Scope, bool]]
) -> Missing | None:
    """Return the reason why the calls cannot be scored, or None."""
    if not scopes:
        return "no_data", f"case {case.case_id!r} expects nothing of tools; annotate `tools`"
    absent = turns_absent(subject, case)
    if absent is not None:
        return absent
    if any(not scope.captured and (is_whole or scope.turn_index is not None) for _, scope, is_whole in scopes):
        return "content_not_captured", f"no content was captured, so that a call may be missing; {_RECORD}"
    unrecorded = next(_unrecorded(scopes, count_errors=subject.settings.count_errors), None)
    if unrecorded is not None:
        message = (
            f"the arguments of {unrecorded.call.name} in turn {unrecorded.turn_index + 1} were not captured; {_RECORD}"
        )
        return "content_not_captured", message
    return None


def _unrecorded(scopes: Sequence[tuple[ToolExpectation, Scope, bool]], *, count_errors: bool) -> Iterator[ActualCall]:
    """Yield the calls that count and whose arguments are not known."""
    for expectation, scope, _ in scopes:
        named = {call.tool_name for call in expectation.calls}
        for item in scope.calls:
            counts = item.call.kind == "tool" or item.call.name in named
            if counts and item.call.arguments is None and (item.call.error is None or count_errors):
                yield item


def _tool_call_score(name: str, share: Callable[[Counted], Share], counted: Sequence[Sequence[Counted]]) -> MetricScore:
    """Return one metric of a conversation: of each expectation, that of its alternatives counts which fits best."""
    best = [max(ways, key=lambda way: share(way).value) for ways in counted]
    undecided = [item for way in best for item in way.undecided]
    if undecided:
        tool, key = undecided[0]
        return none_of(
            name, "no_data", f"parameter {key} of {tool} is for a judge to compare, and this metric asks none"
        )
    total = reduce(Share.plus, (share(way) for way in best))
    return MetricScore(
        name=name,
        value=total.value,
        explanation=_deviations_text(best, in_order=name == ACCURACY),
        details={"part": total.part, "whole": total.total},
    )


def _deviations_text(best: Sequence[Counted], *, in_order: bool) -> str:
    """Return a deterministic sentence on the deviations of the calls."""
    missing = Counter(name for way in best for name in way.missing)
    unasked = Counter(name for way in best for name in way.unasked)
    invalid = [f"{tool}({key})" for way in best for tool, key in way.differing]
    parts = [
        f"not made: {listed(missing)}" if missing else "",
        f"not asked for: {listed(unasked)}" if unasked else "",
        f"other arguments: {listed(invalid)}" if invalid else "",
        "not in the expected order" if in_order and any(way.in_order < way.in_any_order for way in best) else "",
    ]
    return "; ".join(filter(None, parts)) or "every expected call was made as expected, and no other"
