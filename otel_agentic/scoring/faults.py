"""What is wrong with calls, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.scoring.model import ToolFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.compiled import CompiledCall
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import FaultKind
    from otel_agentic.scoring.sequence import Misplaced
    from otel_agentic.scoring.sorting import SortedCalls
    from otel_agentic.scoring.utilization import Use
    from otel_agentic.truth.model import ExtraRule

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
    """Return the one class that names these faults, None where there is none.

    >>> fault_class([ToolFault(kind="errored", tool_name="a"), ToolFault(kind="missing", tool_name="b")])
    'missing'
    """
    kinds = {fault.kind for fault in faults}
    return next((kind for kind in FAULT_PRECEDENCE if kind in kinds), None)


def faults_of(
    calls: SortedCalls,
    out_of_place: Sequence[Misplaced],
    uses: Sequence[tuple[MadeCall, Use]],
    turn_index: int | None,
) -> tuple[ToolFault, ...]:
    """Return the faults of sorted calls by precedence, those of one class in order of the calls.

    Args:
        calls: the calls, sorted out under an expectation.
        out_of_place: pairs whose call was made in the wrong place.
        uses: what is known of the use of results.
        turn_index: of the expectation, None for one of the whole conversation.
    """
    made = calls.made
    faults = [_missing(one, turn_index) for one in calls.missing()]
    faults += [_spurious(calls, place, rule) for place, rule in calls.extra if rule != "allow"]
    faults += [_forbidden(calls, place) for place in calls.forbidden]
    for pair in calls.pairs:
        if pair.agreement.wrong:
            faults += _wrong_parameters(pair, made[pair.place])
    faults += [_wrong_order(one, made[one.pair.place]) for one in out_of_place]
    faults += [_of_call("unused_result", one, note=use.evidence) for one, use in uses if use.score == 0]
    faults += [_of_call("errored", one, note=one.call.error or "") for one in calls.errored]
    return tuple(faults)


def _missing(one: CompiledCall, turn_index: int | None) -> ToolFault:
    return ToolFault(
        kind="missing",
        tool_name=one.name,
        expected=one.call.parameters,
        expected_index=one.index,
        turn_index=turn_index,
    )


def _spurious(calls: SortedCalls, place: int, rule: ExtraRule) -> ToolFault:
    made = calls.made[place]
    wanted = sum(one.required for one in calls.expectation.named.get(made.call.name, ()))
    return _of_call("spurious", made, expected=wanted, note="forbid" if rule == "forbid" else "")


def _forbidden(calls: SortedCalls, place: int) -> ToolFault:
    made, forbidden_by = calls.made[place], calls.expectation.forbidden_by
    return _of_call("forbidden", made, note=(forbidden_by and forbidden_by(made.call.name)) or "")


def _of_call(kind: FaultKind, made: MadeCall, *, expected: int | None = None, note: str) -> ToolFault:
    call = made.call
    return ToolFault(
        kind=kind,
        tool_name=call.name,
        expected=expected,
        made=call.arguments if kind in {"spurious", "forbidden"} else None,
        turn_index=made.turn_index,
        made_position=call.position,
        span_id=call.span_id,
        step=call.step,
        note=note,
    )


def _wrong_parameters(pair: Pair, made: MadeCall) -> list[ToolFault]:
    expected, call = pair.expected, made.call
    arguments = call.arguments or {}
    rules = expected.call.rules
    return [
        ToolFault(
            kind="wrong_parameters",
            tool_name=call.name,
            parameter=key,
            expected=expected.call.parameters.get(key),
            made=arguments.get(key),
            expected_index=expected.index,
            turn_index=made.turn_index,
            made_position=call.position,
            span_id=call.span_id,
            step=call.step,
            mode=rules[key].mode if key in rules else None,
            given=key in arguments,
        )
        for key in pair.agreement.wrong
    ]


def _wrong_order(misplaced: Misplaced, made: MadeCall) -> ToolFault:
    return ToolFault(
        kind="wrong_order",
        tool_name=made.call.name,
        expected=misplaced.belongs,
        made=misplaced.came,
        expected_index=misplaced.pair.expected.index,
        turn_index=made.turn_index,
        made_position=made.call.position,
        span_id=made.call.span_id,
        step=made.call.step,
    )
