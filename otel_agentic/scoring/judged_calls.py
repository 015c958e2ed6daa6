"""The tool calls of a score: which were judged, and which faults name each."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.conversations.model import Conversation, ToolCall, Turn
    from otel_agentic.scoring.model import ConversationScore, FaultKind, ToolFault

#: Where several faults name one call, the first of these stands for it.
_GRAVEST_FIRST: Final[tuple[FaultKind, ...]] = (
    "forbidden",
    "missing",
    "spurious",
    "wrong_parameters",
    "wrong_order",
    "errored",
    "unused_result",
)

#: Turn index and position of a made call.
_Place: TypeAlias = "tuple[int | None, int | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCall:
    """One made call that was judged, or one expected call that is missing.

    `faults` stand gravest first, none where the call is as expected. `made_position` is None for a missing call.
    `trace_id` and `span_id` name its own span, else that of its turn, and are empty where there is neither.
    """

    tool_name: str
    turn_index: int | None
    made_position: int | None
    faults: tuple[ToolFault, ...]
    trace_id: str
    span_id: str

    @property
    def fault(self) -> ToolFault | None:
        """The gravest fault."""
        return self.faults[0] if self.faults else None

    def place(self, fault: ToolFault) -> tuple[int | str | None, ...]:
        """Return what tells the score of this call by one of its faults from those of other calls."""
        return (self.turn_index, self.made_position, fault.expected_index, fault.kind, self.tool_name)


def judged_calls(conversation: Conversation, score: ConversationScore) -> tuple[JudgedCall, ...]:
    """Return the made calls that an expectation covers, in order, then the missing ones.

    A call of another kind than `tool` counts only where a fault names it.
    """
    faults = _faults_by_place(score)
    turns = {turn.index: turn for turn in conversation.turns}
    made = [
        _made(turn, call, faults.pop((turn.index, call.position), []))
        for turn in conversation.turns
        for call in turn.calls
        if (turn.index, call.position) in faults or (call.kind == "tool" and _covered(turn, score))
    ]
    missing = [_missing(turns, place, fault) for place, named in faults.items() for fault in named]
    return (*made, *missing)


def _faults_by_place(score: ConversationScore) -> dict[_Place, list[ToolFault]]:
    faults: dict[_Place, list[ToolFault]] = defaultdict(list)
    for tool in score.tools:
        for fault in tool.faults:
            turn_index = tool.turn_index if fault.turn_index is None else fault.turn_index
            faults[turn_index, fault.made_position].append(fault)
    return faults


def _covered(turn: Turn, score: ConversationScore) -> bool:
    return any(tool.outcome != "not_evaluated" and tool.turn_index in {None, turn.index} for tool in score.tools)


def _made(turn: Turn, call: ToolCall, faults: list[ToolFault]) -> JudgedCall:
    ordered = tuple(sorted(faults, key=lambda fault: _GRAVEST_FIRST.index(fault.kind)))
    span_id = next((fault.span_id for fault in ordered if fault.span_id), None) or call.span_id
    return JudgedCall(
        tool_name=call.name,
        turn_index=turn.index,
        made_position=call.position,
        faults=ordered,
        trace_id=call.trace_id if span_id else turn.trace_id,
        span_id=span_id or turn.span_id,
    )


def _missing(turns: dict[int, Turn], place: _Place, fault: ToolFault) -> JudgedCall:
    turn_index, made_position = place
    turn = turns.get(turn_index) if turn_index is not None else None
    return JudgedCall(
        tool_name=fault.tool_name,
        turn_index=turn_index,
        made_position=made_position,
        faults=(fault,),
        trace_id=turn.trace_id if turn else "",
        span_id=turn.span_id if turn else "",
    )


def faulty(calls: tuple[JudgedCall, ...]) -> Iterator[tuple[JudgedCall, ToolFault]]:
    """Return each call at fault with its gravest fault."""
    return ((call, call.fault) for call in calls if call.fault is not None)
