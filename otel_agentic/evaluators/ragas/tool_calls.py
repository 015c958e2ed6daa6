"""Tool call accuracy (strict and unordered) and tool call F1, over the calls of a conversation."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import without_case
from otel_agentic.evaluators.ragas.counting import Counted, Share, count
from otel_agentic.scoring.made import Scope, scope_of
from otel_agentic.scoring.sorting import ToolRules
from otel_agentic.scoring.turns import unproven_absence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import NotEvaluatedReason
    from otel_agentic.truth.model import Case, ToolExpectation

ACCURACY: Final = "agentic.ragas.tool_call_accuracy"
UNORDERED: Final = "agentic.ragas.tool_call_accuracy_unordered"
F1: Final = "agentic.ragas.tool_call_f1"

#: What an expected turn that never came is held against.
_NO_CALLS: Final = Scope(turn_index=None, calls=(), answers=(), queries=(), captured=True)
_RECORD: Final = "have the instrumentation record content"
#: Things told of each kind in an explanation.
_TOLD: Final = 5

_SHARES: Final[Mapping[str, Callable[[Counted], Share]]] = {
    ACCURACY: lambda counted: counted.in_order,
    UNORDERED: lambda counted: counted.in_any_order,
    F1: lambda counted: counted.equal,
}


class ToolCalls(WithoutSettings):
    """The three metrics of tool calls."""

    name: str = "ragas.tool_calls"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("ragas.tool_calls")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the three scores of a conversation."""
        case = subject.case
        if case is None:
            return _none(*without_case(subject))
        scopes = list(_scopes(subject, case))
        lacking = _lacking(subject, case, scopes)
        if lacking is not None:
            return _none(*lacking)
        rules = ToolRules.of(case, subject.settings)
        counted = [count(expectation, scope.calls, rules) for expectation, scope in scopes]
        return [_score(name, share, counted) for name, share in _SHARES.items()]


def _scopes(subject: Subject, case: Case) -> Iterator[tuple[ToolExpectation, Scope]]:
    """Yield each expectation of the case with what it is held against; a turn that never came has no call."""
    turns = subject.conversation.turns
    came = {case_index: place for place, case_index in subject.aligned.items()}
    by_index = {turn.index: turn for turn in turns}
    for index, wanted in enumerate(case.turns):
        if wanted.tools is not None:
            turn = by_index.get(came.get(index, -1))
            yield wanted.tools, _NO_CALLS if turn is None else scope_of([turn], turn_index=turn.index)
    if case.tools is not None:
        yield case.tools, scope_of(turns, turn_index=None)


def _lacking(
    subject: Subject, case: Case, scopes: Sequence[tuple[ToolExpectation, Scope]]
) -> tuple[NotEvaluatedReason, str] | None:
    """Return why the calls cannot be scored, None where they can."""
    if not scopes:
        return "no_data", f"case {case.case_id!r} expects nothing of tools; annotate `tools`"
    absent = sorted(set(range(len(case.turns))) - set(subject.aligned.values()))
    awaited = unproven_absence(subject.conversation, subject.settings) if absent else None
    if awaited is not None:
        told = ", ".join(str(index + 1) for index in absent)
        return awaited[0], f"expected turn {told} is missing; {awaited[1]}"
    if not all(scope.captured for _, scope in scopes):
        return "content_not_captured", f"no content was captured, so that a call may be missing; {_RECORD}"
    unrecorded = next(_unrecorded(scopes, count_errors=subject.settings.count_errors), None)
    if unrecorded is not None:
        told = (
            f"the arguments of {unrecorded.call.name} in turn {unrecorded.turn_index + 1} were not captured; {_RECORD}"
        )
        return "content_not_captured", told
    return None


def _unrecorded(scopes: Sequence[tuple[ToolExpectation, Scope]], *, count_errors: bool) -> Iterator[MadeCall]:
    """Yield the calls that count and whose arguments are not known."""
    for expectation, scope in scopes:
        named = {call.tool_name for call in expectation.calls}
        for one in scope.calls:
            counts = one.call.kind == "tool" or one.call.name in named
            if counts and one.call.arguments is None and (one.call.error is None or count_errors):
                yield one


def _score(name: str, share: Callable[[Counted], Share], counted: Sequence[Sequence[Counted]]) -> MetricScore:
    """Return one metric of a conversation: of each expectation, that of its alternatives counts which fits best."""
    best = [max(ways, key=lambda way: share(way).value) for ways in counted]
    undecided = [one for way in best for one in way.undecided]
    if undecided:
        tool, key = undecided[0]
        return _abstained(
            name, "no_data", f"parameter {key} of {tool} is for a judge to compare, and this metric asks none"
        )
    total = reduce(Share.plus, (share(way) for way in best))
    return MetricScore(
        name=name,
        value=total.value,
        explanation=_told(best, in_order=name == ACCURACY),
        details={"part": total.part, "whole": total.whole},
    )


def _told(best: Sequence[Counted], *, in_order: bool) -> str:
    """Return what is wrong with the calls, in words; the same every time."""
    missing = Counter(name for way in best for name in way.missing)
    unasked = Counter(name for way in best for name in way.unasked)
    wrong = [f"{tool}({key})" for way in best for tool, key in way.wrong]
    parts = [
        f"not made: {_names(missing)}" if missing else "",
        f"not asked for: {_names(unasked)}" if unasked else "",
        f"other arguments: {_listed(wrong)}" if wrong else "",
        "not in the expected order" if in_order and any(way.in_order < way.in_any_order for way in best) else "",
    ]
    return "; ".join(filter(None, parts)) or "every expected call was made as expected, and no other"


def _names(found: Counter[str]) -> str:
    return _listed([name if times == 1 else f"{name} ({times} times)" for name, times in found.items()])


def _listed(told: Sequence[str]) -> str:
    more = len(told) - _TOLD
    return ", ".join(told[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _none(reason: NotEvaluatedReason, told: str) -> list[MetricScore]:
    return [_abstained(name, reason, told) for name in _SHARES]


def _abstained(name: str, reason: NotEvaluatedReason, told: str) -> MetricScore:
    return MetricScore(name=name, reason=reason, explanation=told)
