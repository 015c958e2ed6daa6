"""What is wrong with calls, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.model import ToolFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.scoring.align import Pair
    from otel_agentic.scoring.compiled import CompiledCall, CompiledExpectation
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import FaultKind
    from otel_agentic.scoring.sequence import Misplaced

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


def missing_faults(expectation: CompiledExpectation, pairs: Sequence[Pair], turn_index: int | None) -> list[ToolFault]:
    """Return a fault for each required call that was not made; `turn_index` is that of the expectation."""
    there = {pair[1].index for pair in pairs}
    # As `_make` does, without the call in between: a turn may have many faults, and arguments by name take twice as long.
    return [
        tuple.__new__(
            ToolFault,
            (
                "missing",
                one.name,
                None,
                one.parameters.values,
                None,
                one.index,
                turn_index,
                None,
                None,
                None,
                None,
                True,
                "",
            ),
        )
        for one in expectation.calls
        if one.required and one.index not in there
    ]


def forbidden_faults(expectation: CompiledExpectation, made: Sequence[MadeCall]) -> list[ToolFault]:
    """Return a fault for each made call that is forbidden by name."""
    forbidden_by = expectation.forbidden_by
    if forbidden_by is None:
        return []
    named = [(one, forbidden_by(one.call.name)) for one in made]
    return [call_fault("forbidden", one, name, None, one.call.arguments) for one, name in named if name is not None]


def call_fault(kind: FaultKind, made: MadeCall, note: str, expected: int | None = None, given: Any = None) -> ToolFault:
    """Return a fault of a made call as a whole."""
    call = made.call
    return tuple.__new__(
        ToolFault,
        (
            kind,
            call.name,
            None,
            expected,
            given,
            None,
            made.turn_index,
            call.position,
            call.span_id,
            call.step,
            None,
            True,
            note,
        ),
    )


def parameter_faults(expected: CompiledCall, made: MadeCall, wrong: Sequence[str]) -> list[ToolFault]:
    """Return a fault for each parameter of a call that is not as expected."""
    call, parameters = made.call, expected.parameters
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
                made.turn_index,
                call.position,
                call.span_id,
                call.step,
                parameters.modes.get(key),
                key in arguments,
                "",
            ),
        )
        for key in wrong
    ]


def order_fault(misplaced: Misplaced, made: MadeCall) -> ToolFault:
    """Return the fault of a call that was made out of its place."""
    call = made.call
    return ToolFault(
        kind="wrong_order",
        tool_name=call.name,
        expected=misplaced.belongs,
        made=misplaced.came,
        expected_index=misplaced.expected.index,
        turn_index=made.turn_index,
        made_position=call.position,
        span_id=call.span_id,
        step=call.step,
    )
