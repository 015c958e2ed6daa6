"""Tool correctness: four dimensions, their weighted mean, and whether the calls were right."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.align import Pairing, pair_calls
from otel_agentic.scoring.effects import effect_of
from otel_agentic.scoring.faults import (
    made_fault,
    missing_faults,
    order_faults,
    parameter_faults,
    sorted_faults,
)
from otel_agentic.scoring.made import MadeCall, Scope, counted_calls, is_forbidden
from otel_agentic.scoring.model import DIMENSIONS, Dimension, ToolFault, ToolScore
from otel_agentic.scoring.sequence import in_order
from otel_agentic.scoring.utilization import Texts, Use, use_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_agentic.config import ScoringSettings
    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.truth.model import Case, Effect, ExtraRule, ToolExpectation

#: Sums of weights and shares are floating-point: a score this close to the threshold reaches it.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """How tools are judged for one case: the settings, with what the case overrides.

    `effects` are tables of tool name or glob, the case's first. `weights` need not sum to 1.
    """

    threshold: float
    weights: Mapping[Dimension, float]
    effects: tuple[Mapping[str, Effect], ...]
    count_errors: bool
    numbers_as_text: bool

    @classmethod
    def of(cls, case: Case, settings: ScoringSettings) -> ToolRules:
        """Return the rules of a case."""
        return cls(
            threshold=settings.tool_threshold if case.tool_threshold is None else case.tool_threshold,
            weights=settings.tool_weights if case.tool_weights is None else case.tool_weights,
            effects=(case.effects, settings.effects),
            count_errors=settings.count_errors,
            numbers_as_text=settings.numbers_as_text,
        )


def score_tools(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> ToolScore:
    """Return the score of the calls of a scope: of the best of the expectation and its alternatives.

    The best has the highest overall score; among equals one that is correct, then the one that stands first. Where the
    best fails while another could not be evaluated, that one is returned: it might have been right.
    """
    scores = [_score(one, scope, rules) for one in (expectation, *expectation.alternatives)]
    best = max(scores, key=lambda score: (-1.0 if score.overall is None else score.overall, score.outcome == "pass"))
    unknown = next((score for score in scores if score.outcome == "not_evaluated"), best)
    return unknown if best.outcome == "fail" else best


def overall_score(dimensions: Mapping[Dimension, float | None], weights: Mapping[Dimension, float]) -> float | None:
    """Return the weighted mean over the dimensions that apply, None where none with a weight does.

    >>> overall_score({"selection": 1.0, "parameters": 0.5, "sequence": None}, {"selection": 0.25, "parameters": 0.25})
    0.75
    """
    applicable = [(value, weights.get(name, 0.0)) for name, value in dimensions.items() if value is not None]
    # Divided by the largest first: weights of 1e-320 or 1e308 must not vanish or overflow.
    largest = max((weight for _, weight in applicable), default=0.0)
    if largest <= 0:
        return None
    total = sum(weight / largest for _, weight in applicable)
    return sum(value * (weight / largest) for value, weight in applicable) / total


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """The calls of a scope sorted out under one expectation.

    `made` are the calls that count; `errored` those that answered with an error; `extra` are unpaired calls by what
    their being extra means; `forbidden` those that the expectation forbids by name.
    """

    expectation: ToolExpectation
    made: tuple[MadeCall, ...]
    errored: tuple[MadeCall, ...]
    pairing: Pairing
    extra: Mapping[ExtraRule, list[MadeCall]]
    forbidden: tuple[MadeCall, ...]

    @property
    def required(self) -> int:
        return len(self.pairing.required) + len(self.pairing.missing)

    @property
    def captured(self) -> bool:
        """Whether arguments and results of all calls that weigh were recorded; allowed extras weigh nothing."""
        allowed = {id(made) for made in self.extra["allow"]}
        return all(
            made.call.arguments is not None and (made.call.result_captured or made.call.error is not None)
            for made in self.made
            if id(made) not in allowed
        )


def _sort_out(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> _Calls:
    counted = counted_calls(scope, expectation)
    errored = tuple(made for made in counted if made.call.error is not None)
    made = tuple(one for one in counted if rules.count_errors or one.call.error is None)
    pairing = pair_calls(expectation.calls, made, numbers_as_text=rules.numbers_as_text)
    extra: dict[ExtraRule, list[MadeCall]] = defaultdict(list)
    for place in pairing.extra:
        extra[expectation.extra_rule(effect_of(made[place].call.name, rules.effects))].append(made[place])
    return _Calls(
        expectation=expectation,
        made=made,
        errored=errored,
        pairing=pairing,
        extra=extra,
        forbidden=tuple(one for one in made if is_forbidden(one.call.name, expectation)),
    )


def _score(expectation: ToolExpectation, scope: Scope, rules: ToolRules) -> ToolScore:
    calls = _sort_out(expectation, scope, rules)
    placed = in_order(expectation.calls, calls.made, calls.pairing.required, expectation.order)
    uses = _uses(calls, scope)
    dimensions: dict[Dimension, float | None] = {
        "selection": _selection(calls),
        "parameters": _parameters(calls),
        "sequence": _sequence(calls, placed),
        "utilization": _utilization([use for _, use in uses]),
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


def _selection(calls: _Calls) -> float:
    """Paired / (required + made - paired) as multisets; allowed extras and excused optional calls stand outside."""
    penalized = len(calls.extra["penalize"]) + len(calls.extra["forbid"])
    if not calls.required:
        return 0.0 if penalized else 1.0
    return len(calls.pairing.required) / (calls.required + penalized)


def _parameters(calls: _Calls) -> float | None:
    """Mean agreement over the required calls, 0 for one that was not made."""
    if not calls.required:
        return None
    return sum(pair.agreement.score for pair in calls.pairing.required) / calls.required


def _sequence(calls: _Calls, placed: set[int]) -> float | None:
    if calls.expectation.order == "any" or calls.required < 2:  # noqa: PLR2004 — one call has no order
        return None
    return len(placed) / calls.required


def _uses(calls: _Calls, scope: Scope) -> list[tuple[MadeCall, Use]]:
    named = {call.tool_name for call in calls.expectation.calls}
    witnesses = [made for made in calls.made if made.call.name in named]
    texts = Texts(scope)
    paired = [calls.made[pair.made] for pair in calls.pairing.required]
    return [
        (made, use_of(made, [other for other in witnesses if other.place > made.place], texts))
        for made in paired
        if made.call.error is None
    ]


def _utilization(uses: list[Use]) -> float | None:
    known = [use.score for use in uses if use.score is not None]
    return sum(known) / len(known) if known else None


def _faults(calls: _Calls, scope: Scope, placed: set[int]) -> Iterator[ToolFault]:
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
    calls: _Calls,
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
    calls: _Calls,
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
    return overall_score({**dimensions, "utilization": _utilization(given)}, rules.weights)


def _not_captured(calls: _Calls) -> _Decision:
    known = all(pair.agreement.captured for pair in calls.pairing.required) and bool(calls.made)
    return _Decision(
        outcome="not_evaluated",
        reason="content_not_captured",
        overall=None,
        hidden=frozenset() if known else frozenset({"parameters"}),
        explanation="arguments or results of calls were not captured",
    )


def _explain(calls: _Calls, faults: tuple[ToolFault, ...]) -> str:
    if not faults:
        return f"{len(calls.pairing.required)} of {calls.required} required calls were made as expected"
    return "; ".join(fault.explanation for fault in faults)
