"""Tool correctness of a turn or conversation: four dimensions, their weighted mean, faults and outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.align import Misplaced, Pair, RawCalls, misplaced, sort_calls
from otel_agentic.scoring.compile import NO_VERDICTS, CompiledCall, CompiledExpectation, ToolVerdicts, compiled
from otel_agentic.scoring.model import FaultKind, ToolFault, ToolScore
from otel_agentic.scoring.scope import (
    DIMENSIONS,
    ActualCall,
    Dimension,
    FailReason,
    NotEvaluatedReason,
    Outcome,
    Scope,
    ToolRules,
)
from otel_agentic.scoring.utilization import Use, use_of
from otel_agentic.scoring.values import Texts

if TYPE_CHECKING:
    from otel_agentic.truth.model import ToolExpectation


def utilization_score(uses: Sequence[tuple[ActualCall, Use]]) -> float | None:
    """Return the share of results that were used, among the results whose use is known."""
    used, known_count = 0.0, 0
    for _, use in uses:
        if use.score is not None:
            used += use.score
            known_count += 1
    return used / known_count if known_count else None


def weighted_mean(
    selection: float,
    parameters: float | None,
    sequence: float | None,
    utilization: float | None,
    weights: tuple[float, float, float, float],
) -> float | None:
    """Return the weighted mean over the dimensions that apply, or None if none of them has a weight.

    >>> weighted_mean(1.0, 0.5, None, None, (1.0, 1.0, 1.0, 0.0))
    0.75
    """
    total_weight, parameters_weight, sequence_weight, utilization_weight = weights
    weighted_sum = selection * total_weight
    if parameters is not None:
        weighted_sum += parameters * parameters_weight
        total_weight += parameters_weight
    if sequence is not None:
        weighted_sum += sequence * sequence_weight
        total_weight += sequence_weight
    if utilization is not None:
        weighted_sum += utilization * utilization_weight
        total_weight += utilization_weight
    return weighted_sum / total_weight if total_weight else None


def overall_score(dimensions: Mapping[Dimension, float | None], weights: Mapping[Dimension, float]) -> float | None:
    """Return the weighted mean over the dimensions that apply, or None if none of them has a weight.

    >>> overall_score({"selection": 1.0, "parameters": 0.5, "sequence": None}, {"selection": 1, "parameters": 1})
    0.75
    """
    weighted_values = [(value, weights.get(name, 0.0)) for name, value in dimensions.items() if value is not None]
    # Divided by the largest weight first, so that weights of 1e-320 or 1e308 neither underflow nor overflow.
    largest = max((weight for _, weight in weighted_values), default=0.0)
    if largest <= 0:
        return None
    total = sum(weight / largest for _, weight in weighted_values)
    return sum(value * (weight / largest) for value, weight in weighted_values) / total


#: The order in which fault kinds are reported: a score with several kinds is classified under the first of these.
FAULT_PRECEDENCE: Final[tuple[FaultKind, ...]] = (
    "missing",
    "spurious",
    "forbidden",
    "wrong_parameters",
    "wrong_order",
    "unused_result",
    "errored",
)


def fault_class(faults: Iterable[ToolFault]) -> FaultKind | None:
    """Return the first kind of these faults by precedence, or None without faults.

    >>> fault_class([ToolFault(kind="errored", tool_name="a"), ToolFault(kind="missing", tool_name="b")])
    'missing'
    """
    kinds = {fault.kind for fault in faults}
    return next((kind for kind in FAULT_PRECEDENCE if kind in kinds), None)


def missing_faults(expectation: CompiledExpectation, pairs: Sequence[Pair], turn_index: int | None) -> list[ToolFault]:
    """Return a fault for each missing required call; `turn_index` is the turn of the expectation."""
    paired_indices = {pair[1].index for pair in pairs}
    # Created directly, as `_make` does: a turn may have many faults, and keyword arguments take twice as long.
    return [
        tuple.__new__(
            ToolFault,
            (
                "missing",
                call.name,
                None,
                call.parameters.values,
                None,
                call.index,
                turn_index,
                None,
                None,
                None,
                None,
                True,
                "",
            ),
        )
        for call in expectation.calls
        if call.required and call.index not in paired_indices
    ]


def forbidden_faults(expectation: CompiledExpectation, actual: Sequence[ActualCall]) -> list[ToolFault]:
    """Return a fault for each actual call that is forbidden by name."""
    forbidden_by = expectation.forbidden_by
    if forbidden_by is None:
        return []
    patterns = [(entry, forbidden_by(entry.call.name)) for entry in actual]
    return [
        call_fault("forbidden", entry, pattern, None, entry.call.arguments)
        for entry, pattern in patterns
        if pattern is not None
    ]


def call_fault(
    kind: FaultKind, actual: ActualCall, note: str, expected: int | None = None, provided: Any = None
) -> ToolFault:
    """Return a fault of an actual call as a whole."""
    call = actual.call
    return tuple.__new__(
        ToolFault,
        (
            kind,
            call.name,
            None,
            expected,
            provided,
            None,
            actual.turn_index,
            call.position,
            call.span_id,
            call.step,
            None,
            True,
            note,
        ),
    )


def parameter_faults(expected: CompiledCall, actual: ActualCall, invalid: Sequence[str]) -> list[ToolFault]:
    """Return a fault for each parameter of a call that is not as expected."""
    call, parameters = actual.call, expected.parameters
    arguments = call.arguments or {}
    return [
        tuple.__new__(
            ToolFault,
            (
                "wrong_parameters",
                call.name,
                key,
                parameters.values.get(key),
                arguments.get(key),
                expected.index,
                actual.turn_index,
                call.position,
                call.span_id,
                call.step,
                parameters.modes.get(key),
                key in arguments,
                "",
            ),
        )
        for key in invalid
    ]


def order_fault(misplaced: Misplaced, actual: ActualCall) -> ToolFault:
    """Return the fault of a call that is out of order."""
    call = actual.call
    return ToolFault(
        kind="wrong_order",
        tool_name=call.name,
        expected=misplaced.belongs,
        actual=misplaced.position,
        expected_index=misplaced.expected.index,
        turn_index=actual.turn_index,
        actual_position=call.position,
        span_id=call.span_id,
        step=call.step,
    )


#: The displayed utilization, the utilization that counts for the score, the faults of unused results, and the evidence.
Utilization: TypeAlias = tuple["float | None", "float | None", Sequence[ToolFault], "Sequence[tuple[ActualCall, Use]]"]
#: Returns the utilization for an expectation, the actual calls, the required pairs and the turn (None: all turns).
UtilizationOf: TypeAlias = Callable[
    [CompiledExpectation, Sequence[ActualCall], Sequence[Pair], "int | None"], Utilization
]
#: The values of the dimensions, in the order of `DIMENSIONS`.
_Values: TypeAlias = "tuple[float, float | None, float | None, float | None]"

UNUSED: Final = "the data flag its result as unused"
NOT_CAPTURED: Final = "arguments or results of calls were not captured"
NO_WEIGHT: Final = "no dimension with a weight applies"
_NONE: Final[Sequence[int]] = ()


class _Decision(NamedTuple):
    """An outcome, the reason if it is not a pass, and the overall score.

    `parameters` is False if that dimension must not be shown.
    """

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    note: str = ""
    parameters: bool = True


def score_single(  # noqa: C901, PLR0912, PLR0915, PLR0917 — one pass: split into functions it takes 1.5 times as long
    expectation: CompiledExpectation,
    calls: Sequence[ActualCall],
    turn_index: int | None,
    utilization_of: UtilizationOf | None,
    verdicts: ToolVerdicts,
    captured: bool,  # noqa: FBT001 — a keyword argument costs measurable time
) -> ToolScore:
    """Return the score of calls, which are in order of location, under one expectation without its alternatives.

    Without `utilization_of`, the use of results is known from flags in the data only.

    `selection` is paired / (required + actual - paired), without allowed extra calls and excused optional calls.
    `parameters` is the mean agreement over the required calls. `sequence` is the share of the required calls that
    occurred in the right position.
    """
    raw = _, actual, pairs, extra, unrecorded, errored = sort_calls(expectation, calls, verdicts)
    if not expectation.required_only:
        pairs = [pair for pair in pairs if pair[1].required]
    required, paired = expectation.required, len(pairs)
    faults = missing_faults(expectation, pairs, turn_index) if paired < required else []
    unasked, has_forbidden, allowed = 0, False, _NONE
    if extra or expectation.forbidden_by is not None:
        extra_faults, unasked, has_forbidden, allowed = _assess_extra_calls(expectation, actual, extra)
        faults += extra_faults
    agreement_sum, last_group, in_order = 0.0, 0, expectation.order != "exact"
    used = flagged = 0
    unused: Sequence[ToolFault] = ()
    for index, expected, score, invalid in pairs:
        entry = actual[index]
        agreement_sum += score
        if invalid:
            faults += parameter_faults(expected, entry, invalid)
        if expected.group < last_group:
            in_order = False
        last_group = expected.group
        flag = entry.call.used_flag
        if flag is not None and entry.call.error is None:
            flagged += 1
            if flag:
                used += 1
            else:
                unused = (*unused, call_fault("unused_result", entry, UNUSED))
    selection = paired / (required + unasked) if required else float(not unasked)
    parameters = agreement_sum / required if required else None
    sequence = None
    if expectation.ordered:
        misplaced_calls = () if in_order else misplaced(actual, pairs, expectation.order)
        sequence = (paired - len(misplaced_calls)) / required
        if misplaced_calls:
            faults += [order_fault(item, actual[item.actual_index]) for item in misplaced_calls]
    utilization = deciding = used / flagged if flagged else None
    uses: Sequence[tuple[ActualCall, Use]] = ()
    if utilization_of is not None:
        utilization, deciding, unused, uses = utilization_of(expectation, actual, pairs, turn_index)
    faults += unused
    if errored:
        faults += [call_fault("errored", item, item.call.error or "") for item in errored]
    overall = weighted_mean(selection, parameters, sequence, deciding, expectation.weights)
    outcome: Outcome = "pass"
    reason: FailReason | NotEvaluatedReason | None = None
    note = ""
    if unrecorded or overall is None or expectation.may_ask_judge or not captured:
        values = selection, parameters, sequence, deciding
        captured = captured and set(allowed).issuperset(unrecorded)
        decision = _decide(raw, values, overall, verdicts, captured=captured, has_forbidden=has_forbidden)
        outcome, reason, overall, note = decision[:4]
        parameters = parameters if decision.parameters else None
    elif has_forbidden or overall < expectation.threshold:
        outcome, reason = "fail", "tool_fault"
    dimensions = {"selection": selection, "parameters": parameters, "sequence": sequence, "utilization": utilization}
    # Created directly, as `_make` does: a score is created for every turn.
    return tuple.__new__(
        ToolScore,
        (turn_index, outcome, reason, overall, dimensions, tuple(faults), uses, required, paired, note, (), raw),
    )


def _assess_extra_calls(
    expectation: CompiledExpectation, actual: Sequence[ActualCall], extra: Sequence[int]
) -> tuple[list[ToolFault], int, bool, Sequence[int]]:
    """Return an assessment of the calls that are not paired with a required call.

    It consists of their faults, the number of unexpected calls, whether a call is forbidden (by name or as an extra
    call), and the indices of the allowed calls.
    """
    faults: list[ToolFault] = []
    allowed: list[int] = []
    unasked, has_forbidden = 0, False
    for index in extra:
        entry = actual[index]
        name = entry.call.name
        rule = expectation.extra or expectation.extra_rule(name)
        if rule == "allow":
            allowed.append(index)
            continue
        unasked += 1
        has_forbidden = has_forbidden or rule == "forbid"
        if not expectation.forbids(name):
            expected_count = expectation.named[name].times if name in expectation.named else 0
            faults.append(
                call_fault(
                    "spurious", entry, "forbid" if rule == "forbid" else "", expected_count, entry.call.arguments
                )
            )
    if expectation.forbidden_by is not None:
        forbidden = forbidden_faults(expectation, actual)
        has_forbidden = has_forbidden or bool(forbidden)
        faults += forbidden
    return faults, unasked, has_forbidden, allowed


def _decide(
    raw: RawCalls,
    values: _Values,
    overall: float | None,
    verdicts: ToolVerdicts,
    *,
    captured: bool,
    has_forbidden: bool,
) -> _Decision:
    """Return the outcome of calls that are not fully recorded, have no weighted dimension, or need a judge."""
    expectation, actual, pairs, *_ = raw
    paired = [actual[index] for index, expected, _, _ in pairs if expected.required]
    if not captured:
        comparable = bool(actual) and all(entry.call.arguments is not None for entry in paired)
        return _Decision("not_evaluated", "content_not_captured", None, NOT_CAPTURED, parameters=comparable)
    if overall is None:
        # If none of the required calls occurred, the outcome is a failure for any weights, never "no data". Otherwise
        # the mean is computed again exactly: the applicable weights may be tiny compared with one that does not apply.
        dimensions = dict(zip(DIMENSIONS, values, strict=True))
        none_occurred = expectation.required and not paired
        overall = 0.0 if none_occurred else overall_score(dimensions, expectation.rules.weights)
    if has_forbidden or (overall is not None and overall < expectation.threshold):
        return _Decision("fail", "tool_fault", overall)
    undecided = _undecided(raw, verdicts)
    if undecided:
        message = f"{undecided} parameter{'s' * (undecided > 1)} that only a judge could compare"
        return _Decision("not_evaluated", verdicts.silence, None, message, parameters=False)
    if overall is None:
        return _Decision("not_evaluated", "no_data", None, NO_WEIGHT)
    return _Decision("pass", None, overall)


def _undecided(raw: RawCalls, verdicts: ToolVerdicts) -> int:
    """Return the number of parameters without a verdict that only a judge could compare, in calls that must agree."""
    expectation, actual, pairs, *_ = raw
    return sum(
        expected.parameters.undecided(actual[index], verdicts)
        for index, expected, _, _ in pairs
        # An optional call that turns out not to agree is an extra call.
        if expected.required or expectation.extra_rule(expected.name) != "allow"
    )


def score_tools(
    expectation: ToolExpectation, scope: Scope, rules: ToolRules, verdicts: ToolVerdicts | None = None
) -> ToolScore:
    """Return the score of the calls of a scope under the best of the expectation and its alternatives.

    The best alternative has the highest overall score; among equals a passing one, then the first. If the best fails
    while another could not be evaluated, the latter is returned, because it might have passed.

    Args:
        expectation: the expectation.
        scope: the turn or conversation to which it applies.
        rules: the rules of the case.
        verdicts: a judge's verdicts where values or results do not decide. The use of results is requested only under
            the expectation that counts.
    """
    verdicts = verdicts or NO_VERDICTS
    texts = Texts(scope)

    def inferred_use(actual: ActualCall, later: Sequence[ActualCall]) -> Use:
        return use_of(actual, later, texts)

    def judged_use(actual: ActualCall, later: Sequence[ActualCall]) -> Use:
        use = use_of(actual, later, texts)
        return (verdicts.used(actual, later, texts) or use) if use.score is None else use

    compiled_expectation = compiled(expectation, rules)
    best, score = _best(
        compiled_expectation, scope.calls, scope.turn_index, _utilization_from(inferred_use), verdicts, scope.captured
    )
    if verdicts is NO_VERDICTS:
        return score
    return score_single(best, scope.calls, scope.turn_index, _utilization_from(judged_use), verdicts, scope.captured)


def score_calls(
    expectation: CompiledExpectation,
    calls: Sequence[ActualCall],
    *,
    turn_index: int | None = None,
    captured: bool = True,
) -> ToolScore:
    """Return the score of calls as `score_tools` does, but with the use of results known from flags in the data only.

    Args:
        expectation: the expectation, as returned by `compiled`.
        calls: the calls, in order of location.
        turn_index: the turn that is scored, None for a whole conversation.
        captured: whether any content was recorded.
    """
    if expectation.alternatives:
        return _best(expectation, calls, turn_index, None, NO_VERDICTS, captured)[1]
    return score_single(expectation, calls, turn_index, None, NO_VERDICTS, captured)


def _best(  # noqa: PLR0917 — see `score_single`
    expectation: CompiledExpectation,
    calls: Sequence[ActualCall],
    turn_index: int | None,
    utilization_of: UtilizationOf | None,
    verdicts: ToolVerdicts,
    captured: bool,  # noqa: FBT001 — same
) -> tuple[CompiledExpectation, ToolScore]:
    """Return the expectation that counts, which is this one or an alternative, and its score."""
    scored = [
        (alternative, score_single(alternative, calls, turn_index, utilization_of, verdicts, captured))
        for alternative in (expectation, *expectation.alternatives)
    ]
    best = max(scored, key=lambda pair: _preference(pair[1]))
    not_evaluated = next((pair for pair in scored if pair[1].outcome == "not_evaluated"), best)
    return not_evaluated if best[1].outcome == "fail" else best


def _preference(score: ToolScore) -> tuple[float, bool]:
    return -1.0 if score.overall is None else round(score.overall, 9), score.outcome == "pass"


def _utilization_from(use: Callable[[ActualCall, Sequence[ActualCall]], Use]) -> UtilizationOf:
    """Return a function that computes the utilization.

    Args:
        use: returns the use of a call's result, given the call and the later calls that may prove it.
    """

    def utilization(
        expectation: CompiledExpectation, actual: Sequence[ActualCall], pairs: Sequence[Pair], turn_index: int | None
    ) -> Utilization:
        named = expectation.named
        candidates = [call for call in actual if call.call.name in named]
        successful = [actual[pair[0]] for pair in pairs if actual[pair[0]].call.error is None]
        uses = [
            (call, use(call, [other for other in candidates if other.location > call.location])) for call in successful
        ]
        displayed = utilization_score(uses)
        # For a whole conversation, an inferred use is shown but never decides.
        decisive = uses if turn_index is not None else [use for use in uses if not use[1].inferred]
        unused = [
            call_fault("unused_result", call, call_use.evidence) for call, call_use in uses if call_use.score == 0
        ]
        return displayed, utilization_score(decisive), unused, uses

    return utilization
