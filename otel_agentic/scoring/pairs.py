"""The calls of a tool score as records: the pair of each call, and the counts of each tool."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from otel_agentic.scoring.compile import CompiledExpectation
    from otel_agentic.scoring.model import ConversationScore, ToolScore
    from otel_agentic.truth.model import Case, ToolExpectation

#: What became of an expected or an actual call under an expectation:
#:
#: - `paired`: a required call and its actual call.
#: - `excused`: an optional call and its actual call, which agree in full.
#: - `missing`, `optional`: a required or an optional call without an actual call.
#: - `allowed`, `spurious`: an actual call beyond the expected ones, which the rules for extra calls allow or not.
#: - `forbidden`: an actual call that is forbidden by name.
#: - `errored`: an actual call that does not count because it returned an error.
PairStatus: TypeAlias = Literal[
    "paired", "excused", "missing", "optional", "allowed", "spurious", "forbidden", "errored"
]


class CallPair(NamedTuple):
    """An expected call, the actual call that scoring paired with it, or one of both without a counterpart.

    `turn_index` is the turn of the expectation, None for the whole conversation. The actual call is identified by
    `actual_turn_index`, `actual_position` and `span_id`, the expected call by `expected_index`; all are None without one.
    `agreement` is the share of parameters that agree, None unless the calls are paired and the dimension applies.
    `in_order` is None if the order is irrelevant, `used` (in [0, 1]) is None if the use of the result is unknown.

    A named tuple, like `ToolFault` and with the same reason.
    """

    turn_index: int | None
    tool_name: str
    status: PairStatus
    expected_index: int | None = None
    actual_turn_index: int | None = None
    actual_position: int | None = None
    span_id: str | None = None
    agreement: float | None = None
    in_order: bool | None = None
    used: float | None = None


def call_pairs(score: ToolScore) -> list[CallPair]:
    """Return the pairs as they were scored, the actual calls in order first; empty if the score has no calls.

    Each expected call and each actual call to which the expectation applies occurs exactly once.
    """
    if score.raw is None:
        return []
    expectation, actual, pairs, extra, _, errored = score.raw
    turn_index, dimensions = score.turn_index, score.dimensions
    compared, ordered = dimensions.get("parameters") is not None, dimensions.get("sequence") is not None
    misplaced = {fault.expected_index for fault in score.faults if fault.kind == "wrong_order"} if ordered else ()
    used = {item.location: use.score for item, use in score.uses}
    unpaired = {call.index: call for call in expectation.calls}
    rows: list[CallPair] = []
    for index, expected, agreement, _ in pairs:
        item, required = actual[index], expected.required
        del unpaired[expected.index]
        # Created directly, as in scoring: there is a row for every call.
        row = (
            turn_index,
            expected.name,
            "paired" if required else "excused",
            expected.index,
            item.turn_index,
            item.call.position,
            item.call.span_id,
            agreement if compared or not required else None,
            expected.index not in misplaced if ordered and required else None,
            used.get(item.location),
        )
        rows.append(tuple.__new__(CallPair, row))
    alone = [(actual[index], _status_of_extra(expectation, actual[index].call.name)) for index in extra]
    if not expectation.rules.count_errors:
        alone += [(item, "errored") for item in errored]
    rows += [
        CallPair(turn_index, item.call.name, status, None, item.turn_index, item.call.position, item.call.span_id)
        for item, status in alone
    ]
    if len(alone) and len(rows) > 1:
        rows.sort(key=lambda row: (row.actual_turn_index, row.actual_position))
    rows += [
        CallPair(turn_index, call.name, "missing" if call.required else "optional", call.index)
        for call in unpaired.values()
    ]
    return rows


def _status_of_extra(expectation: CompiledExpectation, tool_name: str) -> PairStatus:
    if expectation.forbids(tool_name):
        return "forbidden"
    return "allowed" if expectation.extra_rule(tool_name) == "allow" else "spurious"


def alternative_of(score: ToolScore, conversation: ConversationScore, case: Case | None) -> int | None:
    """Return the index of the alternative that counted; None if the expectation itself did, or has no alternatives.

    Args:
        score: a tool score of the conversation.
        conversation: the score of the conversation.
        case: the case of the conversation.
    """
    expected = None if case is None else _expectation_of(score.turn_index, conversation, case)
    if score.raw is None or expected is None or not expected.alternatives:
        return None
    counted = score.raw[0].expectation
    return next((index for index, item in enumerate(expected.alternatives) if item == counted), None)


def _expectation_of(turn_index: int | None, conversation: ConversationScore, case: Case) -> ToolExpectation | None:
    if turn_index is None:
        return case.tools
    indices = (turn.case_turn_index for turn in conversation.turns if turn.turn_index == turn_index)
    index = next(indices, None)
    return case.turns[index].tools if index is not None and index < len(case.turns) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount:
    """The calls of one tool under one expectation.

    `expected` counts required calls, `actual` counts actual calls without an error and `errored` those with one,
    `paired` counts required calls that occurred, `unasked` counts extra calls that are not allowed. The other fields
    are a sum and a count for each dimension, both 0 if the dimension does not apply: `parameters` is the summed
    agreement of `compared` expected calls, `in_order` the number of `ordered` calls in the right position, `used` the
    summed use of `known` results.
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


def tool_counts(score: ToolScore) -> tuple[ToolCount, ...]:  # noqa: C901 — one pass over each kind of call
    """Return the counts of each expected or called tool, sorted by name; empty if the score has no calls."""
    if score.raw is None:
        return ()
    expectation, actual, pairs, extra, _, errored = score.raw
    counts: defaultdict[str, _Counts] = defaultdict(_Counts)
    for call in expectation.calls:
        counts[call.name].expected += call.required
    for item in actual:
        if item.call.error is None:
            counts[item.call.name].actual += 1
    for item in errored:
        counts[item.call.name].errored += 1
    for _, expected, agreement, _ in pairs:
        if expected.required:
            counts[expected.name].paired += 1
            counts[expected.name].agreement += agreement
    for index in extra:
        name = actual[index].call.name
        counts[name].unasked += expectation.extra_rule(name) != "allow"
    for fault in score.faults:
        if fault.kind == "wrong_order":
            counts[fault.tool_name].misplaced += 1
    for item, use in score.uses:
        if use.score is not None:
            counts[item.call.name].used += use.score
            counts[item.call.name].known += 1
    parameters, sequence = (score.dimensions.get(name) is not None for name in ("parameters", "sequence"))
    return tuple([counts[name].to_count(name, parameters=parameters, sequence=sequence) for name in sorted(counts)])


@dataclass(slots=True)
class _Counts:
    """The counts of one tool while the calls of a score are counted."""

    expected: int = 0
    actual: int = 0
    errored: int = 0
    paired: int = 0
    agreement: float = 0.0
    unasked: int = 0
    misplaced: int = 0
    used: float = 0.0
    known: int = 0

    def to_count(self, name: str, *, parameters: bool, sequence: bool) -> ToolCount:
        """Return the counts of a tool, with those of the dimensions that apply."""
        return ToolCount(
            tool_name=name,
            expected=self.expected,
            actual=self.actual,
            errored=self.errored,
            paired=self.paired,
            unasked=self.unasked,
            parameters=self.agreement if parameters else 0.0,
            compared=self.expected if parameters else 0,
            in_order=self.paired - self.misplaced if sequence else 0,
            ordered=self.expected if sequence else 0,
            used=self.used,
            known=self.known,
        )
