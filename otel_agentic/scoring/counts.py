"""How often each tool was expected, made and right under one expectation: what rates of faults are shares of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.scoring.sorting import SortedCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount:
    """The calls of one tool under one expectation.

    `expected` counts required calls, `made` those that answered without an error, `errored` the others, `paired` required
    calls that were made, `unasked` extra calls that are not allowed. Of the rest each dimension has a sum and what it is a
    sum over, 0 where the dimension does not apply: `parameters` of `compared` expected calls, `in_order` of `ordered`
    ones, `used` of `known` results.
    """

    tool_name: str
    expected: int
    made: int
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
    """Return the counts of each tool that was expected or made, by name; none where the score has no calls."""
    return () if score.calls is None else tuple(_counts(score, score.calls))


def _counts(score: ToolScore, calls: SortedCalls) -> Iterator[ToolCount]:
    expected = Counter(call.name for call in calls.expectation.calls if call.required)
    optional = {call.name for call in calls.expectation.calls}
    made = Counter(one.call.name for one in calls.made if one.call.error is None)
    errored = Counter(one.call.name for one in calls.errored)
    paired = Counter(pair.expected.name for pair in calls.pairs)
    unasked = Counter(calls.made[place].call.name for place, rule in calls.extra if rule != "allow")
    misplaced = Counter(fault.tool_name for fault in score.faults if fault.kind == "wrong_order")
    agreed: Counter[str] = Counter()
    for pair in calls.pairs:
        agreed[pair.expected.name] += pair.agreement.score  # type: ignore[assignment]  # counters take any number
    known = [(one.call.name, use.score) for one, use in score.uses if use.score is not None]
    parameters, sequence = (score.dimensions.get(name) is not None for name in ("parameters", "sequence"))
    for name in sorted({*expected, *optional, *made, *errored}):
        yield ToolCount(
            tool_name=name,
            expected=expected[name],
            made=made[name],
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
