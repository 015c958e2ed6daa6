"""Tool correctness: four dimensions, their weighted mean, and whether the calls were right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.dimensions import (
    overall_score,
    parameters_score,
    selection_score,
    sequence_score,
    utilization_score,
)
from otel_agentic.scoring.faults import (
    made_fault,
    missing_faults,
    order_faults,
    parameter_faults,
    sorted_faults,
)
from otel_agentic.scoring.model import DIMENSIONS, Dimension, ToolFault, ToolScore
from otel_agentic.scoring.sequence import in_order
from otel_agentic.scoring.sorting import SortedCalls, ToolRules, sort_calls
from otel_agentic.scoring.utilization import Texts, Use, use_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_agentic.scoring.made import MadeCall, Scope
    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.truth.model import ToolExpectation

#: Sums of weights and shares are floating-point: a score this close to the threshold reaches it.
_ROUNDING: Final = 1e-9


def score_tools(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> ToolScore:
    """Return the score of the calls of a scope: of the best of the expectation and its alternatives.

    The best has the highest overall score; among equals one that is correct, then the one that stands first. Where the
    best fails while another could not be evaluated, that one is returned: it might have been right.
    """
    scores = [_score(one, scope, rules) for one in (expectation, *expectation.alternatives)]
    best = max(scores, key=lambda score: (-1.0 if score.overall is None else score.overall, score.outcome == "pass"))
    unknown = next((score for score in scores if score.outcome == "not_evaluated"), best)
    return unknown if best.outcome == "fail" else best


def _score(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> ToolScore:
    calls = sort_calls(expectation, scope, rules)
    placed = in_order(expectation.calls, calls.made, calls.pairing.required, expectation.order)
    uses = _uses(calls, scope)
    dimensions: dict[Dimension, float | None] = {
        "selection": selection_score(calls),
        "parameters": parameters_score(calls),
        "sequence": sequence_score(calls, placed),
        "utilization": utilization_score([use for _, use in uses]),
    }
    faults = sorted_faults([*_faults(calls, scope, placed), *_unused(uses)])
    evidence = {"utilization": [f"{made.call.name}: {use.evidence}" for made, use in uses if use.score is not None]}
    decided = _decide(calls, scope, rules, dimensions, uses)
    return ToolScore(
        turn_index=scope.turn_index,
        outcome=decided.outcome,
        reason=decided.reason,
        overall=decided.overall,
        dimensions={name: None if name in decided.hidden else dimensions[name] for name in DIMENSIONS},
        faults=faults,
        explanation=decided.explanation or _explain(calls, faults),
        evidence=evidence if evidence["utilization"] else {},
    )


def _uses(calls: SortedCalls, scope: Scope) -> list[tuple[MadeCall, Use]]:
    named = {call.tool_name for call in calls.expectation.calls}
    witnesses = [made for made in calls.made if made.call.name in named]
    texts = Texts(scope)
    paired = [calls.made[pair.made] for pair in calls.pairing.required]
    return [
        (made, use_of(made, [other for other in witnesses if other.place > made.place], texts))
        for made in paired
        if made.call.error is None
    ]


def _faults(calls: SortedCalls, scope: Scope, placed: set[int]) -> Iterator[ToolFault]:
    expected = calls.expectation.calls
    yield from missing_faults(expected, calls.pairing, scope.turn_index)
    forbidden = {id(made) for made in calls.forbidden}
    for made in calls.forbidden:
        yield made_fault("forbidden", made, "is forbidden here")
    for rule, why in (("penalize", "was not asked for"), ("forbid", "was not asked for, which is forbidden here")):
        for made in calls.extra[rule]:  # type: ignore[index]  # mypy widens the literals of the tuple to str
            if id(made) not in forbidden:
                yield made_fault("spurious", made, why)
    for pair in calls.pairing.required:
        if pair.agreement.captured:
            yield from parameter_faults(expected[pair.expected], calls.made[pair.made], pair)
    yield from order_faults(expected, calls.made, calls.pairing.required, placed)
    for made in calls.errored:
        yield made_fault("errored", made, "answered with an error")


def _unused(uses: list[tuple[MadeCall, Use]]) -> Iterator[ToolFault]:
    for made, use in uses:
        if use.score == 0:
            yield made_fault("unused_result", made, f"was not used: {use.evidence}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """The outcome of an expectation; `hidden` are dimensions that are not known well enough to be shown."""

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    hidden: frozenset[Dimension] = frozenset()
    explanation: str = ""


def _decide(
    calls: SortedCalls,
    scope: Scope,
    rules: ToolRules,
    dimensions: Mapping[Dimension, float | None],
    uses: list[tuple[MadeCall, Use]],
) -> _Decision:
    if not (calls.captured and scope.captured):
        return _not_captured(calls)
    overall = _overall(calls, scope, rules, dimensions, uses)
    violated = bool(calls.forbidden or calls.extra["forbid"])
    if violated or (overall is not None and overall < rules.threshold - _ROUNDING):
        return _Decision(outcome="fail", reason="tool_fault", overall=overall)
    undecided = sum(pair.agreement.undecided for pair in calls.pairing.required)
    if overall is None or undecided:
        why = (
            f"{undecided} parameters only a judge could compare" if undecided else "no dimension with a weight applies"
        )
        hidden: frozenset[Dimension] = frozenset({"parameters"}) if undecided else frozenset()
        return _Decision(outcome="not_evaluated", reason="no_data", overall=None, hidden=hidden, explanation=why)
    return _Decision(outcome="pass", reason=None, overall=overall)


def _overall(
    calls: SortedCalls,
    scope: Scope,
    rules: ToolRules,
    dimensions: Mapping[Dimension, float | None],
    uses: list[tuple[MadeCall, Use]],
) -> float | None:
    if calls.required and not calls.pairing.required:
        # Expected calls and none of them made is a failure whatever the weights are, never "no data".
        return 0.0
    if scope.turn_index is not None:
        return overall_score(dimensions, rules.weights)
    given = [use for _, use in uses if not use.inferred]
    return overall_score({**dimensions, "utilization": utilization_score(given)}, rules.weights)


def _not_captured(calls: SortedCalls) -> _Decision:
    known = all(pair.agreement.captured for pair in calls.pairing.required) and bool(calls.made)
    return _Decision(
        outcome="not_evaluated",
        reason="content_not_captured",
        overall=None,
        hidden=frozenset() if known else frozenset({"parameters"}),
        explanation="arguments or results of calls were not captured",
    )


def _explain(calls: SortedCalls, faults: tuple[ToolFault, ...]) -> str:
    if not faults:
        return f"{len(calls.pairing.required)} of {calls.required} required calls were made as expected"
    return "; ".join(fault.explanation for fault in faults)
