"""The score of calls under one expectation: four dimensions, their weighted mean, the faults, the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from otel_agentic.scoring.align import Pair
from otel_agentic.scoring.compiled import CompiledExpectation
from otel_agentic.scoring.dimensions import overall_score, weighted_mean
from otel_agentic.scoring.faults import call_fault, forbidden_faults, missing_faults, order_fault, parameter_faults
from otel_agentic.scoring.made import MadeCall
from otel_agentic.scoring.model import DIMENSIONS, ToolFault, ToolScore
from otel_agentic.scoring.sequence import misplaced
from otel_agentic.scoring.sorting import sort_calls

if TYPE_CHECKING:
    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome
    from otel_agentic.scoring.opinions import Opinions
    from otel_agentic.scoring.sorting import RawCalls
    from otel_agentic.scoring.use import Use

#: The score of use that is shown, the one that decides, the faults of results that were not used, and what it rests on.
Utilization: TypeAlias = tuple["float | None", "float | None", Sequence[ToolFault], "Sequence[tuple[MadeCall, Use]]"]
#: What is known of the use of results: of an expectation, the made calls, the required pairs and the turn (None: all).
UtilizationOf: TypeAlias = Callable[
    [CompiledExpectation, Sequence[MadeCall], Sequence[Pair], "int | None"], Utilization
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
    calls: Sequence[MadeCall],
    turn_index: int | None,
    utilization_of: UtilizationOf | None,
    opinions: Opinions,
    captured: bool,  # noqa: FBT001 — by name it takes longer to hand over than to use
) -> ToolScore:
    """Return the score of calls, in order of their place, under one expectation, its alternatives aside.

    Without `utilization_of` the use of results is what the data flag it as.

    `selection` is paired / (required + made - paired), allowed extras and excused optional calls left out; `parameters` the
    mean agreement over the required calls; `sequence` the share of them that were made in their place.
    """
    raw = _, made, pairs, extra, unrecorded, errored = sort_calls(expectation, calls, opinions)
    if not expectation.required_only:
        pairs = [pair for pair in pairs if pair[1].required]
    required, paired = expectation.required, len(pairs)
    faults = missing_faults(expectation, pairs, turn_index) if paired < required else []
    unasked, trespassed, allowed = 0, False, _NONE
    if extra or expectation.forbidden_by is not None:
        beyond, unasked, trespassed, allowed = _left_over(expectation, made, extra)
        faults += beyond
    agreed, group, in_turn = 0.0, 0, expectation.order != "exact"
    used = flagged = 0
    unused: Sequence[ToolFault] = ()
    for place, expected, score, wrong in pairs:
        one = made[place]
        agreed += score
        if wrong:
            faults += parameter_faults(expected, one, wrong)
        if expected.group < group:
            in_turn = False
        group = expected.group
        flag = one.call.used_flag
        if flag is not None and one.call.error is None:
            flagged += 1
            if flag:
                used += 1
            else:
                unused = (*unused, call_fault("unused_result", one, UNUSED))
    selection = paired / (required + unasked) if required else float(not unasked)
    parameters = agreed / required if required else None
    sequence = None
    if expectation.ordered:
        out_of_place = () if in_turn else misplaced(made, pairs, expectation.order)
        sequence = (paired - len(out_of_place)) / required
        if out_of_place:
            faults += [order_fault(one, made[one.place]) for one in out_of_place]
    utilization = deciding = used / flagged if flagged else None
    uses: Sequence[tuple[MadeCall, Use]] = ()
    if utilization_of is not None:
        utilization, deciding, unused, uses = utilization_of(expectation, made, pairs, turn_index)
    faults += unused
    if errored:
        faults += [call_fault("errored", one, one.call.error or "") for one in errored]
    overall = weighted_mean(selection, parameters, sequence, deciding, expectation.weights)
    outcome: Outcome = "pass"
    reason: FailReason | NotEvaluatedReason | None = None
    note = ""
    if unrecorded or overall is None or expectation.judged or not captured:
        values = selection, parameters, sequence, deciding
        captured = captured and set(allowed).issuperset(unrecorded)
        decided = _decide(raw, values, overall, opinions, captured=captured, trespassed=trespassed)
        outcome, reason, overall, note = decided[:4]
        parameters = parameters if decided.parameters else None
    elif trespassed or overall < expectation.threshold:
        outcome, reason = "fail", "tool_fault"
    # As `_make` does, without the call in between: a turn has one score, and may have many faults.
    return tuple.__new__(
        ToolScore,
        (
            turn_index,
            outcome,
            reason,
            overall,
            {"selection": selection, "parameters": parameters, "sequence": sequence, "utilization": utilization},
            tuple(faults),
            uses,
            required,
            paired,
            note,
            (),
            raw,
        ),
    )


def _left_over(
    expectation: CompiledExpectation, made: Sequence[MadeCall], extra: Sequence[int]
) -> tuple[list[ToolFault], int, bool, Sequence[int]]:
    """Return what is to say of calls that no required one needs.

    Their faults; how many nobody asked for; whether one is forbidden, by name or for being extra; places of allowed ones.
    """
    faults: list[ToolFault] = []
    allowed: list[int] = []
    unasked, trespassed = 0, False
    for place in extra:
        one = made[place]
        name = one.call.name
        rule = expectation.extra or expectation.extra_rule(name)
        if rule == "allow":
            allowed.append(place)
            continue
        unasked += 1
        trespassed = trespassed or rule == "forbid"
        if not expectation.forbids(name):
            times = expectation.named[name].times if name in expectation.named else 0
            faults.append(call_fault("spurious", one, "forbid" if rule == "forbid" else "", times, one.call.arguments))
    if expectation.forbidden_by is not None:
        forbidden = forbidden_faults(expectation, made)
        trespassed = trespassed or bool(forbidden)
        faults += forbidden
    return faults, unasked, trespassed, allowed


def _decide(
    raw: RawCalls, values: _Values, overall: float | None, opinions: Opinions, *, captured: bool, trespassed: bool
) -> _Decision:
    """Return the outcome where it may be open: something was not recorded, has no weight, or is left to a judge."""
    expectation, made, pairs, *_ = raw
    paired = [made[place] for place, one, _, _ in pairs if one.required]
    if not captured:
        known = bool(made) and all(one.call.arguments is not None for one in paired)
        return _Decision("not_evaluated", "content_not_captured", None, NOT_CAPTURED, parameters=known)
    if overall is None:
        # Expected calls and none of them made is a failure whatever the weights are, never "no data". Else the weights may
        # only be small beside one that does not apply.
        dimensions = dict(zip(DIMENSIONS, values, strict=True))
        none_made = expectation.required and not paired
        overall = 0.0 if none_made else overall_score(dimensions, expectation.rules.weights)
    if trespassed or (overall is not None and overall < expectation.threshold):
        return _Decision("fail", "tool_fault", overall)
    undecided = _undecided(raw, opinions)
    if undecided:
        told = f"{undecided} parameter{'s' * (undecided > 1)} that only a judge could compare"
        return _Decision("not_evaluated", opinions.silence, None, told, parameters=False)
    if overall is None:
        return _Decision("not_evaluated", "no_data", None, NO_WEIGHT)
    return _Decision("pass", None, overall)


def _undecided(raw: RawCalls, opinions: Opinions) -> int:
    """Return how many parameters only a judge could compare, and none has, of calls that must agree."""
    expectation, made, pairs, *_ = raw
    return sum(
        expected.parameters.undecided(made[place], opinions)
        for place, expected, _, _ in pairs
        # An optional call that does not agree after all is an extra one.
        if expected.required or expectation.extra_rule(expected.name) != "allow"
    )
