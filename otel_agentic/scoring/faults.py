"""What is wrong with calls, as rows and as sentences that are the same every time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.model import ToolFault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from otel_agentic.scoring.align import Pair, Pairing
    from otel_agentic.scoring.made import MadeCall
    from otel_agentic.scoring.model import FaultKind
    from otel_agentic.truth.model import ExpectedCall

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
_VALUE_CHARACTERS: Final = 60


def fault_class(faults: Iterable[ToolFault]) -> FaultKind | None:
    """Return the one class that names these faults, None where there is none.

    >>> fault_class([ToolFault(kind="errored", tool_name="a"), ToolFault(kind="missing", tool_name="b")])
    'missing'
    """
    kinds = {fault.kind for fault in faults}
    return next((kind for kind in FAULT_PRECEDENCE if kind in kinds), None)


def sorted_faults(faults: Iterable[ToolFault]) -> tuple[ToolFault, ...]:
    """Return the faults by precedence, then by place."""

    def key(fault: ToolFault) -> tuple[int, int, int, int, str]:
        return (
            FAULT_PRECEDENCE.index(fault.kind),
            -1 if fault.turn_index is None else fault.turn_index,
            -1 if fault.expected_index is None else fault.expected_index,
            -1 if fault.made_position is None else fault.made_position,
            fault.parameter or "",
        )

    return tuple(sorted(faults, key=key))


def missing_faults(expected: Sequence[ExpectedCall], pairing: Pairing, turn_index: int | None) -> Iterator[ToolFault]:
    """Yield a fault for each required call that was not made."""
    for index in pairing.missing:
        name = expected[index].tool_name
        yield ToolFault(
            kind="missing",
            tool_name=name,
            expected_index=index,
            turn_index=turn_index,
            explanation=f"expected call {index + 1}, {name}({shown(expected[index].parameters)}), was not made",
        )


def made_fault(kind: FaultKind, made: MadeCall, why: str) -> ToolFault:
    """Return a fault of a made call as a whole."""
    return ToolFault(
        kind=kind,
        tool_name=made.call.name,
        turn_index=made.turn_index,
        made_position=made.call.position,
        span_id=made.call.span_id,
        explanation=f"{made.call.name} {_where(made)} {why}",
    )


def parameter_faults(expected: ExpectedCall, made: MadeCall, pair: Pair) -> Iterator[ToolFault]:
    """Yield a fault for each parameter that is not as expected."""
    arguments = made.call.arguments or {}
    for key in pair.agreement.wrong:
        yield ToolFault(
            kind="wrong_parameters",
            tool_name=expected.tool_name,
            parameter=key,
            expected=expected.parameters.get(key),
            made=arguments.get(key),
            expected_index=pair.expected,
            turn_index=made.turn_index,
            made_position=made.call.position,
            span_id=made.call.span_id,
            explanation=f"{made.call.name} {_where(made)}: {_difference(expected, arguments, key)}",
        )


def order_faults(
    expected: Sequence[ExpectedCall], made: Sequence[MadeCall], pairs: Iterable[Pair], placed: Collection[int]
) -> Iterator[ToolFault]:
    """Yield a fault for each paired call that was made out of its place."""
    for pair in pairs:
        if pair.expected not in placed:
            call = made[pair.made]
            yield ToolFault(
                kind="wrong_order",
                tool_name=call.call.name,
                expected_index=pair.expected,
                turn_index=call.turn_index,
                made_position=call.call.position,
                span_id=call.call.span_id,
                explanation=(
                    f"{call.call.name} {_where(call)} is out of order: it is expected call {pair.expected + 1} "
                    f"of {len(expected)}"
                ),
            )


def shown(value: Any) -> str:
    """Return a JSON value as short text."""
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=repr)
    except (RecursionError, TypeError, ValueError):
        text = "a value that cannot be shown"
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"


def _difference(expected: ExpectedCall, arguments: Any, key: str) -> str:
    if key not in expected.rules:
        return f"parameter {key} = {shown(arguments.get(key))} was not expected"
    mode = expected.rules[key].mode
    wanted = "any value" if mode == "any" else shown(expected.parameters.get(key))
    how = "" if mode in {"exact", "any"} else f" ({mode})"
    if key not in arguments:
        return f"parameter {key} was not given, expected {wanted}{how}"
    return f"parameter {key} was {shown(arguments[key])}, expected {wanted}{how}"


def _where(made: MadeCall) -> str:
    return f"in turn {made.turn_index + 1}, step {made.call.step}"
