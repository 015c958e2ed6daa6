"""Tool correctness of a turn or conversation: four dimensions, their weighted mean, faults and outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.align import Misplaced, Pair, RawCalls, SortedCalls, misplaced, sort_calls
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount:
    """The calls of one tool under one expectation.

    `expected` counts required calls, `actual` actual ones without an error, `errored` the others, `paired` required calls
    that occurred, `unasked` extra calls that are not allowed. The rest are a sum and a count for each dimension, 0 if
    it does not apply: `parameters` of `compared` expected calls, `in_order` of `ordered` ones, `used` of `known`
    results.
    """

    tool_name: str
    expected: int
    actual: int
    errored: int
    paired: int
    unasked: int
    parameters: float
    compared: int
    in_order: int
    ordered: int
    used: float
    known: int


def tool_counts(score: ToolScore) -> tuple[ToolCount, ...]:
    """Return the counts of each expected or called tool, by name; none if the score has no calls."""
    return () if score.calls is None else tuple(_counts(score, score.calls))


def _counts(score: ToolScore, calls: SortedCalls) -> Iterator[ToolCount]:
    expected = Counter(call.name for call in calls.expectation.calls if call.required)
    optional = {call.name for call in calls.expectation.calls}
    actual = Counter(item.call.name for item in calls.actual if item.call.error is None)
    errored = Counter(item.call.name for item in calls.errored)
    paired = Counter(pair.expected.name for pair in calls.pairs)
    unasked = Counter(calls.actual[index].call.name for index, rule in calls.extra if rule != "allow")
    misplaced = Counter(fault.tool_name for fault in score.faults if fault.kind == "wrong_order")
    agreed: Counter[str] = Counter()
    for pair in calls.pairs:
        agreed[pair.expected.name] += pair.agreement.score  # type: ignore[assignment]  # counters take any number
    known = [(item.call.name, use.score) for item, use in score.uses if use.score is not None]
    parameters, sequence = (score.dimensions.get(name) is not None for name in ("parameters", "sequence"))
    for name in sorted({*expected, *optional, *actual, *errored}):
        yield ToolCount(
            tool_name=name,
            expected=expected[name],
            actual=actual[name],
            errored=errored[name],
            paired=paired[name],
            unasked=unasked[name],
            parameters=float(agreed[name]) if parameters else 0.0,
            compared=expected[name] if parameters else 0,
            in_order=paired[name] - misplaced[name] if sequence else 0,
            ordered=expected[name] if sequence else 0,
            used=sum(used for tool, used in known if tool == name),
            known=sum(tool == name for tool, _ in known),
        )


def utilization_score(uses: Sequence[tuple[ActualCall, Use]]) -> float | None:
    """Return the share of results that were used among those of which it is known."""
    used, known = 0.0, 0
    for _, use in uses:
        if use.score is not None:
            used += use.score
            known += 1
    return used / known if known else None


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
    total, by_parameters, by_sequence, by_utilization = weights
    top = selection * total
    if parameters is not None:
        top += parameters * by_parameters
        total += by_parameters
    if sequence is not None:
        top += sequence * by_sequence
        total += by_sequence
    if utilization is not None:
        top += utilization * by_utilization
        total += by_utilization
    return top / total if total else None


def overall_score(dimensions: Mapping[Dimension, float | None], weights: Mapping[Dimension, float]) -> float | None:
    """Return the weighted mean over the dimensions that apply, or None if none of them has a weight.

    >>> overall_score({"selection": 1.0, "parameters": 0.5, "sequence": None}, {"selection": 1, "parameters": 1})
    0.75
    """
    applicable = [(value, weights.get(name, 0.0)) for name, value in dimensions.items() if value is not None]
    # Divided by the largest first: weights of 1e-320 or 1e308 must not vanish or overflow.
    largest = max((weight for _, weight in applicable), default=0.0)
    if largest <= 0:
        return None
    total = sum(weight / largest for _, weight in applicable)
    return sum(value * (weight / largest) for value, weight in applicable) / total


#: Which class names a score that has faults of several, first wins.
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
    """Return the one class of these faults, or None.

    >>> fault_class([ToolFault(kind="errored", tool_name="a"), ToolFault(kind="missing", tool_name="b")])
    'missing'
    """
    kinds = {fault.kind for fault in faults}
    return next((kind for kind in FAULT_PRECEDENCE if kind in kinds), None)


def missing_faults(expectation: CompiledExpectation, pairs: Sequence[Pair], turn_index: int | None) -> list[ToolFault]:
    """Return a fault for each required call that was not made; `turn_index` is that of the expectation."""
    there = {pair[1].index for pair in pairs}
    # As `_make` does, without the call in between: a turn may have many faults, and arguments by name take twice as long.
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
        if call.required and call.index not in there
    ]


def forbidden_faults(expectation: CompiledExpectation, actual: Sequence[ActualCall]) -> list[ToolFault]:
    """Return a fault for each actual call that is forbidden by name."""
    forbidden_by = expectation.forbidden_by
    if forbidden_by is None:
        return []
    named = [(item, forbidden_by(item.call.name)) for item in actual]
    return [call_fault("forbidden", item, name, None, item.call.arguments) for item, name in named if name is not None]


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
    """Return the fault of a call that was made out of its place."""
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


#: The displayed score of use, the deciding one, the faults of unused results, and the evidence.
Utilization: TypeAlias = tuple["float | None", "float | None", Sequence[ToolFault], "Sequence[tuple[ActualCall, Use]]"]
#: Finds the use of results, from an expectation, the actual calls, the required pairs and the turn (None: all).
UtilizationOf: TypeAlias = Callable[
    [CompiledExpectation, Sequence[ActualCall], Sequence[Pair], "int | None"], Utilization
]
_Values: TypeAlias = "tuple[float, float | None, float | None, float | None]"

UNUSED: Final = "the data flag its result as unused"
NOT_CAPTURED: Final = "arguments or results of calls were not captured"
NO_WEIGHT: Final = "no dimension with a weight applies"
_NONE: Final[Sequence[int]] = ()


class _Decision(NamedTuple):
    """An outcome, why it is no pass, the overall score; `parameters` is False where that dimension is not to be shown."""

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None
    overall: float | None
    note: str = ""
    parameters: bool = True


def score_single(  # noqa: C901, PLR0912, PLR0915, PLR0917 — one pass: in parts it takes half as long again
    expectation: CompiledExpectation,
    calls: Sequence[ActualCall],
    turn_index: int | None,
    utilization_of: UtilizationOf | None,
    verdicts: ToolVerdicts,
    captured: bool,  # noqa: FBT001 — by name it takes longer to hand over than to use
) -> ToolScore:
    """Return the score of calls, in order of their place, under one expectation, its alternatives aside.

    Without `utilization_of` the use of results is what the data flag it as.

    `selection` is paired / (required + made - paired), allowed extras and excused optional calls left out; `parameters` the
    mean agreement over the required calls; `sequence` the share of them that were made in their place.
    """
    raw = _, actual, pairs, extra, unrecorded, errored = sort_calls(expectation, calls, verdicts)
    if not expectation.required_only:
        pairs = [pair for pair in pairs if pair[1].required]
    required, paired = expectation.required, len(pairs)
    faults = missing_faults(expectation, pairs, turn_index) if paired < required else []
    unasked, trespassed, allowed = 0, False, _NONE
    if extra or expectation.forbidden_by is not None:
        beyond, unasked, trespassed, allowed = _left_over(expectation, actual, extra)
        faults += beyond
    agreed, group, in_turn = 0.0, 0, expectation.order != "exact"
    used = flagged = 0
    unused: Sequence[ToolFault] = ()
    for index, expected, score, invalid in pairs:
        entry = actual[index]
        agreed += score
        if invalid:
            faults += parameter_faults(expected, entry, invalid)
        if expected.group < group:
            in_turn = False
        group = expected.group
        flag = entry.call.used_flag
        if flag is not None and entry.call.error is None:
            flagged += 1
            if flag:
                used += 1
            else:
                unused = (*unused, call_fault("unused_result", entry, UNUSED))
    selection = paired / (required + unasked) if required else float(not unasked)
    parameters = agreed / required if required else None
    sequence = None
    if expectation.ordered:
        out_of_place = () if in_turn else misplaced(actual, pairs, expectation.order)
        sequence = (paired - len(out_of_place)) / required
        if out_of_place:
            faults += [order_fault(item, actual[item.actual_index]) for item in out_of_place]
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
        decided = _decide(raw, values, overall, verdicts, captured=captured, trespassed=trespassed)
        outcome, reason, overall, note = decided[:4]
        parameters = parameters if decided.parameters else None
    elif trespassed or overall < expectation.threshold:
        outcome, reason = "fail", "tool_fault"
    dimensions = {"selection": selection, "parameters": parameters, "sequence": sequence, "utilization": utilization}
    # As `_make` does, without the call in between: a turn has one score, and may have many faults.
    return tuple.__new__(
        ToolScore,
        (turn_index, outcome, reason, overall, dimensions, tuple(faults), uses, required, paired, note, (), raw),
    )


def _left_over(
    expectation: CompiledExpectation, actual: Sequence[ActualCall], extra: Sequence[int]
) -> tuple[list[ToolFault], int, bool, Sequence[int]]:
    """Return an assessment of the calls without a required one.

    Their faults; the number of unexpected ones; whether one is forbidden, by name or as an extra call; the indices of
    allowed ones.
    """
    faults: list[ToolFault] = []
    allowed: list[int] = []
    unasked, trespassed = 0, False
    for index in extra:
        item = actual[index]
        name = item.call.name
        rule = expectation.extra or expectation.extra_rule(name)
        if rule == "allow":
            allowed.append(index)
            continue
        unasked += 1
        trespassed = trespassed or rule == "forbid"
        if not expectation.forbids(name):
            times = expectation.named[name].times if name in expectation.named else 0
            faults.append(
                call_fault("spurious", item, "forbid" if rule == "forbid" else "", times, item.call.arguments)
            )
    if expectation.forbidden_by is not None:
        forbidden = forbidden_faults(expectation, actual)
        trespassed = trespassed or bool(forbidden)
        faults += forbidden
    return faults, unasked, trespassed, allowed


def _decide(
    raw: RawCalls, values: _Values, overall: float | None, verdicts: ToolVerdicts, *, captured: bool, trespassed: bool
) -> _Decision:
    """Return the outcome where it may be open: something was not recorded, has no weight, or is left to a judge."""
    expectation, actual, pairs, *_ = raw
    paired = [actual[index] for index, item, _, _ in pairs if item.required]
    if not captured:
        known = bool(actual) and all(item.call.arguments is not None for item in paired)
        return _Decision("not_evaluated", "content_not_captured", None, NOT_CAPTURED, parameters=known)
    if overall is None:
        # If none of the expected calls occurred, that is a failure for any weights, never "no data": the other weights
        # may be small compared with one that does not apply.
        dimensions = dict(zip(DIMENSIONS, values, strict=True))
        none_made = expectation.required and not paired
        overall = 0.0 if none_made else overall_score(dimensions, expectation.rules.weights)
    if trespassed or (overall is not None and overall < expectation.threshold):
        return _Decision("fail", "tool_fault", overall)
    undecided = _undecided(raw, verdicts)
    if undecided:
        message = f"{undecided} parameter{'s' * (undecided > 1)} that only a judge could compare"
        return _Decision("not_evaluated", verdicts.silence, None, message, parameters=False)
    if overall is None:
        return _Decision("not_evaluated", "no_data", None, NO_WEIGHT)
    return _Decision("pass", None, overall)


def _undecided(raw: RawCalls, verdicts: ToolVerdicts) -> int:
    """Return how many parameters only a judge could compare, and none has, of calls that must agree."""
    expectation, actual, pairs, *_ = raw
    return sum(
        expected.parameters.undecided(actual[index], verdicts)
        for index, expected, _, _ in pairs
        # An optional call that does not agree after all is an extra one.
        if expected.required or expectation.extra_rule(expected.name) != "allow"
    )


def score_tools(
    expectation: ToolExpectation, scope: Scope, rules: ToolRules, verdicts: ToolVerdicts | None = None
) -> ToolScore:
    """Return the score of the calls of a scope under the best of the expectation and its alternatives.

    The best has the highest overall score; among equals a correct one, then the first. If the best fails while another
    could not be evaluated, that one is returned, because it might have been right.

    Args:
        expectation: the expectation.
        scope: the turn or conversation to which it applies.
        rules: those of the case.
        verdicts: of a judge, where values or results do not decide. Use of results is only requested under the
        expectation that counts.
    """
    verdicts = verdicts or NO_VERDICTS
    texts = Texts(scope)

    def look(actual: ActualCall, later: Sequence[ActualCall]) -> Use:
        return use_of(actual, later, texts)

    def ask(actual: ActualCall, later: Sequence[ActualCall]) -> Use:
        use = use_of(actual, later, texts)
        return (verdicts.used(actual, later, texts) or use) if use.score is None else use

    ready = compiled(expectation, rules)
    best, score = _best(ready, scope.calls, scope.turn_index, _searched(look), verdicts, scope.captured)
    if verdicts is NO_VERDICTS:
        return score
    return score_single(best, scope.calls, scope.turn_index, _searched(ask), verdicts, scope.captured)


def score_calls(
    expectation: CompiledExpectation,
    calls: Sequence[ActualCall],
    *,
    turn_index: int | None = None,
    captured: bool = True,
) -> ToolScore:
    """Return the score of calls as `score_tools` does, from the calls alone: the use of results is known by flags only.

    Args:
        expectation: compiled by `compiled`.
        calls: in order of their place.
        turn_index: of the turn that is scored, None for a whole conversation.
        captured: whether any content was recorded.
    """
    if expectation.alternatives:
        return _best(expectation, calls, turn_index, None, NO_VERDICTS, captured)[1]
    return score_single(expectation, calls, turn_index, None, NO_VERDICTS, captured)


def _best(  # noqa: PLR0917 — as `score_single`
    expectation: CompiledExpectation,
    calls: Sequence[ActualCall],
    turn_index: int | None,
    utilization_of: UtilizationOf | None,
    verdicts: ToolVerdicts,
    captured: bool,  # noqa: FBT001 — same
) -> tuple[CompiledExpectation, ToolScore]:
    """Return the expectation that counts, among it and its alternatives, and its score."""
    scored = [
        (item, score_single(item, calls, turn_index, utilization_of, verdicts, captured))
        for item in (expectation, *expectation.alternatives)
    ]
    best = max(scored, key=lambda item: _goodness(item[1]))
    unknown = next((item for item in scored if item[1].outcome == "not_evaluated"), best)
    return unknown if best[1].outcome == "fail" else best


def _goodness(score: ToolScore) -> tuple[float, bool]:
    return -1.0 if score.overall is None else round(score.overall, 9), score.outcome == "pass"


def _searched(use: Callable[[ActualCall, Sequence[ActualCall]], Use]) -> UtilizationOf:
    """Return a finder of the use of results, from a function of a call and the later calls that may prove it."""

    def utilization(
        expectation: CompiledExpectation, actual: Sequence[ActualCall], pairs: Sequence[Pair], turn_index: int | None
    ) -> Utilization:
        named = expectation.named
        witnesses = [item for item in actual if item.call.name in named]
        worked = [actual[pair[0]] for pair in pairs if actual[pair[0]].call.error is None]
        uses = [(item, use(item, [other for other in witnesses if other.location > item.location])) for item in worked]
        visible = utilization_score(uses)
        # For a whole conversation, an inferred use is shown but never decides.
        provided = uses if turn_index is not None else [use for use in uses if not use[1].inferred]
        unused = [call_fault("unused_result", item, entry.evidence) for item, entry in uses if entry.score == 0]
        return visible, utilization_score(provided), unused, uses

    return utilization
