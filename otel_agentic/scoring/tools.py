"""Tool correctness: four dimensions, their weighted mean, and whether the calls were right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.compiled import CompiledExpectation, compiled
from otel_agentic.scoring.dimensions import (
    overall_score,
    parameters_score,
    selection_score,
    sequence_score,
    utilization_score,
)
from otel_agentic.scoring.faults import faults_of
from otel_agentic.scoring.made import MadeCall
from otel_agentic.scoring.model import DIMENSIONS, Dimension, ToolScore
from otel_agentic.scoring.opinions import NO_OPINIONS
from otel_agentic.scoring.sequence import misplaced
from otel_agentic.scoring.sorting import SortedCalls, ToolRules, sort_calls
from otel_agentic.scoring.utilization import Texts, Use, use_of

if TYPE_CHECKING:
    from otel_agentic.scoring.made import Scope
    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.scoring.opinions import Opinions
    from otel_agentic.truth.model import ToolExpectation

Uses: TypeAlias = Sequence[tuple[MadeCall, Use]]
UsesOf: TypeAlias = Callable[[SortedCalls], Uses]

#: Sums of weights and shares are floating-point: a score this close to the threshold reaches it.
_ROUNDING: Final = 1e-9
_FLAGGED: Final = {
    flag: Use(score=float(flag), how="flag", note=f"the data flag its result as {'used' if flag else 'unused'}")
    for flag in (True, False)
}


def score_tools(
    expectation: ToolExpectation, scope: Scope, rules: ToolRules, opinions: Opinions | None = None
) -> ToolScore:
    """Return the score of the calls of a scope: of the best of the expectation and its alternatives.

    The best has the highest overall score; among equals one that is correct, then the one that stands first. Where the
    best fails while another could not be evaluated, that one is returned: it might have been right.

    Args:
        expectation: what is expected.
        scope: the turn or conversation that it is held against.
        rules: those of the case.
        opinions: of a judge, where values or results do not tell. Whether a result was used is asked only under the
            expectation that counts.
    """
    opinions = opinions or NO_OPINIONS
    texts = Texts(scope)
    ready = compiled(expectation, rules)

    def found(calls: SortedCalls) -> Uses:
        return [(made, use_of(made, later, texts)) for made, later in _results(calls)]

    def judged(calls: SortedCalls) -> Uses:
        return [(made, _use(made, later, texts, opinions)) for made, later in _results(calls)]

    best, score = _best(ready, scope.calls, scope.turn_index, found, captured=scope.captured, opinions=opinions)
    if opinions is NO_OPINIONS:
        return score
    return _score(best, scope.calls, scope.turn_index, judged, captured=scope.captured, opinions=opinions)


def score_calls(
    expectation: CompiledExpectation,
    calls: Sequence[MadeCall],
    *,
    turn_index: int | None = None,
    captured: bool = True,
) -> ToolScore:
    """Return the score of calls as `score_tools` does, from the calls alone: use of results is known by flags only.

    Args:
        expectation: compiled by `compiled`.
        calls: in order of their place.
        turn_index: of the turn that is scored, None for a whole conversation.
        captured: whether any content was recorded.
    """
    return _best(expectation, calls, turn_index, _flagged, captured=captured, opinions=NO_OPINIONS)[1]


def _best(
    expectation: CompiledExpectation,
    calls: Sequence[MadeCall],
    turn_index: int | None,
    uses_of: UsesOf,
    *,
    captured: bool,
    opinions: Opinions,
) -> tuple[CompiledExpectation, ToolScore]:
    """Return the expectation that counts, among it and its alternatives, and its score."""
    scored = [
        (one, _score(one, calls, turn_index, uses_of, captured=captured, opinions=opinions))
        for one in (expectation, *expectation.alternatives)
    ]
    if len(scored) == 1:
        return scored[0]
    best = max(scored, key=lambda one: _goodness(one[1]))
    unknown = next((one for one in scored if one[1].outcome == "not_evaluated"), best)
    return unknown if best[1].outcome == "fail" else best


def _goodness(score: ToolScore) -> tuple[float, bool]:
    return -1.0 if score.overall is None else round(score.overall, 9), score.outcome == "pass"


def _score(
    expectation: CompiledExpectation,
    calls: Sequence[MadeCall],
    turn_index: int | None,
    uses_of: UsesOf,
    *,
    captured: bool,
    opinions: Opinions,
) -> ToolScore:
    found = sort_calls(expectation, calls, opinions)
    out_of_place = misplaced(found.made, found.pairs, expectation.order)
    uses = uses_of(found)
    required, paired = expectation.required, len(found.pairs)
    selection = selection_score(required, paired, found.unasked)
    parameters = parameters_score(required, found.pairs)
    sequence = sequence_score(required, paired - len(out_of_place), expectation.order)
    utilization = utilization_score(uses)
    # For a whole conversation, an inferred use is shown but never decides.
    deciding = utilization if turn_index is not None else utilization_score(_given(uses))
    faults = faults_of(found, out_of_place, uses, turn_index)
    if captured and found.captured:
        decided = _decide(found, (selection, parameters, sequence, deciding), opinions)
    else:
        decided = _not_captured(found)
    return ToolScore(
        turn_index=turn_index,
        outcome=decided.outcome,
        reason=decided.reason,
        overall=decided.overall,
        dimensions={
            "selection": selection,
            "parameters": None if decided.parameters_unknown else parameters,
            "sequence": sequence,
            "utilization": utilization,
        },
        faults=faults,
        uses=uses,
        required=required,
        paired=paired,
        note=decided.note,
        calls=found,
    )


def _results(calls: SortedCalls) -> list[tuple[MadeCall, list[MadeCall]]]:
    """Return the paired calls that worked, each with the later calls that may prove that its result was used."""
    named = calls.expectation.named
    witnesses = [made for made in calls.made if made.call.name in named]
    paired = (calls.made[pair.place] for pair in sorted(calls.pairs, key=lambda pair: pair.expected.index))
    return [
        (made, [other for other in witnesses if other.place > made.place]) for made in paired if made.call.error is None
    ]


def _flagged(calls: SortedCalls) -> Uses:
    paired = (calls.made[pair.place] for pair in calls.pairs)
    return [
        (made, _FLAGGED[made.call.used_flag])
        for made in paired
        if made.call.used_flag is not None and made.call.error is None
    ]


def _use(made: MadeCall, later: Sequence[MadeCall], texts: Texts, opinions: Opinions) -> Use:
    use = use_of(made, later, texts)
    return (opinions.used(made, later, texts) or use) if use.score is None else use


def _given(uses: Uses) -> Uses:
    return [one for one in uses if not one[1].inferred]


class _Decision(NamedTuple):
    """The outcome of an expectation; `note` says why there is none, `parameters_unknown` that they are not to be shown."""

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    parameters_unknown: bool = False
    note: str = ""


def _decide(calls: SortedCalls, values: tuple[float | None, ...], opinions: Opinions) -> _Decision:
    expectation = calls.expectation
    overall = _overall(expectation, calls, values)
    if calls.trespassed or (overall is not None and overall < expectation.rules.threshold - _ROUNDING):
        return _Decision("fail", "tool_fault", overall)
    undecided = sum([pair.agreement.undecided for pair in calls.pairs])
    if undecided:
        told = f"{undecided} parameter{'s' * (undecided > 1)} that only a judge could compare"
        return _Decision("not_evaluated", opinions.silence, None, parameters_unknown=True, note=told)
    if overall is None:
        return _Decision("not_evaluated", "no_data", None, note="no dimension with a weight applies")
    return _Decision("pass", None, overall)


def _overall(expectation: CompiledExpectation, calls: SortedCalls, values: tuple[float | None, ...]) -> float | None:
    if expectation.required and not calls.pairs:
        # Expected calls and none of them made is a failure whatever the weights are, never "no data".
        return 0.0
    top = total = 0.0
    for value, weight in zip(values, expectation.weights, strict=True):
        if value is not None:
            top += value * weight
            total += weight
    if total:
        return top / total
    # Weights that are small beside one that does not apply.
    given: dict[Dimension, float | None] = dict(zip(DIMENSIONS, values, strict=True))
    return overall_score(given, expectation.rules.weights)


def _not_captured(calls: SortedCalls) -> _Decision:
    known = all(pair.agreement.captured for pair in calls.pairs) and bool(calls.made)
    return _Decision(
        "not_evaluated",
        "content_not_captured",
        None,
        parameters_unknown=not known,
        note="arguments or results of calls were not captured",
    )
